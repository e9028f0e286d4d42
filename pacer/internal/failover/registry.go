package failover

import (
	"context"

	"github.com/headway-go/headway/pacer/store"
)

type boundedRegistry struct {
	*Store
	store.Registry
}

// Index implements [store.Registry].
func (w boundedRegistry) Index(ctx context.Context, upstream string) (*store.Index, error) {
	answer := make(chan *store.Index, 1)
	err := w.within(ctx, "index", func(ctx context.Context) error {
		index, err := w.Registry.Index(ctx, upstream)
		answer <- index
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-answer, nil
}

// Registry implements [store.Member]: each operation is bounded in time as all others are.
func (w *Store) Registry() store.Registry {
	if w.state.Load() == local {
		return nil
	}
	if r, ok := w.store.(store.Registry); ok {
		return boundedRegistry{w, r}
	}
	return nil
}
