package bench_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// admitted returns when the upstream admitted calls: those of a tenant, or of all if that is "".
func (o *outcome) admitted(tenant string) []time.Duration {
	var all []time.Duration
	for _, a := range o.log {
		if a.OK && (tenant == "" || a.Tenant == tenant) {
			all = append(all, a.At)
		}
	}
	return all
}

// within returns how many of some times lie from one to another.
func within(times []time.Duration, from, to time.Duration) int {
	n := 0
	for _, at := range times {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

// refused returns how many calls the upstream refused, and the part of all that they are.
func (o *outcome) refused() (n int, part float64) {
	for _, a := range o.log {
		if !a.OK {
			n++
		}
	}
	return n, float64(n) / float64(max(1, len(o.log)))
}

// perSecond returns how many of some times there are a second, from one to another: the mean over all intervals
// therein that are whole seconds long, and one at least shorter than the whole, so that it does not matter where in its
// rhythm a fleet was when the interval began.
func perSecond(times []time.Duration, from, to time.Duration) float64 {
	length := max(time.Second, (to-from).Truncate(time.Second)-time.Second)
	freedom := to - from - length // of the start of an interval
	var sum time.Duration
	for _, at := range times {
		sum += max(0, min(at, from+freedom)-max(at-length, from)) // as many intervals have it
	}
	return float64(sum) / float64(freedom) / length.Seconds()
}

// fairness is Jain's index over what the upstream admitted for each key in the steady interval: 1 if each got the
// same, 1/n if one of n got all.
func (o *outcome) fairness(n int, key func(arrival) string) float64 {
	got := make(map[string]float64)
	for _, a := range o.log {
		if a.OK && a.At >= o.scenario.from && a.At < o.scenario.to {
			got[key(a)]++
		}
	}
	var sum, squares float64
	for _, x := range got {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / squares / float64(n)
}

// A waiting is how long a call took from its first request to its admission by the upstream.
type waiting struct {
	time.Duration

	more bool // it was given up, or the run was over first: it would have been longer
}

func (w waiting) String() string {
	s := short(w.Duration)
	if w.more {
		return "> " + s
	}
	return s
}

// waits returns the sorted waits of calls that were requested from one time to another.
func (o *outcome) waits(from, to time.Duration, of func(call) bool) []waiting {
	var all []waiting
	for _, r := range o.tallies {
		for _, c := range r.Calls {
			if c.Requested >= from && c.Requested < to && of(c) {
				all = append(all, waiting{c.Done - c.Requested, !c.OK})
			}
		}
	}
	slices.SortFunc(all, func(a, b waiting) int { return cmp.Compare(a.Duration, b.Duration) })
	return all
}

// upTo returns the smallest value that q of the sorted values do not exceed; the zero value if there is none.
func upTo[T any](sorted []T, q float64) (value T) {
	if len(sorted) == 0 {
		return value
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// late returns how late timers of the fleet's processes fired, sorted.
func (o *outcome) late() []time.Duration {
	var all []time.Duration
	for _, r := range o.tallies {
		all = append(all, r.Late...)
	}
	slices.Sort(all)
	return all
}

// failures returns how often contenders failed to decide, and how many calls were given up.
func (o *outcome) failures() (errs, lost int) {
	for _, r := range o.tallies {
		errs += r.Errors
		lost += r.Lost
	}
	return errs, lost
}

// closest returns the shortest time from a call to the n-th after it: as the calls were sent, and as they arrived.
func (o *outcome) closest(n int) (sent, arrived time.Duration) {
	var sends, arrivals []time.Duration
	for _, a := range o.log {
		sends, arrivals = append(sends, a.Sent), append(arrivals, a.At)
	}
	nearest := func(times []time.Duration) time.Duration {
		slices.Sort(times)
		d := time.Duration(math.MaxInt64)
		for i := n; i < len(times); i++ {
			d = min(d, times[i]-times[i-n])
		}
		return d
	}
	return nearest(sends), nearest(arrivals)
}

// ownLine returns the sorted waits of each tenant's calls, requested from one time to another, if each tenant had a queue of its own, from
// which one call goes each interval.
func (o *outcome) ownLine(interval, from, to time.Duration, of func(call) bool) []time.Duration {
	lines := make(map[string][]time.Duration)
	for _, r := range o.tallies {
		for _, c := range r.Calls {
			if of(c) {
				lines[c.Tenant] = append(lines[c.Tenant], c.Requested)
			}
		}
	}
	var all []time.Duration
	for _, requested := range lines {
		slices.Sort(requested)
		var next time.Duration
		for _, at := range requested {
			slot := max(at, next)
			next = slot + interval
			if at >= from && at < to {
				all = append(all, slot-at)
			}
		}
	}
	slices.Sort(all)
	return all
}

// short prints a duration with as many digits as matter.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

func TestFiguresOfAFleet(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	o := &outcome{scenario: &scenario{from: time.Second, to: 9 * time.Second}}
	for i := range 500 { // one call each 20.2 ms, of three processes in turn; each tenth is refused
		at := time.Duration(i) * 20200 * time.Microsecond
		o.log = append(o.log, arrival{At: at, Sent: at + time.Duration(i%2)*ms, Tenant: "x", Process: i % 3, OK: true})
	}
	assert.InDelta(t, 50/1.01, perSecond(o.admitted(""), time.Second, 9*time.Second), 0.01)
	assert.Equal(t, 50, within(o.admitted("x"), 0, 1010*ms))
	assert.Empty(t, o.admitted("y"))
	assert.InDelta(t, 1, o.fairness(3, func(a arrival) string { return fmt.Sprint(a.Process) }), 0.001)
	assert.InDelta(t, 0.75, o.fairness(4, func(a arrival) string { return fmt.Sprint(a.Process) }), 0.001, "a fourth got nothing")
	sent, arrived := o.closest(5)
	assert.Equal(t, 100*ms, sent)
	assert.Equal(t, 101*ms, arrived)
	for i := range 10 {
		o.log[50*i].OK = false
	}
	n, part := o.refused()
	assert.Equal(t, 10, n)
	assert.InDelta(t, 0.02, part, 0.0001)

	// 50 at once, each second: whatever the interval, no more than 50 a second.
	var bursts []time.Duration
	for i := range 500 {
		bursts = append(bursts, time.Duration(i/50)*time.Second)
	}
	for from := range 10 {
		at := time.Duration(from) * 100 * ms
		assert.InDelta(t, 50, perSecond(bursts, at, at+6*time.Second), 0.01)
	}

	everybody := func(call) bool { return true }
	o.tallies = []tally{
		{Calls: []call{{"a", 0, 0, true}, {"a", 10 * ms, 150 * ms, true}, {"b", 10 * ms, 11 * ms, true}}},
		{Calls: []call{{"a", 20 * ms, 900 * ms, false}, {"a", 500 * ms, 500 * ms, true}}},
	}
	waits := o.waits(0, time.Second, everybody)
	assert.Equal(t, waiting{1 * ms, false}, upTo(waits, 0.5))
	assert.Equal(t, "> 880 ms", upTo(waits, 0.99).String())
	assert.Equal(t, []time.Duration{0, 0, 0, 90 * ms, 180 * ms}, o.ownLine(100*ms, 0, time.Second, everybody))
	assert.Equal(t, []time.Duration{0, 90 * ms, 180 * ms}, o.ownLine(100*ms, 5*ms, 400*ms, everybody))
}
