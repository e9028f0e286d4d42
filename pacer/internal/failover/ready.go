package failover

import (
	"context"

	"github.com/headway-go/headway/pacer/store"
)

// Ready implements [store.Readier]: it passes to the shared store, whatever the state is. From one that is no Readier it requests the
// upstream's pause, which is little, but an answer.
func (w *Store) Ready(ctx context.Context, upstream string) error {
	r, ok := w.store.(store.Readier)
	if !ok {
		return w.within(ctx, "ready", 0, func(ctx context.Context) error {
			_, err := w.store.Pauses(ctx, store.Stack{Upstream: upstream})
			if err != nil && w.store.Fault(err) == store.Unreachable {
				return unreachable(err)
			}
			return err
		})
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return store.ErrClosed
	}
	w.running.Add(1)
	w.mu.Unlock()
	defer w.running.Done()
	return r.Ready(ctx, upstream)
}
