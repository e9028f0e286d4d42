package pacer

import (
	"context"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// readyTimeout bounds Ready if its context does not.
const readyTimeout = 10 * time.Second

// Ready reports whether the store would work now: it is for a program's start, and for readiness probes. For a store in memory it returns
// nil. Of a Redis store it finds out whether the server can be reached, accepts the credentials, runs the scripts, takes writes, and lets
// this user run every command on the keys and the channel of the upstream; it leaves nothing behind there. Otherwise it returns a
// [*StoreError] that says what is wrong and what to do about it, around a *redisstore.NotReadyError, or [ErrClosed].
//
// Ready ends with its context, or after ten seconds. It does not depend on Config.Outage, and changes nothing: a Pacer whose store is not
// ready paces as Config.Outage says, and one whose store was ready may lose it at once. A few of these a minute cost Redis nothing; do not
// call it before each call.
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
