package store

// A Notifier is a [Store] that announces pauses as they are reported, so that waiting calls heed them. Without it, a pause reaches only new
// calls, and those of the process that reported it.
type Notifier interface {
	// Listen calls receive for each change of the upstream's limits by any process that shares the store, and whenever changes may have
	// been missed, until stop returns. It does not block, and calls receive from one goroutine at a time.
	Listen(upstream string, receive func(News)) (stop func())
}

// An Exchanger is a [Store] that grants slots by itself while the shared store is out of reach. When that is back, it sends a [Change] of
// the kind [Resync].
type Exchanger interface {
	// Exchangeable reports whether a grant is such a slot, and in the future: the caller then exchanges it for one of the shared store.
	Exchangeable(g *Grant) bool
	// Returning reports whether a grant is such a slot that must not be used now: the shared store is back, and may grant it to others.
	Returning(g *Grant) bool
}

// Key returns the key of the limit that has changed.
func (c *Change) Key() Key { return Key{c.Policy, c.Scope} }

// News is what a [Notifier] reports.
type News struct {
	Missed  bool // connected, for the first time or again: what was reported before is not known
	Changes []Change

	_ struct{}
}

// A Change of a limit concerns waiting calls.
type Change struct {
	Kind          ChangeKind
	Policy, Scope string // of a [Limit]; both "": the whole upstream
	Now           Instant
	Until         Instant // when a pause ends
	ID            int64   // of a call to wake

	_ struct{}
}

// A ChangeKind is the kind of a [Change].
type ChangeKind uint8

// Kinds of changes.
const (
	// Paused: slots before Until are void.
	Paused ChangeKind = iota + 1
	// Resumed: a pause was lifted or a limit reset, so there may be earlier slots.
	Resumed
	// Slowed: an adaptive rate has slowed down, so granted slots are too close to each other.
	Slowed
	// Wake: a queued call must poll now.
	Wake
	// EpochBegan: the store's data began a new epoch. A process that knows another one must check at once.
	EpochBegan
	// Resync: this process has its store back, and gives up its own grants: see [Exchanger].
	Resync
)
