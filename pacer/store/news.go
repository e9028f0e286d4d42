package store

// A Notifier is a [Store] that can announce pauses as they are reported, so that calls that wait already heed them, too. Without it a pause
// reaches only new calls and those of the process that reported it.
type Notifier interface {
	// Listen calls receive for each change of the upstream's limits from now on, by any process that shares the store,
	// and for each time when some of them may have been missed. It does not block, and calls receive from one goroutine
	// at a time, until stop returns.
	Listen(upstream string, receive func(News)) (stop func())
}

// An Exchanger is a [Store] that grants slots by itself while it is without the one that others share. When it has that back,
// it sends a [Change] of the kind [Resync].
type Exchanger interface {
	// Exchangeable reports whether a grant is such a slot and still to come: it is to be given up for one of the shared store.
	Exchangeable(g *Grant) bool
	// Returning reports whether a grant is such a slot that is not to be used yet: the store is back, and may grant it to others.
	Returning(g *Grant) bool
}

// Key returns what names the account of the limit that has changed.
func (c *Change) Key() Key { return Key{c.Policy, c.Scope} }

// News is what a [Notifier] reports.
type News struct {
	Missed  bool // connected, for the first time or again: what was reported before is not known
	Changes []Change

	_ struct{}
}

// A Change of a limit concerns calls that wait already.
type Change struct {
	Kind          ChangeKind
	Policy, Scope string // of a [Limit]; both "": the whole upstream
	Now           Instant
	Until         Instant // when a pause ends
	ID            int64   // of a call that is to wake

	_ struct{}
}

// A ChangeKind is the kind of a [Change].
type ChangeKind uint8

// Kinds of changes.
const (
	// Paused: slots before Until are not good any more.
	Paused ChangeKind = iota + 1
	// Resumed: a pause was lifted or a limit reset, and slots may be had earlier.
	Resumed
	// Slowed: an adaptive rate has slowed down, and slots that were granted are too close to each other.
	Slowed
	// Wake: a queued call must poll now.
	Wake
	// EpochBegan: an epoch of the store's data has begun. A process that knows another one is to check at once.
	EpochBegan
	// Resync: this process was without its store and has it back. Its own grants are given up: see [Exchanger].
	Resync
)
