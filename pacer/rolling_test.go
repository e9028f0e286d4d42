package pacer_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/faulty"
	"github.com/headway-go/headway/policies"
)

// rolling is an upstream that admits 700 calls in any minute, and states in how many seconds the oldest counts no more.
type rolling struct {
	mu            sync.Mutex
	calls         []time.Time // of the last minute
	went, refused int
}

func (r *rolling) call() policies.Reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for len(r.calls) > 0 && now.Sub(r.calls[0]) >= time.Minute {
		r.calls = r.calls[1:]
	}
	refused := len(r.calls) == 700
	if refused {
		r.refused++
	} else {
		r.went++
		r.calls = append(r.calls, now)
	}
	said := policies.Reading{Feedback: []policies.Feedback{{
		Refused: refused, Limit: policies.Reported(700), Remaining: policies.Reported(int64(700 - len(r.calls))),
		Reset: (r.calls[0].Add(time.Minute).Sub(now) + time.Second - 1).Truncate(time.Second),
	}}}
	if refused {
		said.Verdict = policies.Limited
	}
	return said
}

// used returns how many calls it has admitted.
func (r *rolling) used() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.went
}

// Three processes, some milliseconds from their store and from a strict upstream, use the whole of a minute that rolls. When it is full for
// the first time, nothing is left for a moment, but more comes back long before the second is over that the replies state.
func TestAMinuteThatRollsIsUsed(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{20 * ms, 60 * ms, 200 * ms} {
		synctest.Test(t, func(t *testing.T) {
			store, upstream := faulty.New(), &rolling{}
			store.Suffer(faulty.Faults{Away: 4 * ms})
			const length = 65 * time.Second
			ctx, cancel := context.WithTimeout(t.Context(), length)
			defer cancel()
			var all sync.WaitGroup
			for i := range uint64(3) {
				p := opened(t, pacer.Config{Store: store, MaxWait: time.Minute, Policies: []policies.Policy{
					policies.AtMost(700, time.Minute).Burst(2).Skew(50 * ms), policies.AtMost(14, time.Second).Burst(2).Skew(50 * ms),
				}})
				for j := range uint64(4) {
					rng := rand.New(rand.NewPCG(i, j))
					way := func() time.Duration {
						return ms + time.Duration(rng.Int64N(int64(4*ms))) + 9*ms*time.Duration(max(0, rng.IntN(100)-95))
					}
					all.Go(func() {
						for ctx.Err() == nil {
							assert.NoError(t, p.Do(context.WithoutCancel(ctx), func(context.Context) (policies.Reading, error) {
								time.Sleep(way())
								said := upstream.call()
								time.Sleep(takes + way())
								return said, nil
							}))
						}
					})
				}
			}
			<-ctx.Done()
			used := float64(upstream.used()) / 700 / length.Minutes()
			all.Wait()
			t.Logf("%v: %.1f %% used, %d refused", takes, 100*used, upstream.refused)
			require.Zero(t, upstream.refused)
			require.GreaterOrEqual(t, used, 0.99)
		})
	}
}
