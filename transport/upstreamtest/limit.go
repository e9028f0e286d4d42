package upstreamtest

import (
	"net/http"
	"time"
)

type kind int

const (
	fixed kind = iota
	fromFirst
	sliding
	bucket
	inFlight
)

// A Limit is one that an upstream enforces. It keeps no state.
type Limit struct {
	kind         kind
	name         string
	most         int
	period       time.Duration // of a window; of a bucket, how long a token takes
	per          func(*http.Request) string
	countRefused bool
}

// Fixed admits n calls in each window of the clock: a window of a minute begins at each full minute, and one of a day at midnight UTC.
func Fixed(n int, period time.Duration) Limit { return Limit{kind: fixed, most: n, period: period} }

// FromFirst admits n calls in a window that begins with a call after the window before is over.
func FromFirst(n int, period time.Duration) Limit {
	return Limit{kind: fromFirst, most: n, period: period}
}

// Sliding admits n calls in any window of a period.
func Sliding(n int, period time.Duration) Limit { return Limit{kind: sliding, most: n, period: period} }

// Bucket holds n tokens, and gets one each step until it is full. A call takes one.
func Bucket(n int, step time.Duration) Limit { return Limit{kind: bucket, most: n, period: step} }

// InFlight admits n calls at once. Replies do not state it.
func InFlight(n int) Limit { return Limit{kind: inFlight, most: n} }

// Per returns the limit with an account for each value of a function: of a credential, for example.
func (l Limit) Per(key func(*http.Request) string) Limit {
	l.per = key
	return l
}

// Named returns the limit with a name, for [RateLimit].
func (l Limit) Named(name string) Limit {
	l.name = name
	return l
}

// CountRefused returns the limit so that it counts the calls that the upstream refuses, too.
func (l Limit) CountRefused() Limit {
	l.countRefused = true
	return l
}

// A State is what is left of a limit.
type State struct {
	Name      string // as [Limit.Named] has it
	Limit     int
	Remaining int
	Period    time.Duration // in which Limit calls are admitted; of a bucket, in which it fills
	Reset     time.Time     // when all is left again; of a sliding window, when its oldest call counts no more
	Next      time.Time     // when a call is admitted
}

// An account is what a limit has counted.
type account struct {
	Limit

	calls []time.Time   // of a sliding window
	used  int           // of a fixed window, and in flight
	end   time.Time     // of a fixed window; zero if none has begun
	owed  time.Duration // until a bucket is full
	at    time.Time     // when that was so
}

// admit counts a call in all accounts if each has room, and in those that count what is refused. It returns how long to wait else.
func admit(all []*account, now time.Time) (ok bool, wait time.Duration) {
	ok = true
	for _, a := range all {
		ok = a.state(now).Remaining > 0 && ok
	}
	for _, a := range all {
		if ok || a.countRefused {
			a.take(now)
		}
	}
	if ok {
		return true, 0
	}
	for _, a := range all {
		wait = max(wait, a.state(now).Next.Sub(now))
	}
	return false, wait
}

// states returns what is left of the limits that replies may state.
func states(all []*account, now time.Time) (list []State) {
	for _, a := range all {
		if a.kind != inFlight {
			list = append(list, a.state(now))
		}
	}
	return list
}

// state drops the counts that have expired, and returns what is left.
func (a *account) state(now time.Time) State {
	s := State{Name: a.name, Limit: a.most, Period: a.period, Reset: now, Next: now}
	used := 0
	switch a.kind {
	case fixed, fromFirst:
		if !now.Before(a.end) {
			a.used, a.end = 0, time.Time{}
		}
		used, s.Reset = a.used, a.end
		switch {
		case a.kind == fixed:
			s.Reset = now.Truncate(a.period).Add(a.period)
		case a.end.IsZero():
			s.Reset = now.Add(a.period)
		}
		if used >= a.most {
			s.Next = s.Reset
		}
	case sliding:
		for len(a.calls) > 0 && now.Sub(a.calls[0]) >= a.period {
			a.calls = a.calls[1:]
		}
		if used = len(a.calls); used > 0 {
			s.Reset = a.calls[0].Add(a.period)
		}
		if used >= a.most && a.most > 0 {
			s.Next = a.calls[used-a.most].Add(a.period)
		}
	case bucket:
		a.owed, a.at = max(0, a.owed-now.Sub(a.at)), now
		used, s.Period, s.Reset = int((a.owed+a.period-1)/a.period), time.Duration(a.most)*a.period, now.Add(a.owed)
		s.Next = now.Add(max(0, a.owed-time.Duration(a.most-1)*a.period))
	case inFlight:
		used = a.used
	}
	s.Remaining = max(0, a.most-used)
	return s
}

// take counts a call, after state.
func (a *account) take(now time.Time) {
	switch a.kind {
	case fixed, fromFirst:
		if a.end.IsZero() {
			a.end = now.Add(a.period)
			if a.kind == fixed {
				a.end = now.Truncate(a.period).Add(a.period)
			}
		}
		a.used++
	case sliding:
		a.calls = append(a.calls, now)
	case bucket:
		a.owed += a.period
	case inFlight:
		a.used++
	}
}
