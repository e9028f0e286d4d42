package failover

import (
	"context"
	"errors"
	"time"

	"github.com/headway-go/headway/pacer/internal/charges"
	"github.com/headway-go/headway/pacer/internal/link"
	"github.com/headway-go/headway/pacer/store"
)

const (
	// maxBarrier bounds for how long a process waits for the others.
	maxBarrier = 10 * time.Second
	// maxProbes bounds how many requests may be without an answer while a store is tried again, if its client does not give up by itself.
	maxProbes = 8
)

// errAtBarrier is why a process is local that joined while the others were about to return to the store.
var errAtBarrier = errors.New("pacer: the processes of the fleet are just coming back to the store")

// again returns to the shared store, or returns for how long the process still has to wait for the others.
func (m *member) again(ctx context.Context) (time.Duration, error) {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	if m.is(shared) {
		return 0, nil
	}
	wait, err := m.join(ctx)
	if err != nil {
		m.ended()
		m.failed(err)
		m.matures()
	}
	return wait, err
}

// ended is the end of a return, or of an attempt.
func (m *member) ended() {
	m.barrier.Store(0)
	m.accounts.Returned()
}

// join reports to the store everything that it should know, and makes it the one that decides. The caller has filled turn.
//
// Processes that lost the store do not find it again at the same moment. If the first to return got all of the limits while the others still
// spend their shares, the upstream would see too much. So they agree on a barrier: a time until which they stay local, and at which all of
// them return.
func (m *member) join(ctx context.Context) (wait time.Duration, err error) {
	if m.barrier.Load() == 0 {
		if err := m.arrive(ctx); err != nil {
			return 0, err
		}
	}
	if wait := store.Instant(m.barrier.Load()).Sub(m.Now()); wait > 0 {
		return wait, nil
	}
	if err := m.payer.pay(ctx, m.config.Owner.Permits()); err != nil {
		return 0, err
	}
	m.goBack()
	m.ended()
	if listener := m.listener.Load(); listener != nil {
		(*listener)(store.News{Changes: []store.Change{{Kind: store.Resync, Now: m.Now()}}})
	}
	m.settings.report()
	return 0, nil
}

// arrive reports that the process has found the store, and what must be known there before any process is granted more, and sets the barrier.
func (m *member) arrive(ctx context.Context) error {
	began := time.Now()
	if m.link.Pending() >= maxProbes {
		return link.ErrResting
	}
	p, err := m.heartbeats.send(ctx, 0)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if m.failure.Load() == nil && took > m.config.Timeout && p.Alive > 1 && m.config.Processes == 0 {
		m.failed(m.link.Overdue()) // others may have lost the store meanwhile: it can wait for them, as it has no share
	}
	// Only now: a barrier that no process has received would be over for those that come next. One that is set may be over before this is
	// answered.
	if until := m.untilAllAreBack(); until > 0 && p.Barrier <= p.Now {
		if took <= m.config.Timeout { // the store has been back for at least the time that the first one took
			until -= took
		}
		if p, err = m.heartbeats.send(ctx, until); err != nil {
			return err
		}
	}
	known := m.settings.known() // zero at the first contact, when all that is known is what the heartbeat has just brought
	forgotten := !known.IsZero() && p.Epoch.Began != known.Began || m.heartbeats.contradicted.Load()
	if _, err := m.settings.isKnown(ctx, p.Epoch); err != nil {
		return err
	}
	if err := m.remind(ctx, p.Now, forgotten); err != nil {
		return err
	}
	m.settings.epoch.Store(&p.Epoch)
	permits := m.config.Owner.Permits()
	if away := m.away.Load(); away != nil && away.Over == nil && m.config.Mode == Local {
		permits = append(permits, m.accounts.ReserveShares(permits, away, int64(p.Barrier))...)
	}
	if _, err := m.payer.sendAll(ctx, charges.Debts(permits, 0)); err != nil {
		return err
	}
	if m.config.Mode == Local {
		m.barrier.Store(min(int64(p.Barrier), int64(p.Now)+maxBarrier.Microseconds()))
	}
	return nil
}

// untilAllAreBack returns how long it takes at most until all who have lost the store know that it is back: a probe that fails, the pause
// after it, and one that is answered. At its first contact, a process assumes the longest pause, or no loss if the store answered in time.
func (m *member) untilAllAreBack() time.Duration {
	pause := m.probePause()
	switch {
	case m.config.Mode != Local || m.failure.Load() == nil:
		return 0
	case m.settings.known().IsZero():
		pause = longestProbe
	}
	return pause*5/4 + m.schedule().Spread + 2*m.config.Timeout
}

// remind reports to the store what this process remembers, in case the store has forgotten it. If the store still has everything that its
// rates granted this process, remind omits what they granted others, who may have given it back since.
func (m *member) remind(ctx context.Context, now store.Instant, forgotten bool) error {
	for {
		missing, err := m.payer.sendAll(ctx, charges.Debts(m.heartbeats.ledger.Messages(now, forgotten), 0))
		if err != nil {
			return err
		}
		if missing == 0 || forgotten {
			m.heartbeats.contradicted.Store(false)
			return nil
		}
		forgotten = true
	}
}

// isReturningAt reports whether the process is about to return, and so does not use a local slot: the others have all of the limits from the
// barrier on. If the report of its spending takes longer than one request, calls do not wait for that.
func (m *member) isReturningAt(at store.Instant) bool {
	barrier := store.Instant(m.barrier.Load())
	return barrier > 0 && at >= barrier && m.Now() < barrier.Add(m.config.Timeout)
}
