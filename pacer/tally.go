package pacer

import (
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// tallySeconds is for how many seconds a tally remembers what went. It is more than a Fleet shows, so that what a process
// tells late is complete, in the largest fleets, too, and a power of two.
const tallySeconds = 128

// secondOf returns the second, since the Unix epoch, of an instant in µs.
func secondOf(now int64) int64 { return now / time.Second.Microseconds() }

// placeOf returns where a tally keeps a second.
func placeOf(second int64) int64 { return second & (tallySeconds - 1) }

// A count is the cost that went in each of the last seconds. It takes next to nothing to add to one, since every call does.
type count [tallySeconds]struct{ second, cost int64 }

// add counts what goes at an instant, in µs.
func (c *count) add(now, cost int64) {
	second := secondOf(now)
	at := &c[placeOf(second)]
	if at.second != second {
		at.second, at.cost = second, 0
	}
	at.cost += cost
}

// A tally is what went of one limit in each of the last seconds, all keys together.
type tally [tallySeconds]struct {
	second int64
	store.Second
}

// at returns the place of a second; nil if it is longer ago than the tally remembers.
func (t *tally) at(second int64) *store.Second {
	at := &t[placeOf(second)]
	if at.second > second {
		return nil
	}
	if at.second != second {
		at.second, at.Second = second, store.Second{}
	}
	return &at.Second
}

// add adds to a second.
func (t *tally) add(second int64, more store.Second) {
	if s := t.at(second); s != nil {
		s.Cost += more.Cost
		s.Waits += more.Waits
		s.Waited += more.Waited
	}
}

// addCount adds what was counted.
func (t *tally) addCount(c *count) {
	for _, s := range c {
		if s.cost > 0 {
			t.add(s.second, store.Second{Cost: s.cost})
		}
	}
}

// history returns the seconds before a second, the oldest first.
func (t *tally) history(before int64) []store.Second {
	h := make([]store.Second, HistorySeconds)
	for i := range h {
		second := before - int64(len(h)-i)
		if s := &t[placeOf(second)]; s.second == second {
			h[i] = s.Second
		}
	}
	return h
}

// count counts what a reservation's call spends, as it goes, in the second of its slot: or in the first one of which the store
// was not told yet what went. The caller holds sleepers.mu.
func (p *Pacer) count(r *Reservation) {
	if p.memory != nil && !p.looked.Load() {
		return
	}
	at := int64(r.grant[0].At)
	second := max(secondOf(at), p.wentSaid)
	for i := range r.stack.Limits {
		l := &r.stack.Limits[i]
		what := store.Second{Cost: r.cost(i)}
		if r.since != 0 && i == r.waitsFor() {
			what.Waits, what.Waited = 1, r.slept()
		}
		if of := p.named(l.Policy); of != nil {
			of.seen.went.add(second, what)
		}
		if l.Scope != "" {
			p.busy.add(l.Key(), r.cost(i), at)
		}
	}
}
