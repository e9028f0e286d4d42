package engine

import "github.com/headway-go/headway/luascripts/numbers"

// Allowance holds what an upstream said of one limit: before until, calls may cost at most low less what is open.
//
// Open is the cost of calls that were granted and not answered: of those, nobody knows whether what was said counts them. So a low reading
// binds at once, and a higher one only if its call started after the low one came: answers may overtake each other. An answer that
// never comes counts for one to two generations.
//
//	         a reading                  until is past                 an answer
//	nothing ----------> low, until ------------------------> probing ----------> nothing, or low, until
//	said                  |    ^                                |
//	                      +----+ lower readings at once,        +--> one more call each Apart
//	                             higher ones of later calls
//
// Calls that find no room go after until, one each Apart, until one of them is answered: a reset may be wrong, and others may be there first.
//
// If good answers say nothing, refusals teach a pace: how long the calls took that were admitted until there is more. Calls go no faster,
// and this pace grows as in TCP CUBIC until the next refusal.
type Allowance struct {
	until int64 // before it, calls cost at most low − open; 0: nothing is said
	low   int64 // the least that was said to be left and not taken back, and 1 more; 0: nothing was ever said
	at    int64 // when that came

	open, older  int64 // cost of calls with slots in [mark, until) and in [before, mark) that are not answered
	mark, before int64
	ahead, early int64 // cost of calls with slots from until on, and from an until on that was said before
	starved      bool  // a call found no room before until
	reported     bool  // answers to calls are reported

	start int64 // when until last passed
	since int64 // when an answer last came
	width int64 // after until, and at first, so much may be open before an answer, and one call more each Apart; 0: any number

	most int64 // that was said to be left, before the call that was answered; 0: not known, or more was admitted since
	oks  int64 // cost of good answers since start, and since guess.first
	step int64 // the pace that refusals taught: the time that a cost of 1 takes; 0: none
	span int64 // the time over which it doubles
	next int64 // when the next call may go at that pace

	maybe int64 // cost of calls whose answers said nothing, and which low may count already
	said  bool  // good answers say what is left
	dated bool  // readings say when there is more
	own   int64 // whether readings count the call that they answer: countsOwn, skipsOwn or 0: not known
	waits int64 // how often in a row the first call after until was refused

	guess guess
}

// Whether readings count the call that they answer: countsOwn is seen when nothing is left after a good answer.
const (
	countsOwn = 1
	skipsOwn  = 2
)

// A guess is when there is more, if the upstream does not say: after one of the usual periods, by the clock or from the first call on. What
// was right last is tried first.
type guess struct {
	zero          int64 // when nothing was left; 0: something is
	first, recent int64 // when the first call of this window went, and the last
	period, known int64 // the one that is tried, and the one that was right; negative: from the first call on
}

// An Answered is what an answer said of a limit.
type Answered struct {
	Slot    int64 // of the call; 0: not known
	Cost    int64 // that it was charged
	Left    int64 // what is left; −1: it does not say
	Reset   int64 // until there is more; 0: it does not say
	Guessed bool  // Reset is the caller's guess
	Refused bool  // the upstream refused the call because of this limit, or, if nothing is said of what is left, until Reset
	Teaches bool  // the refusal says how fast calls may go: see refuse
	Open    int64 // cost of calls that are on their way and that the account does not know
}

// News is what an answer means for calls that wait.
type News uint8

// What an answer can mean.
const (
	NoNews News = iota
	More        // they may go earlier
	Less        // some slots are not good any more
)

// Earliest implements [Account].
func (a *Allowance) Earliest(l *Limit, now, e, n int64, _ int) Placement {
	s := *a
	s.begin(l, now)
	open := s.opened(now) + s.early
	gate := s.until
	if s.reported {
		gate += (s.ahead + n - 1) / n * numbers.Apart
	}
	if s.step > 0 {
		e = max(e, s.paced(now, open, n))
	}
	switch {
	case s.until == 0 && s.width > 0 && open+n > s.room():
		e = max(e, s.since+(open+2*n-1-s.room())/n*numbers.Apart)
	case s.until == 0 || e < s.until && s.fits(open, n):
	case e < s.until || s.starved || !s.fits(open, n):
		e = max(e, gate)
	}
	return Placement{At: e}
}

// room returns how much may be open if nothing is said: no more than the width, or than ever was left.
func (a *Allowance) room() int64 {
	if a.most > 0 {
		return max(1, min(a.width, a.most-a.oks))
	}
	return a.width
}

// paced returns when the next call may go at the pace that refusals taught.
func (a *Allowance) paced(now, open, n int64) int64 {
	if a.until > 0 && !a.fits(open, n) {
		now = a.until
	}
	return max(now, a.next)
}

// taking returns how long a cost of n takes at that pace. As in TCP CUBIC that shrinks slowly at first, after span to half of what was
// learned, and after two to a ninth.
func (a *Allowance) taking(now, n int64) int64 {
	x := int64(2 * numbers.Thousand)
	if ago := max(0, now-max(a.start, a.until)); ago < 2*a.span {
		x = ago * numbers.Thousand / a.span
	}
	one := max(1, a.step*numbers.Thousand/(numbers.Thousand+x/numbers.Calmly+x*x*x/(numbers.Thousand*numbers.Thousand)))
	return min(n, numbers.Month/one) * one
}

// fits reports whether a call of cost n may go before until.
func (a *Allowance) fits(open, n int64) bool { return open+n < a.low || a.maybe > 0 && open == 0 }

// Commit implements [Account].
func (a *Allowance) Commit(l *Limit, now int64, p Placement, n int64) (Charge, int64) {
	a.begin(l, now)
	open := a.opened(now) + a.early
	if a.since == 0 {
		a.since = now
	}
	if a.step > 0 {
		a.next = a.paced(now, open, n) + a.taking(now, n)
	}
	if a.until > 0 && p.At >= a.until {
		a.starved = a.starved || !a.fits(open, n)
		a.ahead += n
	} else {
		a.open += n
	}
	return Charge{From: p.At, To: n}, numbers.UnboundSlack
}

// opened begins a new generation of open calls, if it is time, and returns the cost of both.
func (a *Allowance) opened(now int64) int64 {
	if now >= a.mark+numbers.Generation {
		if now >= a.mark+2*numbers.Generation {
			a.open = 0
		}
		a.older, a.before, a.open, a.mark = a.open, a.mark, 0, now
	}
	return a.open + a.older
}

// turn passes until. What was ahead is younger than what is open, and outlasts a silence: otherwise a second call would probe.
func (a *Allowance) turn(now int64) {
	if a.Expires() <= now {
		*a = Allowance{} // whether or not it was evicted
	}
	if a.until == 0 || now < a.until {
		return
	}
	if a.width = 0; a.reported { // otherwise nobody would say that the first call was answered
		a.width = max(a.opened(a.until)+1, a.low-1)
	}
	a.older, a.mark, a.open, a.ahead, a.early = a.older+a.open, a.until, a.ahead+a.early, 0, 0
	a.start, a.since, a.until, a.starved, a.maybe, a.oks = a.until, a.until, 0, false, 0, 0
}

// begin is turn for calls and answers: if no policy limits them, they find a width until something was said.
func (a *Allowance) begin(l *Limit, now int64) {
	if a.turn(now); l.Spec.First > 0 && a.width+a.until+a.at+a.start == 0 {
		a.width = l.Spec.First
	}
}

// drop takes a call out of what is open.
func (a *Allowance) drop(now, slot, n int64) {
	switch {
	case a.until > 0 && slot >= a.until && a.ahead > 0:
		a.ahead = max(0, a.ahead-n)
	case slot > now && a.early > 0:
		a.early = max(0, a.early-n)
	case slot >= a.mark: // or it was not known, and taken to be older: see Answered
		young := min(a.open, n)
		a.open, a.older = a.open-young, max(0, a.older-n+young)
	case slot >= a.before:
		a.older = max(0, a.older-n)
	}
}

// Cancel implements [Account].
func (a *Allowance) Cancel(_ *Limit, now int64, c Charge) {
	a.turn(now)
	a.opened(now)
	a.drop(now, c.From, c.To)
	if a.step > 0 && c.From >= now && c.Made >= a.at { // it has its place in the line of now
		a.next = max(0, a.next-a.taking(now, c.To))
	}
}

// Answer applies an answer.
func (a *Allowance) Answer(l *Limit, now int64, r Answered) News {
	a.begin(l, now)
	a.opened(now)
	a.older += r.Open
	open := a.open + a.older + a.early
	left := a.low - 1 - open // as it was believed; it counts while until is to come
	a.reported = a.reported || r.Slot != 0 || r.Cost > 0 && !r.Refused
	if a.since = now; r.Slot == 0 {
		r.Slot = a.blind(now, r.Cost)
	} else {
		a.drop(now, r.Slot, r.Cost)
	}
	old := r.Slot < a.start
	if !r.Refused && !old {
		a.went(r.Slot, r.Cost)
	}
	switch {
	case r.Refused && (r.Left == 0 && r.Teaches && !a.said || r.Left < 0 && (r.Reset > 0 || r.Guessed)):
		return a.refuse(now, r, left)
	case r.Left >= 0:
		return a.counted(now, r, left, open)
	case old:
		return a.outdated(r, left)
	case r.Refused: // because of another limit, or alone
		return a.news(left, false)
	}
	return a.silent(l, now, r, left, open)
}

// stated returns how long it takes until there is more, as far as that is known.
func (a *Allowance) stated(now int64, r Answered) int64 {
	switch {
	case r.Reset > 0:
		a.dated = a.dated || !r.Guessed
		return r.Reset
	case a.dated || r.Left > 0:
		return numbers.Second // a reset of 0 is one of less than that; what is left is asked for again
	}
	return a.guess.next(now, a.start)
}

// counted applies an answer that says what is left.
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

// blind takes a call out of what is open of which only the cost is known, and returns what slot it is taken to have: one before the least
// that was said, so that nothing is given back. What is reported without a call is new.
func (a *Allowance) blind(now, n int64) int64 {
	if n == 0 {
		return now
	}
	older := min(a.older, n)
	a.older, a.open = a.older-older, max(0, a.open-n+older)
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

// refuse applies a refusal that says no more, or all that is said: nothing is left, for as long as it asks at least. If good answers do not
// say what is left, it teaches a pace: so long the calls that were admitted will have taken.
func (a *Allowance) refuse(now int64, r Answered, left int64) News {
	if r.Reset = a.stated(now, r); a.over(r) {
		return a.outdated(r, left)
	}
	until := now + r.Reset
	if a.oks > 0 && r.Teaches && !a.said && (a.step == 0 || a.until == 0 || a.oks >= numbers.Lesson) { // of a burst with few before it, one
		took, of := min(numbers.Month, max(numbers.Second, until-a.guess.first)), int64(numbers.Lesson)
		if a.step > 0 {
			of = min(of, a.oks) // few calls tell little
		}
		a.step = (a.step*(numbers.Lesson-of) + took/a.oks*of) / numbers.Lesson
		a.span = min(numbers.Month, max(min(took, numbers.TenMinutes), numbers.Calms*a.step))
	}
	if a.low == 1 {
		until = max(until, a.until)
	}
	a.starved = true
	a.set(now, 0, until, false, 0)
	return Less
}

// set sets what is left until an instant; it was believed to be left.
func (a *Allowance) set(now, n, until int64, gated bool, left int64) News {
	a.low, a.at, a.width, a.maybe = n+1, now, 0, 0
	later := a.until > 0 && until > a.until && a.ahead > 0 // then some slots are too early
	if later {
		a.early, a.ahead = a.early+a.ahead, 0
	}
	spent := n <= a.open+a.older+a.early && (later || a.until == 0) // calls may hold slots before until
	if a.until = until; spent {
		return Less
	}
	return a.news(left, gated)
}

// outdated applies an answer that says nothing of this window. No other call goes in place of the one that was answered.
func (a *Allowance) outdated(r Answered, left int64) News {
	if a.until == 0 && a.width > 0 {
		a.width = max(1, a.low-1, a.width-r.Cost)
	}
	return a.news(left, false)
}

// news returns what became of what was believed to be left.
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

// silent applies a good answer that says nothing of what is left; so much was open. A width that holds calls back grows with each, as in
// the slow start of TCP: a reading will come, or a refusal.
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

// opens lets more calls go after a good answer to one, if nothing is said and so much was open.
func (a *Allowance) opens(l *Limit, now, n, open int64) News {
	if a.oks > a.most {
		a.most = 0 // there is more than ever was said
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

// corrected returns what is left, for upstreams that say what was left before the call: that is seen when a call that was alone is refused
// although there should have been one.
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

// patient returns until when n are left. If others were there first after until, it waits until there is more: for 2, 4 to 16 resets.
func (a *Allowance) patient(r Answered, n int64) int64 {
	switch {
	case a.until > 0 || a.width == 0 || r.Slot < a.start:
	case r.Refused && a.oks == 0:
		a.waits = min(5, a.waits+1)
	case n > 1:
		a.waits = max(0, a.waits-1)
	}
	if n == 0 && a.waits > 1 {
		r.Reset <<= a.waits - 1
	}
	return a.since + r.Reset
}

// went notes a good answer to a call with a slot, of cost n.
func (a *Allowance) went(slot, n int64) {
	g := &a.guess
	if a.oks == 0 || slot-g.recent > max(numbers.Generation, 8*a.step) {
		g.first, a.oks = slot, 0
		if g.zero > 0 && g.zero < a.start {
			if g.period != 0 {
				g.known = g.period
			}
			g.zero, g.period = 0, 0
		}
	}
	a.oks, g.recent = a.oks+n, max(g.recent, slot)
}

// next returns how long to wait if nobody says when there is more: the shortest of the usual periods, and at least an eighth of what was
// waited already since nothing was left in the window that began at start, or in one before it that a call has tried since.
func (g *guess) next(now, start int64) int64 {
	if start <= g.zero || g.zero == 0 {
		if g.zero = now; g.known != 0 {
			if t := g.ends(g.known) - now; t > 0 {
				return t
			}
		}
	}
	best := int64(numbers.LongestGuess)
	g.period = 0
	for _, p := range [...]int64{numbers.Second, numbers.TenSeconds, numbers.Minute, numbers.TenMinutes, numbers.Hour, numbers.Day} {
		for _, signed := range [...]int64{p, -p} {
			if t := g.ends(signed) - now; t > 0 && t >= (now-g.zero)/8 && t < best {
				best, g.period = t, signed
			}
		}
	}
	return best
}

// ends returns when a window of a period ends in which nothing is left.
func (g *guess) ends(period int64) int64 {
	if period < 0 {
		return g.first - period
	}
	return g.zero - g.zero%period + period
}

// Paused returns until when nothing is left; 0 if something is.
func (a *Allowance) Paused() int64 {
	if a.low == 1 {
		return a.until
	}
	return 0
}

// Resume forgets what was said, and not what is open.
func (a *Allowance) Resume(now int64) {
	a.turn(now)
	a.open, a.ahead, a.early = a.open+a.ahead+a.early, 0, 0
	a.until, a.low, a.at, a.width, a.maybe, a.starved, a.waits = 0, 0, 0, 0, 0, false, 0
	a.step, a.next = 0, 0
}

// Reset implements [Account].
func (a *Allowance) Reset(int64) { *a = Allowance{} }

// Settle implements [Account]: readings tell what a call cost.
func (a *Allowance) Settle(*Limit, int64, Charge, int64, int64) {}

// Slow implements [Account].
func (a *Allowance) Slow(*Limit, int64, int64) bool { return false }

// Stray implements [Account].
func (a *Allowance) Stray(*Limit, int64, int64, Stray) (alone, slower bool) { return false, false }

// Learn implements [Account].
func (a *Allowance) Learn(*Limit, int64, int64, int64) bool { return false }

// Claim implements [Account]: what is open is not restored, as its answers say what is left.
func (a *Allowance) Claim(*Limit, int64, Charge) bool { return false }

// Renew implements [Account].
func (a *Allowance) Renew(*Limit, int64, int64, int64) {}

// Release implements [Account].
func (a *Allowance) Release(int64) bool { return false }

// Expires implements [Account]. What was said is over by then, and what is known of how the upstream speaks is learned again.
func (a *Allowance) Expires() int64 {
	if *a == (Allowance{}) {
		return 0
	}
	return max(a.until, a.since, a.mark, a.next) + numbers.AllowanceLives
}

// Remembers implements [Account].
func (a *Allowance) Remembers() int64 { return 0 }

// Inspect implements [Account].
func (a *Allowance) Inspect(l *Limit, now int64) Inspection {
	s := *a
	s.turn(now)
	in := Inspection{Remaining: l.Spec.Limit, Next: s.Earliest(l, now, now, 1, 0).At, Backlog: s.ahead + s.early, Pace: max(0, s.low-1), Full: max(now, s.until)}
	if s.until > 0 {
		in.Remaining = max(0, s.low-1-s.opened(now)-s.early)
		in.Paused = s.Paused()
	}
	return in
}
