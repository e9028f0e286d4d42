package storetest

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A caller makes calls one after the other, as a program does: it reserves, queues if necessary, goes, and reserves the next one when that
// is over.
type caller struct {
	keys         []Key
	flow, weight int64
	cost         int64         // 0: 1
	from, to     time.Duration // it begins calls in between
	calls        int           // at most so many; 0: any number
	runs         time.Duration // how long a call takes
	maxWait      time.Duration // 0: any
}

// went is a call that went.
type went struct {
	by                  *caller
	requested, at, over store.Instant
	lent                bool // some of its limits were charged nothing
}

// wait returns how long the call waited.
func (w *went) wait() time.Duration { return w.at.Sub(w.requested) }

// A drive is callers of one store in virtual time, without idle time.
type drive struct {
	s       *Session
	rng     *rand.Rand
	events  events
	seq     int
	queued  []*asking // those who queue for a permit
	went    []went
	refused int
}

// asking is a call that has not gone yet.
type asking struct {
	by        *caller
	stack     store.Stack
	call      store.Call
	requested store.Instant
	left      int // calls of the caller after this one
	turn      int // counts its requests
}

// An event is something that happens at a time.
type event struct {
	at  store.Instant
	seq int
	do  func()
}

type events []event

func (e *events) Len() int { return len(*e) }
func (e *events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare((*e)[i].at, (*e)[j].at), cmp.Compare((*e)[i].seq, (*e)[j].seq)) < 0
}
func (e *events) Swap(i, j int) { (*e)[i], (*e)[j] = (*e)[j], (*e)[i] }
func (e *events) Push(x any)    { *e = append(*e, x.(event)) } //nolint:forcetypeassert // of this file alone
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// driven runs callers until none starts a call and all waiting ones have given up.
func driven(s *Session, until time.Duration, callers ...*caller) *drive {
	d := &drive{s: s, rng: rand.New(rand.NewPCG(uint64(len(callers)), 5))}
	for _, c := range callers {
		left := c.calls
		if left == 0 {
			left = 1 << 30
		}
		d.at(Epoch+store.Instant(c.from.Microseconds()), func() { d.begin(c, left) })
	}
	for len(d.events) > 0 && d.events[0].at < Epoch+store.Instant(until.Microseconds()) {
		e := heap.Pop(&d.events).(event) //nolint:forcetypeassert // of this file alone
		if e.at > s.now {
			s.Set(e.at)
		}
		e.do()
	}
	slices.SortFunc(d.went, func(a, b went) int { return cmp.Compare(a.at, b.at) })
	return d
}

func (d *drive) at(t store.Instant, do func()) {
	d.seq++
	heap.Push(&d.events, event{max(t, d.s.now), d.seq, do})
}

// begin begins a call.
func (d *drive) begin(c *caller, left int) {
	if left == 0 || Since(d.s.now) >= c.to {
		return
	}
	a := &asking{by: c, stack: d.s.Stack(c.keys...), requested: d.s.now, left: left - 1}
	a.call = store.Call{Cost: max(1, c.cost), MaxWait: store.Forever}
	if c.maxWait > 0 {
		a.call.MaxWait = c.maxWait
	}
	if anyQueue(&a.stack) {
		// The order of IDs must not matter.
		a.call.ID, a.call.Flow, a.call.Weight = firstID+d.rng.Int64N(9*firstID), max(1, c.flow), max(1, c.weight)
	}
	d.ask(a)
}

// ask requests a slot for a call that has not gone yet.
func (d *drive) ask(a *asking) { d.answer(a, d.s.Ask(a.stack, a.call)) }

// askAll polls for all calls that queue for a permit: the store may wake none.
func (d *drive) askAll() {
	for all := slices.Clone(d.queued); len(all) > 0; {
		n := 1 // calls of one stack go in one request
		for n < len(all) && slices.EqualFunc(all[n].stack.Limits, all[0].stack.Limits, func(a, b store.Limit) bool {
			return a.Policy == b.Policy && a.Scope == b.Scope
		}) {
			n++
		}
		calls := make([]store.Call, n)
		for i, a := range all[:n] {
			calls[i] = a.call
		}
		for i, g := range d.s.AskAll(all[0].stack, calls...) {
			d.answer(all[i], g)
		}
		all = all[n:]
	}
}

// answer handles a call's answer.
func (d *drive) answer(a *asking, g store.Grant) {
	a.turn++
	a.call.Held, a.call.NotBefore = nil, 0
	if a.call.Since == 0 && a.call.ID != 0 {
		a.call.Since = g.Now
	}
	again := func(at store.Instant, held *store.Grant) {
		turn := a.turn
		d.at(at, func() {
			if a.turn == turn {
				if held != nil {
					a.call = *d.s.holding(&a.call, *held)
				}
				d.ask(a)
			}
		})
	}
	d.queued = slices.DeleteFunc(d.queued, func(other *asking) bool { return other == a })
	switch {
	case g.Queued:
		if a.stack.Limits[g.Binds].Spec.Algorithm == specs.Concurrency {
			d.queued = append(d.queued, a)
		}
		again(g.At+store.Instant(d.rng.Int64N(2_000)), nil) // timers are late
	case !g.OK:
		d.refused++
	case !hasPermits(&a.stack, &g):
		again(g.At-store.Instant(permitAhead.Microseconds()), &g)
	default:
		d.goes(a, g)
	}
}

// goes lets a call go, somewhere within its slack, and begins the next one when it is over.
func (d *drive) goes(a *asking, g store.Grant) {
	w := went{by: a.by, requested: a.requested, at: g.At, lent: slices.Contains(g.Charges, store.Charge{})}
	if g.Slack > 0 {
		w.at += store.Instant(d.rng.Int64N(min(g.Slack.Microseconds(), 1_000) + 1))
	}
	w.over = w.at + store.Instant(a.by.runs.Microseconds())
	d.went = append(d.went, w)
	d.at(w.over, func() {
		if a.call.ID != 0 && anyLeases(&a.stack) {
			d.s.release(a.stack, &a.call)
			d.askAll()
		}
		d.begin(a.by, a.left)
	})
}

// conform checks the calls against a policy, by a judge that knows nothing of stores.
func (d *drive) conform(t testing.TB, k Key) {
	t.Helper()
	var calls []fired
	for _, w := range d.went {
		calls = append(calls, fired{w.at, max(1, w.by.cost), w.by.keys})
	}
	if broken := judge(k, calls); broken != "" {
		t.Fatalf("%v broken: %s", k.Policy, broken)
	}
}

// count counts the calls from one instant to another, of chosen callers.
func (d *drive) count(from, to time.Duration, chosen func(*caller) bool) int {
	n := 0
	for i := range d.went {
		if w := &d.went[i]; Since(w.at) >= from && Since(w.at) < to && chosen(w.by) {
			n++
		}
	}
	return n
}

// atOnce returns the most calls that ran at once, and the time for which all of them ran, until then.
func (d *drive) atOnce(to time.Duration) (most int, total time.Duration) {
	type turn struct {
		at   store.Instant
		more int
	}
	var turns []turn
	for i := range d.went {
		w := &d.went[i]
		turns = append(turns, turn{w.at, 1}, turn{w.over, -1})
		total += max(0, min(to, Since(w.over))-Since(w.at))
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.more, b.more)) })
	n := 0
	for _, x := range turns {
		n += x.more
		most = max(most, n)
	}
	return most, total
}

// group returns callers that are alike.
func group(n int, c caller) []*caller {
	all := make([]*caller, n)
	for i := range all {
		one := c
		all[i] = &one
	}
	return all
}

// regular returns callers of one call each, at equal distances.
func regular(c caller, every, to time.Duration) []*caller {
	var all []*caller
	for at := c.from; at < to; at += every {
		one := c
		one.from, one.to, one.calls = at, to, 1
		all = append(all, &one)
	}
	return all
}

func anybody(*caller) bool { return true }

// near checks that a number is near another, within a part of it.
func near(t testing.TB, what string, got int, want, part float64) {
	t.Helper()
	if f := float64(got); f < want*(1-part) || f > want*(1+part) {
		t.Fatalf("%s: %d, want %.0f, give or take %.0f %%", what, got, want, 100*part)
	}
}
