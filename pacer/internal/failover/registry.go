package failover

import (
	"context"
	"slices"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

type boundedRegistry struct {
	*Store
	store.Registry
}

// Index implements [store.Registry].
func (w boundedRegistry) Index(ctx context.Context, upstream string) (*store.Index, error) {
	answer := make(chan *store.Index, 1)
	err := w.within(ctx, "index", 0, func(ctx context.Context) error {
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

// looksAgain is after how many descriptions a process looks again what policies others have, although there are as many versions as before.
const looksAgain = 16

// maxTexts is of how many different policies it looks whether they are shared fairly, at most: anybody who can write to the store can name
// any.
const maxTexts = 1 << 12

// findFair finds which policies some process shares fairly, if processes have different ones: while that is rolled out, or taken back, this
// process may not.
func (w *Store) findFair(ctx context.Context, registry store.Registry, versions int) {
	if w.looks++; versions == w.versions && (versions <= 1 || w.looks < looksAgain) {
		return
	}
	var names []string
	if versions > 1 {
		index, err := registry.Index(ctx, w.config.Upstream)
		if err != nil {
			return
		}
		seen := make(map[string]bool)
		for i := range index.Processes {
			for _, text := range index.Processes[i].Policies {
				if seen[text] || len(seen) == maxTexts {
					continue
				}
				seen[text] = true
				p, err := policies.Parse(text)
				if by, _ := p.FairBy(""); err == nil && by != "" {
					names = append(names, p.Name())
				}
			}
		}
		slices.Sort(names)
	}
	w.versions, w.looks = versions, 0
	w.config.InForce.SetFair(slices.Compact(names))
}
