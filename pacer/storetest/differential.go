package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/headway-go/headway/pacer/store"
)

// Differential drives two stores with the same random histories, and fails at the first reply that differs.
// The seed makes it repeatable: a failure names the seed of its history.
func Differential(t testing.TB, a, b Fixture, histories int, plan Plan, seed uint64) {
	t.Helper()
	replies := 0
	for i := range histories {
		one := NewSession(t, a)
		two := NewSession(t, b)
		two.upstream = one.upstream
		n, diff := differ(one, two, plan, seed+uint64(i))
		if diff != "" {
			t.Fatalf("the rule: every store answers alike, to the microsecond.\nhistory with seed %d, %+v:\n%s", seed+uint64(i), plan, diff)
		}
		replies += n
	}
	t.Logf("%d histories, %d replies compared", histories, replies)
}

func differ(one, two *Session, plan Plan, seed uint64) (replies int, diff string) {
	h := newHistory(seed, plan)
	var holds []held
	asked := make(map[int64]bool)
	for i := range plan.Ops {
		o := h.next(one, holds)
		one.Set(one.now + o.step)
		two.Set(one.now)
		keys := h.stackKeys(o.set)
		st, on := one.Stack(keys...), two.Stack(keys...)
		var a, b string
		switch {
		case o.asks != nil:
			x, y := h.batches(one, o.asks), h.batches(two, o.asks)
			before := one.state(plan)
			one.AskEach(x)
			if plan.Refusals && !leavesTrace(x, asked) {
				if after := one.state(plan); after != before {
					return replies, fmt.Sprintf("operation %d at %v on %v: %+v\n  was refused, and changed %s\n  to %s", i, Since(one.now), keys, o, before, after)
				}
				continue
			}
			two.AskEach(y)
			for i := range x {
				for j := range x[i].Grants {
					level(&x[i].Grants[j], &y[i].Grants[j])
				}
				a, b = a+fmt.Sprintln(x[i].Grants), b+fmt.Sprintln(y[i].Grants)
				holds = h.heed(&o.asks[i], x[i].Stack, x[i].Calls, x[i].Grants, holds)
			}
		case o.cancel != nil:
			for _, batches := range cancelled(holds, o.cancel) {
				one.CancelEach(batches)
				for i := range batches {
					batches[i].Stack.Upstream = two.upstream
				}
				two.CancelEach(batches)
			}
		case o.pause > 0:
			one.Pause(st, o.pause)
			two.Pause(on, o.pause)
		case o.about.ID != 0:
			reported := o.reported(&st)
			a, b = fmt.Sprint(one.Report(st, reported...)), fmt.Sprint(two.Report(on, reported...))
		case o.notes != nil:
			h.settle(o.notes, holds, &st)
			a, b = fmt.Sprint(one.Report(st, o.notes...)), fmt.Sprint(two.Report(on, o.notes...))
		default:
			a, b = fmt.Sprint(one.Status(st)), fmt.Sprint(two.Status(on))
		}
		replies++
		if plan.Queues { // what is wrong in a queue shows late otherwise
			a, b = a+fmt.Sprint(one.Status(st)), b+fmt.Sprint(two.Status(on))
		}
		if a != b {
			return replies, fmt.Sprintf("operation %d at %v on %v: %+v\n  first:  %s\n  second: %s", i, Since(one.now), keys, o, a, b)
		}
	}
	return replies, ""
}

// level removes differences between refusals that come only from how far ahead the requests knew calendar windows: some stores send the
// calls of several stacks in one request, others in several. So they may name other choices, too.
func level(a, b *store.Grant) {
	bounded := a.AtLeast && a.At <= b.At || b.AtLeast && b.At <= a.At
	if bounded && !a.OK && !b.OK && a.Queued == b.Queued {
		a.At, a.Binds, a.AtLeast, a.Paused, a.Choice = b.At, b.Binds, b.AtLeast, b.Paused, b.Choice
	}
}

// state returns the store's state, if it is known and to be compared.
func (s *Session) state(plan Plan) string {
	if !plan.Refusals || s.State == nil {
		return ""
	}
	return s.State(s.upstream)
}

// leavesTrace reports whether a call was granted something, or polled before and may have left a queue now.
func leavesTrace(batches []store.Batch, asked map[int64]bool) (trace bool) {
	for _, b := range batches {
		for i, g := range b.Grants {
			id := b.Calls[i].ID
			trace = trace || g.OK || g.Queued || b.Calls[i].Held != nil || id != 0 && asked[id]
			asked[id] = true
		}
	}
	return trace
}

// cancelled returns the grants to give back, in operations that a store can do at once: some twice, on purpose. They are over.
func cancelled(holds []held, which []int) [][]store.Batch {
	var all [][]store.Batch
	for _, j := range which {
		holds[j].over = true
		one, n := store.Batch{Stack: holds[j].stack, Grants: []store.Grant{holds[j].grant}}, len(all)-1
		if n < 0 || slices.ContainsFunc(all[n], func(b store.Batch) bool { return contradict(&b.Stack, &one.Stack) }) {
			all = append(all, []store.Batch{one})
			continue
		}
		last := &all[n][len(all[n])-1]
		if reflect.DeepEqual(last.Stack, one.Stack) {
			last.Grants = append(last.Grants, one.Grants...)
		} else {
			all[n] = append(all[n], one)
		}
	}
	return all
}

// contradict reports whether two stacks have a common limit with different numbers.
func contradict(a, b *store.Stack) bool {
	return slices.ContainsFunc(a.Limits, func(l store.Limit) bool {
		return slices.ContainsFunc(b.Limits, func(m store.Limit) bool {
			return l.Policy == m.Policy && l.Scope == m.Scope && !reflect.DeepEqual(l.Spec, m.Spec)
		})
	})
}

// batches prepares requests of several stacks for a store.
func (h *history) batches(s *Session, asks []requested) []store.Batch {
	batches := make([]store.Batch, len(asks))
	for i, a := range asks {
		batches[i].Stack, batches[i].Calls = s.Stack(h.stackKeys(a.set)...), a.calls
	}
	return batches
}
