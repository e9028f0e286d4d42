package pacer

import (
	"context"
	"time"

	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/store"
)

// An Outage defines how calls are treated while a [store.Shared] is out of reach.
type Outage uint8

// The ways to treat calls.
const (
	// PaceLocally paces each process from memory, at its share of every limit: the limit divided by the number of processes that were
	// alive when the store last answered. When the store is back, the process reports to it what it spent meanwhile. A process that has
	// never reached its store takes the number from Config.Processes; if that is not set, its calls wait for the first contact.
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

// readyTimeout bounds Ready if its context does not.
const readyTimeout = 10 * time.Second

// Ready reports whether the store works now. Use it when a program starts. Do not use it as a readiness probe, except with RefuseCalls: it
// fails in all processes while the store is away, although they could go on pacing locally. For a store in memory it returns nil.
// For a Redis store it checks that the server can be reached, accepts the credentials, runs the scripts, takes writes, and lets this user
// run every command on the keys and the channel of the upstream. It leaves nothing behind on the server. If a check fails, Ready returns
// a [*StoreError] that says what is wrong and what to do about it, and wraps a *redisstore.NotReadyError. If the Pacer is closed, it
// returns [ErrClosed].
//
// Ready returns when its context ends, or after ten seconds. It does not depend on Config.Outage, and its result does not affect pacing:
// the store may be lost right after a successful check. Do not check before each call.
func (p *Pacer) Ready(ctx context.Context) error {
	if p.isClosed() {
		return ErrClosed
	}
	r, ok := p.store.(store.Readier)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := r.Ready(ctx, p.upstream); err != nil {
		return p.storeError(opReady, err)
	}
	return nil
}
