package pacer_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/testing/faulty"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A redeemer is a process with a store that is 100 ms away, and its requests for redemptions.
type redeemer struct {
	*pacer.Pacer

	t     *testing.T
	store *faulty.Store

	mu       sync.Mutex
	requests int
	losses   int
}

func newRedeemer(t *testing.T, s *faulty.Store, p policies.Policy) *redeemer {
	t.Helper()
	s.Suffer(faulty.Faults{Away: 100 * time.Millisecond})
	r := &redeemer{t: t, store: s}
	var err error
	r.Pacer, err = pacer.New(pacer.Config{
		Upstream: "api", Store: s, Policies: []policies.Policy{p}, MaxWait: time.Hour, Jitter: pacer.NoJitter, StoreTimeout: 500 * time.Millisecond,
		Hooks: []*hooks.Set{{
			StoreRequest: func(q hooks.StoreRequest) {
				r.mu.Lock()
				defer r.mu.Unlock()
				if q.Op == "redeem" {
					r.requests++
				}
			},
			Failover: func(hooks.Failover) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.losses++
			},
		}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { closing(t, r.Pacer) })
	return r
}

// book books n calls.
func (r *redeemer) book(n int) []string {
	r.t.Helper()
	toks := make([]string, n)
	r.each(n, func(i int) {
		var err error
		toks[i], _, err = r.Book(r.t.Context())
		assert.NoError(r.t, err)
	})
	return toks
}

// each calls f n times at once.
func (r *redeemer) each(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// sent returns how many requests for redemptions there were since its last call, and how often the store was lost.
func (r *redeemer) sent() (requests, losses int) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	requests, losses = r.requests, r.losses
	r.requests, r.losses = 0, 0
	return requests, losses
}

// 500 tokens that are redeemed at once, all of them late, move in a few requests, and then each goes once, at a slot of its own.
func TestManyLateTokensAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, step = 500, 20 * time.Millisecond
		p := newRedeemer(t, faulty.New(), policies.Rate(1, step).Burst(1))
		toks := p.book(n)
		time.Sleep(n*step + time.Minute)
		var mu sync.Mutex
		var slots []store.Instant // At is when the call was made; its slot had come by the time of the answer
		waits := make([]time.Duration, n)
		went := func(r *pacer.Reservation) {
			r.Release()
			mu.Lock()
			defer mu.Unlock()
			slot, _ := inside.Slot(r)
			slots = append(slots, slot)
		}
		began := time.Now()
		p.each(n, func(i int) {
			r, err := p.Redeem(t.Context(), toks[i])
			if later, ok := errors.AsType[*pacer.LimitError](err); ok {
				waits[i] = later.Wait
			} else if assert.NoError(t, err) {
				went(r)
			}
		})
		requests, losses := p.sent()
		t.Logf("%d requests, all outcomes known after %v", requests, time.Since(began))
		require.LessOrEqual(t, requests, 30)
		require.LessOrEqual(t, time.Since(began), 3*time.Second)
		require.Zero(t, losses)
		p.each(n, func(i int) {
			for wait := waits[i]; wait > 0 && time.Since(began) < time.Minute; {
				time.Sleep(wait - pacer.RedeemEarly/2)
				r, err := p.Redeem(t.Context(), toks[i])
				wait = 0
				if later, ok := errors.AsType[*pacer.LimitError](err); ok {
					wait = later.Wait
				} else if assert.NoError(t, err) {
					went(r)
				}
			}
		})
		requests, losses = p.sent()
		t.Logf("%d more requests, all gone after %v", requests, time.Since(began))
		require.LessOrEqual(t, time.Since(began), 30*time.Second, "the slots take 10")
		require.Zero(t, losses)
		require.Len(t, slots, n)
		slices.Sort(slots)
		for i := range n - 1 {
			require.GreaterOrEqual(t, slots[i+1].Sub(slots[i]), step)
		}
		p.each(n, func(i int) {
			_, err := p.Redeem(t.Context(), toks[i])
			assert.ErrorIs(t, err, pacer.ErrSpent)
		})
	})
}

// Two processes redeem each of many tokens at once: each token goes once, and each caller learns its own outcome.
func TestEachOutcomeOfManyIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 300
		s := faulty.New()
		fleet := []*redeemer{newRedeemer(t, s, policies.Fixed(10_000, 24*time.Hour)), newRedeemer(t, s, policies.Fixed(10_000, 24*time.Hour))}
		toks := fleet[0].book(n)
		for i := range 10 {
			require.NoError(t, fleet[1].CancelBooking(t.Context(), toks[i]))
		}
		fleet[0].sent()
		fleet[1].sent()
		errs := make([]error, 2*n)
		fleet[0].each(2*n, func(i int) { _, errs[i] = fleet[i%2].Redeem(t.Context(), toks[i/2]) })
		for i := range n {
			one, two := errs[2*i], errs[2*i+1]
			if one == nil {
				one, two = two, one
			}
			require.ErrorIs(t, one, pacer.ErrSpent)
			if i < 10 {
				require.ErrorIs(t, two, pacer.ErrSpent)
			} else {
				require.NoError(t, two)
			}
		}
		for _, p := range fleet {
			requests, losses := p.sent()
			require.LessOrEqual(t, requests, 5)
			require.Zero(t, losses)
		}
	})
}

// If the store does not answer, callers learn that after one or two timeouts, however many they are. An operation that was not done can be
// done when the store is back; one that was done is spent.
func TestManyTokensWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault faulty.Faults
		done  bool // those that are in the first request
	}{
		"hung":            {fault: faulty.Faults{Hangs: true}},
		"the answer lost": {fault: faulty.Faults{Reply: faulty.ErrDown}, done: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const n = 500
				p := newRedeemer(t, faulty.New(), policies.Fixed(10_000, 24*time.Hour))
				toks := p.book(n)
				p.store.Suffer(c.fault)
				began := time.Now()
				p.each(n, func(i int) {
					_, err := p.Redeem(t.Context(), toks[i])
					_, failed := errors.AsType[*pacer.StoreError](err)
					assert.True(t, failed && errors.Is(err, pacer.ErrUnreachable), "%v", err)
				})
				require.LessOrEqual(t, time.Since(began), time.Second)
				p.store.Suffer(faulty.Faults{Away: 100 * time.Millisecond})
				time.Sleep(time.Minute)
				spent := 0
				var mu sync.Mutex
				p.each(n, func(i int) {
					_, err := p.Redeem(t.Context(), toks[i])
					mu.Lock()
					defer mu.Unlock()
					if errors.Is(err, pacer.ErrSpent) {
						spent++
					} else {
						assert.NoError(t, err)
					}
				})
				require.Equal(t, c.done, spent > 0)
				require.LessOrEqual(t, spent, store.MaxBookings)
			})
		})
	}
}
