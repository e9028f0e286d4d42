package charges

import (
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A record is what is known of one limit's account, as the fleet's store keeps it.
type record struct {
	limit  store.Limit
	spans  spans   // of a rate: virtual time that is taken
	own    spans   // the part of it that this process was granted and has not given back
	counts buckets // of a window
	paused store.Instant
	tail   int64    // of a rate: where the last interval that was ever taken ended
	asOf   int64    // when the store last answered about it
	reset  int64    // when it was forgotten on purpose: what was granted before means nothing
	ahead  int64    // how far ahead of the store's time the last slots were that this process was granted; of a rate, those that it made wait
	seeded *Absence // for which the local account knows it
	held   held     // what the last heartbeat brought
}

// held is what an account held at a heartbeat, for all processes. A process that loses the store begins by it. Only a store that has forgotten
// is reminded of it: others may have given it back.
type held struct {
	at      int64
	front   int64 // of a rate: as if all that is taken came first
	permits int64 // that were out
	own     int64 // of them, those of calls of this process
	until   int64 // when the last of their leases runs out
}

// isOf reports whether charges of a limit mean the same to the record as those that it has: they do not after its numbers have changed.
func (t *record) isOf(l *store.Limit) bool {
	a, b := &t.limit.Spec, &l.Spec
	return a.Algorithm == b.Algorithm && a.Interval == b.Interval && a.Buckets == b.Buckets
}

// recorded reports whether a charge is remembered. A slot of a lane may be lent, and so cost nothing; permits are listed elsewhere.
func recorded(c store.Charge, l *store.Limit) bool {
	return c.To != 0 && (l.Spec.Algorithm == specs.GCRA || l.Spec.Algorithm == specs.Window)
}

// granted remembers a grant by limit number j, and that everything before it was taken: a limit grants the first free slot.
func (t *record) granted(g *store.Grant, j int) {
	now, c, s := int64(g.Now), g.Charges[j], &t.limit.Spec
	if now <= t.reset { // the answer was overtaken
		return
	}
	t.asOf = max(t.asOf, now)
	if s.Algorithm == specs.Window || g.Binds == j {
		t.ahead = max(int64(g.At.Sub(g.Now)/time.Microsecond), t.ahead-t.ahead/8)
	}
	if s.Algorithm == specs.Window {
		h := t.counts.at(c.From)
		h.n, h.own = max(h.n, c.Seen), h.own+c.To
		return
	}
	past := now - s.Within // what is in an exact window still is not past
	if t.own = t.own.after(past).with(c.From, c.To); len(t.own) > maxSpans {
		t.own = t.own[1:]
	}
	from := min(c.From, int64(g.At))
	if g.Binds == j {
		from = now
	}
	t.tail, t.spans = max(t.tail, c.To), t.spans.after(past)
	if c.To <= past {
		return
	}
	if t.spans = t.spans.with(from, c.To); len(t.spans) > maxSpans {
		t.spans[1].from = t.spans[0].from
		t.spans = t.spans[1:]
	}
}

// givenBack forgets a part of a charge. If another process may give the charge back, it stays taken.
func (t *record) givenBack(c, part store.Charge, elsewhere bool) {
	if t.limit.Spec.Algorithm == specs.Window {
		if h := t.counts.find(c.From); h != nil {
			if h.own = max(0, h.own-part.To); !elsewhere {
				h.n = max(0, h.n-part.To)
			}
		}
		return
	}
	if t.own = t.own.without(c.From, c.To); !elsewhere {
		t.spans = t.spans.without(part.From, part.To)
	}
}

// contradicts reports whether a charge shows that the store has lost some of this process. Answers overtake each other: a later one may be known.
func (t *record) contradicts(c store.Charge, now int64) bool {
	if t.limit.Spec.Algorithm != specs.Window {
		return t.own.meets(max(c.From, now), c.To)
	}
	h := t.counts.find(c.From)
	return h != nil && now > t.asOf && c.Seen < h.own+c.To
}

// front returns the end of what is taken from now on without a break; if nothing is, the end of the last interval.
func (t *record) front(now int64) int64 {
	i := t.spans.past(now)
	if i == len(t.spans) || t.spans[i].from > now {
		return min(t.tail, now)
	}
	return t.spans[i].to
}

// over returns when the record means nothing any more, as seen by its policy; a little later for calendars.
func (t *record) over() int64 {
	ends := max(int64(t.paused), t.held.until, t.held.front)
	if n := len(t.spans); n > 0 {
		ends = max(ends, t.spans[n-1].to+t.limit.Spec.Within)
	}
	if n := len(t.counts); n > 0 {
		ends = max(ends, t.counts[n-1].bucket+(t.limit.Spec.Buckets+2)*t.limit.Spec.Interval)
	}
	return ends
}

// notes returns a record as notes for a store. It is all that is known if the store has forgotten, or else, of a rate, what this process was
// granted itself: if that is still there, so is the rest that others did not give back.
func (t *record) notes(now store.Instant, forgotten bool) (notes []store.Note) {
	taken := t.own
	if forgotten {
		if taken = t.spans; len(taken) == 0 && t.held.front > t.held.at {
			taken = spans{{t.held.at, t.held.front}}
		}
	}
	for _, one := range taken[taken.past(int64(now)-t.limit.Spec.Within):] {
		notes = append(notes, claim(0, one.from, one.to))
	}
	for _, h := range t.counts {
		if forgotten {
			h.n = max(h.n, h.held)
		}
		if h.n > 0 {
			notes = append(notes, claim(0, h.bucket, h.n))
		}
	}
	return append(notes, pauseOf(t.paused, 0, now)...)
}

// claim returns a note that something was charged to a limit, by its index: of a rate an interval, of a window what a bucket holds.
func claim(limit int, from, to int64) store.Note {
	return store.Note{Kind: store.NoteClaim, Limit: limit, Charge: store.Charge{From: from, To: to}}
}

// pauseOf returns a note that a limit is paused, if it still is.
func pauseOf(until store.Instant, limit int, now store.Instant) []store.Note {
	if until <= now {
		return nil
	}
	return []store.Note{store.Pause(limit, until.Sub(now))}
}
