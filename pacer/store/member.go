package store

// A Member is a [Store] that takes part in a fleet on behalf of this process: it stands between a Pacer and a [Shared], and always
// answers within a bound of time, whatever becomes of that one.
type Member interface {
	Store
	Bulk
	Notifier
	Exchanger

	// Now estimates the store's time.
	Now() Instant

	// Echoes reports whether this process hears from the shared store of what it reports itself.
	Echoes() bool

	// Check has the member look soon whether the shared store is what it was.
	Check()

	// Registry returns the shared store's registry; nil if it has none, or is out of reach.
	Registry() Registry

	// Close leaves the fleet, and waits for what is under way. The shared store stays open.
	Close()
}
