package store

// A StackStatus is a stack seen at one instant.
type StackStatus struct {
	Now    Instant
	Limits []LimitStatus

	_ struct{}
}

// A LimitStatus is one limit of a stack seen at one instant.
type LimitStatus struct {
	Remaining int64   // calls of cost 1 that may go now
	Next      Instant // the first slot for a call of cost 1
	Backlog   int64   // cost charged to slots after now
	Paused    Instant // of an allowance: nothing is left until then; 0 if something is
	Pace      int64   // as it is now, learned and adapted: the emission interval of a rate in µs, the limit of a window or of leases
	Queued    int64   // queued calls
	Margin    int64   // by how much longer than it is the period is taken to be, in millionths: see NoteStray
	// Full is when all of the limit may go again, if nothing is charged, given back or reported until then: what is charged counts no
	// more, and the pace is the limit's own. Of leases it is when the last one runs out. A margin is not waited for.
	Full Instant

	_ struct{}
}
