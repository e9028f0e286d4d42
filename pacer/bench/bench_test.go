// Package bench_test measures Headway beside its floors and its peers, in one run, so that the figures are
// ratios and not promises. TestReport makes the report; the benchmarks are for quick looks.
package bench_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/transport"
)

// BenchmarkMemory measures a decision that need not wait, in memory.
func BenchmarkMemory(b *testing.B) { decisions(b, inMemory(b)) }

// BenchmarkRedis measures a decision that need not wait, over a real Redis on loopback.
func BenchmarkRedis(b *testing.B) { decisions(b, overRedis(b, newBackend(b))) }

// decisions measures contenders one after the other, alone and in parallel.
func decisions(b *testing.B, all []contender) {
	b.Helper()
	for _, c := range all {
		ctx := b.Context()
		if c.scope != nil {
			ctx = c.scope(ctx)
		}
		name := fmt.Sprintf("%s/limits=%d", c.name, c.limits)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := c.decide(ctx, i); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if err := c.decide(ctx, i); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkTransport measures what the transport adds to a bare RoundTripper.
func BenchmarkTransport(b *testing.B) {
	for _, c := range roundTrips(b) {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.decide(b.Context(), 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Names of the contenders of roundTrips.
const (
	bareTrip     = "floor: a bare RoundTripper"
	pacedTrip    = "Headway's transport"
	retryingTrip = "Headway's transport and its retry layer"
)

// roundTrips are a RoundTripper that answers at once, bare and behind the transport with one limit in memory.
func roundTrips(t testing.TB) []contender {
	t.Helper()
	resp := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}
	bare := roundTripper(func(*http.Request) (*http.Response, error) { return resp, nil })
	paced, err := transport.New(newPacer(t, "bench", nil, stack(1)), transport.WithBase(bare))
	require.NoError(t, err)
	client, err := transport.NewClient(newPacer(t, "bench", nil, stack(1)), transport.WithBase(bare))
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://upstream.test/", nil)
	require.NoError(t, err)
	var all []contender
	for _, c := range []struct {
		name string
		rt   http.RoundTripper
	}{{bareTrip, bare}, {pacedTrip, paced}, {retryingTrip, client.Transport}} {
		all = append(all, contender{name: c.name, limits: 1, decide: roundTrip(c.rt, req)})
	}
	return all
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
