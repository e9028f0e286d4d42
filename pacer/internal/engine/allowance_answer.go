package engine

import "github.com/headway-go/headway/pacer/internal/numbers"

// The upstream's answers and their effect on an allowance.

// An Answered is an answer's statement about a limit.
type Answered struct {
	Slot    int64 // of the call; 0: not known
	Cost    int64 // that it was charged
	Left    int64 // what is left; −1: unknown
	Reset   int64 // until there is more; 0: unknown
	Guessed bool  // Reset is the caller's guess
	Refused bool  // the upstream refused the call because of this limit, or, if Left is unknown, until Reset
	Teaches bool  // the refusal teaches how fast calls may go: see lesson
	Open    int64 // cost of calls that are on their way and that the account does not know
}

// News is what an answer means for calls that wait.
type News uint8

// The possible effects of an answer.
const (
	NoNews News = iota
	More        // they may go earlier
	Less        // some slots are not good any more
)

// Answer applies an answer.
func (a *Allowance) Answer(l *Limit, now int64, r Answered) News {
	a.begin(l, now)
	a.opened(now)
	a.older += r.Open
	open := a.open + a.older + a.early
	left := a.low - 1 - open // by the old belief; it counts while until is in the future
	a.reported = a.reported || r.Slot != 0 || r.Cost > 0 && !r.Refused
	if a.since, a.last = now, 0; r.Slot == 0 {
		r.Slot = a.blind(now, r.Cost)
	} else {
		a.drop(r.Slot, r.Cost, 0)
	}
	old := r.Slot < a.start
	switch {
	case old:
	case !r.Refused:
		a.went(r.Slot, r.Cost)
	case r.Left == 0:
		a.ended(r)
	}
	switch {
	case r.Refused && (r.Left == 0 && r.Teaches && !a.said || r.Left < 0 && (r.Reset > 0 || r.Guessed)):
		return a.refuse(now, r, left)
	case r.Left >= 0:
		return a.counted(now, r, left, open)
	case old:
		return a.outdated(r, left)
	case r.Refused: // because of another limit, or with no other
		return a.news(left, false)
	}
	return a.silent(l, now, r, left, open)
}

// ended notes a reading that refuses a call, and what it shows of this window.
func (a *Allowance) ended(r Answered) {
	a.got, a.floor = a.oks, a.floor || a.dated && r.Reset == 0 && r.Slot < a.start+numbers.Second
}

// stated returns how long it takes until there is more, as far as the answer shows it.
func (a *Allowance) stated(now int64, r Answered) int64 {
	switch {
	case r.Reset > 0:
		if a.dated = a.dated || !r.Guessed; a.floor && !r.Guessed && r.Reset%numbers.Second == 0 {
			r.Reset += numbers.Second
		}
		return r.Reset
	case a.dated || r.Left > 0:
		return numbers.Second // a reset of 0 means less than a second; then a call probes
	}
	return a.guess.next(now, a.start, a.oks >= a.most/4)
}

// counted applies an answer that states the rest.
func (a *Allowance) counted(now int64, r Answered, left, open int64) News {
	if r.Reset = a.stated(now, r); a.over(r) {
		return a.outdated(r, left)
	}
	if !r.Refused {
		a.most = max(a.most, r.Left+r.Cost)
		if !a.said {
			a.said, a.step = true, 0
		}
	}
	n := a.corrected(r, a.until > 0 && left >= 0 && open == r.Cost)
	return a.read(now, n, a.patient(r, n), r, left)
}

// blind subtracts a call from the open ones by its cost, the only thing known of it, and returns its assumed slot: one before the least
// stated value, which gives nothing back. A report without a call is new.
func (a *Allowance) blind(now, n int64) int64 {
	if n == 0 {
		return now
	}
	a.dropOlder(n)
	if a.until == 0 {
		return now
	}
	return max(a.start, a.at-1)
}

// read applies that so much is left until an instant.
func (a *Allowance) read(now, n, until int64, r Answered, left int64) News {
	gated := a.width > 0 && a.until == 0
	if a.low > 0 && r.Slot < a.at { // it may have been overtaken
		if n >= a.low {
			return a.news(left, false)
		}
		if r.Refused {
			until = max(until, a.until)
		}
	}
	return a.set(now, n, until, gated, left)
}

// over reports whether an answer is about a window that is over.
func (a *Allowance) over(r Answered) bool {
	ends := r.Slot + r.Reset
	return r.Slot < a.start && (ends <= a.start || r.Reset%numbers.Second == 0 && ends-numbers.Second <= a.start)
}

// refuse applies a refusal that states at most the wait: nothing is left, at least for that wait. If good answers do not state the rest, the
// refusal teaches a pace: the admitted calls have taken so long.
func (a *Allowance) refuse(now int64, r Answered, left int64) News {
	if r.Reset = a.stated(now, r); a.over(r) {
		return a.outdated(r, left)
	}
	until := now + r.Reset
	if r.Teaches && !a.said {
		a.lesson(until)
	}
	if a.low == 1 {
		until = max(until, a.until)
	}
	a.starved = true
	a.set(now, 0, until, false, 0)
	return Less
}

// set sets what is left until an instant, in place of left.
func (a *Allowance) set(now, n, until int64, gated bool, left int64) News {
	a.low, a.at, a.width, a.maybe = n+1, now, 0, 0
	moved := a.until == 0 // calls may hold slots before until
	if a.until > 0 && until > a.until && a.ahead > 0 {
		a.hold(a.until, a.ahead)
		a.ahead, moved = 0, true
	}
	if a.until = until; moved {
		a.moved = now
	}
	if moved && n <= a.open+a.older+a.early {
		return Less
	}
	return a.news(left, gated)
}

// outdated applies an answer that states nothing about this window. No other call goes in place of the one that was answered.
func (a *Allowance) outdated(r Answered, left int64) News {
	if a.until == 0 && a.width > 0 {
		a.width = max(1, a.low-1, a.width-r.Cost)
	}
	return a.news(left, false)
}

// news returns the change that listeners must receive.
func (a *Allowance) news(was int64, gated bool) News {
	left := a.low - 1 - a.open - a.older - a.early
	switch {
	case a.until == 0:
		return NoNews
	case left < 0 && left < was:
		return Less
	case left > 0 && (gated || a.starved):
		a.starved = false
		return More
	}
	return NoNews
}

// silent applies a good answer that does not state what is left. open is what was open then. A width that holds calls back grows with each,
// as in the slow start of TCP: a reading will come, or a refusal.
func (a *Allowance) silent(l *Limit, now int64, r Answered, left, open int64) News {
	if a.until == 0 {
		return a.opens(l, now, r.Cost, open)
	}
	if a.low <= 1 {
		a.maybe = max(0, a.maybe-r.Cost)
	} else if r.Slot < a.at {
		a.maybe += r.Cost
	}
	a.low, a.at = max(1, a.low-r.Cost), now
	if a.maybe > 0 && a.low == 1 && a.open+a.older+a.early == 0 {
		return More
	}
	return a.news(left, false)
}

// opens lets more calls go after a good answer to one, if nothing was stated and so much was open.
func (a *Allowance) opens(l *Limit, now, n, open int64) News {
	if a.oks > a.most {
		a.most = 0 // there is more than was ever stated
	}
	if a.oks > a.got {
		a.got = 0 // or than was admitted last time
	}
	widens := a.said || l.Spec.First > 0 && a.step == 0 // otherwise something else limits calls
	switch {
	case a.width == 0 || widens && open <= a.width:
		return NoNews
	case widens:
		a.width += n
		return More
	}
	a.width = 0
	switch {
	case a.step == 0:
	case a.taking(now, 1) >= numbers.Apart:
		return NoNews
	default:
		a.next, a.at = now, now // all get new slots
	}
	return More
}

// corrected returns what is left, for upstreams that state the rest before the call. A call that is refused with no other open, although one
// should have been left, shows that.
func (a *Allowance) corrected(r Answered, should bool) int64 {
	switch {
	case r.Refused && should && a.own != countsOwn && r.Left == 0:
		a.own = skipsOwn
	case r.Refused:
	case r.Left == 0:
		a.own = countsOwn
	case a.own == skipsOwn:
		return max(0, r.Left-r.Cost)
	}
	return r.Left
}

// patient returns until when n are left. If others came first after until, so that at most one call was admitted, it waits for more: for 2, 4
// to 16 resets, but no more than four times as long as the last time, while a quarter of the highest rest cannot have come back. It doubts a good
// answer's statement by a minute at most, and not if that moved away, as a bucket's full time does with each call. A reset that nothing states
// may be wrong: that needs no patience.
func (a *Allowance) patient(r Answered, n int64) int64 {
	switch {
	case !a.dated || a.until > 0 || a.width == 0 || r.Slot < a.start:
	case r.Refused && a.oks <= r.Cost:
		a.waits = min(5, a.waits+1)
	case n > 1:
		a.waits = max(0, a.waits-1)
	}
	if n == 0 && a.waits > 1 && (r.Refused || r.Reset <= max(a.until, a.start)-a.at) {
		longer := r.Reset * (min(1<<(a.waits-1), max(1, a.most/4)) - 1)
		switch {
		case !r.Refused:
			longer = min(longer, numbers.Minute)
		case a.until > 0:
			longer = min(longer, max(0, a.until-a.at-r.Reset))
		default:
			longer = min(longer, max(0, 4*(a.start-a.at)-r.Reset))
		}
		r.Reset += longer
	}
	return a.since + r.Reset
}
