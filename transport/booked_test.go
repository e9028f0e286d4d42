package transport_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// A booked job makes its call by the transport: the first request that the booking's limits bind goes by it, at its slot, and is not
// charged again. All other requests are charged as usual, and no request waits for a permit that the booking holds in vain.
func TestARequestOfABookedJob(t *testing.T) {
	t.Parallel()
	require.Equal(t, t.Context(), pacer.WithReservation(t.Context(), nil))
	tenant := func(ctx context.Context, _ *pacer.Reservation) context.Context {
		return pacer.With(ctx, pacer.Scope("tenant", "zen"))
	}
	for name, one := range map[string]struct {
		before  func(ctx context.Context, r *pacer.Reservation) context.Context
		charged []int64 // after each of two requests
	}{
		"by the booking":  {nil, []int64{1, 2}},
		"for another one": {tenant, []int64{2, 3}},
		"a little later": {func(ctx context.Context, _ *pacer.Reservation) context.Context {
			time.Sleep(500 * time.Millisecond)
			return ctx
		}, []int64{1, 2}},
		"too late": {func(ctx context.Context, _ *pacer.Reservation) context.Context {
			time.Sleep(500*time.Millisecond + ms)
			return ctx
		}, []int64{2, 3}},
		"after its end": {func(ctx context.Context, r *pacer.Reservation) context.Context {
			r.Release()
			return ctx
		}, []int64{2, 3}},
	} {
		for _, pooled := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					limits := []policies.Policy{
						policies.AtMost(100, time.Hour).Burst(100).Named("all"), policies.AtMost(100, time.Hour).Burst(100).Per("tenant").Named("each"),
					}
					if pooled {
						limits = append(limits, policies.InFlight(1).Per("tenant"), policies.InFlight(1).Per("key"))
					}
					p := newPacer(t, limits...)
					ctx := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
					book, redeem := p.Book, p.Redeem
					var opts []transport.Option
					if pooled {
						pool, err := p.Pool([]pacer.Credential{{ID: "a"}, {ID: "b"}}, "key")
						require.NoError(t, err)
						book, redeem = pool.Book, pool.Redeem
						opts = append(opts, transport.WithPool(pool, func(*http.Request, string) error { return nil }))
					}
					client := newClient(t, p, newUpstream(ok(0, nil)), opts...)
					tok, _, err := book(ctx)
					require.NoError(t, err)
					r, err := redeem(ctx, tok)
					require.NoError(t, err)
					defer r.Release()
					carries := pacer.WithReservation(ctx, r)
					if one.before != nil {
						carries = one.before(carries, r)
					}
					bounded, cancel := context.WithTimeout(carries, time.Minute)
					defer cancel()
					for _, charged := range one.charged {
						require.NoError(t, get(bounded, t, client))
						s, err := p.Status(pacer.With(ctx, pacer.Scope("key", "a")))
						require.NoError(t, err)
						require.Equal(t, charged, 100-s.Policies[0].Remaining)
					}
				})
			})
		}
	}
}
