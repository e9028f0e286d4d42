package upstreamtest_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/headway-go/headway/transport/upstreamtest"
)

// A stand-in for GitHub, which admits two calls an hour.
func ExampleUpstream() {
	u := &upstreamtest.Upstream{
		Limits: []upstreamtest.Limit{upstreamtest.FromFirst(2, time.Hour)},
		State:  upstreamtest.Fields("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", upstreamtest.Unix),
	}
	client := &http.Client{Transport: u} // in your test, the client that transport.NewClient makes over it
	for range 3 {
		resp, err := client.Get("https://api.github.com/user")
		if err != nil {
			panic(err)
		}
		_ = resp.Body.Close()
		fmt.Printf("%d: %s left, Retry-After %q\n", resp.StatusCode, resp.Header.Get("X-Ratelimit-Remaining"), resp.Header.Get("Retry-After"))
	}
	fmt.Println(u.Admitted(), "admitted,", u.Refused(), "refused")
	// Output:
	// 200: 1 left, Retry-After ""
	// 200: 0 left, Retry-After ""
	// 429: 0 left, Retry-After "3600"
	// 2 admitted, 1 refused
}
