package failover

import (
	"context"

	"github.com/headway-go/headway/pacer/store"
)

// What operators have set is read when a process joins the fleet, when the store has begun a new epoch, which it does whenever something
// is set, and when the process has the store back. A process that could not read it tries again with its next heartbeat.

// Settings implements [store.Settable].
func (w *Store) Settings(ctx context.Context, upstream string) (*store.Settings, error) {
	return w.set(ctx, "settings", func(ctx context.Context, s store.Settable) (*store.Settings, error) { return s.Settings(ctx, upstream) })
}

// Set implements [store.Settable].
func (w *Store) Set(ctx context.Context, upstream string, changes []store.Setting) (*store.Settings, error) {
	return w.set(ctx, "set", func(ctx context.Context, s store.Settable) (*store.Settings, error) {
		return s.Set(ctx, upstream, changes)
	})
}

func (w *Store) set(ctx context.Context, name string, do func(context.Context, store.Settable) (*store.Settings, error)) (*store.Settings, error) {
	s, ok := w.store.(store.Settable)
	if !ok {
		return nil, store.ErrNoSettings
	}
	answer := make(chan *store.Settings, 1)
	err := w.reach(ctx, name, func(ctx context.Context) error {
		all, err := do(ctx, s)
		answer <- all
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-answer, nil
}

// doubtSettings has what is set be heeded soon, and read before that unless it was read just now.
func (w *Store) doubtSettings(fresh *store.Settings) {
	if _, ok := w.store.(store.Settable); !ok || w.config.Settings == nil {
		return
	}
	w.fresh.Store(fresh)
	w.doubted.Store(true)
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// readSettings reads what is set, if that is in doubt.
func (w *Store) readSettings(ctx context.Context) {
	if !w.doubted.Swap(false) {
		return
	}
	all := w.fresh.Swap(nil)
	if all == nil {
		var err error
		if all, err = w.Settings(ctx, w.config.Upstream); err != nil {
			w.doubted.Store(true)
			return
		}
	}
	w.config.Settings(all)
}
