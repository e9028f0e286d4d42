package pacer_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// others charges calls that this process does not know of.
func (r *remote) others(t *testing.T, p policies.Policy, n int) {
	t.Helper()
	stack := store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: p.Name(), Spec: p.Spec()}}}
	for range n {
		grants := make([]store.Grant, 1)
		require.NoError(t, r.store.Reserve(t.Context(), stack, []store.Call{{Cost: 1, MaxWait: pacer.Forever}}, grants))
	}
}

// reported makes the store lose its data, and returns when it has received what a process knew. It takes no time.
func (r *remote) reported(t *testing.T, p *pacer.Pacer) {
	t.Helper()
	r.forget()
	require.NoError(t, p.Wait(t.Context()))
}

// A grant reveals others: a limit that binds a call has no room before its slot.
func TestWhatAGrantTellsOfALine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := policies.PerSecond(10)
		r := newRemote(1)
		p := away(t, r, pacer.RefuseCalls, policy)
		defer closing(t, p)
		r.others(t, policy, 20)
		one, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, one.Delay())
		r.forget()
		two, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2100*time.Millisecond, two.Delay(), "behind the line of others, which they cannot tell of")
	})
}

// So does the place of a call in a burst.
func TestWhatAGrantTellsOfABurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := policies.PerSecond(10).Burst(10)
		r := newRemote(1)
		p := away(t, r, pacer.RefuseCalls, policy)
		defer closing(t, p)
		r.others(t, policy, 5)
		require.NoError(t, p.Wait(t.Context()))
		r.reported(t, p)
		require.Equal(t, int64(3), remaining(t, p), "five of others, two of ours")
	})
}

// A cancelled slot is forgotten.
func TestWhatWasGivenBackIsNotRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, policy := range []policies.Policy{policies.Daily(10, time.UTC), policies.PerSecond(10).Burst(10)} {
			r := newRemote(1)
			p := away(t, r, pacer.RefuseCalls, policy)
			var held []*pacer.Reservation
			for range 5 {
				one, err := p.Reserve(t.Context())
				require.NoError(t, err)
				held = append(held, one)
			}
			for _, one := range held[1:] {
				require.NoError(t, one.NotUsed(t.Context()))
			}
			r.reported(t, p)
			require.Equal(t, int64(8), remaining(t, p), "%v", policy)
			closing(t, p)
		}
	})
}

// Other processes may have got slots after the last one that this process knows of: its line begins behind those, too.
func TestTheLineOfTheFleetHasGrownSince(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := policies.PerSecond(10)
		r := newRemote(2)
		p := away(t, r, pacer.PaceLocally, policy)
		defer closing(t, p)
		r.others(t, policy, 20)
		_, err := p.Reserve(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		r.others(t, policy, 10) // as many as went
		r.set(errBroken, 0)
		one, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, one.Delay(), 2100*time.Millisecond)
		require.LessOrEqual(t, one.Delay(), 2400*time.Millisecond)
	})
}

// A store that has just forgotten knows fewer processes than there are.
func TestTheFleetIsNotSmallerBecauseTheStoreForgot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(4)
		p := fresh(t, r, pacer.Config{}, policies.Fixed(100, time.Hour))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		time.Sleep(5 * time.Second)
		r.mu.Lock()
		r.alive = 1
		r.mu.Unlock()
		r.forget()
		require.NoError(t, p.Wait(t.Context()))
		back()
		r.set(errBroken, 0)
		n := 0
		for p.Wait(t.Context(), pacer.MaxWait(0)) == nil {
			n++
		}
		require.InDelta(t, 24, n, 1)
		r.set(nil, 0)
		time.Sleep(20 * time.Second) // but if it keeps reporting so, it is right
		before := remaining(t, p)
		r.set(errBroken, 0)
		for n = 0; p.Wait(t.Context(), pacer.MaxWait(0)) == nil; n++ {
		}
		require.Equal(t, before, int64(n))
	})
}

// The last call that went locally counts from when it went, and a burst as much as is not yet made up for.
func TestARateThatWasUsedLocallyIsNotFresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.Every(10*time.Second))
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		time.Sleep(10 * time.Second)
		r.set(errBroken, 0)
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		start := time.Now()
		r.set(nil, 0)
		back()
		one, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 10*time.Second, time.Since(start)+one.Delay(), float64(time.Millisecond))
		closing(t, p)

		r = newRemote(1)
		p = away(t, r, pacer.PaceLocally, policies.PerSecond(1).Burst(10))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		time.Sleep(10 * time.Second)
		r.set(errBroken, 0)
		for range 10 {
			require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		}
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
		r.set(nil, 0)
		back()
		require.LessOrEqual(t, remaining(t, p), int64(2), "two seconds later")
	})
}

// Waiters exchange their slots for slots that are not earlier: their process's share was all that they had.
func TestWaitersDoNotJumpTheFleetsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(2)
		p := away(t, r, pacer.PaceLocally, policies.PerSecond(10))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(errBroken, 0)
		went := make(chan time.Time, 50)
		for range 50 {
			go func() {
				if one, err := p.Reserve(t.Context()); assert.NoError(t, err) { // which holds its slot, however far away
					_ = one.Wait(t.Context())
				}
				went <- time.Now()
			}()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		r.set(nil, 0)
		before := <-went
		for range 49 {
			at := <-went
			require.GreaterOrEqual(t, at.Sub(before), 199*time.Millisecond)
			before = at
		}
	})
}

// A report that cannot be sent at once is sent later.
func TestWhatCannotBeReportedIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.Daily(100, time.UTC))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(errBroken, 0)
		for range 10 {
			require.NoError(t, p.Wait(t.Context()))
		}
		r.mu.Lock()
		r.goodReports, r.noReports = 1, 1 // it receives what it knew, but then not what was spent
		r.mu.Unlock()
		r.set(nil, 0)
		back()
		require.Equal(t, int64(89), remaining(t, p))
	})
}

// An allowance that the upstream states holds for this process's share of it.
func TestCountsReceivedLocally(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(2)
		p := away(t, r, pacer.PaceLocally, policies.PerSecond(10).Named("rate"), policies.Daily(100, time.UTC).Named("daily"))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(errBroken, 0)
		require.NoError(t, p.Wait(t.Context()))
		time.Sleep(time.Second)
		require.NoError(t, p.Report(t.Context(), policies.Feedback{
			Policies: []string{"rate"}, Limit: policies.Reported(5), Window: time.Second,
		}))
		require.NoError(t, p.Report(t.Context(), policies.Feedback{
			Policies: []string{"daily"}, Remaining: policies.Reported(10), Window: 24 * time.Hour,
		}))
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(400_000), s.Policies[0].Pace)
		require.Equal(t, int64(5), s.Policies[1].Remaining)
	})
}

// After a failure, the store gets no request for a moment, and the cause stays visible.
func TestAStoreThatFailedRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.RefuseCalls, policies.PerSecond(1000).Burst(100))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(errBroken, 0)
		require.Error(t, p.Wait(t.Context()))
		requested := r.count()
		time.Sleep(90 * time.Millisecond)
		require.Equal(t, requested, r.count())
		for range 100 {
			time.Sleep(9 * time.Millisecond)
			require.ErrorContains(t, p.Wait(t.Context()), "connection refused")
		}
		require.LessOrEqual(t, r.count()-requested, 10)
	})
}

// If its client never gives up, requests without an answer do not pile up.
func TestProbesDoNotPileUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.PerSecond(1000).Burst(100))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(nil, time.Hour)
		require.NoError(t, p.Wait(t.Context()))
		time.Sleep(time.Minute)
		r.mu.Lock()
		defer r.mu.Unlock()
		require.LessOrEqual(t, r.asking, 9)
	})
}

// A process whose calls wait polls its store often enough to know when it lost it.
func TestAProcessWithWaitersIsUneasy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.PerSecond(10))
		defer closing(t, p)
		for range 20 {
			_, err := p.Reserve(t.Context())
			require.NoError(t, err)
		}
		time.Sleep(10 * time.Second) // it sends heartbeats seldom now, and its calls have gone
		n := len(r.received())
		for range 20 {
			_, err := p.Reserve(t.Context())
			require.NoError(t, err)
		}
		time.Sleep(1500 * time.Millisecond)
		require.GreaterOrEqual(t, len(r.received())-n, 9)
	})
}

// A store that announces an absurd time for the return keeps nobody away.
func TestNobodyWaitsLongForTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.Daily(100, time.UTC))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(errBroken, 0)
		require.NoError(t, p.Wait(t.Context()))
		r.mu.Lock()
		r.barrier = 1 << 60
		r.mu.Unlock()
		r.set(nil, 0)
		time.Sleep(12 * time.Second)
		requested := r.count()
		require.NoError(t, p.Wait(t.Context()))
		require.Greater(t, r.count(), requested)
	})
}

// A store that has lost charges without beginning another epoch is found out by who made them.
func TestAStoreThatLostTheLastWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		lose := func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.store = memstore.New()
		}
		p := away(t, r, pacer.RefuseCalls, policies.PerSecond(10))
		for range 20 {
			_, err := p.Reserve(t.Context())
			require.NoError(t, err)
		}
		lose()
		one, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, one.Delay())
		closing(t, p)

		p = away(t, r, pacer.RefuseCalls, policies.Daily(100, time.UTC))
		defer closing(t, p)
		for range 20 {
			require.NoError(t, p.Wait(t.Context()))
			time.Sleep(time.Millisecond)
		}
		lose()
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, int64(79), remaining(t, p))
	})
}

// One that has lost nothing is not suspected, whatever its callers do and however answers overtake each other.
func TestAStoreThatLostNothingIsNotSuspected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p, err := pacer.New(pacer.Config{Upstream: "api", Store: r, Policies: []policies.Policy{
			policies.PerSecond(20_000).Burst(50), policies.Fixed(1000, 20*time.Millisecond), policies.Sliding(100_000, time.Minute),
		}})
		require.NoError(t, err)
		defer closing(t, p)
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				for range 100 {
					one, err := p.Reserve(t.Context(), pacer.Cost(1+rng.Int64N(9)))
					if err != nil {
						continue
					}
					switch rng.IntN(3) {
					case 0:
						_ = one.NotUsed(t.Context())
					case 1:
						_ = one.Wait(t.Context())
						_ = one.Settle(t.Context(), policies.Cost{N: 1})
					default:
						_ = one.Wait(t.Context())
					}
				}
			})
		}
		wg.Wait()
		require.Zero(t, pacer.Absences(p))
	})
}

// lapse has a store be away for a moment, so that a process loses it, and comes back.
func (r *remote) lapse(t *testing.T, p *pacer.Pacer) {
	t.Helper()
	r.set(errBroken, 0)
	one, err := p.Reserve(t.Context())
	require.NoError(t, err)
	require.NoError(t, one.Cancel(t.Context()))
	r.set(nil, 0)
	back()
}

// A process that comes back to a store that has forgotten nothing charges nothing: neither what others have given back since this process
// was granted a slot behind theirs, nor what lies between its own slots, however many it holds.
func TestAStoreThatForgotNothingIsChargedNothing(t *testing.T) {
	t.Parallel()
	exact := policies.AtMost(100, time.Second).Burst(20).Skew(0).Named("exact")
	rate := policies.PerSecond(50).Named("rate")
	for name, list := range map[string][]policies.Policy{"a rate": {rate}, "exact": {exact}, "both": {rate, exact}} {
		for _, n := range []int{20, 500} { // more than a process remembers one by one
			t.Run(fmt.Sprintf("%s, %d", name, n), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRemote(2)
					p, q := away(t, r, pacer.PaceLocally, list...), away(t, r, pacer.PaceLocally, list...)
					defer closing(t, p)
					defer closing(t, q)
					reserve := func(p *pacer.Pacer) *pacer.Reservation {
						one, err := p.Reserve(t.Context(), pacer.NotBefore(10*time.Second))
						require.NoError(t, err)
						return one
					}
					var mine, theirs []*pacer.Reservation
					for range n {
						theirs, mine = append(theirs, reserve(q)), append(mine, reserve(p))
					}
					for _, one := range theirs {
						require.NoError(t, one.Cancel(t.Context()))
					}
					r.lapse(t, p)
					s, err := q.Status(t.Context())
					require.NoError(t, err)
					for i := range s.Policies {
						require.LessOrEqual(t, s.Policies[i].Backlog, int64(n), "%v", s.Policies[i].Policy)
					}
					for _, one := range mine {
						require.NoError(t, one.Cancel(t.Context()))
					}
					s, err = q.Status(t.Context())
					require.NoError(t, err)
					for i := range s.Policies {
						require.Zero(t, s.Policies[i].Backlog, "%v", s.Policies[i].Policy)
					}
				})
			})
		}
	}
}

// A store that lost one of a process's slots, in the same data as far as it knows, has lost more, perhaps: it is reminded of all.
func TestAStoreThatLostASlotIsRemindedOfAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := policies.PerSecond(10)
		r := newRemote(2)
		p := away(t, r, pacer.PaceLocally, policy)
		defer closing(t, p)
		r.others(t, policy, 50)
		one, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, one.Delay())
		r.mu.Lock()
		r.store = memstore.New() // a replica without the last writes took over
		r.mu.Unlock()
		r.lapse(t, p)
		two, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, two.Delay(), one.Delay(), "behind the slots of others")
	})
}
