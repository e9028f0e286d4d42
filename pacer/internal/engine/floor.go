package engine

import (
	"math"

	"github.com/headway-go/headway/pacer/internal/numbers"
)

// A fixed or calendar window may keep parts for parties. Each part is an account of its party's calls, and follows the window in the stack of
// every call: the window counts the calls of all. Calls in no party are one, whose floor is what no part keeps. A call leaves what is kept for
// other parties:
//
//	left of the window - cost of the call >= sum of all shares
//	share = min(floor - spent by the party, floor * the rest of the window / a quarter of it, floor * 2^(3 - idle)), at least 0
//	idle = whole windows in which others called and the party did not
//
// or the call costs no more than its own party's share. So nothing is lost if a party does not come, and what is let go in the last quarter
// can still be used. A part that halves with each idle window is never less than a 32nd: a party that comes back must find something, because
// a refusal writes nothing.
//
// A window may have a pace, too: what is beyond the parts is spread over the time that is left, and calls may be so much ahead of that.
//
//	pace = (left + ahead - sum of the shares of parts) / time left
//	ahead = what was spent beyond the parts - line, at least 0
//
// The line goes on at the pace, up to the charges beyond the parts: an unused rest is spread anew. It is kept in thousandths, as of the last
// paced call. So settlements, refunds and claims count at once, and no earlier pace outlives its cause.
//
// A sliding window keeps no floor free, because it refills all the time. All its calls move its front on, and a call beyond the floor of its
// party does not start before the front, except for what may be ahead of it. It leaves as much free, and the front's pace does, too: a call
// within its party's floor finds room, even if it costs more than others.
//
// The kept part shrinks with time, and the line goes on. So if a call must wait within a window, bisection finds the first instant at which it
// need not.

// isPart reports whether an entry is what a window keeps for a party.
func isPart(stack []Entry, i int) bool { return i < len(stack) && stack[i].Limit.Spec.Floor > 0 }

// place is Earliest of an entry, as part of its stack.
func place(stack []Entry, i int, now, at int64, c *Call, round int) Placement {
	e := &stack[i]
	if e.Limit.Spec.Floor > 0 {
		return Placement{At: at, begin: e.Limit.floor(at)}
	}
	p := e.earliest(now, at, c.cost(i), round)
	if e.Limit.Spec.Ahead == 0 && !isPart(stack, i+1) {
		return p
	}
	w := e.Account.(*Window) //nolint:forcetypeassert // only windows have a pace or parts
	if e.Limit.Spec.Buckets > 0 {
		if within(stack, i, now, p.begin, c) {
			return p
		}
		return e.earliest(now, max(at, w.since-e.Limit.pace(e.Limit.Spec.Ahead)), c.cost(i)+e.Limit.Spec.Ahead, round)
	}
	l := w.widened(&e.Limit, now)
	for p.begin < l.horizon() {
		s := sharing{stack: stack, whole: i, call: c, now: now, begin: p.begin, ends: l.next(p.begin) - l.Spec.Guard - 1}
		s.spare = max(0, w.limit(l, now)-w.count(p.begin)-c.cost(i))
		s.open(w)
		if at, ok := s.first(p.At); ok {
			p.At, p.takes = at, none
			if s.paced && p.begin <= now {
				p.takes = s.line(now)
			}
			return p
		}
		p = e.earliest(now, l.next(p.begin), c.cost(i), round)
	}
	return p
}

// pace returns in how much time the front of a sliding window moves on by n. A call counts for a period and a bucket.
func (l *Limit) pace(n int64) int64 {
	return int64(float64(n) * (float64((l.Spec.Buckets+1)*l.Spec.Interval) / float64(max(1, l.Spec.Limit-l.Spec.Ahead))))
}

// within reports whether the floor of the call's party has room for the call in this bucket of a sliding window. That of calls in no party is
// so much less than what no part keeps that all floors together leave room.
func within(stack []Entry, whole int, now, begin int64, c *Call) bool {
	spent := func(i int) int64 {
		w := stack[i].Account.(*Window) //nolint:forcetypeassert // a window, or a part of one
		return w.ending(w.widened(&stack[i].Limit, now), begin).n
	}
	spec := stack[whole].Limit.Spec
	floor, had := spec.Limit-2*spec.Ahead, c.cost(whole)+spent(whole)
	for i := whole + 1; isPart(stack, i); i++ {
		if c.Kept>>i&1 == 0 {
			return spent(i)+c.cost(whole) <= stack[i].Limit.Spec.Floor
		}
		floor, had = floor-stack[i].Limit.Spec.Floor, had-spent(i)
	}
	return had <= floor
}

// inNone reports whether a call is in none of the parties of a window.
func inNone(stack []Entry, whole int, c *Call) bool {
	for i := whole + 1; isPart(stack, i); i++ {
		if c.Kept>>i&1 == 0 {
			return false
		}
	}
	return true
}

// Inspect inspects an entry of a stack, as a call in no party finds it.
func Inspect(stack []Entry, i int, now int64) Inspection {
	in := stack[i].Account.Inspect(&stack[i].Limit, now)
	if _, ok := stack[i].Account.(*Window); ok && stack[i].Limit.Spec.Floor == 0 {
		in.Next = place(stack, i, now, now, &Call{Cost: 1, Kept: math.MaxUint64}, 0).At
	}
	return in
}

// A sharing is one window that parties share, as a call finds it.
type sharing struct {
	stack []Entry
	whole int // the window's entry; what it keeps comes after it
	call  *Call
	now   int64

	begin, ends  int64 // the window, and when a call of it may start at the latest
	spare        int64 // what the call leaves of it
	paced        bool  // the pace holds for the call
	beyond, from int64 // the charges beyond the parts, and the line, in thousandths
	since        int64
	floor, spent int64 // of the calls in no party
}

// open reads the charges.
func (s *sharing) open(w *Window) {
	s.paced = s.stack[s.whole].Limit.Spec.Ahead > 0
	s.floor, s.spent, s.since = s.stack[s.whole].Limit.Spec.Limit, w.count(s.begin), s.begin
	s.beyond = s.spent
	for i := s.whole + 1; isPart(s.stack, i); i++ {
		spent, floor := s.stack[i].Account.(*Window).count(s.begin), s.stack[i].Limit.Spec.Floor //nolint:forcetypeassert // a part of one
		s.floor, s.spent, s.beyond = s.floor-floor, s.spent-spent, s.beyond-min(spent, floor)
		if s.call.Kept>>i&1 == 0 && spent+s.call.cost(s.whole) <= floor {
			s.paced = false
		}
	}
	s.beyond = max(0, s.beyond) * numbers.LineUnit
	if w.since >= s.begin {
		s.from, s.since = min(w.line, s.beyond), w.since
	}
}

// first returns the first instant from one on at which the call may go, if there is one in the window.
func (s *sharing) first(from int64) (at int64, ok bool) {
	if parts, rest, own := s.kept(from); s.fits(from, parts, rest) || !s.paced && s.call.cost(s.whole) <= own {
		return from, true
	}
	if !s.free(s.ends) {
		return 0, false
	}
	low, high := from, s.ends
	for mid := low + (high-low)/2; mid > low; mid = low + (high-low)/2 {
		if s.free(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high, true
}

// free reports whether a call may start at t, and fits does if it is known what is kept for others then: the call leaves that, and is not too
// far ahead of the pace.
func (s *sharing) free(t int64) bool {
	parts, rest, _ := s.kept(t)
	return s.fits(t, parts, rest)
}

func (s *sharing) fits(t, parts, rest int64) bool {
	ahead := s.beyond - s.from - s.stack[s.whole].Limit.Spec.Ahead*numbers.LineUnit
	return s.spare >= parts+rest && (!s.paced || ahead <= 0 || float64(ahead) <= s.passed(t, parts))
}

// line returns the line at t.
func (s *sharing) line(t int64) int64 {
	parts, _, _ := s.kept(t)
	return int64(min(float64(s.beyond), float64(s.from)+s.passed(t, parts)))
}

// passed returns how far the line comes until t, if parts keep so much for others.
func (s *sharing) passed(t, parts int64) float64 {
	left := max(0, s.spare+s.call.cost(s.whole)-parts)*numbers.LineUnit + s.beyond - s.from
	return float64(float64(left) * (float64(max(0, t-s.since)) / float64(max(1, s.ends-s.since)))) // rounded, as in the scripts
}

// kept returns what is kept at t for others, by parts and for calls in no party, and for the party of the call.
func (s *sharing) kept(t int64) (parts, rest, own int64) {
	inNone := true
	for i := s.whole + 1; isPart(s.stack, i); i++ {
		n := s.share(i, t, s.stack[i].Limit.Spec.Floor, s.stack[i].Account.(*Window).count(s.begin)) //nolint:forcetypeassert // a part of one
		if s.call.Kept>>i&1 == 1 {
			parts += n
		} else {
			own, inNone = n, false
		}
	}
	if rest = s.share(s.whole, t, s.floor, s.spent); inNone {
		return parts, 0, rest
	}
	return parts, rest, own
}

// share returns what is kept at t for a party, whose calls the account of an entry notes.
func (s *sharing) share(i int, t, floor, spent int64) int64 {
	n := min(floor-spent, floor>>s.stack[i].Account.(*Window).halvings(&s.stack[i].Limit, s.now, s.begin)) //nolint:forcetypeassert // a window
	if last := (s.ends - s.begin + 1) / numbers.LetGo; s.ends-t < last {
		n = min(n, int64(float64(floor)*(float64(s.ends-t)/float64(last))))
	}
	return max(0, n)
}

// halvings returns how many times a part is halved in the window that begins then, because its party did not call in those before.
func (w *Window) halvings(l *Limit, now, begin int64) int64 {
	if now >= w.noted {
		return 0
	}
	idle := max(0, begin-w.quiet+l.Spec.Interval/2) / l.Spec.Interval // of a calendar, windows differ a little
	return min(max(0, idle-numbers.IdleWindows), numbers.IdleHalvings)
}

// charge charges a call to entry i of its stack. Parts kept for others cost it nothing.
func charge(stack []Entry, i int, now int64, p Placement, c *Call) (Charge, int64) {
	e, part := &stack[i], isPart(stack, i)
	kept := part && c.Kept>>i&1 == 1
	if e.Limit.Spec.Buckets == 0 && (part || isPart(stack, i+1)) {
		e.Account.(*Window).note(&e.Limit, now, p.begin, !kept && (part || inNone(stack, i, c))) //nolint:forcetypeassert // a window
	}
	if kept {
		return Charge{}, math.MaxInt64
	}
	return e.commit(now, p, c.cost(i))
}

// note notes that a call goes in a window, of the party whose calls the account notes or of another one.
func (w *Window) note(l *Limit, now, begin int64, own bool) {
	if own || now >= w.noted {
		w.quiet = max(w.quiet, l.next(begin))
	}
	w.noted = max(w.noted, begin+(numbers.IdleWindows+numbers.IdleHalvings)*l.Spec.Interval)
}
