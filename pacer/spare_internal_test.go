package pacer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// spared reports whether a reservation of a Wait is kept to be used again.
func spared(p *Pacer) bool {
	_, ok := p.spares.pool.Get().(*spare)
	return ok
}

func newSparing(t *testing.T, store store.Store) *Pacer {
	t.Helper()
	p, err := New(Config{
		Upstream: "test", Store: store, Policies: []policies.Policy{policies.PerSecond(1).Per("tenant")}, Jitter: NoJitter,
	})
	require.NoError(t, err)
	return p
}

// otherStore is an unknown store.
type otherStore struct{ store.Store }

// A reservation serves again only if no goroutine can have it. (The race detector makes a pool forget at random.)
func TestWhichReservationsServeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := With(t.Context(), Scope("tenant", "acme"))
		p, again := newSparing(t, nil), false
		for range 100 {
			require.NoError(t, p.Wait(ctx))
			again = again || spared(p)
		}
		require.True(t, again, "that of a call that slept and went")

		p = newSparing(t, nil) // a pool may keep one where only another thread finds it
		require.NoError(t, p.Wait(ctx, MaxWait(0)))
		wait := func(ctx context.Context, meanwhile func()) error {
			done := make(chan error)
			go func() { done <- p.Wait(ctx) }()
			synctest.Wait()
			meanwhile()
			return <-done
		}
		for range 20 {
			require.NoError(t, wait(ctx, func() { require.NoError(t, p.Report(ctx, policies.Feedback{Wait: 5 * time.Second})) }))
			require.False(t, spared(p), "not that of a call that was moved behind a pause")

			ended, cancel := context.WithCancel(ctx)
			require.ErrorIs(t, wait(ended, cancel), context.Canceled)
			require.False(t, spared(p), "not that of a call that gave its slot back")
		}

		other := newSparing(t, otherStore{memstore.New()})
		for range 20 {
			require.NoError(t, other.Wait(ctx))
			require.False(t, spared(other), "not one that an unknown store has seen")
		}
	})
}

// A reused call holds nothing of its previous use.
func TestASpareIsEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newSparing(t, nil)
		ctx := With(t.Context(), Scope("tenant", "secret"))
		one := p.spares.get()
		a, err := read(ctx, p, &one.Requested, []Option{Tracked()})
		require.NoError(t, err)
		require.NoError(t, p.reserve(ctx, &a, &one.call, one.limits[:0], nil, &one.Requested))
		require.NoError(t, one.call.Wait(ctx))
		one.call.Answered(ctx, time.Now())
		require.Equal(t, "secret", one.limits[0].Scope)
		require.NotEqual(t, dispatch.Call{}, one.call)
		p.spares.put(one)
		require.Equal(t, []binding.Option{{}}, one.Options[:1], "what it was made of is forgotten, and its room kept")
		one.Options = nil
		require.Equal(t, &spare{}, one)
	})
}
