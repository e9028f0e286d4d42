package pacer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// A call in line that nobody can call asks again by itself within a second.
func TestALostCallCostsASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := away(t, newRemote(1), pacer.PaceAlone, policies.InFlight(1)) // the store is no Notifier
		defer closing(t, p)
		held, err := p.Acquire(t.Context())
		require.NoError(t, err)
		time.AfterFunc(10*time.Second+time.Millisecond, held.Release)
		began := time.Now()
		next, err := p.Acquire(t.Context())
		require.NoError(t, err)
		require.Greater(t, time.Since(began), 10*time.Second)
		require.LessOrEqual(t, time.Since(began), 11*time.Second+time.Millisecond)
		next.Release()
	})
}

// Alone, a process has its share of the places, and those that its calls have already count. What it gives back
// meanwhile is told to the store.
func TestPlacesWithoutTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(4)
		p := away(t, r, pacer.PaceAlone, policies.InFlight(9).Lease(10*time.Second))
		defer closing(t, p)
		acquire := func() (*pacer.Reservation, error) { return p.Acquire(t.Context(), pacer.MaxWait(2*time.Second)) }
		var held []*pacer.Reservation
		for range 2 {
			one, err := acquire()
			require.NoError(t, err)
			held = append(held, one)
		}
		r.set(errBroken, 0)
		one, err := acquire()
		require.NoError(t, err, "a third is its share: it came first, so the ninth place is its own")
		held = append(held, one)
		_, err = acquire()
		require.ErrorIs(t, err, pacer.ErrNotYet)
		time.AfterFunc(time.Second, held[0].Release)
		one, err = acquire()
		require.NoError(t, err)
		held = append(held, one)

		r.set(nil, 0)
		back()
		back()
		require.Equal(t, int64(6), remaining(t, p), "what was given back is free, what was granted alone counts")
		for _, one := range held {
			one.Release()
		}
		back()
		require.Equal(t, int64(9), remaining(t, p))
	})
}

// A store that has forgotten is told which calls are in flight.
func TestAStoreThatForgotIsToldWhoIsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.RefuseCalls, policies.InFlight(3))
		defer closing(t, p)
		for range 2 {
			_, err := p.Acquire(t.Context())
			require.NoError(t, err)
		}
		r.forget()
		last, err := p.Acquire(t.Context())
		require.NoError(t, err)
		_, err = p.Acquire(t.Context(), pacer.MaxWait(time.Second))
		require.ErrorIs(t, err, pacer.ErrNotYet)
		last.Release()
	})
}

// A release whose answer is lost, and that of a process that ended, come back with the lease.
func TestALostReleaseComesBackWithTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceAlone, policies.InFlight(1).Lease(5*time.Second))
		one, err := p.Acquire(t.Context())
		require.NoError(t, err)
		closing(t, p)
		r.set(errBroken, 0)
		one.Release()
		r.set(nil, 0)
		other := away(t, r, pacer.PaceAlone, policies.InFlight(1).Lease(5*time.Second))
		defer closing(t, other)
		began := time.Now()
		one, err = other.Acquire(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(began), 5*time.Second)
		require.Greater(t, time.Since(began), 4*time.Second)
		one.Release()
	})
}
