package failover

import (
	"context"
	"errors"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/store"
)

// Settings of operators are read when a process joins the fleet, when the store has begun a new epoch, which it does with every change of
// settings, and when the process has the store back. A process that could not read it tries again with its next heartbeat.

// Settings implements [store.Settable].
func (w *Store) Settings(ctx context.Context, upstream string) (*store.Settings, error) {
	return w.set(ctx, "settings", func(ctx context.Context, s store.Settable) (*store.Settings, error) { return s.Settings(ctx, upstream) })
}

// Set implements [store.Settable]. Changes that come while one is under way share the next request: each request begins an epoch, which all
// processes have to heed.
func (w *Store) Set(ctx context.Context, upstream string, changes []store.Setting) (*store.Settings, error) {
	return w.changes.Set(ctx, upstream, changes)
}

// sendChanges makes changes in one request, or each in its own if there is no room for all of them.
func (w *Store) sendChanges(all []*batch.Change) {
	send := func(some []*batch.Change) (*store.Settings, error) {
		return w.set(some[0].Ctx, "set", func(ctx context.Context, s store.Settable) (*store.Settings, error) {
			return s.Set(ctx, some[0].Upstream, batch.Merged(some))
		})
	}
	settings, err := send(all)
	for i, c := range all {
		if c.Answer, c.Err = settings, err; isFull(err) && len(all) > 1 {
			c.Answer, c.Err = send(all[i : i+1])
		}
	}
}

// isFull reports whether an error is the answer of a store that keeps no more settings.
func isFull(err error) bool {
	_, is := errors.AsType[*store.SettingsError](err)
	return is
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

// doubtSettings has what is set be read and heeded soon.
func (w *Store) doubtSettings() {
	if _, ok := w.store.(store.Settable); !ok {
		return
	}
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
	all, err := w.Settings(ctx, w.config.Upstream)
	if err != nil {
		w.doubted.Store(true)
		return
	}
	w.config.InForce.Read(all)
}
