package charges

import (
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A spending is what this process spent of one limit without the store, in numbers that add up.
type spending struct {
	limit    store.Limit
	paused   store.Instant // that the upstream reported
	counts   buckets       // of a window
	each     int64         // of a rate: how long one call takes of the share
	from, to int64         // of a rate: the virtual time of the calls that still count
	extra    int64         // of a rate: calls that cost more than they were charged
}

// add counts a call that has gone, by its charge to a share.
func (s *spending) add(share *specs.Spec, c store.Charge, now int64) {
	if share.Algorithm == specs.Window {
		s.counts.at(c.From).n += c.To
		return
	}
	s.each = share.Interval
	s.take(c.From, c.To, now)
}

// take adds virtual time of a rate. It begins anew if none counts any more. The calls since the share was last idle are next to each other, so
// two numbers are enough.
func (s *spending) take(from, to, now int64) {
	if s.from == s.to || s.to <= now-s.limit.Spec.Within {
		s.from = from
	}
	s.from, s.to = min(s.from, from), max(s.to, to)
}

// addMore counts that calls cost so much more than they were charged: those of a window in a bucket.
func (s *spending) addMore(bucket, n int64) {
	if s.limit.Spec.Algorithm == specs.Window {
		s.counts.at(bucket).n += n
	} else {
		s.extra += n
	}
}

// due returns what the store must charge: for a window the count of each bucket, for a rate as many calls as still have an effect, and for
// an allowance that nothing is left. The store adds them to those of others, which may have gone in the same instant; the last call of a
// process without others counts from when it went.
//
// A call of a rate that has some of its interval left counts as a whole one. So what n processes report is at least what the upstream counts:
// its burst drains n times as fast as one of theirs. If there are more processes than calls in a burst, that would leave up to n calls idle,
// and only a call that is less than one emission interval old counts. The note has how long each call takes, for StillDue.
func (s *spending) due(now int64) []store.Note {
	notes := pauseOf(s.paused, 0, store.Instant(now))
	for _, h := range s.counts {
		if h.n > 0 {
			notes = append(notes, store.Note{Kind: store.NoteSettle, Charge: store.Charge{From: h.bucket}, Actual: h.n})
		}
	}
	spec, more := &s.limit.Spec, s.extra
	if from, to := max(s.from, now-spec.Within), min(s.to, now); spec.Within > 0 && from < to { // it may be in a window still
		notes = append(notes, claim(0, from, to))
	}
	if left := s.to - max(s.from, now); left > 0 {
		more += left / s.each
		last := now + left%s.each - s.each // began then
		switch {
		case s.each == spec.Interval:
			notes = append(notes, claim(0, last, last+s.each))
		case left%s.each > 0 && (s.each <= spec.Limit*spec.Interval || last+spec.Interval > now):
			more++
		}
	}
	if more > 0 {
		notes = append(notes, store.Note{Kind: store.NoteSettle, Value: s.each, Actual: more})
	}
	return notes
}

// Adds reports whether a note adds a charge: to heed it twice would charge that twice.
func Adds(n *store.Note) bool { return n.Kind == store.NoteSettle && n.Actual > n.Cost }
