package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// A queuedCall is a call that was queued.
type queuedCall struct {
	set  int
	call store.Call
	at   store.Instant // when it must poll
}

// makeQueues adds limits with a queue, and makes sets of all.
func (h *history) makeQueues() {
	var plain, queues [][]int // a lane's part comes right after its rate
	for i := range h.keys {
		plain = append(plain, []int{i})
	}
	for range 1 + h.rng.IntN(3) {
		i := len(h.keys)
		scope := ""
		if h.rng.IntN(4) == 0 {
			scope = string(rune('a' + h.rng.IntN(2)))
		}
		k := Key{Policy: h.queuePolicy(i, h.rng.IntN(3)), Scope: scope}
		h.keys = append(h.keys, k)
		if part, ok := k.Policy.InLane("lane"); ok {
			h.keys = append(h.keys, Key{Policy: part, Scope: scope})
			plain, queues = append(plain, []int{i}), append(queues, []int{i, i + 1})
		} else {
			queues = append(queues, []int{i})
		}
	}
	h.sets = nil
	for range 2 + h.rng.IntN(4) {
		units := slices.Clone(plain)
		if h.rng.IntN(2) == 0 {
			units = slices.Concat(queues, plain)
		}
		h.rng.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
		units = units[:h.rng.IntN(min(3, len(units)+1))]
		if h.rng.IntN(5) > 0 {
			units = slices.Insert(units, h.rng.IntN(len(units)+1), queues[h.rng.IntN(len(queues))])
		}
		// The part of a lane first, so that its rate is not there without it.
		slices.SortStableFunc(units, func(a, b []int) int { return len(b) - len(a) })
		var set []int
		for _, u := range units {
			if !slices.Contains(set, u[0]) {
				set = slices.Insert(set, 0, u...)
			}
		}
		h.sets = append(h.sets, set)
	}
}

// queuePolicy makes a random policy with a queue, of one of three kinds.
func (h *history) queuePolicy(i, kind int) policies.Policy {
	name := fmt.Sprintf("p%d", i)
	if kind == 0 {
		p := policies.InFlight(1 + h.rng.Int64N(3)).Lease(time.Second + time.Duration(h.rng.Int64N(int64(2*time.Second)))).Named(name)
		if h.rng.IntN(4) == 0 {
			p = p.LongerThan(time.Duration(h.rng.Int64N(int64(2 * time.Second))))
		}
		if h.rng.IntN(4) == 0 {
			p = p.Fair("tenant")
		}
		return p
	}
	limit, period := 2+h.rng.Int64N(7), time.Duration(20+h.rng.Int64N(400))*ms
	if h.rng.IntN(3) == 0 {
		period += time.Duration(h.rng.Int64N(1000)) * time.Microsecond
	}
	p := policies.Rate(limit, period)
	if kind == 1 {
		least := 100/limit + 1 // in a period: one call of them is the lane's
		return p.Burst(2+h.rng.Int64N(5)).Lane("lane", least+h.rng.Int64N(100-least)).Named(name)
	}
	return p.Burst(1 + h.rng.Int64N(5)).Fair("tenant").Named(name)
}

// changeQueued changes the numbers of a policy with a queue, or with a lane.
func (h *history) changeQueued(i int) {
	old := h.keys[i].Policy
	switch part, lane := old.InLane("lane"); {
	case lane:
		p := h.queuePolicy(i, 1)
		h.keys[i].Policy = p
		for j := range h.keys {
			if h.keys[j].Policy.Name() == part.Name() {
				h.keys[j].Policy, _ = p.InLane("lane")
			}
		}
	case old.Spec().Algorithm == specs.Concurrency:
		h.keys[i].Policy = h.queuePolicy(i, 0)
	case old.Spec().Queue == specs.FairQueue:
		h.keys[i].Policy = h.queuePolicy(i, 2)
	}
}

// newQueued gives a call what it needs to queue.
func (h *history) newQueued(c *store.Call, now store.Instant) {
	c.ID = firstID + h.rng.Int64N(9*firstID)
	c.Flow, c.Weight = 1+h.rng.Int64N(3), 1+h.rng.Int64N(3)
	if h.rng.IntN(4) == 0 {
		c.Reach = time.Duration(h.rng.Int64N(int64(200 * time.Millisecond)))
	}
	c.Since = 0
	if h.rng.IntN(10) == 0 { // one that was here before
		c.Since = now - store.Instant(h.rng.Int64N(2_000_000))
	}
}

// askQueued lets a call poll that is queued, or has a slot without its permits. There is none if ok is false.
func (h *history) askQueued(o *op, now store.Instant, holds []held) (ok bool) {
	if n := len(h.queue); n > 0 && h.rng.IntN(3) > 0 {
		i := h.rng.IntN(n)
		w := h.queue[i]
		h.queue = slices.Delete(h.queue, i, i+1)
		switch h.rng.IntN(8) {
		case 0: // it never comes
			return false
		case 1, 2: // now, whenever that is
		default:
			if ahead := w.at - now; ahead > 0 && ahead < 4_500_000 {
				o.step = ahead
				if h.rng.IntN(3) == 0 {
					o.step += store.Instant(h.rng.Int64N(3_000))
				}
			}
		}
		if h.rng.IntN(8) == 0 {
			w.call.MaxWait = time.Duration(h.rng.Int64N(int64(100*ms))) * time.Duration(h.rng.IntN(2))
		}
		o.asks = []requested{{set: w.set, calls: []store.Call{w.call}}}
		return h.affords(w.set, &w.call)
	}
	var without []int
	for i := range holds {
		if x := &holds[i]; !x.over && x.call.ID != 0 && x.grant.At > now && !hasPermits(&x.stack, &x.grant) {
			without = append(without, i)
		}
	}
	if len(without) == 0 {
		return false
	}
	i := without[h.rng.IntN(len(without))]
	x := &holds[i]
	if ahead := x.grant.At - now - store.Instant(permitAhead.Microseconds()); ahead > 0 && h.rng.IntN(5) > 0 {
		o.step = ahead
		if h.rng.IntN(3) == 0 {
			o.step += store.Instant(h.rng.Int64N(40_000))
		}
	}
	c := x.call
	c.Held, c.NotBefore = x.grant.Charges, max(0, x.grant.At.Sub(now+o.step))
	o.asks = []requested{{set: x.set, calls: []store.Call{c}, instead: i + 1}}
	return h.affords(x.set, &c)
}

// affords reports whether the limits can ever admit a call with their present numbers.
func (h *history) affords(set int, c *store.Call) bool {
	for i, k := range h.stackKeys(set) {
		if spec := k.Policy.Spec(); spec.Algorithm != specs.Concurrency && c.CostOf(i) > spec.Limit {
			return false
		}
	}
	return true
}

// reportQueued makes random notes about a call: that it runs, that it is over, or that it has left the queue.
func (h *history) reportQueued(o *op, holds []held) (ok bool) {
	if n := len(h.queue); n > 0 && h.rng.IntN(8) == 0 {
		i := h.rng.IntN(n)
		w := h.queue[i]
		h.queue = slices.Delete(h.queue, i, i+1)
		o.set, o.about = w.set, w.call
		return true
	}
	var running []int
	for i := range holds {
		if x := &holds[i]; x.call.ID != 0 && (!x.over || h.rng.IntN(20) == 0) && anyLeases(&x.stack) {
			running = append(running, i)
		}
	}
	if len(running) == 0 {
		return false
	}
	i := running[h.rng.IntN(len(running))]
	x := &holds[i]
	o.set, o.about, o.began = x.set, x.call, x.grant.At
	o.renews = h.rng.IntN(3) == 0
	if !o.renews {
		x.over = true
	}
	return true
}

func anyLeases(st *store.Stack) bool {
	return slices.ContainsFunc(st.Limits, func(l store.Limit) bool { return l.Spec.Algorithm == specs.Concurrency })
}

// reported returns the notes of an operation about a call.
func (o *op) reported(st *store.Stack) []store.Note {
	kind := store.NoteRelease
	if o.renews {
		kind = store.NoteRenew
	}
	return notes(kind, st, &o.about, o.began)
}

// heed remembers the outcome of requests.
func (h *history) heed(a *requested, st store.Stack, calls []store.Call, grants []store.Grant, holds []held) []held {
	if a.instead > 0 {
		holds[a.instead-1].over, holds[a.instead-1].exchanged = true, true
	}
	for j, g := range grants {
		c := calls[j]
		c.Held = nil
		if c.ID != 0 && c.Since == 0 {
			c.Since = g.Now
		}
		switch {
		case g.OK:
			holds = append(holds, held{set: a.set, stack: st, grant: g, call: c})
		case g.Queued:
			c.NotBefore = 0
			h.queue = append(h.queue, queuedCall{a.set, c, g.At})
		}
	}
	return holds
}

// queued makes the choices that only histories with [Plan.Queues] have, and reports whether it made one.
func (h *history) queued(o *op, now store.Instant, holds []held) (done bool) {
	if h.rng.IntN(10) == 0 {
		o.step = store.Instant(h.rng.Int64N(1_500_000))
	}
	made := *o
	switch h.rng.IntN(10) {
	case 0, 1, 2, 3:
		done = h.askQueued(&made, now, holds)
	case 4, 5:
		done = h.reportQueued(&made, holds)
	}
	if done {
		*o = made
	}
	return done
}
