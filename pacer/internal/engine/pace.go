package engine

import (
	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/policies/specs"
)

// pace is how much slower than its limit a rate is at present: because the upstream reported a lower limit, or because it refused calls and
// the limit is adaptive.
type pace struct {
	learned int64 // an emission interval; 0 for none
	until   int64 // when that ends

	// The share of the rate, in millionths, that held when since came; it grows from then on. 0: the whole rate.
	share  int64
	since  int64
	slowed int64 // when a refusal last slowed it down
	whole  int64 // when the share is whole again
}

// isUsual reports whether nothing slows the rate down, which is the usual case: then its interval is that of the limit.
func (p *pace) isUsual() bool { return p.learned == 0 && p.share == 0 }

// interval returns the emission interval that holds at now.
func (p *pace) interval(l *Limit, now int64) int64 {
	t := l.Spec.Interval
	if now < p.until {
		t = max(t, p.learned)
	}
	if f := p.shareAt(l, now); f < numbers.WholeShare {
		t = max(t, (l.Spec.Interval*numbers.WholeShare+f-1)/f)
	}
	return t
}

// shareAt returns the share that holds at now.
func (p *pace) shareAt(l *Limit, now int64) int64 {
	a := l.Spec.Adapt
	switch {
	case a == nil || p.share == 0 || now-p.since >= a.Recovery:
		return numbers.WholeShare
	case now <= p.since:
		return p.share
	}
	return min(numbers.WholeShare, p.share+(now-p.since)*numbers.WholeShare/a.Recovery)
}

// usualFrom returns from when on the interval is that of the limit, if nothing else slows the rate down until then.
func (p *pace) usualFrom(l *Limit, now int64) int64 {
	at := now
	if now < p.until && p.learned > l.Spec.Interval {
		at = p.until
	}
	if p.shareAt(l, now) < numbers.WholeShare {
		missing := (numbers.WholeShare - p.share) * l.Spec.Adapt.Recovery
		at = max(at, p.since+(missing+numbers.WholeShare-1)/numbers.WholeShare)
	}
	return at
}

// slow handles the refusal of a call with slot at. If the slot was granted before the rate last slowed down, the refusal has no effect.
func (p *pace) slow(l *Limit, now, at int64) bool {
	a := l.Spec.Adapt
	if a == nil || p.slowed > 0 && (at <= p.slowed || now < p.slowed+numbers.SameEpisode) {
		return false
	}
	share := p.shareAt(l, now) * a.Decrease / numbers.WholeShare
	if now > p.since { // on the way up: what held before does still
		share = max(share, p.share)
	}
	p.holdAt(max(share, a.Floor), now, a)
	return true
}

// fallBack handles a refusal while the share grows: it grew too far, and returns to the average of the last period, less the call that was
// refused. Another refusal within the period shows that this was still slightly too much. fallBack reports whether it handled the refusal,
// and whether the rate is slower now. A refusal whose slot was granted before the rate last slowed down counts as handled.
func (p *pace) fallBack(l *Limit, now, at, within int64) (handled, slower bool) {
	a := l.Spec.Adapt
	switch {
	case a == nil || p.share == 0:
		return false, false
	case at <= p.slowed:
		return true, false
	case now > p.since:
		one := numbers.WholeShare * l.Spec.Interval / max(within, l.Spec.Interval)
		p.holdAt(max(p.share, p.shareAt(l, now-within/2)-one), now, a)
		return true, true
	case now < p.slowed+within:
		p.holdAt(max(a.Floor, p.share*numbers.LittleLess/numbers.WholeShare), now, a)
		return true, true
	}
	return false, false
}

// holdAt sets the share that holds from now on.
func (p *pace) holdAt(share, now int64, a *specs.Adapt) {
	p.share, p.since, p.slowed = share, now+a.Hold, now
	p.recover(a)
}

// recover notes when the share is whole again.
func (p *pace) recover(a *specs.Adapt) {
	p.whole = p.since + (numbers.WholeShare-p.share)*a.Recovery/numbers.WholeShare + 1
}

// adapt notes that a limit with another adaptation, or none, may hold now.
func (p *pace) adapt(l *Limit) {
	if a := l.Spec.Adapt; p.share > 0 && a != nil {
		p.recover(a)
	} else {
		p.whole = 0
	}
}

func (p *pace) learn(l *Limit, now, value, until int64) bool {
	before := p.interval(l, now)
	p.learned, p.until = value, until
	if value <= l.Spec.Interval || until <= now {
		p.learned, p.until = 0, 0
	}
	return p.interval(l, now) != before
}

// ends returns when the pace is that of the limit again.
func (p *pace) ends() int64 { return max(p.until, p.whole) }

func (p *pace) forget(now int64) {
	if p.until <= now {
		p.learned, p.until = 0, 0
	}
	if p.whole <= now {
		p.share, p.since, p.slowed, p.whole = 0, 0, 0, 0
	}
}
