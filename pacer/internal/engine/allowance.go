package engine

import "github.com/headway-go/headway/pacer/internal/numbers"

// Allowance holds an upstream's statements about one limit: before until, calls may cost at most low less what is open.
//
// Open is the cost of calls that were granted and not answered: nobody knows whether the statement counts them. So a low reading binds at
// once, and a higher one only if its call started after the low one came: answers may overtake each other. An answer that never comes
// counts for one to two generations.
//
//	         a reading                  until is past                 an answer
//	nothing ----------> low, until ------------------------> probing ----------> nothing, or low, until
//	said                  |    ^                                |
//	                      +----+ lower readings at once,        +--> one more call each Apart
//	                             higher ones of later calls
//
// Calls that find no room go after until, one each Apart, until one of them is answered: a reset may be wrong, and others may be there first.
//
// If good answers state nothing, refusals teach a pace: how long the calls took that were admitted until there is more. Calls go no faster,
// and this pace grows as in TCP CUBIC until the next refusal.
type Allowance struct {
	inert

	until int64 // before it, calls cost at most low − open; 0: unknown
	low   int64 // the least stated as left and not withdrawn, and 1 more; 0: never stated
	at    int64 // when that came

	open, older  int64 // cost of calls with slots in [mark, until) and in [before, mark) that are not answered
	mark, before int64
	ahead, early int64 // cost of calls with slots from until on; and of those that were, or that another limit holds back: from edge on
	edge, moved  int64 // and the end of the time in which such slots were granted
	last         int64 // the slot that was granted last since an answer
	starved      bool  // a call found no room before until
	reported     bool  // answers to calls are reported

	start int64 // when until last passed
	since int64 // when an answer last came
	width int64 // after until, and at first, so much may be open before an answer, and one call more each Apart; 0: any number

	most int64 // stated as left, before the call that was answered; 0: not known, or more was admitted since
	got  int64 // oks when a reading last refused a call; 0: not known, or more was admitted since
	oks  int64 // cost of good answers since start, and since guess.first
	step int64 // the pace that refusals taught: the time that a cost of 1 takes; 0: none
	span int64 // the time over which it doubles
	rate int64 // the pace that is stated, with a limit and not what is left, until ends
	ends int64
	next int64 // when the next call may go at these paces

	maybe int64 // cost of calls whose answers stated nothing, and which low may count already
	said  bool  // good answers state what is left
	dated bool  // readings state when there is more
	floor bool  // in seconds, rounded down: a call that came then was refused, and was stated to wait for none
	own   int64 // whether readings count the call that they answer: countsOwn, skipsOwn or 0: not known
	waits int64 // how often in a row the first call after until was refused

	guess guess
}

// Whether readings count the call that they answer: countsOwn is seen when nothing is left after a good answer.
const (
	countsOwn = 1
	skipsOwn  = 2
)

// Earliest implements [Account].
func (a *Allowance) Earliest(l *Limit, now, e, n int64, _ int) Placement {
	s := *a
	s.begin(l, now)
	open := s.opened(now) + s.early
	gate := s.until
	if s.reported {
		gate = s.after(gate+(s.ahead+n-1)/n*numbers.Apart, s.ahead)
	}
	if s.isPaced(now) {
		e = max(e, s.paced(now, open, n))
	}
	switch {
	case s.until == 0 && s.width > 0 && open+n > s.room():
		e = max(e, s.after(s.since+(open+2*n-1-s.room())/n*numbers.Apart, open))
	case s.until == 0 || e < s.until && s.fits(open, n):
	case e < s.until || s.starved || !s.fits(open, n):
		e = max(e, gate)
	}
	return Placement{At: e}
}

// after returns the slot of a call that finds no room and n before it: calls that all change their slots must not get the same one.
func (a *Allowance) after(slot, n int64) int64 {
	return max(slot, min(a.last+numbers.Apart, slot+n*numbers.Apart))
}

// room returns how much may be open without a statement: at most the width, the highest rest ever stated, and what was admitted last time.
func (a *Allowance) room() int64 {
	room := a.width
	for _, most := range [...]int64{a.most, a.got} {
		if most > 0 {
			room = max(1, min(room, most-a.oks))
		}
	}
	return room
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
	if a.isPaced(now) {
		a.next = a.paced(now, open, n) + a.taking(now, n)
	}
	a.last = p.At
	switch {
	case a.until > 0 && p.At >= a.until:
		a.starved = a.starved || !a.fits(open, n)
		a.ahead += n
	case p.At >= now+numbers.Generation: // otherwise it would be forgotten before it goes
		a.hold(p.At, n)
	default:
		a.open += n
	}
	return Charge{From: p.At, To: n}, numbers.UnboundSlack
}

// opened begins a new generation of open calls, if it is time, and returns the cost of both.
func (a *Allowance) opened(now int64) int64 {
	if a.early > 0 && now >= a.edge+numbers.Generation {
		a.older, a.early = a.older+a.early, 0
	}
	if now >= a.mark+numbers.Generation {
		a.before, a.mark = a.mark, a.mark+numbers.Generation
		if now >= a.mark+numbers.Generation {
			a.open, a.mark = 0, now
		}
		a.older, a.open = a.open, 0
	}
	return a.open + a.older
}

// hold notes early calls, with slots from an instant on.
func (a *Allowance) hold(from, n int64) {
	if a.early == 0 || from < a.edge {
		a.edge = from
	}
	a.early += n
}

// turn passes until. Calls ahead are younger than open ones, and outlast a silence: otherwise a second call would probe.
func (a *Allowance) turn(now int64) {
	if a.Expires() <= now {
		*a = Allowance{} // whether or not it was evicted
	}
	if a.until == 0 || now < a.until {
		return
	}
	open := a.opened(a.until)
	if a.width = 0; a.reported { // otherwise nobody would report the first call's answer
		a.width = max(open+1, a.low-1)
	}
	a.open, a.ahead, a.early = a.open+a.ahead+a.early, 0, 0
	if a.dated || a.low <= 1 { // otherwise until was a guess, and the window goes on
		a.oks = 0
	}
	a.start, a.since, a.until, a.starved, a.maybe = a.until, a.until, 0, false, 0
}

// begin is turn for calls and answers: if no policy limits them, they find a width until something is stated.
func (a *Allowance) begin(l *Limit, now int64) {
	if a.turn(now); l.Spec.First > 0 && a.width+a.until+a.at+a.start == 0 {
		a.width = l.Spec.First
	}
}

// drop subtracts a call that was granted at made (0: unknown) from the open ones.
func (a *Allowance) drop(slot, n, made int64) {
	fresh := made == 0 || made >= a.start // those that were ahead when until passed are open
	// Even if its slot is not before until: that may have moved by less than Apart. Of two events of one instant, either was first.
	early := made < a.moved || made == a.moved && a.ahead == 0 || slot >= made+numbers.Generation && (slot < a.until || a.ahead == 0)
	switch {
	case fresh && a.early > 0 && slot >= a.edge && early:
		a.early = max(0, a.early-n)
	case fresh && a.until > 0 && slot >= a.until && a.ahead > 0:
		a.ahead = max(0, a.ahead-n)
	case slot >= a.mark: // or it was not known, and taken to be older: see Answered
		young := min(a.open, n)
		a.open, a.older = a.open-young, max(0, a.older-n+young)
	case slot >= a.before: // or it was early until just now
		a.dropOlder(n)
	}
}

// dropOlder subtracts a call from the older open ones, if there are any.
func (a *Allowance) dropOlder(n int64) {
	older := min(a.older, n)
	a.older, a.open = a.older-older, max(0, a.open-n+older)
}

// Cancel implements [Account]. When until moves, the processes give up their early slots one after the other, and those of the last ones leave
// no room to the first. So there is more when the last early slot is given back.
func (a *Allowance) Cancel(_ *Limit, now int64, c Charge) (more bool) {
	a.turn(now)
	open, early := a.opened(now), a.early > 0
	a.drop(c.From, c.To, c.Made)
	if a.isPaced(now) && c.From >= now && c.Made >= a.at { // it has its place in the line of now
		a.next = max(0, a.next-a.taking(now, c.To))
	}
	return early && a.early == 0 && a.starved && open < a.low-1
}

// Paused returns until when nothing is left; 0 if something is.
func (a *Allowance) Paused() int64 {
	if a.low == 1 {
		return a.until
	}
	return 0
}

// Resume forgets the statements, and keeps what is open.
func (a *Allowance) Resume(now int64) {
	a.turn(now)
	a.open, a.ahead, a.early = a.open+a.ahead+a.early, 0, 0
	a.until, a.low, a.at, a.width, a.maybe, a.starved, a.waits = 0, 0, 0, 0, 0, false, 0
	a.step, a.rate, a.ends, a.next = 0, 0, 0, 0
}

// Reset implements [Account].
func (a *Allowance) Reset(int64) { *a = Allowance{} }

// Expires implements [Account]. Statements have expired by then, and the upstream's way of stating is learned again.
func (a *Allowance) Expires() int64 {
	if *a == (Allowance{}) {
		return 0
	}
	return max(a.until, a.since, a.mark, a.next, a.ends) + numbers.AllowanceLives
}

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
