package pacer

import "github.com/headway-go/headway/pacer/internal/failover"

// An Outage decides what becomes of calls while a [store.Shared] is out of reach.
type Outage uint8

// What becomes of calls.
const (
	// PaceLocally paces each process from memory, at its share of every limit: the limit divided by the number of
	// processes that were alive when the store last answered. When the store is back, the process reports to it what
	// was spent meanwhile. A process that has never heard from its store takes the number from Config.Processes; if that
	// is not set, its calls wait for the first contact.
	PaceLocally Outage = iota
	// RefuseCalls refuses calls with a [*StoreError] that matches [store.ErrUnreachable].
	RefuseCalls
	// LetThrough lets every call go at once. None of these calls is counted afterwards.
	LetThrough
)

// String returns a short name of the outage mode.
func (o Outage) String() string {
	switch o {
	case PaceLocally:
		return "pace locally"
	case RefuseCalls:
		return "refuse calls"
	case LetThrough:
		return "let through"
	}
	return "unknown"
}

// mode returns how a member behaves.
func (o Outage) mode() failover.Mode {
	switch o {
	case RefuseCalls:
		return failover.Refuse
	case LetThrough:
		return failover.LetThrough
	case PaceLocally:
	}
	return failover.Local
}
