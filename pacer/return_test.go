package pacer_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	"github.com/headway-go/headway/policies/specs"
)

// A fleet that loses its store makes no more calls than the limit in any second, not even in the one in which it is lost. From one second
// after the store's return it makes at least 95 % of them again in every second, but for one call at its ends.
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

// How calls end.
const (
	callsEnd    = "all calls go"
	callsCancel = "every other call is given back before it goes"
	callsGiveUp = "every other call gives up waiting"
	callsSettle = "every other call costs less than it was charged"
	callsExceed = "every other call costs more than the burst of a share"
)

// Without its store, each of two processes makes the calls of its share in every second, whatever else the calls need and however they end,
// from one second after the loss on; of short windows, two. Both together never make more than the limit, nor have more in flight. If calls
// cost more than one, they go more rarely, but they go.
func TestEachProcessHasItsShareWithoutTheStore(t *testing.T) {
	t.Parallel()
	rate, exact, window, permits := policies.PerSecond(20).Burst(4), policies.AtMost(20, time.Second), policies.Fixed(20, time.Second), policies.InFlight(8)
	tenant := []pacer.Option{pacer.Scope("tenant", "a")}
	type stack struct {
		list []policies.Policy
		opts []pacer.Option
		each int // calls of each process in a second
		most int // calls of both in a second
	}
	stacks := map[string]stack{
		"a rate":                       {list: []policies.Policy{rate}, each: 10, most: 24},
		"an exact window":              {list: []policies.Policy{exact}, each: 10, most: 20},
		"a window":                     {list: []policies.Policy{window}, each: 10, most: 20},
		"a sliding window":             {list: []policies.Policy{policies.Sliding(20, time.Second)}, each: 10, most: 20},
		"a quota and a rate":           {list: []policies.Policy{policies.Daily(100_000, time.UTC), rate}, each: 10, most: 24},
		"permits":                      {list: []policies.Policy{permits}, each: 40, most: 88},
		"a rate and permits":           {list: []policies.Policy{rate, permits}, each: 10, most: 24},
		"an exact window and permits":  {list: []policies.Policy{exact, permits}, each: 10, most: 20},
		"a window and permits":         {list: []policies.Policy{window, permits}, each: 10, most: 20},
		"a lane":                       {list: []policies.Policy{rate.Lane("batch", 50)}, each: 10, most: 24},
		"a lane that borrows":          {list: []policies.Policy{rate.Lane("batch", 50)}, opts: []pacer.Option{pacer.Lane("batch")}, each: 5, most: 24},
		"fair shares":                  {list: []policies.Policy{rate.Fair("tenant")}, opts: tenant, each: 10, most: 24},
		"a rate and permits in shares": {list: []policies.Policy{rate, permits.Fair("tenant")}, opts: tenant, each: 10, most: 24},
		"the stack of the package doc": {list: []policies.Policy{
			policies.Daily(100_000, time.UTC), policies.PerSecond(25).Burst(10).Per("tenant"), policies.InFlight(20),
		}, opts: tenant, each: 12, most: 35},
	}
	cell := 0
	for _, name := range slices.Sorted(maps.Keys(stacks)) {
		s := stacks[name]
		for _, ends := range []string{callsEnd, callsCancel, callsGiveUp, callsSettle, callsExceed} {
			if cell++; cell%extent(3, 1) != 0 {
				continue
			}
			t.Run(fmt.Sprint(name, ", ", ends), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := outing{
						list: s.list, opts: s.opts, ends: ends, processes: 2, callers: 12, lasts: 100 * time.Millisecond,
						distance: time.Millisecond, lost: 2 * time.Second, away: 5 * time.Second, after: time.Second,
					}
					w.run(t)
					windows := s.list[0].Name() == window.Name()
					w.went = w.went[:w.between(0, w.returned)]
					w.judgeMost(t, s.most, windows)
					for _, p := range s.list {
						if p.Spec().Algorithm == specs.Concurrency {
							require.LessOrEqual(t, int64(w.flew), p.Spec().Limit)
						}
					}
					from := w.lost + time.Second
					if windows {
						from += time.Second
					}
					for i := range w.by {
						own := outing{went: w.by[i]}
						if ends == callsSettle || ends == callsExceed || name == "a sliding window" { // which are not the same in every second
							seconds := int((w.returned - from) / time.Second)
							require.GreaterOrEqual(t, own.between(from, w.returned), seconds*s.each*3/10, "process %d", i)
							continue
						}
						for second := from; second+time.Second < w.returned; second += time.Second {
							require.GreaterOrEqual(t, own.in(second), s.each*95/100, "process %d, in the second from %v", i, second)
						}
					}
				})
			})
		}
	}
}

// An outing is what becomes of the calls of a fleet whose store is away for a while.
type outing struct {
	list      []policies.Policy
	opts      []pacer.Option
	ends      string        // how calls end; as callsEnd if it is empty
	processes int           // 4 if it is 0
	callers   int           // of each process; each makes all calls that it may
	lasts     time.Duration // a call: 20 ms if it is 0
	distance  time.Duration // of the store
	lost      time.Duration // when the store was lost
	away      time.Duration // for how long: 3 s if it is 0
	after     time.Duration // for how long the fleet goes on after that: 10 s if it is 0

	mu       sync.Mutex
	went     []time.Duration   // when calls went, from the start of the fleet, by the clock of the store: calls come later by different delays
	by       [][]time.Duration // those of each process
	flies    int               // calls that are in flight
	flew     int               // the most at once
	returned time.Duration     // when the store was back, and a process could know of it
}

// run has each caller make all calls that it may.
func (w *outing) run(t *testing.T) {
	t.Helper()
	w.processes, w.lasts, w.away, w.after = cmp.Or(w.processes, 4), cmp.Or(w.lasts, 20*time.Millisecond), cmp.Or(w.away, 3*time.Second), cmp.Or(w.after, 10*time.Second)
	r := newRemote(w.processes)
	r.barriers = true
	r.set(nil, w.distance)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	began := time.Now()
	w.by = make([][]time.Duration, w.processes)
	for i := range w.by {
		p := away(t, r, pacer.PaceLocally, w.list...)
		defer closing(t, p)
		for n := range w.callers {
			all.Go(func() {
				for ; ctx.Err() == nil; n++ {
					if !w.call(ctx, p, n, began, &w.by[i]) {
						time.Sleep(20 * time.Millisecond)
					}
				}
			})
		}
	}
	time.Sleep(w.lost)
	r.set(errBroken, w.distance)
	time.Sleep(w.away)
	r.set(nil, w.distance)
	w.returned = time.Since(began) + w.distance
	time.Sleep(w.after)
	stop()
	all.Wait()
	slices.Sort(w.went)
}

// call makes a call, unless it is the n-th of a caller and does not go. It reports whether it went.
func (w *outing) call(ctx context.Context, p *pacer.Pacer, n int, began time.Time, own *[]time.Duration) bool {
	opts := slices.Clone(w.opts)
	if n%2 > 0 {
		switch w.ends {
		case callsCancel:
			c, err := p.Reserve(ctx, opts...)
			if err == nil {
				time.Sleep(10 * time.Millisecond)
				_ = c.NotUsed(ctx)
			}
			return false
		case callsGiveUp:
			some, cancel := context.WithTimeout(ctx, time.Duration(50+10*n%100)*time.Millisecond)
			defer cancel()
			ctx = some
		case callsSettle:
			opts = append(opts, pacer.Cost(2))
		case callsExceed:
			opts = append(opts, pacer.Cost(3))
		}
	}
	c, err := p.Acquire(ctx, opts...)
	if err != nil {
		return false
	}
	slot, _ := inside.Slot(c)
	at := slot.Sub(store.Instant(began.UnixMicro()))
	w.mu.Lock()
	w.went, *own = append(w.went, at), append(*own, at)
	w.flies++
	w.flew = max(w.flew, w.flies)
	w.mu.Unlock()
	time.Sleep(w.lasts)
	if len(opts) > len(w.opts) && w.ends == callsSettle {
		_ = c.Settle(ctx, policies.Cost{N: 1})
	}
	w.mu.Lock()
	w.flies--
	w.mu.Unlock()
	c.Release()
	return true
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

// judgeLeast judges every second from one second after the return on; of windows, which begin with many calls, those of the clock.
func (w *outing) judgeLeast(t *testing.T, aligned bool) {
	t.Helper()
	step, from := 10*time.Millisecond, w.returned+time.Second
	if aligned {
		step, from = time.Second, from.Truncate(time.Second)+time.Second
	}
	for ; from < w.returned+8*time.Second; from += step {
		require.GreaterOrEqual(t, w.in(from), 47, "in the second from %v, the store came back after %v", from, w.returned)
	}
}

// judgeAll judges all seconds together from one second after the return on, but for one that may have been missed.
func (w *outing) judgeAll(t *testing.T) {
	t.Helper()
	n := 0
	for from := w.returned + time.Second; from < w.returned+8*time.Second; from += time.Second {
		n += w.in(from)
	}
	require.GreaterOrEqual(t, n, 6*50*95/100)
}

// A store that is there for a moment only, between two losses, gives no share to processes that came just before the first: those that have
// had one since then, and miss that moment, have not counted them.
func TestAMomentBetweenTwoLosses(t *testing.T) {
	t.Parallel()
	for seed := range extent(uint64(10), 100) {
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
