package measure

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// Length returns how long a scenario runs: short as a test of truth, long as a measurement.
func Length[T any](truth, measured T) T {
	if On {
		return measured
	}
	return truth
}

// Lateness is by how much the timers of a machine were late in some time.
type Lateness struct {
	P50, P99, Max time.Duration
}

// Max returns the larger of each figure: the lateness of a fleet is that of its latest process.
func Max(all ...Lateness) (most Lateness) {
	for _, l := range all {
		most.P50, most.P99, most.Max = max(most.P50, l.P50), max(most.P99, l.P99), max(most.Max, l.Max)
	}
	return most
}

// String implements [fmt.Stringer].
func (l Lateness) String() string {
	return fmt.Sprintf("%v (p50), %v (p99), %v (most)", l.P50.Round(10*time.Microsecond), l.P99.Round(10*time.Microsecond), l.Max.Round(10*time.Microsecond))
}

// Timers watch by how much the timers of this process are late.
type Timers struct {
	stop chan struct{}
	done sync.WaitGroup
	late []time.Duration
}

// Watch begins to watch. Call [Timers.Stop] when it is enough.
func Watch() *Timers {
	const step = 2 * time.Millisecond
	w := &Timers{stop: make(chan struct{})}
	w.done.Go(func() {
		timer := time.NewTimer(step) //realtime: by how much timers are late is what it measures
		defer timer.Stop()
		for {
			asleep := time.Now()
			select {
			case <-w.stop:
				return
			case <-timer.C:
			}
			w.late = append(w.late, time.Since(asleep)-step) //realtime: by how much timers are late is what it measures
			timer.Reset(step)
		}
	})
	return w
}

// Stop returns by how much timers were late since Watch. It is called once.
func (w *Timers) Stop() Lateness {
	close(w.stop)
	w.done.Wait()
	if len(w.late) == 0 {
		return Lateness{}
	}
	slices.Sort(w.late)
	at := func(q int) time.Duration { return w.late[len(w.late)*q/100] }
	return Lateness{P50: at(50), P99: at(99), Max: w.late[len(w.late)-1]}
}

// Judge reports the figures of a scenario. A measurement whose figures are bad fails, if no timer was later than tolerated; with a later
// one it logs that it was not judged. A test of truth only prints the figures.
func Judge(tb testing.TB, late Lateness, tolerated time.Duration, figures string, good bool) {
	tb.Helper()
	judge(tb, On, late, tolerated, figures, good)
}

func judge(tb testing.TB, on bool, late Lateness, tolerated time.Duration, figures string, good bool) {
	tb.Helper()
	tb.Logf("%s; timers were %v late", figures, late)
	switch {
	case !on || good:
	case late.Max > tolerated:
		tb.Logf("not judged: timers were %v late, which is more than the %v that the figures allow for", late.Max, tolerated)
	default:
		tb.Errorf("measured: %s", figures)
	}
}
