// Package bench_test measures Headway beside its floors and its peers, in one run, so that the figures are
// ratios and not promises.
package bench_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// wide is a stack of n policies that never make a call wait.
func wide(n int) []policies.Policy {
	all := []policies.Policy{
		policies.PerSecond(1_000_000).Burst(1_000_000_000).Named("peak"),
		policies.PerSecond(1_000_000).Burst(1_000_000_000).Per("tenant").Named("tenant"),
		policies.Daily(1_000_000_000_000, time.UTC),
	}
	return all[:n]
}

func newPacer(b *testing.B, store pacer.Store, n int) *pacer.Pacer {
	b.Helper()
	p, err := pacer.New(pacer.Config{Upstream: "bench", Store: store, Policies: wide(n)})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func waits(b *testing.B, p *pacer.Pacer) {
	b.Helper()
	ctx := pacer.WithScope(b.Context(), "tenant", "acme")
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMemory measures a Wait that need not wait, in memory. The peer is golang.org/x/time/rate.
func BenchmarkMemory(b *testing.B) {
	b.Run("peer=x-time-rate", func(b *testing.B) {
		l := rate.NewLimiter(1_000_000, 1_000_000_000)
		b.ReportAllocs()
		for b.Loop() {
			if err := l.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprintf("headway/policies=%d", n), func(b *testing.B) { waits(b, newPacer(b, pacer.NewMemoryStore(), n)) })
	}
}

// BenchmarkRedis measures a Wait that need not wait, over a real Redis on loopback. The floors are PING and
// the EVALSHA of an empty script, the peer is redis_rate, which is asked once for each limit.
func BenchmarkRedis(b *testing.B) {
	rdb := redistest.Start(b).Client()
	b.Run("floor=ping", func(b *testing.B) {
		for b.Loop() {
			if err := rdb.Ping(b.Context()).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("floor=empty-script", func(b *testing.B) {
		empty := redis.NewScript("return 1")
		for b.Loop() {
			if err := empty.Run(b.Context(), rdb, []string{"x"}).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprintf("peer=redis_rate/limits=%d", n), func(b *testing.B) {
			l := redis_rate.NewLimiter(rdb)
			limit := redis_rate.Limit{Rate: 1_000_000, Burst: 1_000_000_000, Period: time.Second}
			b.ReportAllocs()
			for b.Loop() {
				for i := range n {
					if _, err := l.Allow(b.Context(), fmt.Sprint("k", i), limit); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(fmt.Sprintf("headway/policies=%d", n), func(b *testing.B) {
			store, err := redisstore.New(rdb)
			if err != nil {
				b.Fatal(err)
			}
			waits(b, newPacer(b, store, n))
		})
	}
}

// BenchmarkTransport measures what the transport adds to a bare RoundTripper, with one policy in memory,
// without and with the retry layer around it.
func BenchmarkTransport(b *testing.B) {
	resp := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}
	bare := roundTripper(func(*http.Request) (*http.Response, error) { return resp, nil })
	rt, err := transport.New(newPacer(b, nil, 1), transport.WithBase(bare))
	if err != nil {
		b.Fatal(err)
	}
	client, err := transport.NewClient(newPacer(b, nil, 1), transport.WithBase(bare))
	if err != nil {
		b.Fatal(err)
	}
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://upstream.test/", nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		rt   http.RoundTripper
	}{{"floor=bare", bare}, {"headway", rt}, {"headway/retries", client.Transport}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.rt.RoundTrip(req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
