package dispatch

import (
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// A window that keeps parts for parties gives no slots far ahead: one could not be taken back when a party comes, or when calls are settled. So
// a call that finds no room has no slot, and its queue polls: when there may be room, soon after this process settles or cancels another call,
// and now and then, for what other processes give back.

const (
	farthestPart      = 64          // of a window that keeps parts, its slots are ahead at most
	farthestOfSliding = 8           // of a sliding one, which gives few slots at once
	pollPart          = 8           // see poll
	minPoll           = time.Second // see poll, and how often calls poll at most because this process settles others
	maxPoll           = time.Minute
)

// farthest returns how far ahead calls get slots, if windows among some limits keep parts for parties; 0 if none does.
func farthest(limits []store.Limit) (most time.Duration) {
	for i := range limits {
		if s := &limits[i].Spec; s.Floor > 0 {
			d := time.Duration(s.Interval) * time.Microsecond / farthestPart
			if s.Buckets > 0 {
				d = time.Duration(s.Interval*s.Buckets) * time.Microsecond / farthestOfSliding
			}
			if most == 0 || d < most {
				most = d
			}
		}
	}
	return most
}

// farthest returns how far ahead the calls of a queue get slots. The caller holds mu.
func (s *Dispatcher) farthest(q *queue) time.Duration {
	if q == nil || q.most == 0 {
		return store.Forever
	}
	return max(q.most, s.way.Reach())
}

// Freed lets calls poll soon that wait for room in windows with parts, of which something came back: those of some limits that a function
// selects.
func (s *Dispatcher) Freed(limits []store.Limit, is func(limit int) bool) {
	if farthest(limits) == 0 {
		return
	}
	keys := make(map[store.Key]bool)
	for i := range limits {
		if is(i) {
			keys[limits[i].Key()] = true
		}
	}
	s.lock()
	defer s.unlock()
	now := s.sinceMade(time.Now())
	for q := range s.queues.polls {
		if !boundByAny(q.limits, keys) {
			continue
		}
		every := min(s.farthest(q), minPoll)
		soon := now - now%every + every // for all queues at once: they share a request
		if q.window.sleep > soon {
			q.window.sleep = soon
			s.look(q)
		}
		for _, c := range q.out {
			if due := s.made.Add(soon); c.isQueued() && c.due.After(due) {
				c.due = due
				c.signal()
			}
		}
	}
}

// poll returns for how long calls of a queue that got no slot make no request: until there may be room within reach, but no less than slots are
// ahead, because each request gets those until then, and no more than pollPart times that (minPoll, if that is longer; maxPoll, if that is
// shorter), because other processes give slots back. The caller holds mu.
func (s *Dispatcher) poll(q *queue, g *store.Grant) time.Duration {
	s.queues.polls[q] = struct{}{}
	most := s.farthest(q)
	return min(max(g.Wait()-most, g.Wait()/2, most), max(pollPart*most, minPoll), maxPoll)
}
