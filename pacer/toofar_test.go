package pacer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// A rush is calls of some costs that come together, or one after the other.
type rush struct {
	stack []policies.Policy
	every time.Duration
	costs []int64
}

// randomRush makes up a rush on rates, or on some limits whose slots come in groups.
func randomRush(rng *rand.Rand, groups bool) (r rush) {
	n, period, dearest := 1+rng.Int64N(12), time.Duration(1+rng.Int64N(40))*50*ms, int64(1)
	if groups && rng.IntN(3) == 0 {
		n, dearest = n+3, 3
	}
	for i := range 1 + rng.IntN(3) {
		limit, length := n+rng.Int64N(n+1), period+time.Duration(rng.Int64N(period.Milliseconds()))*ms
		kinds := []policies.Policy{
			policies.Fixed(limit, length), policies.Fixed(limit, length).Skew(length / 10), policies.Sliding(limit, length).Buckets(1 + rng.Int64N(12)),
			policies.AtMost(limit+1, length).Burst(min(limit+1, max(2, dearest)+rng.Int64N(limit))),
			policies.Rate(limit, length).Burst(dearest), policies.Rate(limit, length).Burst(dearest + rng.Int64N(2*limit)),
		}
		switch {
		case !groups:
			kinds = kinds[4:]
		case i == 0:
			kinds = kinds[:4]
		}
		r.stack = append(r.stack, kinds[rng.IntN(len(kinds))].Named(fmt.Sprintf("p%d", i)))
	}
	for range 20 + rng.IntN(80) {
		r.costs = append(r.costs, 1+rng.Int64N(dearest))
	}
	r.every = time.Duration(rng.Int64N(int64(period)/int64(len(r.costs)))) * time.Duration(rng.IntN(2))
	return r
}

// play returns how long each call waited, by how long it may wait, and its outcome.
func (r *rush) play(t *testing.T, maxWait time.Duration) (waits []time.Duration, errs []error) {
	t.Helper()
	waits, errs = make([]time.Duration, len(r.costs)), make([]error, len(r.costs))
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Policies: r.stack, MaxWait: maxWait})
		defer p.Close()
		var w waitingCalls
		for i, cost := range r.costs {
			w.all.Go(func() {
				start := time.Now()
				errs[i] = p.Wait(t.Context(), pacer.Cost(cost))
				waits[i] = time.Since(start)
			})
			time.Sleep(r.every)
			synctest.Wait()
		}
		w.all.Wait()
	})
	return waits, errs
}

// A call is refused only if it would have to wait for longer than it may: if it may wait for ever, it does.
func TestNoCallIsRefusedThatCouldGo(t *testing.T) {
	t.Parallel()
	for _, groups := range []bool{false, true} {
		refused, atOnce := 0, 0
		for seed := range extent(uint64(50), 200) {
			rng := rand.New(rand.NewPCG(seed, 24))
			r := randomRush(rng, groups)
			if groups && seed == 0 {
				r = rush{stack: []policies.Policy{policies.Fixed(10, time.Second)}, costs: slices.Repeat([]int64{1}, 80)}
			}
			waits, _ := r.play(t, pacer.Forever)
			most := waits[rng.IntN(len(waits))] + 2*ms
			took, errs := r.play(t, most)
			for i, err := range errs {
				if err == nil {
					continue
				}
				require.ErrorIs(t, err, pacer.ErrNotYet)
				refused++
				if took[i] == 0 {
					atOnce++
				} else if slices.Max(r.costs) > 1 {
					continue // calls of other costs are in other queues, and go in another order if some are refused
				}
				if waits[i] < most-ms { // slots are in microseconds, and rounded up
					t.Errorf("seed %d: %v, each %v: call %d of cost %d waits for %v, and is refused: %v", seed, r.stack, r.every, i, r.costs[i], waits[i], err)
				}
			}
		}
		t.Logf("groups %v: %d of %d refusals at once", groups, atOnce, refused)
		require.Greater(t, atOnce, refused/2)
	}
}
