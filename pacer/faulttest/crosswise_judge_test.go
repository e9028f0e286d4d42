package faulttest_test

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
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

// part returns the least part of what may go that went in a window between two instants: max(1 s, 20 calls), and of windows, which are
// not used evenly, three seconds; also where little is promised, which is that nobody stands still.
func (w *world) part(from, to time.Time, little bool) (least float64, when time.Time) {
	s := &w.cell.setup
	if s.rate == 0 {
		return w.busy(from, to, float64(s.bounds[0].n))
	}
	length := max(time.Second, time.Duration(20/s.rate*float64(time.Second)))
	if s.bursts || little {
		length *= 3
	}
	return w.least(from, to, length, s.rate)
}

// judgeMost judges that no bound is exceeded but for the exceptions of docs/guarantees.md: calls unknown to some processes at a loss are at
// most as many as there are permits, and so many may begin beside them.
func (w *world) judgeMost(t *testing.T) {
	t.Helper()
	for i := range w.cell.setup.bounds {
		b := &w.cell.setup.bounds[i]
		if n, at := b.excess(w.known(b)); n > w.beyond(b) {
			t.Errorf("%s: %d more than %d in %v, %v after the start", w.cell.name(), n, b.n, b.period, at.Sub(w.began))
		}
		if n, at := b.excess(w.went); b.period == 0 && w.cell.weather.kind != steps && n > b.n {
			t.Errorf("%s: %d calls at once with %d permits, %v after the start", w.cell.name(), b.n+n, b.n, at.Sub(w.began))
		}
	}
}

// known returns the calls of which all processes know that hold permits. Of those that ran when a fault began, and of those that began while
// they ran, the others do not.
func (w *world) known(b *bound) []deed {
	if k := w.cell.weather.kind; b.period > 0 || k == works || k == slow {
		return w.went
	}
	return slices.DeleteFunc(slices.Clone(w.went), func(d deed) bool {
		return slices.ContainsFunc(w.events, func(at time.Time) bool { return d.to.After(at) && d.from.Before(at.Add(mostLasts)) })
	})
}

// beyond returns how many calls go beyond a bound at most. While the store answers, none does, however late, nor if it is lost once, but
// for the exceptions of docs/guarantees.md: calls that cost more than the burst of a share go all the same, one of each process at once,
// and of a pool what others were granted since the last heartbeat is granted again. If the store comes and goes, those that have lost it
// spend their shares beside others that have not, until their next probe is answered. Losses do not add up: processes that all of a rate is
// too little for notice each, and what the others had too much is used up before the next one. Grants of lost writes are granted again, and
// each process notices that by a call or two. A clock that steps makes room for another burst, or another count of a window.
func (w *world) beyond(b *bound) (most int64) {
	n, events := int64(len(w.fleet)), int64(len(w.events))
	switch w.cell.weather.kind {
	case works, slow:
	case lost, flaps:
		if b.burst == 0 {
			if w.cell.weather.kind == flaps && b.period > 0 { // one process has not noticed it, and another spends its share beside that
				most = (b.n + n - 1) / n
			}
			return most
		}
		if w.cell.end == callsSettle {
			most = max(0, costly*n-b.burst)
		}
		if w.cell.setup.pool > 0 {
			most += n
		}
		if w.cell.weather.kind == flaps {
			most += 1 + int64(float64(b.n)*unnoticed.Seconds()/b.period.Seconds())*(n-1)/n
		}
	case loses:
		return events * (2*n + int64(w.cell.setup.rate*lagging.Seconds()))
	case back:
		if b.clock { // windows begin by the store's clock
			return b.n
		}
		return 2 * n // starts are up to a round trip behind their slots
	case steps:
		return events * max(b.burst, b.n)
	}
	return most
}

// unnoticed is how long after a short loss a process spends its share beside what the store grants to others: until a probe is answered, a
// tenth of a second and an eighth later at most, and some round trips. Others' earlier grants reach as far ahead as calls that wait.
const unnoticed = 113*time.Millisecond + 7*near + 40*time.Millisecond

func (w *world) judge(t *testing.T) {
	t.Helper()
	c := &w.cell
	w.judgeMost(t)
	w.left(t, c.setup.list, c.weather.kind != steps)
	during, after := c.promised()
	for _, x := range []struct {
		what     string
		from, to time.Time
		least    float64
	}{
		{"during the fault", w.fault.Add(time.Second + c.calms()), w.healed, during},
		{"after the fault", w.healed.Add(c.settles()), w.ended, after},
	} {
		if part, at := w.part(x.from, x.to, x.least <= standing); part < x.least {
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

// left judges that nothing is left of a fleet that has been closed, and returns the status of its limits; nil if the store's clock has stepped
// back, and nobody is there who knows. The permit of a Wait comes back when its lease runs out, and so do those whose return was lost. All processes
// have left, if they could.
func (w *world) left(t *testing.T, list []policies.Policy, all bool) *store.StackStatus {
	t.Helper()
	alive, latest := w.store.Alive(), w.store.Latest()
	lasts(time.Second + lease)
	if w.store.Now().Sub(latest) <= lease {
		return nil
	}
	if all && alive > 0 {
		t.Errorf("%d processes have not left", alive)
	}
	stack := store.Stack{Upstream: "api"}
	for _, is := range list {
		stack.Limits = append(stack.Limits, store.Limit{Policy: is.Name(), Spec: is.Spec()})
	}
	is, err := w.store.Status(t.Context(), stack)
	if err != nil {
		t.Fatal(err)
	}
	for i := range is.Limits {
		if l := &stack.Limits[i]; l.Spec.Algorithm == specs.Concurrency && (is.Limits[i].Remaining < l.Spec.Limit || is.Limits[i].Queued > 0) {
			t.Errorf("%d permits of %d are left, and %d calls are queued", is.Limits[i].Remaining, l.Spec.Limit, is.Limits[i].Queued)
		}
	}
	return &is
}

// settles returns how long after a fault all of a limit is used: processes wait for each other for a second, and then what they have spent
// counts. That the store has lost writes, they notice with their next heartbeat at the latest.
func (c *cell) settles() time.Duration {
	if c.weather.kind == loses {
		return 2*time.Second + failover.ScheduleOf(1).Heartbeat
	}
	return 2 * time.Second
}

// calms returns for how long permits may be out, at a loss, that nobody gives back; or how long a clock that went back may hold up calls.
func (c *cell) calms() time.Duration {
	switch k := c.weather.kind; {
	case k == lost && c.setup.hasPermits():
		return lease
	case k == back:
		return time.Second
	}
	return 0
}

func (s *setup) hasPermits() bool {
	return slices.ContainsFunc(s.bounds, func(b bound) bool { return b.period == 0 })
}

// standing is what part of what may go goes in three seconds if nobody stands still.
const standing = 0.05

// promised returns the least part of what may go that is to go during a fault and after it; 0 where nothing is promised. Three seconds see
// two of three windows at least. A fault in which each process has its share promises nothing of bookings, which no process makes without its
// store, and calls that cost more than the burst of a share go more rarely in some seconds. Where the store is far away or loses what it knew,
// nobody stands still. One that comes and goes, a clock that steps, and one that loses again and again which permits came back, promise that
// limits hold, and no more.
func (c *cell) promised() (during, after float64) {
	s := &c.setup
	after = 0.95
	if s.bursts {
		after = 0.6
	}
	switch k := c.weather.kind; {
	case s.rests > 0: // its callers do not request all of it
		return 0, 0
	case k == works, k == back:
		during = after
	case s.book || k == flaps || k == steps || k == loses && s.hasPermits():
	case k != lost:
		during = standing
	case c.end == callsSettle:
		during = min(after, 0.8)
	case c.calms() > 0:
		during = min(after, 0.9)
	default:
		during = after
	}
	return during, after
}
