package policies

// An Algorithm is how a store keeps account of a policy.
type Algorithm uint8

// The algorithms. Their numbers go over the wire: they never change their meaning.
const (
	// GCRA is the generic cell rate algorithm of ITU-T I.371: one call each Interval, with a tolerance for bursts.
	GCRA Algorithm = 1
	// Window counts calls per bucket of time.
	Window Algorithm = 2
	// Concurrency counts calls that run at once. 3 is what a rate that adapts has on the wire.
	Concurrency Algorithm = 4
)

// Known reports whether it is one of these.
func (a Algorithm) Known() bool { return a == GCRA || a == Window || a == Concurrency }

// A Queue is how calls wait their turn for a limit. What has none gives slots at once, however far away they are.
type Queue uint8

// The queues. Their numbers go over the wire.
const (
	// NoQueue: slots are given in the order in which they are asked for.
	NoQueue Queue = iota
	// QueueOfLane: of the calls of a lane. The limit comes right after the one that it is a part of, and what that has left
	// is lent at the last moment.
	QueueOfLane
	// FairQueue: those who compete get equal parts, by weight.
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
	}
	return "unknown"
}

// A Spec is a policy as a store sees it: an algorithm and integers. All times are in microseconds, the unit of store
// time, rounded against the caller. It is what travels with each call, so that a changed limit holds at once.
type Spec struct {
	Algorithm Algorithm

	// Limit is the highest cost that can ever go at once: the burst B of a rate, the limit L of a window. Of leases it is how
	// many calls may run.
	Limit int64
	// Interval is the emission interval T of a rate, the width of one bucket of a window, the length of a lease.
	Interval int64
	// Most and Within bound the windows of a rate, besides: no more than Most calls start in any time that is shorter than
	// Within, so that of any Most + 1 calls the last starts Within after the first. Within is at most Most intervals. 0: no
	// such bound.
	Most, Within int64
	// Buckets is how many buckets before its own a sliding window counts; 0 for a fixed or calendar window.
	Buckets int64
	// Guard is the tail of each fixed or calendar window in which nothing is sent; of leases, for how long a permit stays
	// empty after its call.
	Guard int64
	// After is for how long a call has run when it begins to count: of leases.
	After int64
	// Queue is how calls wait their turn: of rates and leases.
	Queue Queue
	// Calendar holds the bounds of the windows where arithmetic does not do; nil for all others.
	Calendar *Calendar
	// Adapt says how a rate slows down and recovers; nil if it does not.
	Adapt *Adapt
}

// An Adapt is an [Adaptation] in the store's units. Shares are in millionths of the rate.
type Adapt struct {
	Floor    int64 // the smallest share
	Decrease int64 // what a refusal multiplies the share by
	Hold     int64 // µs from a refusal until the share grows again
	Recovery int64 // µs in which it grows from nothing to whole
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

// HasQueue reports whether calls may have to queue for the limit: it is granted only shortly before their slot.
func (s Spec) HasQueue() bool { return s.Algorithm == Concurrency || s.Queue != NoQueue }

// Tolerance returns the delay variation tolerance τ = (B−1)·T of a rate.
func (s Spec) Tolerance() int64 { return (s.Limit - 1) * s.Interval }
