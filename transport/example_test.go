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

// Each request carries the tenant of its host; tenants are paced apart.
func ExampleNewClient() {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()

	p, err := pacer.New(pacer.Config{
		Upstream: "zendesk",
		Policies: []policies.Policy{policies.AtMost(700, time.Minute).Burst(5).Per("tenant")},
	})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	client, err := transport.NewClient(p, transport.WithScope("tenant", func(r *http.Request) string { return r.URL.Hostname() }))
	if err != nil {
		panic(err)
	}
	resp, err := client.Get(upstream.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 200 OK
}
