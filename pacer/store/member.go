package store

import (
	"context"
	"time"
)

// A Member is a [Store] that takes part in a fleet for this process: it stands between a Pacer and a [Shared], and answers within a bound
// of time, whatever happens to that store.
type Member interface { //nolint:interfacebloat // it is what one type does, for one user: the Pacer
	Store
	Bulk
	Notifier
	Exchanger
	Readier

	// Await waits until the member can decide about calls. It cannot before the shared store has answered for the first time, nor if it
	// loses that store too soon afterwards, since it does not know its share of any limit; otherwise Await returns at once. It returns an
	// error that matches [ErrNoContact] or [ErrNoShare] if that lasts beyond latest, a time by this machine's clock (zero for no bound), or
	// the context's deadline; the context's error if it is cancelled; [ErrClosed] if closed is closed; and the store's own error if it
	// denies this process access. It always waits for the answer to the first request, as all calls do.
	Await(ctx context.Context, latest time.Time, closed <-chan struct{}) error

	// ReserveEach is Reserve for several stacks of one upstream, in order, in one request if the shared store decides. It sets the error
	// of each, which may be nil. The last grants may be [Grant].Deferred. Unless the shared store is [Punctual], the batches are not the caller's any more: a
	// request that nobody waits for may still use them.
	ReserveEach(ctx context.Context, batches []Batch, errs []error)

	// Now estimates the store's time.
	Now() Instant

	// Echoes reports whether the shared store sends this process its own reports back.
	Echoes() bool

	// Check makes the member compare the shared store's epoch soon.
	Check()

	// Registry returns the shared store's registry; nil without one, or if the store is out of reach.
	Registry() Registry

	// Close leaves the fleet, after pending requests. The shared store stays open.
	Close()
}
