package transport_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// Four calls go at once, although each token allows one a minute.
func ExampleWithPool() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Authorization")) }))
	defer api.Close()
	p, err := pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.Every(time.Minute).Per("token")}})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	pool, err := p.Pool([]pacer.Credential{{ID: "ci"}, {ID: "bot"}, {ID: "nightly"}, {ID: "spare"}}, "token")
	if err != nil {
		panic(err)
	}
	client, err := transport.NewClient(p, transport.WithPool(pool, func(req *http.Request, id string) error {
		req.Header.Set("Authorization", "Bearer secret-of-"+id)
		return nil
	}))
	if err != nil {
		panic(err)
	}
	tokens := make(map[string]bool)
	for range 4 {
		resp, err := client.Get(api.URL)
		if err != nil {
			panic(err)
		}
		text := make([]byte, 100)
		n, _ := resp.Body.Read(text)
		_ = resp.Body.Close()
		tokens[string(text[:n])] = true
	}
	fmt.Println(len(tokens), "tokens")
	// Output: 4 tokens
}
