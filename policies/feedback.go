package policies

import "time"

// A Feedback is one report of an upstream about one of its limits. Fields that it did not report stay zero.
type Feedback struct {
	// Source is where the report was found, such as "Retry-After", for people.
	Source string

	// Policies names the policies that the feedback is about, as the vendor's package names them, for the scopes of the answered call.
	// Calls that these policies do not bind are not affected. Defaults to the policies with the widest scope that bind the call.
	Policies []string
	// Otherwise sets which calls are affected if the stack has none of these policies.
	Otherwise Otherwise
	// Within names a scope that bounds a feedback about an unknown limit: it then affects only policies that are Per this scope, and of
	// those that bind the call, the widest. It is ignored if no such policy binds the call. Package transport sets it to the endpoint
	// scope; profiles do not set it. Defaults to no bound.
	Within string

	// Refused means that the upstream refused the call because of this limit. An adaptive policy slows down.
	Refused bool
	// Certain means that a refusal cannot be stray, for example because the upstream bans clients that continue: it affects all calls at
	// once. Otherwise a single refusal that requests no longer wait than the limit's period may be stray: see [Policy.Margin].
	Certain bool
	// Wait is how long no call may start; 0 if the upstream requested none.
	Wait time.Duration

	// Limit is how much the upstream allows in each Window; without a Window, at once.
	Limit Count
	// Window is the period of Limit; 0 if not reported.
	Window time.Duration
	// Remaining is how much of Limit was left when the upstream answered. Some upstreams report Used instead.
	Remaining Count
	// Used is how much of Limit was spent when the upstream answered.
	Used Count
	// Reset is how long after the answer more than Remaining becomes available; 0 if not reported.
	Reset time.Duration

	_ struct{}
}

// Otherwise is which calls a [Feedback] affects if the stack has none of its policies.
type Otherwise uint8

// Values of [Otherwise].
const (
	// Nobody: a missing policy is a mistake, and reporting the feedback returns an error.
	Nobody Otherwise = iota
	// Everyone: the limit is that of the whole account, so the feedback affects the widest scope that binds the call.
	Everyone
	// TheCall: the limit is narrower than the account. Only the answered call waits, and counts are ignored.
	TheCall
	// Unknown: the limit may be anyone's, so the feedback is treated as if it named no policy.
	Unknown
)

// A Count is a number that an upstream reported. The zero Count means that it reported none.
type Count struct {
	n        int64
	reported bool
}

// Reported returns the Count n, or the zero Count if n is negative.
func Reported(n int64) Count {
	if n < 0 {
		return Count{}
	}
	return Count{n, true}
}

// Value returns the number, at least 0, and whether there is one.
func (c Count) Value() (n int64, reported bool) { return c.n, c.reported }

// Left returns how much the upstream reported as left: Remaining, or Limit less Used.
func (f *Feedback) Left() Count {
	if f.Remaining.reported || !f.Used.reported || !f.Limit.reported {
		return f.Remaining
	}
	return Reported(max(0, f.Limit.n-f.Used.n))
}
