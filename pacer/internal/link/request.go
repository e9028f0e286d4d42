package link

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/headway-go/headway/pacer/internal/deadline"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
)

// A Request describes an operation of the store.
type Request struct {
	Name     string
	InTurn   bool   // one of perhaps thousands of callers makes it: it waits while maxAtOnce are under way
	calls    int    // that it is about
	reserves bool   // it runs in the caller's goroutine, if the store is punctual and has answered before
	beside   bool   // no call depends on it, and it does not show whether the store can be reached
	late     func() // if not nil: is called if it is done when no caller waits any more
}

// Ask sends a request, and returns its answer, or an ErrUnreachable. The operation may last longer than that.
func Ask[T any](ctx context.Context, k *Link, r Request, op func(context.Context, store.Shared) (T, error)) (answer T, err error) {
	answers := make(chan T, 1)
	err = k.send(ctx, r, func(ctx context.Context) error {
		a, err := op(ctx, k.store)
		answers <- a
		return err
	})
	if err == nil {
		answer = <-answers
	}
	return answer, err
}

// send sends a request. It returns an ErrUnreachable if the store is out of reach.
func (k *Link) send(ctx context.Context, r Request, op func(context.Context) error) error {
	gone, err := k.begin()
	if err != nil {
		return err
	}
	if r.InTurn {
		k.line <- struct{}{} // each of them ends in time
		defer func() { <-k.line }()
		if isClosed(gone) {
			k.running.Done()
			return ErrResting
		}
	}
	if err = k.wait(ctx, r, gone, op); k.isFailure(err) && !r.beside {
		return Unreachable(err)
	}
	return err
}

// wait waits for an operation for as long as the store may take, whatever its client's own timeouts and retries are. The operation may last
// longer. If the store panics, it is out of reach; in the caller's goroutine, it panics there.
func (k *Link) wait(values context.Context, r Request, gone <-chan struct{}, op func(context.Context) error) (err error) {
	k.pending.Add(1)
	began, timeout, first := time.Now(), k.timeout, time.Duration(k.first.Load())
	var closing <-chan struct{} // what runs is waited for, unless the store has never answered
	if first > 0 {
		timeout, closing = max(timeout, first), k.Closing
	}
	ctx := deadline.New(values, timeout, max(timeout, 4*k.timeout)) // the latter is for one that has to connect first
	defer func() {
		if errors.Is(err, context.DeadlineExceeded) { // the request's, and not its caller's
			err = k.Overdue()
		}
		reported := err
		if Forgot(err) != nil {
			reported = nil
		}
		k.requested(r.Name, r.calls, time.Since(began), reported)
	}()
	if r.reserves && k.isInline() {
		defer k.end()
		defer ctx.End()
		err = store.ErrUnreachable // if it panics
		err = op(ctx)              //nolint:contextcheck // it is a deadline.Context
		return err
	}
	answer, left := make(chan error), make(chan struct{})
	defer close(left)
	go func() { //nolint:contextcheck // its context is a deadline.Context
		defer k.end()
		defer ctx.End()
		err := guarded(ctx, op)
		select {
		case answer <- err:
		case <-left:
			if err == nil && r.late != nil {
				r.late()
			}
		}
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	case <-gone:
	case <-closing:
		ctx.End()
		return store.ErrClosed
	}
	select {
	case err := <-answer:
		return err
	default:
		return k.Overdue()
	}
}

// isInline reports whether requests that reserve run in the caller's goroutine.
func (k *Link) isInline() bool { return k.punctual && k.first.Load() == 0 }

// guarded runs an operation of the store in a goroutine of this package.
func guarded(ctx context.Context, op func(context.Context) error) (err error) {
	if !telemetry.Guard("a store", func() { err = op(ctx) }) {
		err = store.ErrUnreachable
	}
	return err
}

// isFailure reports whether an operation's error means that the store is out of reach.
func (k *Link) isFailure(err error) bool {
	switch {
	case err == nil, Forgot(err) != nil, IsFull(err), errors.Is(err, store.ErrClosed):
		return false
	case errors.Is(err, store.ErrUnreachable):
		return true
	}
	fault := k.store.Fault(err)
	return fault != store.Unfit && (fault != store.Denied || k.first.Load() == 0)
}

// IsUnfit reports whether an error is about one stack only, so that to repeat it would not help.
func (k *Link) IsUnfit(err error) bool {
	return err != nil && !errors.Is(err, store.ErrUnreachable) && k.store.Fault(err) == store.Unfit
}

// Forgot returns the error of a store that has forgotten; nil if it is another.
func Forgot(err error) *store.ForgotError {
	f, _ := errors.AsType[*store.ForgotError](err)
	return f
}

// IsFull reports whether an error is the answer of a store that keeps no more settings.
func IsFull(err error) bool {
	_, is := errors.AsType[*store.SettingsError](err)
	return is
}

// Unreachable returns an error that matches store.ErrUnreachable.
func Unreachable(err error) error {
	if errors.Is(err, store.ErrUnreachable) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnreachable, err)
}

// Overdue returns the error of an operation that took too long. It is a net.Error, which metrics count as a timeout.
func (k *Link) Overdue() error {
	return fmt.Errorf("%w: no answer within %v, or another operation failed meanwhile: %w", store.ErrUnreachable, k.timeout, os.ErrDeadlineExceeded)
}

// begin begins a request, and returns a channel that is closed when the store is lost.
func (k *Link) begin() (gone <-chan struct{}, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, store.ErrClosed
	}
	k.running.Add(1)
	return k.gone, nil
}

// end is the end of a request that was sent.
func (k *Link) end() {
	k.pending.Add(-1)
	k.running.Done()
}

// Pending returns how many requests were sent, and have not ended.
func (k *Link) Pending() int { return int(k.pending.Load()) }

// Abandon ends the wait for all requests that are under way, or wait for their turn.
func (k *Link) Abandon() {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.gone)
	k.gone = make(chan struct{})
}

// Close lets no request begin any more, and waits for those that have.
func (k *Link) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.running.Wait()
}

// IsClosing reports whether the process is about to leave the fleet.
func (k *Link) IsClosing() bool { return isClosed(k.Closing) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
