package usage

import (
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// Seconds is how long a tally remembers calls: a power of two, and more than a fleet.Snapshot shows, so that a late report is complete, in
// the largest fleets, too.
const Seconds = 128

// SecondOf converts an instant in µs to seconds since the Unix epoch.
func SecondOf(now int64) int64 { return now / time.Second.Microseconds() }

// placeOf returns a second's index in a tally.
func placeOf(second int64) int64 { return second & (Seconds - 1) }

// A Tally is the use of one limit in each of the last seconds, all keys together.
type Tally [Seconds]struct {
	second int64
	store.Second
}

// at returns the place of a second; nil if the tally has forgotten it.
func (t *Tally) at(second int64) *store.Second {
	at := &t[placeOf(second)]
	if at.second > second {
		return nil
	}
	if at.second != second {
		at.second, at.Second = second, store.Second{}
	}
	return &at.Second
}

// Add adds to a second.
func (t *Tally) Add(second int64, more store.Second) {
	if s := t.at(second); s != nil {
		s.Cost += more.Cost
		s.Waits += more.Waits
		s.Waited += more.Waited
	}
}

// Get returns the use in a second; nothing if unknown.
func (t *Tally) Get(second int64) store.Second {
	if s := &t[placeOf(second)]; s.second == second {
		return s.Second
	}
	return store.Second{}
}

// History returns the n seconds before a second, oldest first.
func (t *Tally) History(before int64, n int) []store.Second {
	h := make([]store.Second, n)
	for i := range h {
		h[i] = t.Get(before - int64(n-i))
	}
	return h
}
