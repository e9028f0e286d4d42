package pacer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/feedback"
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

// otherStore is a store of which nothing is known.
type otherStore struct{ store.Store }

// A reservation serves again only if nobody can have it any more. (The race detector makes a pool forget at random.)
func TestWhichReservationsServeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := WithScope(t.Context(), "tenant", "acme")
		p, again := newSparing(t, nil), false
		for range 100 {
			require.NoError(t, p.Wait(ctx))
			again = again || spared(p)
		}
		require.True(t, again, "that of a call that slept and went")

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

// What a reservation knew is not there when it serves again.
func TestASpareIsEmpty(t *testing.T) {
	t.Parallel()
	var s spares
	one := s.get()
	one.stack.Limits = append(one.limits[:0], store.Limit{Scope: "secret"})
	one.closed, one.room.charges[0].From = true, 1
	new(feedback.Usage).Enter(&one.tracked, one.stack.Limits, &store.Call{Cost: 1, Tracked: true})
	s.put(one)
	require.Equal(t, spare{}, *one)
}

// A look at the limits of waiters does not meet reservations that serve another call by then.
func TestTheLimitsOfSleepersAreCopies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newSparing(t, nil)
		ctx := WithScope(t.Context(), "tenant", "acme")
		require.NoError(t, p.Wait(ctx))
		go func() { _ = p.Wait(ctx) }()
		synctest.Wait()
		limits := p.waiters.limits(9)
		require.Len(t, limits, 1)
		time.Sleep(2 * time.Second)
		require.Empty(t, p.waiters.limits(9))
		require.Equal(t, "acme", limits[0].Scope)
	})
}

// A reservation of a plain Wait that somebody may still look at does not serve another call.
func TestWhatIsLookedAtIsNotReused(t *testing.T) {
	t.Parallel()
	one := &spare{}
	one.grant[0] = store.Grant{OK: true, Local: true}
	s := waiterSet{waiting: map[*Reservation]struct{}{&one.Reservation: {}}}
	require.Len(t, s.local(func(g *store.Grant) bool { return g.Local }), 1)
	var spares spares
	spares.put(one)
	require.True(t, one.grant[0].OK, "as it was")
}
