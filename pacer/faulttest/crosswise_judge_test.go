package faulttest_test

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// excess returns by how much calls exceed a bound at the most, and when.
func (b *bound) excess(calls []deed) (most int64, when time.Time) {
	byScope := make(map[string][]deed)
	for _, d := range calls {
		if d.slot == 0 {
			continue // it was cancelled
		}
		if !b.scoped {
			d.scope = ""
		}
		byScope[d.scope] = append(byScope[d.scope], d)
	}
	for _, set := range byScope {
		n, at := b.over(set)
		if n > most {
			most, when = n, at
		}
	}
	return most, when
}

func (b *bound) over(calls []deed) (most int64, when time.Time) {
	slices.SortFunc(calls, func(x, y deed) int { return cmp.Compare(x.slot, y.slot) })
	found := func(n int64, d *deed) {
		if n > most {
			most, when = n, d.from
		}
	}
	switch {
	case b.period == 0:
		type mark struct {
			at time.Time
			by int64
			d  *deed
		}
		var marks []mark
		for i := range calls {
			d := &calls[i]
			marks = append(marks, mark{d.from, 1, d}, mark{d.to, -1, d})
		}
		slices.SortFunc(marks, func(x, y mark) int { return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.by, y.by)) })
		n := int64(0)
		for _, m := range marks {
			n += m.by
			found(n-b.n, m.d)
		}
	case b.burst > 0:
		level, last := 0.0, store.Instant(0) // of a bucket that leaks
		for i := range calls {
			d := &calls[i]
			level = max(0, level-float64(b.n)*float64(d.slot.Sub(last))/float64(b.period)) + float64(d.cost)
			last = d.slot
			found(int64(math.Ceil(level-float64(b.burst)-0.001)), d)
		}
	default:
		for i := range calls {
			until := calls[i].slot.Add(b.period)
			if b.clock {
				until = store.Instant(time.UnixMicro(int64(calls[i].slot)).Truncate(b.period).Add(b.period).UnixMicro())
			}
			n := int64(0)
			for j := i; j < len(calls) && calls[j].slot < until; j++ {
				n += calls[j].cost
			}
			found(n-b.n, &calls[i])
		}
	}
	return most, when
}

// least returns the least part of a rate that was reserved in a window between two instants.
func (w *world) least(from, to time.Time, length time.Duration, rate float64) (least float64, when time.Time) {
	least = math.Inf(1)
	for ; !from.Add(length).After(to); from = from.Add(length / 4) {
		n := int64(0)
		for _, d := range w.went {
			if !d.from.Before(from) && d.from.Before(from.Add(length)) {
				n += d.reserved
			}
		}
		if part := float64(n+1) / rate / length.Seconds(); part < least {
			least, when = part, from
		}
	}
	return least, when
}

// busy returns the least part of permits that was in use in a second between two instants.
func (w *world) busy(from, to time.Time, permits float64) (least float64, when time.Time) {
	least = math.Inf(1)
	for ; !from.Add(time.Second).After(to); from = from.Add(time.Second / 4) {
		end, sum := from.Add(time.Second), time.Duration(0)
		for _, d := range w.went {
			first, last := d.from, d.to
			if first.Before(from) {
				first = from
			}
			if last.After(end) {
				last = end
			}
			sum += max(0, last.Sub(first))
		}
		if part := sum.Seconds() / permits; part < least {
			least, when = part, from
		}
	}
	return least, when
}

// least returns the least part of what may go that went in a window between two instants: max(1 s, 20 calls), and of windows, which are
// not used evenly, three seconds.
func (w *world) part(from, to time.Time) (least float64, when time.Time) {
	s := &w.cell.setup
	if s.rate == 0 {
		return w.busy(from, to, float64(s.bounds[0].n))
	}
	length := max(time.Second, time.Duration(20/s.rate*float64(time.Second)))
	if s.bursts {
		length *= 3
	}
	return w.least(from, to, length, s.rate)
}

// judgeMost judges that no bound is exceeded.
func (w *world) judgeMost(t *testing.T) {
	t.Helper()
	c := &w.cell
	for i := range c.setup.bounds {
		b := &c.setup.bounds[i]
		if n, at := b.excess(w.went); n > c.allowed(b, int64(len(w.fleet))) {
			t.Errorf("%s: %d more than %d in %v, %v after the start", c.name(), n, b.n, b.period, at.Sub(w.began))
		}
	}
}

func (w *world) judge(t *testing.T) {
	t.Helper()
	c := &w.cell
	w.judgeMost(t)
	during, after := c.expected()
	for _, x := range []struct {
		what     string
		from, to time.Time
		least    float64
	}{
		{"during the fault", w.fault.Add(time.Second), w.healed, during},
		{"after the fault", w.healed.Add(settled), w.ended, after},
	} {
		if part, at := w.part(x.from, x.to); part < x.least {
			t.Errorf("%s: %.2f of what may go %s, %v after the start, less than %.2f", c.name(), part, x.what, at.Sub(w.began), x.least)
		}
	}
	if t.Failed() {
		t.Logf("%s: %d processes, the fault lasted from %v to %v, %d calls, %d requests", c.name(), len(w.fleet), w.fault.Sub(w.began), w.healed.Sub(w.began), len(w.went), w.store.Requests())
		for e, n := range w.errs {
			t.Logf("%d× %s", n, e)
		}
	}
}

// settled is how long after a fault all of a limit is used: processes wait for each other for a second, and then what they have spent counts.
const settled = 2 * time.Second

// expected returns the least part of what may go that is to go during a fault and after it: 95 % but for what follows.
func (c *cell) expected() (during, after float64) {
	during, after = 0.95, 0.95
	s := &c.setup
	least := func(part *float64, n float64) { *part = min(*part, n) }
	permits := slices.ContainsFunc(s.bounds, func(b bound) bool { return b.period == 0 })
	if s.bursts { // three seconds see two or three of them
		during, after = 0.6, 0.65
	}
	if s.name == "fair shares" && c.end == callsSettle {
		during, after = 0.4, 0.4
	}
	switch c.weather.kind {
	case works:
	case slow: // a permit is idle for two round trips, and what is given up is past when the store knows
		if least(&during, 0.6); permits || c.end != callsEnd {
			least(&during, 0.1)
		}
	case lost:
		if permits { // what others held counts until their leases run out
			least(&during, 0.4)
		}
		if c.end == callsCancel || c.end == callsSettle { // what was held is past when it is given back
			least(&during, 0.4)
		}
		if s.scoped() && c.end == callsSettle { // a call costs more than the burst of a share
			during = 0
		}
	case flaps:
		during = 0
	case loses: // a process returns to the store as after an outage; permits whose return was lost come back when their leases run out
		if least(&during, 0.2); permits {
			least(&after, 0.5)
		}
		if s.bursts {
			during = 0
		}
	case steps:
		least(&during, 0.3)
	}
	if s.book && c.weather.kind != works { // no process books or redeems without the store
		during = 0
	}
	return during, after
}

func (s *setup) scoped() bool {
	return slices.ContainsFunc(s.bounds, func(b bound) bool { return b.scoped })
}

// allowed returns by how much a bound may be exceeded: not at all while the store answers. A process without it does not know what
// others were granted since its last heartbeat, and when it returns, not what they have just begun. Of lost writes, it notices the first
// that is granted again; a clock that steps forward makes room for another burst.
func (c *cell) allowed(b *bound, processes int64) int64 {
	switch c.weather.kind {
	case works, slow:
	case lost, flaps:
		if c.weather.name == "garbage" { // what was done, though its reply was lost, is done again: more than there should be
			return b.n
		}
		return 2 * processes
	case loses, steps:
		return max(b.n/2, 6*processes)
	}
	return 0
}
