package failover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/deadline"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
)

// maxAtOnce is how many operations of callers are under way at once, beside those that are batched: reservations, refunds and redemptions. A client
// without a free connection holds a request back, which looks like a lost answer.
const maxAtOnce = 16

// reachInTurn is reach for the operation of a caller. There may be thousands: it waits while maxAtOnce are under way.
func (w *Store) reachInTurn(ctx context.Context, name string, op func(context.Context) error) error {
	w.line <- struct{}{} // each of them ends in time
	defer func() { <-w.line }()
	return w.reach(ctx, name, op)
}

// reach runs an operation of the store, unless it has just failed: it returns an ErrUnreachable then, and if the store
// does not answer in time.
func (w *Store) reach(ctx context.Context, name string, op func(context.Context) error) error {
	done := w.breaker.allow()
	if done == nil {
		return errResting
	}
	err := w.within(ctx, name, 0, op)
	failed := w.isFailure(err)
	if done(failed); failed {
		return unreachable(err)
	}
	return err
}

// A way runs an operation of the store, and waits for it as long as the store may take: see reach, reachInTurn and beside.
type way func(ctx context.Context, name string, op func(context.Context) error) error

// answerOf returns the answer to an operation. The operation may last longer than that.
func answerOf[T any](ctx context.Context, by way, name string, op func(context.Context) (T, error)) (answer T, err error) {
	answers := make(chan T, 1)
	err = by(ctx, name, func(ctx context.Context) error {
		a, err := op(ctx)
		answers <- a
		return err
	})
	if err == nil {
		answer = <-answers
	}
	return answer, err
}

// beside runs an operation that no call depends on. It does not show whether the store can be reached.
func (w *Store) beside(ctx context.Context, name string, op func(context.Context) error) error {
	return w.within(ctx, name, 0, op)
}

// isFailure reports whether an operation's error means that the store is out of reach.
func (w *Store) isFailure(err error) bool {
	switch {
	case err == nil, forgot(err) != nil, isFull(err), errors.Is(err, store.ErrClosed):
		return false
	case errors.Is(err, store.ErrUnreachable):
		return true
	}
	fault := w.store.Fault(err)
	return fault != store.Unfit && (fault != store.Denied || w.state.Load() != unknown)
}

func unreachable(err error) error {
	if errors.Is(err, store.ErrUnreachable) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnreachable, err)
}

// overdue is the error of an operation that took too long. It is a [net.Error], which metrics count as a timeout.
func (w *Store) overdue() error { return overdueError{w.config.Timeout} }

type overdueError struct{ within time.Duration }

func (e overdueError) Error() string {
	return fmt.Sprintf("%v: no answer within %v, or another operation failed meanwhile", store.ErrUnreachable, e.within)
}

func (overdueError) Unwrap() error   { return store.ErrUnreachable }
func (overdueError) Timeout() bool   { return true }
func (overdueError) Temporary() bool { return true }

// longestOf returns the timeout of a request that must connect first. timeout is that of other requests.
func longestOf(timeout time.Duration) time.Duration { return 4 * timeout }

// begin begins an operation, and returns a channel that is closed when the store is lost.
func (w *Store) begin() (gone <-chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, store.ErrClosed
	}
	w.running.Add(1)
	w.pending.Add(1)
	return w.gone, nil
}

// end is the end of begin.
func (w *Store) end() {
	w.pending.Add(-1)
	w.running.Done()
}

// within waits for an operation, at most the time that the store may take, whatever its client's own timeouts and retries are. The
// operation may last longer. calls is how many calls it is about.
func (w *Store) within(values context.Context, name string, calls int, op func(context.Context) error) (err error) {
	gone, err := w.begin()
	if err != nil {
		return err
	}
	timeout, began := w.config.Timeout, time.Now()
	var closing <-chan struct{} // what runs is waited for, unless the store has never answered
	if w.state.Load() == unknown {
		timeout, closing = max(timeout, time.Duration(w.budget.Load())), w.closing
	}
	ctx := deadline.New(values, timeout, max(timeout, longestOf(w.config.Timeout)))
	answer := make(chan error, 1)
	go func() { //nolint:contextcheck // its context is a deadline.Context
		defer w.end()
		defer ctx.End()
		answer <- guarded(ctx, op)
	}()
	defer func() { w.requested(name, calls, began, err) }()
	select {
	case err := <-answer:
		return w.ofTheCall(err)
	case <-ctx.Done():
	case <-gone:
	case <-closing:
		ctx.End()
		return store.ErrClosed
	}
	select {
	case err := <-answer:
		return w.ofTheCall(err)
	default:
		return w.overdue()
	}
}

// ofTheCall replaces the error of a request whose time is over: its caller's is not.
func (w *Store) ofTheCall(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return w.overdue()
	}
	return err
}

// inTime is within for a store that is known, and whose operations end when their contexts do: they run in this goroutine. A store that panics
// does so in the caller's.
func (w *Store) inTime(values context.Context, name string, calls int, op func(context.Context) error) (err error) {
	if _, err := w.begin(); err != nil {
		return err
	}
	defer w.end()
	began := time.Now()
	ctx := deadline.New(values, w.config.Timeout, longestOf(w.config.Timeout))
	defer ctx.End()
	defer func() { w.requested(name, calls, began, err) }()
	err = store.ErrUnreachable // if it panics
	err = w.ofTheCall(op(ctx)) //nolint:contextcheck // it is a deadline.Context
	return err
}

// guarded runs an operation of the store in a goroutine of this package. If the store panics, it is out of reach.
func guarded(ctx context.Context, op func(context.Context) error) (err error) {
	if !telemetry.Guard("a store", func() { err = op(ctx) }) {
		err = store.ErrUnreachable
	}
	return err
}

// A breaker keeps requests from a store that has just failed: none is sent for probeEvery, then one at a time until one is answered.
type breaker struct {
	mu      sync.Mutex
	turn    int       // counts failures and recoveries: how requests that began before the last one end means nothing
	until   time.Time // none is sent before; zero while the store answers
	probing bool      // one is under way meanwhile
}

// allow returns a function with which a request reports how it ended, or nil if it must not be sent.
func (b *breaker) allow() (done func(failed bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probing || time.Now().Before(b.until) {
		return nil
	}
	b.probing = !b.until.IsZero()
	turn := b.turn
	return func(failed bool) { b.ended(turn, failed) }
}

// now returns the turn in which a request begins.
func (b *breaker) now() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.turn
}

// ended notes how a request ended that began in a turn.
func (b *breaker) ended(turn int, failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case turn != b.turn:
	case failed:
		b.turn, b.until, b.probing = b.turn+1, time.Now().Add(probeEvery), false
	case b.probing:
		b.turn, b.until, b.probing = b.turn+1, time.Time{}, false
	}
}
