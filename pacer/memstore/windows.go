package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/pacer/store"
)

// A Window is what a Store counts for one key of a window or a calendar, in a form that can be kept in a file: see [Store.Windows].
type Window struct {
	Upstream string        `json:"upstream"`
	Policy   string        `json:"policy"`
	Scope    string        `json:"scope,omitempty"` // as in [store.Key]
	Bucket   int64         `json:"bucket"`          // how long a bucket is, in microseconds
	Buckets  int64         `json:"buckets"`         // how many count before the present one
	Calendar bool          `json:"calendar,omitempty"`
	Ends     store.Instant `json:"ends"`   // when the last count stops to count
	Counts   [][2]int64    `json:"counts"` // of each bucket: the instant at which it begins, and its calls
	Line     int64         `json:"line,omitempty"`
	Since    store.Instant `json:"since,omitempty"` // with Line, how far the pace of the window has come
}

// Windows returns what the store counts now for keys of windows and calendars, at most n of them: those whose counts last longest. With
// [Store.Restore], a program that starts again goes on where it ended. Calls that are reserved for later than soon from now are left out,
// because a program that ends does not make them. Rates, permits and allowances are not included.
func (m *Store) Windows(n int, soon time.Duration) []Window {
	var all []Window
	m.keys.look(func(_ int, sh *shard) {
		now := m.clock()
		for _, a := range sh.ring.all {
			if s, ok := a.Save(now, now+engine.MicrosUp(soon)); ok {
				all = append(all, Window{
					a.key.upstream, a.key.policy, a.key.scope, s.Width, s.Buckets, s.Calendar, store.Instant(s.Ends), s.Counts, s.Line, store.Instant(s.Since),
				})
			}
		}
	})
	slices.SortFunc(all, func(a, b Window) int {
		return cmp.Or(cmp.Compare(b.Ends, a.Ends), cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Scope, b.Scope))
	})
	return all[:min(n, len(all))]
}

// Restore restores the result of [Store.Windows], before the first call. It returns the number of restored windows: it skips expired ones,
// keys that the store already has, and values that Windows cannot have returned. A policy whose limit has changed since then begins with the
// old count.
func (m *Store) Restore(all []Window) (restored int) {
	for i := range all {
		if w := &all[i]; w.sound() && w.Ends > m.Now() && m.restore(w) {
			restored++
		}
	}
	return restored
}

// sound reports whether a window can be one that Windows returned.
func (w *Window) sound() bool {
	last := int64(-1)
	for _, c := range w.Counts {
		if c[0] <= last || c[1] < 1 || c[0] >= int64(w.Ends) {
			return false
		}
		last = c[0]
	}
	return w.Bucket > 0 && w.Buckets >= 0 && last >= 0 && w.Line >= 0 && w.Since >= 0 && w.Since < w.Ends
}

func (m *Store) restore(w *Window) bool {
	key := accountKey{upstream: w.Upstream, policy: w.Policy, scope: w.Scope}
	at := m.keys.scoped(m.keys.of(w.Upstream, w.Policy), w.Scope)
	sh := m.keys.at(at)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.get(at.hash, &key) != nil {
		return false
	}
	if m.keys.count.Add(1) > m.keys.most {
		m.keys.count.Add(-1)
		return false
	}
	saved := engine.Saved{Width: w.Bucket, Buckets: w.Buckets, Calendar: w.Calendar, Ends: int64(w.Ends), Counts: w.Counts, Line: w.Line, Since: int64(w.Since)}
	sh.add(&account{Kept: engine.Restored(saved), key: key, hash: at.hash})
	return true
}
