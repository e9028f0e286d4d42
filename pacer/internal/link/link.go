package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// ErrResting is the error of a request that is not sent, because the store is lost.
var ErrResting = fmt.Errorf("%w: it failed before, and is tried again soon", store.ErrUnreachable)

// maxAtOnce is how many operations of callers are under way at once, beside those that are batched: reservations, refunds and redemptions. A
// client without a free connection holds a request back, which looks like a lost answer.
const maxAtOnce = 16

// A Link is the way to a shared store.
type Link struct {
	Closing chan struct{} // closed when the process leaves

	store     store.Shared
	timeout   time.Duration // for how long the store may take to answer
	requested func(op string, calls int, took time.Duration, err error)
	punctual  bool          // the store's operations end when their contexts do
	first     atomic.Int64  // for how long a request may take before the first contact, as a time.Duration; 0 since
	line      chan struct{} // filled by operations of callers that are under way
	pending   atomic.Int32  // requests that were sent
	running   sync.WaitGroup

	mu     sync.Mutex
	gone   chan struct{} // closed when the store is lost
	closed bool          // no request may begin
}

// New returns a link that reports each request: what it was, for how many reservations, and its error.
func New(backing store.Shared, timeout time.Duration, requested func(op string, calls int, took time.Duration, err error)) *Link {
	k := &Link{store: backing, timeout: timeout, Closing: make(chan struct{}), requested: requested, line: make(chan struct{}, maxAtOnce)}
	p, knows := backing.(store.Punctual)
	k.punctual, k.gone = knows && p.Punctual(), make(chan struct{})
	k.first.Store(int64(timeout))
	return k
}

// Try sets for how long a request may take until the first contact; 0 since then, or if it is not waited for any more.
func (k *Link) Try(d time.Duration) { k.first.Store(int64(d)) }

// Fault classifies an error of the store.
func (k *Link) Fault(err error) store.Fault { return k.store.Fault(err) }

// As returns the store as something that only some stores are.
func As[T any](k *Link) (t T, is bool) { t, is = k.store.(T); return t, is }

// ReserveAll reserves. Batches are not the caller's any more if it returns an error: the operation may last longer than this. late is called
// with grants that come when no call waits any more.
func (k *Link) ReserveAll(ctx context.Context, batches []store.Batch, late func([]store.Batch)) error {
	r := Request{Name: "reserve", reserves: true}
	for i := range batches {
		r.calls += len(batches[i].Calls)
	}
	if k.isInline() {
		return k.send(ctx, r, func(ctx context.Context) error { return k.store.ReserveAll(ctx, batches) })
	}
	own := slices.Clone(batches)
	r.late = func() { late(own) }
	return k.send(ctx, r, func(ctx context.Context) error { return k.store.ReserveAll(ctx, own) })
}

// CancelAll gives grants back, even if the process has left the fleet.
func (k *Link) CancelAll(ctx context.Context, batches []store.Batch) error {
	send := func(ctx context.Context) error { return k.store.CancelAll(ctx, batches) }
	err := k.send(ctx, Request{Name: "cancel"}, send)
	if errors.Is(err, store.ErrClosed) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.timeout)
		defer cancel()
		err = guarded(ctx, send)
	}
	return err
}

// Undo gives grants back that are not to be used.
func (k *Link) Undo(b *store.Batch) {
	ctx, cancel := context.WithTimeout(context.Background(), k.timeout)
	defer cancel()
	_ = k.store.Cancel(ctx, b.Stack, store.Granted(b.Grants))
}

// Each sends batches in one request, and sets the error of each. If one of them is at fault, the others do not suffer from it.
func (k *Link) Each(batches []store.Batch, errs []error, send func(some []store.Batch) error) {
	err := send(batches)
	for i := range batches {
		if errs[i] = err; len(batches) > 1 && k.IsUnfit(err) {
			errs[i] = send(batches[i : i+1])
		}
	}
}

// Ready tries the store, whether or not it has just failed. If it is no Readier, Ready reads the upstream's pause.
func (k *Link) Ready(ctx context.Context, upstream string) error {
	r, ok := k.store.(store.Readier)
	if !ok {
		return k.send(ctx, Request{Name: "ready", beside: true}, func(ctx context.Context) error {
			_, err := k.store.Pauses(ctx, store.Stack{Upstream: upstream})
			if err != nil && k.store.Fault(err) == store.Unreachable {
				return Unreachable(err)
			}
			return err
		})
	}
	if _, err := k.begin(); err != nil {
		return err
	}
	defer k.running.Done() // it may take longer than other requests
	return r.Ready(ctx, upstream)
}

// A registry is that of the store. No call depends on its requests.
type registry struct {
	*Link
	store.Registry
}

// Registry returns the store's; nil if it is none.
func (k *Link) Registry() store.Registry {
	if r, is := As[store.Registry](k); is {
		return registry{k, r}
	}
	return nil
}

// Index implements [store.Registry].
func (r registry) Index(ctx context.Context, upstream string) (*store.Index, error) {
	return Ask(ctx, r.Link, Request{Name: "index", beside: true}, func(ctx context.Context, _ store.Shared) (*store.Index, error) {
		return r.Registry.Index(ctx, upstream)
	})
}

// Describe implements [store.Registry].
func (r registry) Describe(ctx context.Context, upstream string, about store.About) (versions int, err error) {
	return Ask(ctx, r.Link, Request{Name: "describe", beside: true}, func(ctx context.Context, _ store.Shared) (int, error) {
		return r.Registry.Describe(ctx, upstream, about)
	})
}
