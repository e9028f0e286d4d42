package pacer

import "time"

// tallySeconds is for how many seconds a tally remembers what went. It is more than a Fleet shows, so that what a process
// tells late is complete, and a power of two.
const tallySeconds = 64

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
	Second
}

// at returns the place of a second; nil if it is longer ago than the tally remembers.
func (t *tally) at(second int64) *Second {
	at := &t[placeOf(second)]
	if at.second > second {
		return nil
	}
	if at.second != second {
		at.second, at.Second = second, Second{}
	}
	return &at.Second
}

// add adds to a second.
func (t *tally) add(second int64, more Second) {
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
			t.add(s.second, Second{Cost: s.cost})
		}
	}
}

// history returns the seconds before a second, the oldest first.
func (t *tally) history(before int64) []Second {
	h := make([]Second, HistorySeconds)
	for i := range h {
		second := before - int64(len(h)-i)
		if s := &t[placeOf(second)]; s.second == second {
			h[i] = s.Second
		}
	}
	return h
}

// count counts what a reservation's call spends, as it goes. The caller holds sleepers.mu.
func (p *Pacer) count(r *Reservation) {
	g := &r.grant[0]
	now := int64(g.Now) + time.Since(r.asked).Microseconds()
	second := secondOf(now)
	for i := range r.stack.Limits {
		if l := &r.stack.Limits[i]; p.named(l.Policy) != nil {
			p.named(l.Policy).seen.went.add(second, Second{Cost: r.cost(i)})
			if l.Scope != "" {
				p.busy.add(pauseKey{l.Policy, l.Scope}, r.cost(i), now)
			}
		}
	}
	if i := r.binding.binds; !r.since.IsZero() && i >= 0 && i < len(r.stack.Limits) {
		p.named(r.stack.Limits[i].Policy).seen.went.add(second, Second{Waits: 1, Waited: time.Since(r.since)})
	}
}
