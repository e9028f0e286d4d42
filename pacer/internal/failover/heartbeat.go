package failover

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// roughly returns d, up to an eighth shorter or longer at random: processes that started together drift apart. sooner makes it up to a
// quarter shorter.
func roughly(d time.Duration) time.Duration {
	return (d - d/8).Truncate(time.Millisecond) + within(d/4)
}

func sooner(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) - within(d/4) }

// within returns a duration at random from 0 to most, in whole milliseconds.
func within(most time.Duration) time.Duration { return rand.N(most + 1).Truncate(time.Millisecond) }

// run sends heartbeats, and tries to return when the state is local.
func (w *Store) run() {
	timer := time.NewTimer(checkEvery)
	defer timer.Stop()
	pause := w.firstPause()
	nextHeartbeat := time.Now().Add(roughly(pause))
	describe := time.Now().Add(within(w.schedule().Describe / 16))
	for {
		select {
		case <-w.closing:
			return
		case <-w.kick:
		case <-w.checks:
			if soon := time.Now().Add(within(w.schedule().Spread)); soon.Before(nextHeartbeat) {
				nextHeartbeat = soon
			}
		case <-timer.C:
		}
		ctx, next := context.Background(), checkEvery
		if w.state.Load() == shared && (!time.Now().Before(nextHeartbeat) || w.shouldCheck()) {
			began := w.Now()
			w.fellBack(w.renew(ctx), began)
			// Processes that came at the same time as this one are soon known: the first heartbeats come sooner.
			pause = min(max(2*pause, w.firstPause()), w.schedule().Heartbeat, w.untilMature())
			nextHeartbeat = time.Now().Add(roughly(pause))
		}
		if w.state.Load() == shared {
			w.readSettings(ctx)
		}
		if w.state.Load() == shared && !time.Now().Before(describe) {
			describe = time.Now().Add(sooner(w.schedule().Describe))
			w.describe(ctx, false)
		}
		if w.state.Load() == local {
			wait, err := w.resync(ctx)
			switch {
			case err != nil:
				next = max(probeEvery+time.Millisecond, roughly(w.probePause())) // no sooner than the breaker lets one pass
			case wait > 0:
				next = wait
			default:
				w.doubtSettings()
				pause = w.firstPause()
				nextHeartbeat = time.Now().Add(roughly(pause))
			}
		}
		if w.state.Load() == shared {
			next = min(next, max(1, time.Until(nextHeartbeat)))
		}
		timer.Reset(next)
	}
}

// untilMature returns how soon to send the next heartbeat for a share of each limit: see standing.
func (w *Store) untilMature() time.Duration {
	least := w.firstPause()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.standing
	if s.isMature() {
		return maturity(s.n)
	}
	return max(least, maturity(s.n)-s.at.Sub(s.came))
}

// firstPause returns the least time from the first heartbeat of a process to its second: short, but not so short that a large fleet sends
// them all at once, and before the first one expires.
func (w *Store) firstPause() time.Duration {
	return max(firstHeartbeat, min(w.schedule().Heartbeat/16, heartbeatTTL/3))
}

// shouldCheck reports whether calls wait for slots that the store granted while it has not answered for a while. A process
// that loses the store must know when that was: until then others have got slots that it does not know of. Knowing it late
// does no harm but to its own pace (see startLocal). Calls that come near send requests of their own; this is for slots far away.
// A process learns by news, too, that a store has forgotten.
func (w *Store) shouldCheck() bool {
	w.mu.Lock()
	silence := time.Since(w.lastSeenAt)
	w.mu.Unlock()
	line := store.Instant(w.furthest.Load()).Sub(w.Now())
	return line > 0 && silence >= max(w.schedule().Check, min(heartbeatEvery, line/16))
}

// renew sends a heartbeat, and what is still to be reported. It returns a ForgotError if the store is not the one
// that it was.
func (w *Store) renew(ctx context.Context) error {
	p, err := w.heartbeat(ctx, false, 0)
	if err != nil {
		return err
	}
	switch same, err := w.wasReset(ctx, p.Epoch); {
	case err != nil:
		return err
	case !same:
		return &store.ForgotError{Epoch: p.Epoch}
	}
	return w.settle(ctx, nil)
}

// describe describes this process to a store that is a Registry. No call depends on it.
func (w *Store) describe(ctx context.Context, left bool) {
	registry, ok := w.store.(store.Registry)
	if !ok {
		return
	}
	about, received := w.config.Owner.About(w.Now(), left)
	about.ID, about.Keep, about.Every = w.id, w.remembered(), w.schedule().Describe
	versions, err := answerOf(ctx, w.beside, "describe", func(ctx context.Context) (int, error) { return registry.Describe(ctx, w.config.Upstream, about) })
	if err != nil {
		return
	}
	if received(versions); !left {
		w.findFair(ctx, boundedRegistry{w, registry}, versions)
	}
}

// heartbeat sends one, or reports that the process leaves.
func (w *Store) heartbeat(ctx context.Context, leaves bool, barrier time.Duration) (store.Membership, error) {
	lives := time.Duration(0)
	if !leaves {
		lives = w.schedule().TTL
	}
	b := store.Heartbeat{ID: w.id, TTL: lives, Now: store.Instant(w.lastSeen.Load()), Keep: w.remembered(), Barrier: barrier}
	if !leaves {
		b.Limits = w.curious()
		soonest := w.Now().Add(lives - time.Second) // until when it holds if its answer is lost
		w.mu.Lock()
		w.standing.until = min(w.standing.until, soonest)
		b.Until, b.Began = w.standing.until, w.knownEpoch().Began
		w.mu.Unlock()
	}
	sent, running := time.Now(), w.local.permits()
	p, err := answerOf(ctx, w.reach, "heartbeat", func(ctx context.Context) (store.Membership, error) {
		return w.store.Heartbeat(ctx, w.config.Upstream, b)
	})
	if err != nil {
		return p, err
	}
	w.observe(p.Now)
	w.mu.Lock()
	w.standing.answered(sent, &p, lives)
	w.mu.Unlock()
	known := w.knownEpoch()
	if !leaves && !known.IsZero() && b.Until <= p.Now && w.state.Load() == local { // it cannot find out by itself that it has lost something
		w.contradicted.Store(true)
	}
	if len(p.Holds) == len(b.Limits) && (known.IsZero() || known.Began == p.Epoch.Began) && !w.contradicted.Load() { // it has not forgotten
		w.ledger.learned(b.Limits, p.Holds, running, p.Now)
	}
	return p, nil
}

// maxCurious bounds the scoped limits that one heartbeat reads. The rest take turns.
const maxCurious = 16

// curious returns the limits whose holdings a heartbeat reads: those without a scope, and some that this process used lately. A process
// that never decides by itself needs none.
func (w *Store) curious() []store.Limit {
	if w.config.Mode != Local {
		return nil
	}
	w.mu.Lock()
	unscoped := w.unscoped
	w.mu.Unlock()
	return append(w.ledger.used(int64(w.Now().Add(-time.Minute)), maxCurious), unscoped...)
}
