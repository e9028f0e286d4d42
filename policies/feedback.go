package policies

import "time"

// A Feedback is one thing that an upstream said about one of its limits. What it did not say stays zero.
type Feedback struct {
	// Source is where it was heard, such as "Retry-After", for people.
	Source string

	// Policies names the policies that are meant, as the constructors of the vendor's package name them, for the scopes
	// of the call that was answered. Calls that those policies do not bind are not concerned. Defaults to the
	// widest scope that binds the call.
	Policies []string
	// Otherwise says who is concerned if the stack has none of those policies.
	Otherwise Otherwise
	// Within names a scope that bounds a feedback of which nobody knows whose limit it is: it concerns policies that are per that
	// scope, of which it then is the widest that binds the call. It is ignored if no such policy binds the call. Package transport
	// sets it, to endpoints; profiles leave it. Defaults to no bound.
	Within string

	// Refused says that the upstream refused the call because of this limit. An adaptive policy slows down.
	Refused bool
	// Certain says that a refusal is no accident, as where an upstream bans those who go on: everyone heeds it at once. Otherwise one that
	// comes alone, and asks for no longer than the limit's period, may be stray: see [Policy.Margin].
	Certain bool
	// Wait asks that nothing goes for this long; 0 asks for nothing.
	Wait time.Duration

	// Limit is how much the upstream allows: in each Window, or at once if it said no Window.
	Limit Count
	// Window is the period for which Limit holds; 0 if it did not say.
	Window time.Duration
	// Remaining is how much of Limit was left when the upstream answered. It may also be told as Used of Limit.
	Remaining Count
	// Used is how much of Limit was spent when the upstream answered.
	Used Count
	// Reset is how long after the answer there is more than Remaining; 0 if it did not say.
	Reset time.Duration

	_ struct{}
}

// Otherwise says whom a [Feedback] concerns whose policies are not in the stack.
type Otherwise uint8

// Values of [Otherwise].
const (
	// Nobody: a policy that is not there is a mistake, which the one who reports is told.
	Nobody Otherwise = iota
	// Everyone: the limit is that of the whole account, so the widest scope that binds the call is meant.
	Everyone
	// TheCall alone: the limit is narrower than the account. Nobody else waits, and counts are not used.
	TheCall
	// Unknown: nobody knows whose limit it is, so it is as if the feedback named none.
	Unknown
)

// A Count is a number that an upstream said. The zero Count means that it did not.
type Count struct {
	n    int64
	said bool
}

// Said returns the Count n. A negative n is as if nothing was said.
func Said(n int64) Count {
	if n < 0 {
		return Count{}
	}
	return Count{n, true}
}

// Value returns the number, at least 0, and whether there is one.
func (c Count) Value() (n int64, said bool) { return c.n, c.said }

// Left returns how much the upstream said is left, whether as Remaining or as Used of Limit.
func (f *Feedback) Left() Count {
	if f.Remaining.said || !f.Used.said || !f.Limit.said {
		return f.Remaining
	}
	return Said(max(0, f.Limit.n-f.Used.n))
}
