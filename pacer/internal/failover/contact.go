package failover

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// The first contact. A process that has never had an answer from its store does not know how many others there are, so it cannot know its
// share of any limit: the only safe guess would be none. Unless its Config has how many there are, or lets calls through or refuses them,
// its calls wait until the store answers. One goroutine makes the attempts, however many calls wait; each of them sleeps on one channel,
// which is closed when contact is made or denied, so that a call costs nothing while it waits and nothing when it leaves.

// Bounds of attempts.
const (
	// firstContact is how many times StoreTimeout the very first attempt may take: it has to connect. Each further one may take twice
	// as long, up to longestAttempt: on a machine that is too busy, or over a network that is slow, shorter ones would never succeed.
	firstContact   = 4
	longestAttempt = 8 * time.Second
	// firstRetry is how long after a failed attempt the next one begins, later longer, up to lastRetry.
	firstRetry = probeEvery + probeEvery/4
	lastRetry  = time.Second
)

// contact is what a process does until its store has answered for the first time.
type contact struct {
	mu       sync.Mutex
	trying   bool          // a goroutine makes attempts
	attempt  *attempt      // the one under way, or the last one
	over     chan struct{} // closed when no call needs to wait any longer: contact is made, or denied
	reported bool          // hooks know that there is none
}

// An attempt is one try to reach the store.
type attempt struct {
	first bool          // of its goroutine
	done  chan struct{} // closed when it is over
	err   error         // why it failed; nil if it did not
}

// isOver reports whether the attempt is over.
func (a *attempt) isOver() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// A noContactError means that the store has never answered, or not for long enough, and contains why the last attempt failed.
type noContactError struct {
	kind  error // store.ErrNoContact or store.ErrNoShare
	cause error
	end   error // context.DeadlineExceeded if that is why a call waits no longer
}

// Error implements error.
func (e *noContactError) Error() string {
	return e.kind.Error() + ": " + strings.TrimPrefix(e.cause.Error(), store.ErrUnreachable.Error()+": ")
}

// Unwrap returns what the error matches.
func (e *noContactError) Unwrap() []error {
	all := []error{e.kind, store.ErrUnreachable, e.cause}
	if e.end != nil {
		all = append(all, e.end)
	}
	return all
}

// canStartLocal reports whether this process may decide about calls without ever having had an answer from the store.
func (w *Store) canStartLocal() bool {
	if w.config.Mode != Local || w.config.Processes > 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.standing.sent.IsZero() // it has had an answer, though not everything went well
}

// Await implements [store.Member].
func (w *Store) Await(ctx context.Context, latest time.Time, closed <-chan struct{}) error {
	for {
		if away := w.away.Load(); away != nil && away.over != nil {
			if err := w.sleepUntil(ctx, latest, away.over, closed); err != nil {
				return err
			}
			continue
		}
		if w.state.Load() != unknown {
			return nil
		}
		a, over, err := w.beginContact(ctx)
		if err != nil {
			return err
		}
		if a.first && !a.isOver() { // every call waits for that as for any answer of the store
			select {
			case <-a.done:
			case <-ctx.Done():
				return w.leavesContact(ctx)
			case <-closed:
				return store.ErrClosed
			}
		}
		if a.isOver() && w.deniedBy(a) {
			return a.err
		}
		if w.state.Load() != unknown {
			return nil
		}
		if err := w.sleepUntil(ctx, latest, over, closed); err != nil {
			return err
		}
	}
}

// sleepUntil waits until contact is made or denied, or the process has a share.
func (w *Store) sleepUntil(ctx context.Context, latest time.Time, over, closed <-chan struct{}) error {
	var late <-chan time.Time
	if !latest.IsZero() {
		left := time.Until(latest)
		if left <= 0 {
			return w.noContact(nil)
		}
		timer := time.NewTimer(left)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-over:
		if w.state.Load() == unknown {
			w.contact.mu.Lock()
			defer w.contact.mu.Unlock()
			if a := w.contact.attempt; a.isOver() && w.deniedBy(a) {
				return a.err
			}
		}
		return nil
	case <-late:
		return w.noContact(nil)
	case <-ctx.Done():
		return w.leavesContact(ctx)
	case <-closed:
	case <-w.closing:
	}
	return store.ErrClosed
}

// leavesContact returns the error of a call whose context has ended.
func (w *Store) leavesContact(ctx context.Context) error {
	if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return w.noContact(ctx.Err())
}

// noContact returns the error of a call for which the store has not answered in time.
func (w *Store) noContact(end error) error {
	e := &noContactError{kind: store.ErrNoContact, cause: w.overdue(), end: end}
	if w.state.Load() != unknown {
		e.kind = store.ErrNoShare
	}
	if p := w.failure.Load(); p != nil {
		e.cause = unreachable(*p)
	}
	return e
}

// deniedBy reports whether an attempt that is over found a mistake in the configuration, which waiting does not mend.
func (w *Store) deniedBy(a *attempt) bool {
	return a.err != nil && !errors.Is(a.err, store.ErrUnreachable)
}

// beginContact returns the attempt under way, or the last one, and a channel that is closed when no call needs to wait any longer. If
// nobody tries, it begins to.
func (w *Store) beginContact(ctx context.Context) (*attempt, <-chan struct{}, error) {
	c := &w.contact
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trying || c.attempt != nil && w.state.Load() != unknown {
		return c.attempt, c.over, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leaving {
		return nil, nil, store.ErrClosed
	}
	w.finished = make(chan struct{}) // from here on, Close waits for makeContact and run
	c.trying, c.over = true, make(chan struct{})
	c.attempt = &attempt{first: true, done: make(chan struct{})}
	go w.makeContact(context.WithoutCancel(ctx), c.attempt, w.finished) //nolint:gosec // it runs until the Pacer is closed, for all calls
	return c.attempt, c.over, nil
}

// makeContact tries to reach the store until it answers, or the process need not wait for that, or must not. Then it runs on.
func (w *Store) makeContact(ctx context.Context, a *attempt, finished chan<- struct{}) { //nolint:contextcheck // but for the first, its requests are nobody's
	defer close(finished)
	for n := 0; ; n++ {
		err := w.attemptContact(ctx, n)
		joined := w.state.Load() != unknown
		denied := err != nil && !errors.Is(err, store.ErrUnreachable)
		w.endAttempt(a, err, joined || denied)
		switch {
		case joined:
			w.run()
			return
		case denied: // the next call begins anew
			return
		}
		w.reportNoContact(err)
		if a = w.nextAttempt(n); a == nil {
			return
		}
		ctx = context.Background()
	}
}

// attemptContact tries once. If it succeeds, or the process may decide without the store, the state is not unknown any more.
func (w *Store) attemptContact(ctx context.Context, n int) error {
	w.resyncing <- struct{}{}
	defer func() { <-w.resyncing }()
	w.budget.Store(int64(min(w.config.Timeout*firstContact<<min(n, 8), max(longestAttempt, w.config.Timeout*firstContact))))
	began := w.Now()
	if w.pending.Load() >= maxProbes { // of earlier attempts, whose client does not give up
		return errResting
	}
	wait, err := w.join(ctx)
	switch {
	case err == nil && wait > 0:
		w.fallBack(errAtBarrier, began)
	case err == nil:
		w.doubtSettings()
		w.readSettings(ctx)
	case errors.Is(err, store.ErrClosed), !errors.Is(err, store.ErrUnreachable) && w.store.Fault(err) != store.Unreachable:
		return err // a mistake in the configuration: it has never worked
	case w.canStartLocal():
		w.fallBack(err, began)
	default:
		w.failed(err)
		return unreachable(err)
	}
	return nil
}

// endAttempt records how an attempt ended, and lets those go on who wait for that.
func (w *Store) endAttempt(a *attempt, err error, over bool) {
	c := &w.contact
	c.mu.Lock()
	defer c.mu.Unlock()
	a.err = err
	close(a.done)
	if over {
		c.trying = false
		close(c.over)
	}
}

// nextAttempt waits until the attempt after the n-th is due. It returns nil if the process leaves.
func (w *Store) nextAttempt(n int) *attempt {
	timer := time.NewTimer(max(firstRetry, roughly(min(firstRetry<<min(n, 8), lastRetry))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.closing:
		return nil
	}
	c := &w.contact
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempt = &attempt{done: make(chan struct{})}
	return c.attempt
}
