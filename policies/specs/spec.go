// Package specs has policies as a store sees them: an algorithm and integers. It is for authors of stores. Like package store, it is not
// covered by the compatibility promise of Headway.
package specs

import "time"

// Bounds of a policy's numbers. They keep every sum that a store computes (an instant in microseconds plus a policy's longest reach) below
// 2^53, up to which a Lua number is exact.
const (
	// MaxPeriod is the longest period, and the longest time until a full burst is available again: ten years.
	MaxPeriod = 10 * 365 * 24 * time.Hour
	// MaxLimit is the largest number of calls that a policy may name: 10^12.
	MaxLimit = int64(1_000_000_000_000)
	// MaxExact is the largest n for which a policies.AtMost with a burst has exact windows: the store remembers at most this many calls.
	MaxExact = 256
	// MaxBuckets is the largest number of buckets of a sliding window.
	MaxBuckets = 100
)

// An Algorithm is the method by which a store accounts for a policy.
type Algorithm uint8

// The algorithms. Their numbers are part of the wire format and never change their meaning.
const (
	// GCRA is the generic cell rate algorithm of ITU-T I.371: one call each Interval, with a tolerance for bursts.
	GCRA Algorithm = 1
	// Window counts calls per bucket of time.
	Window Algorithm = 2
	// Concurrency counts calls that run at the same time. The number 3 is that of adaptive rates in the wire format.
	Concurrency Algorithm = 4
	// Allowance is what an upstream stated as left of a limit until it resets. A store learns it from answers.
	Allowance Algorithm = 8
)

// Known reports whether a is one of the algorithms above.
func (a Algorithm) Known() bool {
	return a == GCRA || a == Window || a == Concurrency || a == Allowance
}

// PartyScope is the scope whose value is the party, or the lane, of a call. No policy can have it.
const PartyScope = "/lane"

// A Queue is how calls wait their turn for a limit. Without a queue, a limit gives slots at once, however far away they are.
type Queue uint8

// The queues. Their numbers are part of the wire format.
const (
	// NoQueue: slots are given in the order of the requests.
	NoQueue Queue = iota
	// QueueOfLane: the calls of a lane queue. In the stack, the limit comes right after its whole, and its calls may use what the whole has
	// left at the last moment.
	QueueOfLane
	// FairQueue: competing keys get equal parts, by weight.
	FairQueue
)

// String returns the algorithm's name.
func (a Algorithm) String() string {
	switch a {
	case GCRA:
		return "gcra"
	case Window:
		return "window"
	case Concurrency:
		return "concurrency"
	case Allowance:
		return "allowance"
	}
	return "unknown"
}

// A Spec is a policy as a store sees it: an algorithm and integers. Times are in microseconds, the unit of store time, rounded so that the
// limit is never exceeded. A Spec is sent with each call, so a changed limit takes effect at once.
type Spec struct {
	Algorithm Algorithm

	// Limit is the highest cost that can ever start at once: the burst B of a rate, the limit L of a window. For calls in flight it is how
	// many may run.
	Limit int64
	// Interval is the emission interval T of a rate, the width of one bucket of a window, or the length of a lease.
	Interval int64
	// Most and Within also bound a rate: no more than Most calls start in any time shorter than Within, so the last of any Most + 1 calls
	// starts at least Within after the first. Within is at most Most intervals. 0 means no such bound.
	Most, Within int64
	// Phase puts the slots of a rate with a burst of 1 at multiples of Interval in store time, plus Phase: processes without their store
	// take turns. It is never sent. 0: the slots lie anywhere.
	Phase int64
	// Share marks what one process has of a rate without its store: a call that costs more than the burst, and gives its slot back, has
	// waited for the next one. It is never sent.
	Share bool
	// Buckets is how many buckets before its own a sliding window counts; 0 for a fixed or calendar window.
	Buckets int64
	// Guard is the tail of each fixed or calendar window in which nothing is sent. For calls in flight it is how long a permit stays unused
	// after its call.
	Guard int64
	// After is how long a call must have run before it counts. It is for calls in flight only.
	After int64
	// First is the cost of an allowance that may be open before the upstream has answered, if no policy limits calls; 0 means any.
	First int64
	// Queue is how calls wait their turn. It is for rates and calls in flight only.
	Queue Queue
	// Floor is the part of a window that is kept for a party: the account counts what the party spends, and bounds other calls of the
	// window that comes before it in the stack. 0 for all other limits.
	Floor int64
	// Ahead is how much of a window may start ahead of an even pace, which is the rest of the limit over the rest of the time, or, if it
	// slides, the limit over the period. 0: all of it.
	Ahead int64
	// Calendar computes the bounds of calendar windows; nil for all other policies.
	Calendar *Calendar
	// Adapt sets how a rate slows down and recovers; nil if it does not.
	Adapt *Adapt
}

// An Adapt is a policies.Adaptation in the store's units. Shares are in millionths of the rate.
type Adapt struct {
	Floor    int64 // the smallest share
	Decrease int64 // the factor by which a refusal multiplies the share
	Hold     int64 // µs from a refusal until the share grows again
	Recovery int64 // µs in which it grows from nothing to the whole rate
}

// Equal reports whether two specs are the same.
func (s Spec) Equal(other Spec) bool {
	a, b := s, other
	if a.Adapt != nil && b.Adapt != nil && *a.Adapt == *b.Adapt {
		a.Adapt, b.Adapt = nil, nil
	}
	if a.Calendar != nil && b.Calendar != nil && a.Calendar.unit == b.Calendar.unit && a.Calendar.Zone() == b.Calendar.Zone() {
		a.Calendar, b.Calendar = nil, nil
	}
	return a == b
}

// HasQueue reports whether calls may have to queue for the limit, which is then granted only shortly before their slot.
func (s Spec) HasQueue() bool { return s.Algorithm == Concurrency || s.Queue != NoQueue }

// Tolerance returns the delay variation tolerance τ = (B−1)·T of a rate.
func (s Spec) Tolerance() int64 { return (s.Limit - 1) * s.Interval }
