package store

// A Direct is a [Store] in this process: its answers take no time, so nobody needs to wait for one, to batch requests or to expect
// that they are lost. A decorator that embeds a Direct is one, too: it must decorate Admit as well as Reserve, or embed a [Store].
type Direct interface {
	Store

	// Now returns the store's time.
	Now() Instant

	// Prepare returns a handle on the accounts of a limit, for all values of its scopes: Scope is not used. It is for one upstream.
	Prepare(upstream string, l *Limit) Prepared

	// Admit charges a call that may go now, and reports whether it did. A call that is not plain (one that would have to wait, a key that
	// is new, an error) changes nothing and is left to Reserve.
	Admit(a Admission) bool

	// Spent passes recent admissions to seen, with the cost for each limit, by its index, and second, and returns the cost of keys with
	// scopes in about the last minute. It counts from when it was first called: before, nobody pays for it.
	Spent(limits []Prepared, seen func(limit int, second, cost int64)) map[Key]int64
}

// Prepared is a handle on a limit's accounts. Its content is the store's.
type Prepared any

const (
	// MaxAdmission is how many limits an [Admission] has at most.
	MaxAdmission = 8
	// FewLimits is how many limits a stack has as a rule, at most: what is kept of a call that may wait has room for so many of each, and
	// needs no allocation for them.
	FewLimits = 4
)

// An Admission is a call that is to go now or not at all. It is passed by value, so that nothing needs to be allocated.
type Admission struct {
	Cost   int64
	Len    int // how many limits there are
	Limits [MaxAdmission]Bound
}

// A Bound is a limit that binds a call, for a value of its scopes; "" if it has none.
type Bound struct {
	Limit Prepared
	Scope string
}
