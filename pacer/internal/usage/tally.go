package usage

import (
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// Seconds is how long a tally remembers calls. It is more than a fleet.Snapshot shows, so that a late report is complete,
// in the largest fleets, too, and a power of two.
const Seconds = 128

// SecondOf returns the second, since the Unix epoch, of an instant in µs.
func SecondOf(now int64) int64 { return now / time.Second.Microseconds() }

// placeOf returns where a tally keeps a second.
func placeOf(second int64) int64 { return second & (Seconds - 1) }

// A Count is the cost that went in each of the last seconds. It takes next to nothing to add to one, since every call does.
type Count [Seconds]struct{ second, cost int64 }

// Add counts what goes at an instant, in µs.
func (c *Count) Add(now, cost int64) {
	second := SecondOf(now)
	at := &c[placeOf(second)]
	if at.second != second {
		at.second, at.cost = second, 0
	}
	at.cost += cost
}

// A Tally is what went of one limit in each of the last seconds, all keys together.
type Tally [Seconds]struct {
	second int64
	store.Second
}

// at returns the place of a second; nil if it is longer ago than the tally remembers.
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

// Each calls f for each second with calls, and their cost. A nil Count has none.
func (c *Count) Each(f func(second, cost int64)) {
	if c == nil {
		return
	}
	for _, s := range c {
		if s.cost > 0 {
			f(s.second, s.cost)
		}
	}
}

// Get returns what went in a second; nothing if that is not known.
func (t *Tally) Get(second int64) store.Second {
	if s := &t[placeOf(second)]; s.second == second {
		return s.Second
	}
	return store.Second{}
}

// History returns the n seconds before a second, the oldest first.
func (t *Tally) History(before int64, n int) []store.Second {
	h := make([]store.Second, n)
	for i := range h {
		h[i] = t.Get(before - int64(n-i))
	}
	return h
}
