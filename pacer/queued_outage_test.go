package pacer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// A queued call that receives no wake tries again by itself within a second.
func TestALostCallCostsASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := away(t, newRemote(1), pacer.PaceLocally, policies.InFlight(1)) // the store is no Notifier
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

// Pacing locally, a process has its share of the permits, including those of its running calls. It reports to the store the permits that it
// returns meanwhile.
func TestPermitsWithoutTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(4)
		p := away(t, r, pacer.PaceLocally, policies.InFlight(9).Lease(10*time.Second))
		defer closing(t, p)
		acquire := func() (*pacer.Reservation, error) { return p.Acquire(t.Context(), pacer.MaxWait(2*time.Second)) }
		var held []*pacer.Reservation
		for range 2 {
			one, err := acquire()
			require.NoError(t, err)
			held = append(held, one)
		}
		time.Sleep(5 * time.Second) // so long that it knows how many came first
		r.set(errBroken, 0)
		one, err := acquire()
		require.NoError(t, err, "a third is its share: it came first, so the ninth permit is its own")
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
		require.Equal(t, int64(6), remaining(t, p), "what was given back is free, what was granted locally counts")
		for _, one := range held {
			one.Release()
		}
		back()
		require.Equal(t, int64(9), remaining(t, p))
	})
}

// A store that has lost its data receives which calls are in flight.
func TestAStoreThatForgotReceivesReportsWhoIsInFlight(t *testing.T) {
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

// A permit whose release was lost, or whose process ended, returns with the lease.
func TestALostReleaseComesBackWithTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.InFlight(1).Lease(5*time.Second))
		one, err := p.Acquire(t.Context())
		require.NoError(t, err)
		closing(t, p)
		r.set(errBroken, 0)
		one.Release()
		r.set(nil, 0)
		other := away(t, r, pacer.PaceLocally, policies.InFlight(1).Lease(5*time.Second))
		defer closing(t, other)
		began := time.Now()
		one, err = other.Acquire(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(began), 5*time.Second)
		require.Greater(t, time.Since(began), 4*time.Second)
		one.Release()
	})
}

// A call that is let through while the store is away needs no permit, and counts when it is back.
func TestPermitsAreLetThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.LetThrough, policies.InFlight(1), policies.PerSecond(1).Burst(2).Lane("batch", 50).Named("rate"))
		defer closing(t, p)
		held, err := p.Acquire(t.Context())
		require.NoError(t, err)
		r.set(errBroken, 0)
		more, err := p.Acquire(t.Context(), pacer.Lane("batch"))
		require.NoError(t, err)
		r.set(nil, 0)
		back()
		held.Release()
		time.Sleep(time.Second)
		require.Equal(t, int64(0), remaining(t, p), "the one that was let through is still in flight")
		more.Release()
		time.Sleep(time.Second)
		require.Equal(t, int64(1), remaining(t, p))
	})
}

// A call that waits for its slot when the store goes away, or comes back, requests its permit from the store that then decides.
func TestASlotWithoutAPlaceChangesHands(t *testing.T) {
	t.Parallel()
	for name, failAt := range map[string]time.Duration{"granted by the store": 0, "granted locally": -time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRemote(1)
				p := away(t, r, pacer.PaceLocally, policies.InFlight(1), policies.Every(20*time.Second).Burst(1).Named("rate"))
				defer closing(t, p)
				first, err := p.Acquire(t.Context())
				require.NoError(t, err)
				first.Release()
				time.Sleep(time.Second)
				if failAt < 0 {
					r.set(errBroken, 0)
				}
				began := time.Now()
				second, err := p.Reserve(t.Context())
				require.NoError(t, err)
				if failAt < 0 {
					time.AfterFunc(2*time.Second, func() { r.set(nil, 0) })
				} else {
					time.AfterFunc(2*time.Second, func() { r.set(errBroken, 0) })
				}
				require.NoError(t, second.Wait(t.Context()))
				require.InDelta(t, 19*time.Second, time.Since(began), float64(2*time.Second))
				second.Release()
				r.set(nil, 0)
				back()
				s, err := p.Status(t.Context())
				require.NoError(t, err)
				require.Equal(t, int64(1), s.Policies[0].Remaining)
				require.Greater(t, s.Policies[1].Next, 10*time.Second)
				require.LessOrEqual(t, s.Policies[1].Next, 21*time.Second)
			})
		})
	}
}

// A call that is over after its Pacer was closed still gives its permit back.
func TestAReleaseAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.InFlight(1))
		one, err := p.Acquire(t.Context())
		require.NoError(t, err)
		closing(t, p)
		one.Release()
		other := away(t, r, pacer.PaceLocally, policies.InFlight(1))
		defer closing(t, other)
		require.Equal(t, int64(1), remaining(t, other))
	})
}
