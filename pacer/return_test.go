package pacer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A fleet that loses its store makes no more calls than the limit in any second, not even in that of the loss. From one second after the
// store's return it makes at least 95 % of them again in every second, except for one call at its ends.
func TestAnOutageCostsLittle(t *testing.T) {
	t.Parallel()
	for name, list := range map[string][]policies.Policy{
		"a rate":           {policies.PerSecond(50)},
		"an exact window":  {policies.AtMost(50, time.Second)},
		"a fixed window":   {policies.Fixed(50, time.Second)},
		"a sliding window": {policies.Sliding(50, time.Second)},
		"a rate and an exact window": {
			policies.PerSecond(50), policies.AtMost(200, 2*time.Second).Burst(20),
		},
		"a rate and a sliding window": {policies.PerSecond(50), policies.Sliding(50, time.Second).Named("window")},
	} {
		for _, distance := range []time.Duration{time.Millisecond, 80 * time.Millisecond} {
			for lost := range extent(1, 4) { // at different points of a window
				t.Run(fmt.Sprint(name, " ", distance, " ", lost), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						w := outing{list: list, callers: 16, distance: distance, lost: 5*time.Second + time.Duration(lost)*270*time.Millisecond}
						w.run(t)
						fixed := name == "a fixed window"
						w.judgeMost(t, 50, fixed)
						if name == "a sliding window" { // its calls go all at once, somewhat more rarely than every second
							w.judgeAll(t)
						} else {
							w.judgeLeast(t, fixed)
						}
					})
				})
			}
		}
	}
}

// However far away the store is, and however fast the rate: at the loss, each process begins behind what the others were granted.
func TestAFleetLosesAStoreFarAway(t *testing.T) {
	t.Parallel()
	for _, limit := range extent([]int{200}, []int{200, 1000}) {
		for _, distance := range []time.Duration{20 * time.Millisecond, 80 * time.Millisecond} {
			for lost := range extent(1, 2) {
				t.Run(fmt.Sprint(limit, " ", distance, " ", lost), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						list := []policies.Policy{policies.PerSecond(int64(limit))}
						w := outing{list: list, callers: 100, distance: distance, lost: 5*time.Second + time.Duration(lost)*77*time.Millisecond}
						w.run(t)
						w.judgeMost(t, limit, false)
					})
				})
			}
		}
	}
}

// An outing is what becomes of the calls of a fleet whose store is away for a while.
type outing struct {
	list     []policies.Policy
	callers  int           // of each process; each makes all calls that it may
	distance time.Duration // of the store
	lost     time.Duration // when the store was lost, for three seconds

	mu       sync.Mutex
	went     []time.Duration // when calls went, from the start of the fleet, by the clock of the store: calls come later by different delays
	returned time.Duration   // when the store was back, and a process could know of it
}

// run has each caller of four processes make all calls that it may.
func (w *outing) run(t *testing.T) {
	t.Helper()
	r := newRemote(4)
	r.barriers = true
	r.set(nil, w.distance)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	began := time.Now()
	for range 4 {
		p := away(t, r, pacer.PaceLocally, w.list...)
		defer closing(t, p)
		for range w.callers {
			all.Go(func() {
				for ctx.Err() == nil {
					w.call(ctx, p, began)
				}
			})
		}
	}
	time.Sleep(w.lost)
	r.set(errBroken, w.distance)
	time.Sleep(3 * time.Second)
	r.set(nil, w.distance)
	w.returned = time.Since(began) + w.distance
	time.Sleep(10 * time.Second)
	stop()
	all.Wait()
	slices.Sort(w.went)
}

// call makes a call, if it may.
func (w *outing) call(ctx context.Context, p *pacer.Pacer, began time.Time) {
	c, err := p.Acquire(ctx)
	if err == nil {
		slot, _ := inside.Slot(c)
		w.mu.Lock()
		w.went = append(w.went, slot.Sub(store.Instant(began.UnixMicro())))
		w.mu.Unlock()
		c.Release()
	}
	time.Sleep(20 * time.Millisecond)
}

// in returns how many calls went in the second that begins at an instant.
func (w *outing) in(from time.Duration) int { return w.between(from, from+time.Second) }

func (w *outing) between(from, to time.Duration) int {
	first, _ := slices.BinarySearch(w.went, from)
	last, _ := slices.BinarySearch(w.went, to)
	return last - first
}

// judgeMost judges every second that begins with a call, or every second of the clock.
func (w *outing) judgeMost(t *testing.T, limit int, aligned bool) {
	t.Helper()
	for _, from := range w.went {
		if aligned {
			from = from.Truncate(time.Second)
		}
		require.LessOrEqual(t, w.in(from), limit, "in the second from %v, the store came back after %v", from, w.returned)
	}
}

// judgeLeast judges every second from one second after the return on, when all processes have reported; of windows, which begin with many calls,
// those of the clock.
func (w *outing) judgeLeast(t *testing.T, aligned bool) {
	t.Helper()
	step, from := 10*time.Millisecond, w.returned+time.Second+w.distance
	if aligned {
		step, from = time.Second, from.Truncate(time.Second)+time.Second
	}
	for ; from < w.returned+8*time.Second; from += step {
		require.GreaterOrEqual(t, w.in(from), 47, "in the second from %v, the store came back after %v", from, w.returned)
	}
}

// judgeAll judges all seconds together from one second after the return on, except for one call that may be missing.
func (w *outing) judgeAll(t *testing.T) {
	t.Helper()
	n := 0
	for from := w.returned + time.Second; from < w.returned+8*time.Second; from += time.Second {
		n += w.in(from)
	}
	require.GreaterOrEqual(t, n, 6*50*95/100)
}

// A store that returns for a moment only, between two losses, gives no share to processes that came just before the first: processes that
// have had a share since then, and miss that moment, have not counted them.
func TestAMomentBetweenTwoLosses(t *testing.T) {
	t.Parallel()
	for seed := range extent(uint64(2), 100) {
		synctest.Test(t, func(t *testing.T) {
			const limit, old = 200, 8
			r := newRemote(0)
			r.barriers, r.random = true, rand.New(rand.NewPCG(seed, 3))
			r.set(nil, 2*ms)
			var went starts
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			start := func(n int) {
				for range n {
					went.join(ctx, t, fresh(t, r, pacer.Config{}, policies.PerSecond(limit).Burst(1)), 4, withoutDelay)
				}
			}
			start(old)
			time.Sleep(8 * time.Second)
			start(12)
			time.Sleep(r.between(20*ms, 300*ms))
			r.set(errBroken, 0)
			time.Sleep(r.between(4500*ms, 8*time.Second))
			r.set(nil, 2*ms)
			time.Sleep(r.between(20*ms, 500*ms))
			r.set(errBroken, 0)
			time.Sleep(5 * time.Second)
			cancel()
			went.calling.Wait()
			require.LessOrEqual(t, went.most(time.Second), limit+1+old, "seed %d", seed) // a call of each was under way
		})
	}
}

// A store that is lost while a fleet starts, and slow when it is back, so that requests fail, gives no share either to processes that it had
// known before: they come back one after the other, and use no share beside those that are back.
func TestASlowReturnWhileAFleetStarts(t *testing.T) {
	t.Parallel()
	for seed := range extent(uint64(3), 50) {
		synctest.Test(t, func(t *testing.T) {
			const limit = 200
			r := newRemote(0)
			r.barriers, r.random, r.slow = true, rand.New(rand.NewPCG(seed, 4)), 200*ms
			r.set(nil, 2*ms)
			var went starts
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range 60 {
				p := fresh(t, r, pacer.Config{}, policies.PerSecond(limit).Burst(1))
				went.join(ctx, t, p, 2, func() time.Duration { return r.between(0, 50*ms) })
			}
			time.Sleep(100 * ms)
			r.set(errBroken, time.Second)
			time.Sleep(7 * time.Second)
			r.mu.Lock()
			r.slow = 2 * time.Second
			r.mu.Unlock()
			r.set(nil, 2*ms)
			time.Sleep(4 * time.Second) // from then on they have a share, if they lose it again
			n := went.count()
			time.Sleep(time.Second)
			require.Greater(t, went.count()-n, limit/4, "seed %d", seed)
			cancel()
			went.calling.Wait()
			require.LessOrEqual(t, went.most(time.Second), limit+1, "seed %d", seed)
		})
	}
}
