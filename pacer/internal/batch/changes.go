package batch

import (
	"context"
	"slices"

	"github.com/headway-go/headway/pacer/store"
)

// Changes batches changes of settings, in order, one request at a time.
type Changes struct{ *Requests[*Change] }

// A Change is what one caller sets.
type Change struct {
	owned

	Upstream string
	Settings []store.Setting
	Answer   *store.Settings // which callers share: nobody changes it
}

// maxChanges bounds the changes of a request.
const maxChanges = 256

// NewChanges returns Changes that are made by send, which sets the answer of each, or its error.
func NewChanges(send func([]*Change)) *Changes { return &Changes{newWaited(1, enoughChanged, send)} }

// Set makes a change, and waits for that.
func (c *Changes) Set(ctx context.Context, upstream string, changes []store.Setting) (*store.Settings, error) {
	one := &Change{owned: ownedBy(ctx), Upstream: upstream, Settings: slices.Clone(changes)}
	err := do(c.Requests, []*Change{one})
	return one.Answer, err
}

// Merged merges changes: of several for the same key, the last counts.
func Merged(all []*Change) (merged []store.Setting) {
	known := make(map[store.Key]bool)
	for _, c := range slices.Backward(all) {
		for _, s := range slices.Backward(c.Settings) {
			if k := (store.Key{Policy: s.Policy, Scope: s.Scope}); !known[k] {
				known[k] = true
				merged = append(merged, s)
			}
		}
	}
	slices.Reverse(merged)
	return merged
}

// enoughChanged returns how many changes fit in a request, which is for one upstream.
func enoughChanged(all []*Change) (n int) {
	for n < min(len(all), maxChanges) && all[n].Upstream == all[0].Upstream {
		n++
	}
	return n
}
