package store

// A Direct is a [Store] in this process, which answers at once: its callers need not wait, batch requests or expect that answers are lost.
// A decorator that embeds a Direct is one, too: it must decorate both Admit and Reserve, or embed a [Store].
type Direct interface {
	Store

	// Now returns the store's time.
	Now() Instant

	// Prepare returns a handle on the accounts of a limit of one upstream, for all values of its scopes. It ignores Scope.
	Prepare(upstream string, l *Limit) Prepared

	// Admit charges a call that may go now, and reports whether it did. For any other call (one that has to wait, or that others queue
	// before, a new key, an error) it changes nothing: use Reserve.
	Admit(a Admission) bool
}

// Prepared is a handle on a limit's accounts. Only the store knows its content.
type Prepared any

const (
	// MaxAdmission is the most limits of an [Admission].
	MaxAdmission = 8
	// FewLimits is the most limits that stacks usually have. Up to that, the state of a waiting call takes no allocation.
	FewLimits = 4
)

// An Admission is a call that goes now or not at all. It is passed by value, without an allocation.
type Admission struct {
	Cost   int64
	Len    int    // how many limits there are
	Kept   uint64 // see [Call]
	Limits [MaxAdmission]Bound
}

// A Bound is a limit that binds a call, for a value of its scopes; "" without scopes.
type Bound struct {
	Limit Prepared
	Scope string
}
