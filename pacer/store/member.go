package store

import (
	"context"
	"time"
)

// A Member is a [Store] that takes part in a fleet on behalf of this process: it stands between a Pacer and a [Shared], and always
// answers within a bound of time, whatever becomes of that one.
type Member interface { //nolint:interfacebloat // it is what one type does, for one user: the Pacer
	Store
	Bulk
	Notifier
	Exchanger
	Readier

	// Await waits until the member can decide about calls: it does not know its share of any limit before the shared store has answered for
	// the first time, nor if it loses that one too soon afterwards. It returns at once otherwise, and if it need not know. It returns an
	// error that matches [ErrNoContact] or [ErrNoShare] if that lasts beyond latest, a time by this machine's clock (zero for no bound), or
	// the context's deadline; the context's error if it is cancelled; [ErrClosed] if closed is closed; and the store's own error if it does
	// not let this process in. It waits for the answer to the first request in any case, as all calls do.
	Await(ctx context.Context, latest time.Time, closed <-chan struct{}) error

	// ReserveEach is Reserve for several stacks of one upstream, in order, in one request if the shared store decides. It sets the error
	// of each, which may be nil. The last grants may be [Grant].Deferred. Unless the shared store is [Punctual], the batches are not the caller's any more: a
	// request that nobody waits for may still use them.
	ReserveEach(ctx context.Context, batches []Batch, errs []error)

	// Now estimates the store's time.
	Now() Instant

	// Echoes reports whether this process receives its own reports from the shared store.
	Echoes() bool

	// Check has the member look soon whether the shared store is what it was.
	Check()

	// Registry returns the shared store's registry; nil if it has none, or is out of reach.
	Registry() Registry

	// Close leaves the fleet, and waits for what is under way. The shared store stays open.
	Close()
}
