package engine

import "github.com/headway-go/headway/pacer/internal/numbers"

// How fast calls may go, and when there is more, if nothing states it: the lessons of refusals.

// lesson learns a pace from a refusal: the calls that were admitted before it, over the time from the first of them until there is more.
func (a *Allowance) lesson(until int64) {
	if a.oks == 0 || a.step > 0 && a.until > 0 && a.oks < numbers.Lesson {
		return // of a burst with few before it, one
	}
	took, of := min(numbers.Month, max(numbers.Second, until-a.guess.first)), min(numbers.Lesson, a.oks) // few calls teach little
	a.step = (a.step*(numbers.Lesson-of) + took/a.oks*of) / numbers.Lesson
	a.span = min(numbers.Month, max(min(took, numbers.TenMinutes), numbers.Calms*a.step))
}

// A guess is when there is more, if the upstream does not state it: after one of the usual periods, by the clock or from the first call on.
// It tries the last right one first.
type guess struct {
	zero          int64 // when nothing was left; 0: something is
	first, recent int64 // when the first call of this window went, and the last
	period, known int64 // the one that is tried, and the one that was right; negative: from the first call on
}

// Learn implements [Account].
func (a *Allowance) Learn(_ *Limit, now, value, until int64) bool {
	a.turn(now)
	before := a.taking(now, 1)
	if a.rate, a.ends = max(0, value), until; value <= 0 || until <= now {
		a.rate, a.ends = 0, 0
	}
	return a.taking(now, 1) != before
}

// isPaced reports whether there is a pace, taught or stated.
func (a *Allowance) isPaced(now int64) bool { return a.step > 0 || now < a.ends }

// paced returns when the next call may go at the slower one of the paces.
func (a *Allowance) paced(now, open, n int64) int64 {
	if a.until > 0 && !a.fits(open, n) {
		now = a.until
	}
	return max(now, a.next)
}

// taking returns how long a cost of n takes at the slower one of the paces. As in TCP CUBIC, the time that refusals taught shrinks slowly
// at first: to half after one span, and to a ninth after two.
func (a *Allowance) taking(now, n int64) int64 {
	x := int64(2 * numbers.Thousand)
	if ago := max(0, now-max(a.start, a.until)); ago < 2*a.span {
		x = ago * numbers.Thousand / a.span
	}
	one := max(1, a.step*numbers.Thousand/(numbers.Thousand+x/numbers.Calmly+x*x*x/(numbers.Thousand*numbers.Thousand)))
	if now < a.ends {
		one = max(one, a.rate)
	}
	return min(n, numbers.Month/one) * one
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

// next returns how long to wait if nothing states when there is more: the shortest of the usual periods, and at least an eighth of the wait
// so far since nothing was left in the window that began at start, or in one before it that a call has tried since. If little came back at
// the one that was right, the window slides, and the rest comes soon. If that fails, the same period from the first call on, or by the clock,
// is next.
func (g *guess) next(now, start int64, whole bool) int64 {
	begins := start <= g.zero || g.zero == 0
	if begins {
		if g.zero = now; g.known != 0 && whole {
			if t := g.ends(g.known) - now; t > 0 {
				return t
			}
		}
	}
	best := int64(numbers.LongestGuess)
	if g.known != 0 {
		best = min(best, max(g.known, -g.known, (now-g.zero)/8))
	}
	g.period = 0
	for _, p := range [...]int64{numbers.Second, numbers.TenSeconds, numbers.Minute, numbers.TenMinutes, numbers.Hour, numbers.Day} {
		for _, signed := range [...]int64{p, -p} {
			if t := g.ends(signed) - now; t > 0 && t < best && (t >= (now-g.zero)/8 || signed == -g.known) {
				best, g.period = t, signed
			}
		}
	}
	if begins && g.known != 0 && !whole {
		g.period = g.known // it stays the right one
	}
	return best
}

// ends returns when a call may try whether an exhausted window of a period has ended: a little later, as the network may be faster than it was.
func (g *guess) ends(period int64) int64 {
	if period < 0 {
		return g.first - period + numbers.Apart
	}
	return g.zero - g.zero%period + period + numbers.Apart
}
