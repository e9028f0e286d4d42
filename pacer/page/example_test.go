package page_test

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/page"
	"github.com/headway-go/headway/policies"
)

// Mount the page below your own authentication, whatever that is.
func ExampleNew() {
	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Policies: []policies.Policy{policies.PerMinute(120)}})
	if err != nil {
		panic(err)
	}
	defer p.Close()

	h, err := page.New(page.Config{Operators: []*fleet.Operator{fleet.Of(p)}, Hosts: []string{"ops.example"}})
	if err != nil {
		panic(err)
	}
	defer h.Close()

	requireAdmin := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			if user != "admin" || subtle.ConstantTimeCompare([]byte(password), []byte("from your vault")) != 1 {
				w.Header().Set("WWW-Authenticate", `Basic realm="operations"`)
				http.Error(w, "Who are you?", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/headway/", requireAdmin(h))
	server := &http.Server{Handler: mux}
	server.RegisterOnShutdown(func() { _ = h.Close() }) // ends the streams, for which Shutdown would wait

	for _, password := range []string{"guess", "from your vault"} {
		r := httptest.NewRequest(http.MethodGet, "https://ops.example/debug/headway/", nil)
		r.SetBasicAuth("admin", password)
		w := httptest.NewRecorder()
		server.Handler.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 401
	// 200
}
