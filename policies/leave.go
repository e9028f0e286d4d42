package policies

import (
	"slices"
	"strconv"
	"time"
)

// Leave returns a copy of the profile that leaves n of what the upstream reports to other programs: it reports n less as left, and n less
// as the limit, but at least 1. Limits stay if replies do not report what is left of them. If replies report several limits of different
// size, use [Profile.LeavePercent].
//
// A limit of n or less lets one call through in each window. Leave panics with an [*Error] if n is negative.
func (p Profile) Leave(n int64) Profile {
	if n < 0 {
		panic(&Error{Field: "Leave", Value: strconv.FormatInt(n, 10), Reason: "give what other programs need, 0 or more"})
	}
	return p.reporting(func(f *Feedback) {
		if f.Left().reported {
			f.keep(n)
		}
	})
}

// LeavePercent returns a copy of the profile that leaves a percentage of every reported limit, rounded up, to other programs. If a reply
// reports what is left, but not of which limit, it leaves that percentage of what is left. LeavePercent panics with an [*Error] unless the
// percentage is 0 to 99.
func (p Profile) LeavePercent(percent int) Profile {
	if percent < 0 || percent > 99 {
		panic(&Error{Field: "LeavePercent", Value: strconv.Itoa(percent), Reason: "give the percentage that other programs need, 0 to 99"})
	}
	return p.reporting(func(f *Feedback) {
		whole := f.Limit
		if !whole.reported {
			whole = f.Remaining
		}
		f.keep(whole.n/100*int64(percent) + (whole.n%100*int64(percent)+99)/100)
	})
}

// BackOff returns a copy of the profile in which a refusal that requests no wait makes all calls that it concerns wait for d. Without it,
// the store guesses the wait, and if the refusal may be stray, only the refused call backs off. BackOff panics with an [*Error] unless d is
// positive.
func (p Profile) BackOff(d time.Duration) Profile {
	if d <= 0 {
		panic(&Error{Field: "BackOff", Value: d.String(), Reason: "give how long calls wait, more than 0"})
	}
	return p.reporting(func(f *Feedback) {
		if f.Refused && f.Wait == 0 {
			f.Wait, f.Certain = d, true
		}
	})
}

// keep subtracts n from the reported limit and what is left of it.
func (f *Feedback) keep(n int64) {
	if f.Limit.reported {
		f.Limit.n = max(min(1, f.Limit.n), f.Limit.n-n)
	}
	if f.Remaining.reported {
		f.Remaining.n = max(0, f.Remaining.n-n)
	}
}

// reporting returns a copy of the profile that changes its reports.
func (p Profile) reporting(change func(*Feedback)) Profile {
	changed := func(fs []Feedback) []Feedback {
		fs = slices.Clone(fs) // the profile may return the same one each time
		for i := range fs {
			change(&fs[i])
		}
		return fs
	}
	if read := p.Read; read != nil {
		p.Read = func(r *Reply) Reading {
			reading := read(r)
			reading.Feedback = changed(reading.Feedback)
			return reading
		}
	}
	if readEnd := p.ReadEnd; readEnd != nil {
		p.ReadEnd = func(r *Reply) []Feedback { return changed(readEnd(r)) }
	}
	return p
}
