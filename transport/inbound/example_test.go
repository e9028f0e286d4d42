package inbound_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport/inbound"
)

// A server admits ten requests a second of each account, and a hundred at once of all.
func ExampleNew() {
	p, err := pacer.New(pacer.Config{
		Upstream: "api",
		Policies: []policies.Policy{policies.PerSecond(10).Burst(2).Per("account").Named("requests"), policies.InFlight(100)},
	})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	limited, err := inbound.New(hello, inbound.Config{Pacer: p, Options: func(r *http.Request) []pacer.TryOption {
		account, _, _ := r.BasicAuth() // checked before
		return []pacer.TryOption{pacer.Scope("account", account)}
	}})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(limited)
	defer server.Close()

	for range 3 {
		req, err := http.NewRequest(http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			panic(err)
		}
		req.SetBasicAuth("acme", "secret")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			panic(err)
		}
		defer resp.Body.Close()
		fmt.Println(resp.Status)
		if resp.StatusCode == http.StatusTooManyRequests {
			fmt.Println(resp.Header.Get("Retry-After"))
			fmt.Println(resp.Header.Get("Ratelimit-Policy"))
			fmt.Println(resp.Header.Get("Ratelimit"))
		}
	}
	// Output:
	// 200 OK
	// 200 OK
	// 429 Too Many Requests
	// 1
	// "requests";q=10;w=1
	// "requests";r=0;t=1
}
