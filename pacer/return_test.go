package pacer_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
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
			for lost := range extent(2, 4) { // at different points of a window
				t.Run(fmt.Sprint(name, " ", distance, " ", lost), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						w := fleetWithAnOutage(t, list, 16, distance, 5*time.Second+time.Duration(lost)*270*time.Millisecond)
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
			for lost := range 2 {
				t.Run(fmt.Sprint(limit, " ", distance, " ", lost), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						list := []policies.Policy{policies.PerSecond(int64(limit))}
						w := fleetWithAnOutage(t, list, 100, distance, 5*time.Second+time.Duration(lost)*77*time.Millisecond)
						w.judgeMost(t, limit, false)
					})
				})
			}
		}
	}
}

// An outing is when the calls of a fleet went, from its start, and when its store was back.
type outing struct {
	went     []time.Duration
	returned time.Duration
}

// fleetWithAnOutage has four processes with some callers each make all calls that they may. After some time their store is away for 3 s.
func fleetWithAnOutage(t *testing.T, list []policies.Policy, callers int, distance, lost time.Duration) outing {
	t.Helper()
	const processes = 4
	r := newRemote(processes)
	r.barriers = true
	r.set(nil, distance)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var (
		mu    sync.Mutex
		all   sync.WaitGroup
		w     outing
		began = time.Now()
	)
	for range processes {
		p := away(t, r, pacer.PaceLocally, list...)
		defer closing(t, p)
		for range callers {
			all.Go(func() {
				for {
					c, err := p.Acquire(ctx)
					if err != nil {
						return
					}
					slot, _ := c.Slot()
					mu.Lock()
					w.went = append(w.went, slot.Sub(store.Instant(began.UnixMicro()))) // by the clock of the store: calls come later by different delays
					mu.Unlock()
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
	}
	time.Sleep(lost)
	r.set(errBroken, distance)
	time.Sleep(3 * time.Second)
	r.set(nil, distance)
	w.returned = time.Since(began) + distance // when a process can know of it
	time.Sleep(10 * time.Second)
	stop()
	all.Wait()
	slices.Sort(w.went)
	return w
}

// in returns how many calls went in the second that begins at an instant.
func (w *outing) in(from time.Duration) int {
	first, _ := slices.BinarySearch(w.went, from)
	last, _ := slices.BinarySearch(w.went, from+time.Second)
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
