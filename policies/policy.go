package policies

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/policies/specs"
)

// defaultSkew is the skew of [AtMost] unless [Policy.Skew] sets another one. Calls start up to 2 ms after their slots (docs/benchmarks,
// Precision: the 99th percentile of the runtime's timers, with up to 1,000 waiters); the rest is for the network and for short stalls.
const defaultSkew = 10 * time.Millisecond

// defaultBuckets is the number of buckets of [Sliding] unless [Policy.Buckets] sets another one. A full window is available again one
// bucket late, so 1 % of the limit is lost.
const defaultBuckets = 100

// maxScopes is the most scopes of a policy.
const maxScopes = 8

// shape is the constructor that made a policy. It determines the possible settings.
type shape uint8

const (
	shapeNone shape = iota
	shapeRate
	shapeAtMost
	shapeFixed
	shapeCalendar
	shapeSliding
	shapeInFlight
)

// A Policy is one limit of an upstream. Make one with a constructor such as [PerSecond], [AtMost] or [Daily] and
// refine it with its methods, each of which returns a changed copy:
//
//	policies.PerSecond(25).Burst(10).Per("tenant").Named("peak")
//
// The zero value is not valid. A mistake in an argument is kept and returned by [Policy.Validate].
type Policy struct {
	name     string
	scopes   []string
	optional bool
	observed bool

	shape   shape
	limit   int64         // calls per period
	period  time.Duration // nominal for a calendar window
	burst   int64         // rates and fixed windows; 0: not given
	loose   bool          // lowered from a limit whose windows are not exact
	skew    time.Duration // -1: not set
	buckets int64         // sliding
	unit    specs.Unit
	loc     *time.Location

	adaptation *Adaptation // nil: the rate does not adapt

	lease   time.Duration // in flight
	longer  time.Duration // in flight: calls count once they run for so long
	lanes   []lane
	percent int64  // of a lane's part: how much of the policy that is; 0 for a whole one
	kept    bool   // the part is kept for a party, and no bound
	fair    string // the scope whose values share it; "" for none

	overrides *overrides // nil: all keys have the same numbers
	shared    bool       // the default burst in overrides is that of a stack: see Stacked

	err *Error // the first setting that does not fit the shape
}

// notSet marks a skew that was not set.
const notSet = time.Duration(-1)

// Named returns a copy with this name, which errors, Status and the store's keys use. A name starts with a letter or digit and has at most
// 64 letters, digits, '.', '_' or '-'. A renamed policy starts with an empty account. Defaults to a name made of the constructor and the
// scopes, such as "per-second" or "per-second.tenant".
func (p Policy) Named(name string) Policy {
	p.name = name
	if name == "" {
		return p.mistake("Name", `""`, "give it a name, or leave Named out to use the default one")
	}
	return p
}

// Per returns a copy that applies to each value of the scopes separately: Per("tenant") gives every tenant a limit of its own, Per("user",
// "ticket") every pair of a user and a ticket. A call must carry a value for each, unless the policy is [Policy.Optional]. Defaults to one
// limit for the whole upstream.
func (p Policy) Per(scopes ...string) Policy {
	p.scopes = slices.Clone(scopes)
	if len(scopes) == 0 {
		return p.mistake("Scopes", "none", "name at least one scope, or leave Per out for the whole upstream")
	}
	return p
}

// Optional returns a copy that binds only calls with a value for all of its scopes. Without Optional, a call that lacks a scope is refused
// with an error.
func (p Policy) Optional() Policy {
	p.optional = true
	return p
}

// Observed returns a copy that a Pacer observes and does not enforce: it delays and refuses no call. Calls are charged as if it were
// enforced, and hooks and metrics report how long each would have waited: see docs/observe.md. The other policies of the stack are
// enforced. The copy keeps the name, so its account continues if you enforce it later.
func (p Policy) Observed() Policy {
	p.observed = true
	return p
}

// Burst returns a copy of a rate that lets b calls start at once after idling. The long-run rate stays. The burst is also the highest cost
// of one call. [AtMost] keeps its limit with any burst.
//
// For a rate it defaults to 1, or to 2 for one of two or more calls per period that come at uneven times: calls of different keys share it,
// it has lanes, or they also wait for permits of an [InFlight] policy. [Stacked] has the exact rule. The gaps between such calls are
// usually shorter than the rate's interval, and a burst of 1 could not use them. Set Burst(1) for a strict spacing.
func (p Policy) Burst(b int64) Policy {
	p.burst = b
	switch {
	case p.shape == shapeSliding || p.shape == shapeInFlight:
		return p.mistake("Burst", strconv.FormatInt(b, 10), "only rates, Fixed and calendar windows have a burst")
	case b < 1:
		return p.mistake("Burst", strconv.FormatInt(b, 10), "must be at least 1")
	}
	return p
}

// Skew returns a copy of a strict policy that still holds at the upstream if the network brings calls up to d closer together, or delivers
// them up to d later, than they were sent: [AtMost] and [Sliding] keep their limit over period + d, and a fixed or calendar window sends
// nothing in its last d. Allow for the spread of your latency, and a little for late timers. An in-flight policy passes a permit on only d
// after its call was over, for upstreams that count a call for longer than its caller sees it.
//
// Defaults to 10 ms for AtMost and to 0 for the others, plus the margin that the fleet learns: see [Policy.Margin]. A policy with a Skew of
// yours learns no margin.
func (p Policy) Skew(d time.Duration) Policy {
	p.skew = d
	if p.shape == shapeRate {
		return p.mistake("Skew", d.String(), "a plain rate makes no promise over windows: use AtMost")
	}
	if d < 0 {
		return p.mistake("Skew", d.String(), "must not be negative")
	}
	return p
}

// Buckets returns a copy of a sliding window that is divided into m buckets, from 1 to 100. A full window is available after
// period·(m+1)/m, so 1/(m+1) of the limit is lost. Each bucket with calls costs the store some bytes (a hundred take less than 1 KB in
// Redis), and hardly any time. Defaults to 100.
func (p Policy) Buckets(m int64) Policy {
	p.buckets = m
	if p.shape != shapeSliding {
		return p.mistake("Buckets", strconv.FormatInt(m, 10), "only Sliding has buckets")
	}
	return p
}

func (p Policy) mistake(field, value, reason string) Policy {
	if p.err == nil {
		p.err = &Error{Field: field, Value: value, Reason: reason}
	}
	return p
}

// Name returns the policy's name, given or default.
func (p Policy) Name() string {
	if p.name != "" {
		return p.name
	}
	return strings.Join(append([]string{p.defaultName()}, p.scopes...), ".")
}

func (p Policy) defaultName() string {
	switch p.shape {
	case shapeCalendar:
		return p.unit.String()
	case shapeFixed:
		return "fixed-" + compact(p.period)
	case shapeSliding:
		return "sliding-" + compact(p.period)
	case shapeInFlight:
		return "in-flight"
	case shapeAtMost:
		return "at-most-" + compact(p.period)
	case shapeRate:
		switch {
		case p.period == time.Second:
			return "per-second"
		case p.period == time.Minute:
			return "per-minute"
		case p.limit == 1:
			return "every-" + compact(p.period)
		}
		return "rate-" + compact(p.period)
	case shapeNone:
	}
	return "none"
}

// compact prints a duration without its zero tail: "1m", not "1m0s".
func compact(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return strings.ReplaceAll(s, "µ", "u")
}

// Limit returns how many calls the policy allows per period, as passed to the constructor. The period of a calendar window is nominal: a
// day has 24 hours, a month 30 days. That of an in-flight policy is 0.
func (p Policy) Limit() (n int64, period time.Duration) { return p.limit, p.period }

// The largest margin of a policy: see [Policy.Margin].
const (
	maxMargin      = time.Second // networks and clocks are not off by more
	marginPart     = 10          // of the period
	longestMargins = time.Hour   // of longer periods, a second is nothing
)

// Margin returns the largest margin that a fleet may add to the policy's period: a tenth of the period, at most a second. The network
// brings some calls closer together than they were sent. A fleet learns by how much from stray refusals, which come although there was room
// for the call. Each raises the margin that all processes keep by a step, and a step fades in about a minute and a half. Margin is 0 for
// policies that keep no margin: those whose [Policy.Skew] was set, calendars, calls in flight, and periods of more than an hour.
func (p Policy) Margin() time.Duration {
	if p.skew != notSet || p.period > longestMargins {
		return 0
	}
	switch p.shape {
	case shapeRate, shapeAtMost, shapeFixed, shapeSliding:
		return min(p.period/marginPart, maxMargin)
	case shapeCalendar, shapeInFlight, shapeNone:
	}
	return 0
}

// Lowered returns a copy that allows at most n calls per period, at least 1; a policy that allows no more is unchanged. Its Spec applies
// while the upstream reports n as its limit.
func (p Policy) Lowered(n int64) Policy {
	if n < p.limit {
		p.loose = p.loose || p.limit > specs.MaxExact // the store keeps the same account
		p.limit = max(1, n)
		p.burst = min(p.burst, p.limit)
	}
	return p
}

// Scopes returns the names of the scopes, in the order given; none means the whole upstream.
func (p Policy) Scopes() []string { return slices.Clone(p.scopes) }

// IsOptional reports whether the policy admits calls that do not carry its scopes.
func (p Policy) IsOptional() bool { return p.optional }

// IsObserved reports whether the policy is observed and not enforced: see [Policy.Observed].
func (p Policy) IsObserved() bool { return p.observed }

func (p Policy) skewOr(d time.Duration) time.Duration {
	if p.skew == notSet {
		return d
	}
	return p.skew
}

// Spec returns the policy in the store's units. It is meaningful only for a valid policy.
func (p Policy) Spec() specs.Spec {
	s := p.cut(p.whole())
	if p.FairBy() != "" {
		s.Queue = specs.FairQueue
	}
	return s
}

// whole returns the spec of the whole policy, also for a lane's part.
func (p Policy) whole() specs.Spec {
	us := func(d time.Duration) int64 { return ceilDiv(int64(d), int64(time.Microsecond)) }
	switch p.shape {
	case shapeRate:
		return specs.Spec{Algorithm: specs.GCRA, Limit: p.bursts(), Interval: ceilDiv(us(p.period), p.limit), Adapt: p.adaptation.spec()}
	case shapeAtMost:
		within := us(p.period) + us(p.skewOr(defaultSkew))
		s := specs.Spec{Algorithm: specs.GCRA, Limit: p.bursts(), Adapt: p.adaptation.spec()}
		if s.Limit > 1 && p.limit <= specs.MaxExact && !p.loose {
			s.Most, s.Within, s.Interval = p.limit, within, ceilDiv(within, max(p.limit, 1))
		} else {
			s.Interval = ceilDiv(within, max(p.limit-s.Limit+1, 1))
		}
		return s
	case shapeFixed, shapeCalendar:
		s := specs.Spec{Algorithm: specs.Window, Limit: p.limit, Interval: us(p.period), Guard: us(p.skewOr(0)), Ahead: p.burst}
		if p.shape == shapeCalendar {
			s.Calendar = specs.NewCalendar(p.unit, p.loc)
		}
		return s
	case shapeSliding:
		s := specs.Spec{Algorithm: specs.Window, Limit: p.limit, Interval: ceilDiv(us(p.period)+us(p.skewOr(0)), max(p.buckets, 1)), Buckets: p.buckets}
		if slices.ContainsFunc(p.lanes, func(l lane) bool { return l.kept }) {
			s.Ahead = max(1, p.limit/frontPart)
		}
		return s
	case shapeInFlight:
		return specs.Spec{Algorithm: specs.Concurrency, Limit: p.limit, Interval: us(p.lease), After: us(p.longer), Guard: us(p.skewOr(0))}
	case shapeNone:
	}
	return specs.Spec{}
}

// ceilDiv divides two non-negative integers and rounds up.
func ceilDiv(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return a / b
	}
	return (a + b - 1) / b
}
