package storetest

import (
	"fmt"
	"slices"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// flights is an upstream that counts the calls which run at once, by policy and scope.
type flights map[[2]string]map[int64]flight

// A flight is a call that runs: until then, if nothing more is reported of it.
type flight struct{ began, until store.Instant }

// each visits the limits of a stack that count calls.
func (f flights) each(st *store.Stack, visit func(i int, running map[int64]flight)) {
	for i := range st.Limits {
		l := &st.Limits[i]
		if l.Spec.Algorithm != specs.Concurrency {
			continue
		}
		key := [2]string{l.Policy, l.Scope}
		if f[key] == nil {
			f[key] = make(map[int64]flight)
		}
		visit(i, f[key])
	}
}

// begin counts a call that was granted, and returns what that breaks.
func (f flights) begin(st *store.Stack, c *store.Call, g *store.Grant) (broken string) {
	f.each(st, func(i int, running map[int64]flight) {
		if g.Charges[i].To == 0 { // it has no permit yet
			return
		}
		spec, n := &st.Limits[i].Spec, int64(1)
		for id, one := range running {
			if id != c.ID && one.until > g.Now && (spec.After == 0 || one.began <= g.Now-store.Instant(spec.After)) {
				n++
			}
		}
		if n > spec.Limit {
			broken = fmt.Sprintf("%d calls of %s run at %v, want at most %d", n, st.Limits[i].Policy, Since(g.Now), spec.Limit)
		}
		running[c.ID] = flight{g.At, g.Now + store.Instant(spec.Interval)}
	})
	return broken
}

// renew notes that a call runs, and reports whether it does so on all its permits.
func (f flights) renew(st *store.Stack, id int64, now store.Instant) bool {
	runs := true
	f.each(st, func(_ int, running map[int64]flight) { runs = runs && running[id].until > now })
	if runs {
		f.each(st, func(i int, running map[int64]flight) {
			running[id] = flight{running[id].began, now + store.Instant(st.Limits[i].Spec.Interval)}
		})
	}
	return runs
}

// end notes that a call is over.
func (f flights) end(st *store.Stack, id int64) {
	f.each(st, func(_ int, running map[int64]flight) { delete(running, id) })
}

// charged returns the keys of a call that were charged for it: what a lane is lent is charged to the rate alone.
func charged(keys []Key, charges []store.Charge) []Key {
	var all []Key
	for i, k := range keys {
		if !k.Left && (k.Policy.Spec().Queue != specs.QueueOfLane || charges[i] != (store.Charge{})) {
			all = append(all, k)
		}
	}
	return all
}

// watch looks at the limits of a call that is reserved by itself and has nothing to give back. Afterwards, unchanged returns what is
// different, if the call was not granted.
func (s *Session) watch(batches []store.Batch) (unchanged func() string) {
	s.t.Helper()
	if len(batches) != 1 || len(batches[0].Calls) != 1 || batches[0].Calls[0].ID == 0 || batches[0].Calls[0].Held != nil {
		return func() string { return "" }
	}
	look := func() []store.LimitStatus {
		limits := slices.Clone(s.Status(batches[0].Stack).Limits)
		for i := range limits {
			limits[i].Queued = 0
			if batches[0].Stack.Limits[i].Spec.Algorithm == specs.Concurrency {
				limits[i].Next = 0 // depends on the queue
			}
		}
		return limits
	}
	before := look()
	return func() string {
		if after := look(); !batches[0].Grants[0].OK && !slices.Equal(before, after) {
			return fmt.Sprintf("%+v was %+v", after, before)
		}
		return ""
	}
}
