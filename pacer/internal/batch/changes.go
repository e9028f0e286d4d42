package batch

import (
	"slices"

	"github.com/headway-go/headway/pacer/store"
)

// Changes batches changes of settings, in order, one request at a time.
type Changes = Answered[Set, *store.Settings]

// A Set is what one caller sets.
type Set struct {
	Upstream string
	Settings []store.Setting
}

// A Change is a Set. Callers share its answer: nobody changes it.
type Change = Waited[Set, *store.Settings]

// maxChanges bounds the changes of a request.
const maxChanges = 256

// NewChanges returns Changes that are made by send, which sets the answer of each, or its error.
func NewChanges(send func([]*Change)) Changes { return NewAnswered(1, enoughChanged, send) }

// Merged merges changes: of several for the same key, the last counts.
func Merged(all []*Change) (merged []store.Setting) {
	known := make(map[store.Key]bool)
	for _, c := range slices.Backward(all) {
		for _, s := range slices.Backward(c.Value.Settings) {
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
	for n < min(len(all), maxChanges) && all[n].Value.Upstream == all[0].Value.Upstream {
		n++
	}
	return n
}
