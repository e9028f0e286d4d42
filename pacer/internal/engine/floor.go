package engine

import "github.com/headway-go/headway/pacer/internal/numbers"

// A fixed or calendar window may keep parts for parties. Each part is an account of what its party spends, and comes after the window in the
// stack of every call: the window has what all have spent. A call that is of another party leaves what is kept:
//
//	left of the window - cost of the call >= sum of all shares
//	share = min(floor - spent by the party, floor * the rest of the window / a quarter of it), at least 0
//
// or the call costs no more than what is kept for its own party. So nothing is lost if a party does not come, and what is let go in the
// last quarter can still be used. The kept part shrinks with time. So if a call must leave too much at one instant, the first at which it
// need not is found by halving.

// isPart reports whether an entry is what a window keeps for a party.
func isPart(stack []Entry, i int) bool { return i < len(stack) && stack[i].Limit.Spec.Floor > 0 }

// place is Earliest of an entry, as part of its stack.
func place(stack []Entry, i int, now, at int64, c *Call, round int) Placement {
	e := &stack[i]
	if e.Limit.Spec.Floor > 0 {
		return Placement{At: at, begin: e.Limit.floor(at)}
	}
	p := e.earliest(now, at, c.cost(i), round)
	if !isPart(stack, i+1) {
		return p
	}
	w := e.Account.(*Window) //nolint:forcetypeassert // only windows keep parts
	l := w.widened(&e.Limit, now)
	for p.begin < l.horizon() {
		ends := l.next(p.begin) - l.Spec.Guard - 1 // when it may start at the latest
		spare := max(0, w.limit(l, now)-w.count(p.begin)-c.cost(i))
		if at, ok := leaves(stack, i+1, c, p.begin, p.At, ends, spare); ok {
			p.At = at
			return p
		}
		next := l.next(p.begin)
		p = e.earliest(now, next, c.cost(i), round)
	}
	return p
}

// leaves returns the first instant of a window that begins then, from one on and up to ends, at which a call leaves what the parts from an entry
// on keep, if it leaves so much.
func leaves(stack []Entry, first int, c *Call, begin, from, ends, spare int64) (at int64, ok bool) {
	kept := func(t int64) (others, own int64) {
		for i := first; isPart(stack, i); i++ {
			n := stack[i].kept(begin, t, ends)
			if c.Kept>>i&1 == 1 {
				others += n
			} else {
				own = n
			}
		}
		return others, own
	}
	others, own := kept(from)
	if spare >= others || c.cost(first-1) <= own {
		return from, true
	}
	if others, _ = kept(ends); spare < others {
		return 0, false
	}
	for low, high := from, ends; ; { // too much is kept at low, and not at high
		mid := low + (high-low)/2
		if mid == low {
			return high, true
		}
		if others, _ = kept(mid); spare < others {
			low = mid
		} else {
			high = mid
		}
	}
}

// kept returns what a part keeps at t, in the window that begins then and in which no call starts after ends.
func (e *Entry) kept(begin, t, ends int64) int64 {
	w := e.Account.(*Window) //nolint:forcetypeassert // a part of one
	floor := e.Limit.Spec.Floor
	most := floor - w.count(begin)
	if last := (ends - begin + 1) / numbers.LetGo; ends-t < last {
		most = min(most, int64(float64(floor)*(float64(ends-t)/float64(last))))
	}
	return max(0, most)
}
