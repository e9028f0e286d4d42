package batch

import (
	"context"
	"slices"

	"github.com/headway-go/headway/pacer/store"
)

// Changes batches changes of settings, in order, one request at a time.
type Changes struct{ requests[*Change] }

// A Change is what one caller sets.
type Change struct {
	Ctx      context.Context //nolint:containedctx // for its values
	Upstream string
	Settings []store.Setting
	Answer   *store.Settings // which callers share: nobody changes it
	Err      error

	done chan struct{}
}

// maxChanges bounds the changes of a request.
const maxChanges = 256

// NewChanges returns Changes that are made by send, which sets the answer of each, or its error.
func NewChanges(send func([]*Change)) *Changes {
	c := &Changes{}
	c.init(1, enoughChanged, func(all []*Change) {
		send(all)
		for _, one := range all {
			close(one.done)
		}
	})
	return c
}

// Set makes a change, and waits for that.
func (c *Changes) Set(ctx context.Context, upstream string, changes []store.Setting) (*store.Settings, error) {
	one := &Change{Ctx: ctx, Upstream: upstream, Settings: slices.Clone(changes), done: make(chan struct{})}
	c.add([]*Change{one})
	<-one.done
	return one.Answer, one.Err
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
