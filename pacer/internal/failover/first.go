package failover

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/internal/charges"
	"github.com/headway-go/headway/pacer/internal/link"
	"github.com/headway-go/headway/pacer/store"
)

// Bounds of attempts.
const (
	// firstContact is how many times StoreTimeout the very first attempt may take: it has to connect. Each further one may take twice as long,
	// up to longestAttempt: on a busy machine, or over a slow network, shorter ones would never succeed.
	firstContact   = 4
	longestAttempt = 8 * time.Second
	// firstRetry is how long after a failed attempt the next one begins, later longer, up to lastRetry.
	firstRetry = probeEvery + probeEvery/4
	lastRetry  = time.Second
)

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

// A member is the goroutine of this process, which reaches the store, and returns to it, and what calls wait for meanwhile. A call costs
// nothing while it waits, and nothing when it leaves: it sleeps on a channel, which is closed when contact is made or denied.
type member struct {
	*contact

	settings   *settings
	heartbeats *heartbeats
	payer      *payer
	accounts   *charges.Accounts

	turn     chan struct{}                    // filled while the process returns
	barrier  atomic.Int64                     // meanwhile: when this process stops deciding by itself, as a store.Instant; 0 otherwise
	listener atomic.Pointer[func(store.News)] // receives that the process is back
	checks   chan struct{}                    // requests to check whether the store is what it was

	mu       sync.Mutex
	attempts *attempts     // nil if there are none, or they were denied
	finished chan struct{} // closed when the goroutine has ended
}

// attempts are those of a goroutine to reach the store for the first time.
type attempts struct {
	tried chan struct{} // closed when the first of them is over
	over  chan struct{} // closed when no call needs to wait any longer: contact is made, or denied
	err   error         // once over: why the store denies this process. It is a mistake in the configuration, which waiting does not mend
}

// Await implements [store.Member].
func (m *member) Await(ctx context.Context, latest time.Time, closed <-chan struct{}) error {
	for {
		if err := m.reach(ctx, latest, closed); err != nil {
			return err
		}
		away := m.away.Load()
		if away == nil || away.Over == nil {
			return nil
		}
		if err := m.sleep(ctx, latest, away.Over, closed); err != nil {
			return err
		}
	}
}

// ensureJoined reports whether the shared store decides. The first call joins the fleet, and those that come meanwhile wait for that. While
// there is no contact, it returns an error at once that matches store.ErrNoContact.
func (m *member) ensureJoined(ctx context.Context) (bool, error) {
	err := m.reach(ctx, time.Now(), nil)
	return m.is(shared), err
}

// reach waits for the first contact until latest, and in any case for the first attempt: all calls wait for that as for any answer.
func (m *member) reach(ctx context.Context, latest time.Time, closed <-chan struct{}) error {
	for m.is(unknown) {
		a, err := m.begin(ctx)
		if err == nil {
			err = m.sleep(ctx, time.Time{}, a.tried, closed)
		}
		if err == nil {
			err = m.sleep(ctx, latest, a.over, closed)
		}
		if err == nil {
			err = a.err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sleep waits until a channel is closed, as long as a call may wait.
func (m *member) sleep(ctx context.Context, latest time.Time, over, closed <-chan struct{}) error {
	select {
	case <-over:
		return nil
	default:
	}
	var late <-chan time.Time
	if !latest.IsZero() {
		timer := time.NewTimer(time.Until(latest))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-over:
		return nil
	case <-late:
		return m.noContact(nil)
	case <-ctx.Done():
		if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return m.noContact(ctx.Err())
	case <-closed:
	case <-m.link.Closing:
	}
	return store.ErrClosed
}

// noContact returns the error of a call for which the store has not answered in time.
func (m *member) noContact(end error) error {
	e := &noContactError{kind: store.ErrNoContact, cause: m.link.Overdue(), end: end}
	if !m.is(unknown) {
		e.kind = store.ErrNoShare
	}
	if f := m.failure.Load(); f != nil {
		e.cause = link.Unreachable(f.err)
	}
	return e
}

// begin returns the attempts under way, or those that made contact. If there are none, it begins to make them.
func (m *member) begin(ctx context.Context) (*attempts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.attempts != nil:
		return m.attempts, nil
	case m.link.IsClosing():
		return nil, store.ErrClosed
	}
	m.finished = make(chan struct{}) // from here on, Close waits for the goroutine
	m.attempts = &attempts{tried: make(chan struct{}), over: make(chan struct{})}
	go m.live(context.WithoutCancel(ctx), m.attempts, m.finished) //nolint:gosec // it runs until the Pacer is closed, for all calls
	return m.attempts, nil
}

// live tries to reach the store until it answers, or the process need not wait for that, or must not. Then it runs on.
func (m *member) live(ctx context.Context, a *attempts, finished chan<- struct{}) { //nolint:contextcheck // but for the first, its requests are nobody's
	defer close(finished)
	for n := 0; ; n++ {
		err := m.attempt(ctx, n)
		joined := !m.is(unknown)
		denied := !joined && !errors.Is(err, store.ErrUnreachable)
		if denied {
			a.err = err
			m.mu.Lock()
			m.attempts = nil // the next call begins anew
			m.mu.Unlock()
		}
		if joined || denied {
			close(a.over)
		}
		if n == 0 {
			close(a.tried)
		}
		switch {
		case joined:
			m.run()
			return
		case denied:
			return
		}
		m.reportLoss(err, true)
		select {
		case <-time.After(max(firstRetry, roughly(min(firstRetry<<min(n, 8), lastRetry)))):
		case <-m.link.Closing:
			return
		}
		ctx = context.Background()
	}
}

// attempt tries once. If it succeeds, or the process may decide without the store, the state is not unknown any more.
func (m *member) attempt(ctx context.Context, n int) error {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	first := m.config.Timeout * firstContact
	m.link.Try(min(first<<min(n, 8), max(longestAttempt, first)))
	began := m.Now()
	wait, err := m.join(ctx)
	switch {
	case err == nil && wait > 0:
		m.fallBack(errAtBarrier, began)
	case err == nil:
		m.settings.doubt()
		m.settings.read(ctx)
	case errors.Is(err, store.ErrClosed), !errors.Is(err, store.ErrUnreachable) && m.link.Fault(err) != store.Unreachable:
		return err // a mistake in the configuration: it has never worked
	case m.config.Mode != Local, m.config.Processes > 0, !m.standing().sent.IsZero(): // it has had an answer, though not everything went well
		m.fallBack(err, began)
	default:
		m.failed(err)
		return link.Unreachable(err)
	}
	return nil
}
