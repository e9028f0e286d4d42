package engine

import (
	"slices"

	"github.com/headway-go/headway/luascripts/numbers"
	"github.com/headway-go/headway/policies"
)

// Versions are the accounts of one key. As a rule there is one. But policies change, and while a new version of a program is rolled out,
// calls of both versions come at the same time. An interval of virtual time means nothing at another rate, nor does a bucket in another
// grid. So each shape in which a limit is asked for has an account of its own:
//
//   - A shape that is new begins with what the account knows that was asked for last, as far as it can be expressed in other terms: see
//     history and recount.
//   - While others are likely to ask for another shape, each call is counted in all of them. So each version of a policy holds for all
//     calls, whatever the others say.
//   - What is given back is given back in its own shape alone: the others count it until they would have forgotten it anyway.
//   - A reset concerns all of them; what an upstream says of numbers concerns the shape of the call that was
//     answered.
type Versions struct {
	Account // of the shape that was asked for last

	shape  shape
	others *besides // nil: there are none, and there is no calendar
}

// besides are what few keys have besides their account.
type besides struct {
	grid  string    // of a calendar: its name
	aside []version // the accounts of other shapes, beginning with the last one
}

// A version is the account of a shape that was asked for before.
type version struct {
	Account

	shape shape
	until int64 // when nobody is expected to ask for it any more
}

// A shape is the part of a limit on which the meaning of its account depends.
type shape struct {
	algorithm policies.Algorithm
	calendar  bool
	unit      int64 // the emission interval of a rate, the width of a bucket
	more      int64 // the burst of a rate: the largest since all had come back; how many buckets before its own a window counts
}

func shapeOf(s *policies.Spec) shape {
	switch s.Algorithm {
	case policies.GCRA:
		return shape{algorithm: s.Algorithm, unit: s.Interval, more: s.Limit}
	case policies.Window:
		return shape{algorithm: s.Algorithm, calendar: s.Calendar != nil, unit: s.Interval, more: s.Buckets}
	case policies.Concurrency, policies.Allowance:
	}
	return shape{algorithm: s.Algorithm}
}

// same reports whether accounts of two shapes mean the same: those of rates do, whatever the burst.
func (s shape) same(other shape) bool {
	if s.algorithm == policies.GCRA {
		s.more = other.more
	}
	return s == other
}

// reach returns for how long something counts that is charged.
func (s shape) reach() int64 {
	if s.algorithm == policies.Window {
		return min((s.more+2)*s.unit, numbers.MaxDebt)
	}
	return s.more * s.unit
}

// limit returns the limit of a version, as far as it is known: what it admits is not.
func (v *version) limit() *Limit {
	s := &policies.Spec{Algorithm: v.shape.algorithm, Limit: v.shape.more, Interval: v.shape.unit}
	l := &Limit{Spec: s}
	if w, ok := v.Account.(*Window); ok {
		s.Limit, s.Buckets = policies.MaxLimit, v.shape.more
		if n := len(w.buckets); v.shape.calendar && n > 0 { // its grid goes on evenly, for all that is known
			l.Bounds = []int64{w.buckets[n-1].begin}
		}
	}
	return l
}

// NewVersions returns the versions of a key of which there is one account, which has the shape of a limit.
func NewVersions(l *Limit, a Account) Versions {
	v := Versions{Account: a, shape: shapeOf(l.Spec)}
	v.keep(gridOf(l.Spec), nil)
	return v
}

// keep keeps the grid of a calendar and the accounts of other shapes.
func (v *Versions) keep(grid string, aside []version) {
	switch {
	case grid == "" && len(aside) == 0:
		v.others = nil
	case v.others == nil:
		v.others = &besides{grid, aside}
	default:
		*v.others = besides{grid, aside}
	}
}

// aside returns the accounts of other shapes.
func (v *Versions) aside() []version {
	if v.others == nil {
		return nil
	}
	return v.others.aside
}

// gridOf returns the name of a calendar; "" if the limit has none.
func gridOf(s *policies.Spec) string {
	if s.Calendar == nil {
		return ""
	}
	return s.Calendar.Zone()
}

// Serves reports whether there is one account only, and it has the shape and the grid of a limit: then there is nothing to turn.
func (v *Versions) Serves(l *Limit) bool {
	grid := ""
	if v.others != nil {
		if len(v.others.aside) > 0 {
			return false
		}
		grid = v.others.grid
	}
	if v.shape != shapeOf(l.Spec) || grid != gridOf(l.Spec) {
		return false
	}
	w, ok := v.Account.(*Window)
	return !ok || !w.offGrid(l)
}

// Turned returns the versions that begin with an account of the shape of a limit that is asked for now. It changes nothing: a refused call
// leaves the versions as they are, a granted one replaces them by Become.
func (v *Versions) Turned(l *Limit, now int64) *Versions {
	want := shapeOf(l.Spec)
	aside := slices.DeleteFunc(slices.Clone(v.aside()), func(one version) bool { return one.until <= now })
	over := len(aside) == 0 && counts(v.Account) <= now // it means the same as a new account: nobody is to know of it
	next := &Versions{Account: v.Account}
	if v.shape.same(want) {
		if !over {
			want.more = max(want.more, v.shape.more)
		}
		next.Account = onGrid(v.Account, want, l, now)
	} else {
		i := slices.IndexFunc(aside, func(one version) bool { return one.shape.same(want) })
		switch {
		case over:
			next.Account = NewAccount(want.algorithm)
		case i >= 0:
			want.more = max(want.more, aside[i].shape.more)
			next.Account = onGrid(aside[i].Account, want, l, now)
			aside = slices.Delete(aside, i, i+1)
		default:
			next.Account = v.converted(l, now)
		}
		v.lend(next.Account)
		if !over {
			until := now + v.shape.reach() + numbers.VersionLives
			aside = slices.Insert(aside, 0, version{v.Account, v.shape, until})
			aside = aside[:min(len(aside), numbers.MaxVersions-1)]
		}
	}
	next.shape = want
	next.keep(gridOf(l.Spec), aside)
	return next
}

// onGrid returns an account for a limit of its shape: itself, or if it is a window on another grid, a converted one.
func onGrid(a Account, of shape, l *Limit, now int64) Account {
	if w, ok := a.(*Window); ok && w.offGrid(l) {
		return (&Versions{Account: w, shape: of}).converted(l, now)
	}
	return a
}

// Become replaces the versions by what Turned returned. Of a rate that is set aside, others do not adapt the pace.
func (v *Versions) Become(next *Versions) {
	if g, ok := v.Account.(*GCRA); ok && next.Account != v.Account {
		g.pace = pace{learned: g.pace.learned, until: g.pace.until}
	}
	*v = *next
}

// Seen returns the account of the shape of a limit. It changes nothing: of a shape that nobody has asked for, nothing is known.
func (v *Versions) Seen(l *Limit, now int64) Account {
	want := shapeOf(l.Spec)
	if v.shape.same(want) {
		if w, ok := v.Account.(*Window); ok && w.offGrid(l) {
			return v.converted(l, now)
		}
		return v.Account
	}
	aside := v.aside()
	for i := range aside {
		one := &aside[i]
		if one.until <= now || !one.shape.same(want) {
			continue
		}
		if w, ok := one.Account.(*Window); ok && w.offGrid(l) {
			return (&Versions{Account: w, shape: want}).converted(l, now)
		}
		return one.Account
	}
	a := NewAccount(l.Spec.Algorithm)
	v.lend(a)
	return a
}

// lend has a rate use the queue of the present one: who is queued is, whatever the numbers are.
func (v *Versions) lend(a Account) {
	if from, ok := v.Account.(*GCRA); ok {
		if to, ok := a.(*GCRA); ok {
			to.queue = from.queue
		}
	}
}

// converted returns a new account of the shape of a limit that begins with what the present one knows. Nothing that was charged before
// is given back to it.
func (v *Versions) converted(l *Limit, now int64) Account {
	a := NewAccount(l.Spec.Algorithm)
	from := version{Account: v.Account, shape: v.shape}
	for _, one := range from.history(now) {
		recount(a, l, now, one.at, one.n)
	}
	switch to := a.(type) {
	case *GCRA:
		if g, ok := v.Account.(*GCRA); ok {
			to.margin, to.pace = g.margin, g.pace.inherited(l)
		} else if w, ok := v.Account.(*Window); ok {
			to.margin = w.margin
		}
		to.keepLog(l)
		if to.log != nil { // it lacks the starts that were counted
			to.log.unlogged = max(to.log.unlogged, now)
		}
		to.reset = mark{}.reset(now, to.tat)
		to.forget(now)
	case *Window:
		if g, ok := v.Account.(*GCRA); ok {
			to.margin = g.margin
		} else if w, ok := v.Account.(*Window); ok {
			to.margin = w.margin
		}
		to.reset = mark{}.reset(now, to.ends)
	}
	return a
}

// count counts a call of cost n whose slot is at, for those who ask for other shapes.
func (v *Versions) count(now, at, n int64) {
	aside := v.aside()
	for i := range aside {
		if one := &aside[i]; one.until > now {
			recount(one.Account, one.limit(), now, at, n)
		}
	}
}

// Reset is [Account].Reset of all versions: of the others, nothing is left.
func (e *Entry) Reset(now int64) {
	e.Account.Reset(now)
	if e.Versions != nil {
		e.Versions.keep(gridOf(e.Limit.Spec), nil)
	}
}

// Settle is [Account].Settle. What a call cost besides what it was charged counts in all versions.
func (e *Entry) Settle(now int64, c Charge, cost, actual int64) {
	e.Account.Settle(&e.Limit, now, c, cost, actual)
	if e.Versions != nil && actual > cost {
		e.Versions.count(now, now, actual-cost)
	}
}

// counts is Expires, but for the queues and for the pace of an adaptive rate.
func counts(a Account) int64 {
	switch a := a.(type) {
	case *GCRA:
		return max(a.lasts(), a.pace.until, a.margin.until)
	case *Concurrency:
		return a.till
	}
	return a.Expires()
}

// Expires is the instant from which all versions mean the same as a new account: nobody is expected to ask for another one any more.
func (v *Versions) Expires() int64 {
	ends := v.Account.Expires()
	for _, one := range v.aside() {
		ends = max(ends, one.until)
	}
	return ends
}
