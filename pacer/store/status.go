package store

// A StackStatus is the state of a stack at one instant.
type StackStatus struct {
	Now    Instant
	Limits []LimitStatus

	_ struct{}
}

// A LimitStatus is the state of one limit of a stack at one instant.
type LimitStatus struct {
	Remaining int64   // calls of cost 1 that may go now
	Next      Instant // the first slot for a call of cost 1
	Backlog   int64   // cost charged to slots after now
	Paused    Instant // of an allowance: nothing is left until then; 0 if something is
	Pace      int64   // as it is now, learned and adapted: the emission interval of a rate in µs, the limit of a window or of leases
	Queued    int64   // queued calls
	Margin    int64   // by how much longer than it is the period is taken to be, in millionths: see NoteStray
	// Full is when the whole limit is available again, if nothing else is charged, given back or reported: charges have expired, and the
	// pace is the limit's own. For leases it is when the last one runs out. It ignores the margin.
	Full Instant

	_ struct{}
}
