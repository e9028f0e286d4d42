package engine

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/policies/specs"
)

// A Queue holds the calls that wait for an account, in order. A queued call is charged nothing, and retries from time to time: when its
// turn may have come, or when it is notified. A call that does not retry in time is considered dead, so that no call waits behind it.
//
// Calls are ordered by a score: when a call was first requested or, in a fair queue, its start tag. Tags are those of start-time fair
// queueing: a call of a flow (calls with the same value of the scope) begins, in virtual time, where the previous call of its flow ends,
// but not before the call that was served last. It ends its length later, divided by its weight: see lengthOf. Serving calls in the
// order of these starts gives each flow its share by weight, and what a flow does not use to the others. An empty queue forgets all tags.
type Queue struct {
	waiting  []waiter        // in order
	scores   map[int64]int64 // by id
	soonest  int64           // no call is considered dead before
	furthest int64           // no call is waited for longer

	virtual int64           // the start tag of the call that was served last
	finish  map[int64]int64 // by flow, where its last call ends
	least   int64           // no call was shorter that came since there is a queue, for weight 1
}

// lengthOf returns the length of a call of weight 1 in virtual time: the rate's time for its cost. Permits are alike, whatever a call
// costs, except for how long it has them: see toll.
func lengthOf(l *Limit, cost int64) int64 {
	switch {
	case l.Spec.Algorithm != specs.GCRA:
		return numbers.TagStep
	case cost < 0:
		return -lengthOf(l, -cost)
	}
	return min(debt(cost, l.Spec.Interval), numbers.MaxTagged) * numbers.TagMicro
}

// toll returns that of a call.
func (c Left) toll(l *Limit) (t toll) {
	fair := l.Spec.Queue == specs.FairQueue
	if fair {
		t.length = lengthOf(l, c.Cost)
	}
	switch {
	case c.Owed == 0:
	case l.Spec.Algorithm == specs.GCRA:
		t.owed = lengthOf(l, c.Owed)
	case fair:
		t.owed = max(0, min(c.Owed, numbers.MaxTagged))*numbers.TagHeld - t.length
	}
	return t
}

// step returns by how much a toll advances the tags of a flow.
func (t toll) step(weight int64) int64 {
	step := max(0, t.length+t.owed) / max(1, weight)
	return max(numbers.TagUnit, step-step%numbers.TagUnit)
}

// ahead returns how long a call of fair shares need not poll: half the time that the rate takes for the calls before it, each counted as
// the shortest, since some may have left; or, if that is longer, the time for those of its own flow, at most Near for each call before it.
func (q *Queue) ahead(c *Call, rank, score int64) int64 {
	if rank == 0 {
		return 0
	}
	own := (score - q.virtual) / numbers.TagMicro * max(1, c.Weight)
	return max(min(own, debt(rank, numbers.Near)), debt(rank, q.least/numbers.TagMicro)/2)
}

// isNext reports whether a call has its turn within that time, if the calls before it do not poll: they are few, and its flow gets no more
// than that before the first of them.
func (q *Queue) isNext(c *Call, rank, score, within int64) bool {
	return rank == 0 || debt(rank, q.least/numbers.TagMicro) <= within && (score-q.waiting[0].score)/numbers.TagMicro*max(1, c.Weight) <= within
}

// A waiter is a queued call that is considered alive.
type waiter struct{ id, score, until int64 }

// compare orders waiters by score and then by the digits of their ids, as a sorted set of Redis does.
func (w *waiter) compare(other waiter) int {
	if c := cmp.Compare(w.score, other.score); c != 0 || w.id == other.id {
		return c
	}
	return cmp.Compare(strconv.FormatInt(w.id, 10), strconv.FormatInt(other.id, 10))
}

func (q *Queue) find(w waiter) (int, bool) {
	return slices.BinarySearchFunc(q.waiting, w, func(a, b waiter) int { return a.compare(b) })
}

// purge drops the calls that are considered dead, and reports whether there were any.
func (q *Queue) purge(now int64) bool {
	if len(q.waiting) == 0 || now < q.soonest {
		return false
	}
	before := len(q.waiting)
	q.soonest = forever
	q.waiting = slices.DeleteFunc(q.waiting, func(w waiter) bool {
		if w.until <= now {
			delete(q.scores, w.id)
			return true
		}
		q.soonest = min(q.soonest, w.until)
		return false
	})
	q.tidy()
	return len(q.waiting) < before
}

// tidy forgets everything when no call waits.
func (q *Queue) tidy() {
	if len(q.waiting) == 0 {
		*q = Queue{}
	}
}

// position returns how many calls are before a call, and its score. If it is not queued, these are what it would have.
func (q *Queue) position(c *Call, now int64, fair bool) (rank, score int64) {
	score, in := q.scores[c.ID]
	if in {
		i, _ := q.find(waiter{id: c.ID, score: score})
		return int64(i), score
	}
	switch {
	case fair:
		score = max(q.virtual, q.finish[c.Flow])
		score += min(numbers.TagUnit-1, q.before(score+numbers.TagUnit)-q.before(score))
	case c.Since > 0: // calls of one request came at the same instant
		i, _ := q.find(waiter{id: c.ID, score: c.Since})
		return int64(i), c.Since
	default:
		score = now
		if n := len(q.waiting); n > 0 { // calls of the same instant are in the order of their requests
			score = max(score, q.waiting[n-1].score+1)
		}
	}
	return q.before(score + 1), score
}

// before returns how many calls have a lower score.
func (q *Queue) before(score int64) int64 {
	i, _ := q.find(waiter{score: score})
	return int64(i)
}

// A toll is what a call costs the share of its flow, in virtual time for weight 1: its length, and what earlier calls of the flow owe. The zero toll
// is that of a call in a queue without shares.
type toll struct{ length, owed int64 }

// join puts a call in the queue, or keeps it there.
func (q *Queue) join(c *Call, score, until int64, t toll) {
	if old, in := q.scores[c.ID]; in {
		i, _ := q.find(waiter{id: c.ID, score: old})
		q.waiting[i].until = until
	} else {
		if q.scores == nil {
			q.scores, q.soonest = make(map[int64]int64), until
		}
		i, _ := q.find(waiter{id: c.ID, score: score})
		q.waiting = slices.Insert(q.waiting, i, waiter{c.ID, score, until})
		q.scores[c.ID] = score
		if t.length > 0 {
			q.advance(c, score, t)
		}
	}
	q.soonest, q.furthest = min(q.soonest, until), max(q.furthest, until)
}

// advance notes where the flow's next call begins.
func (q *Queue) advance(c *Call, score int64, t toll) {
	if q.finish == nil {
		q.finish, q.least = make(map[int64]int64), t.length
	}
	q.finish[c.Flow] = score - score%numbers.TagUnit + t.step(c.Weight)
	q.least = min(q.least, t.length)
	if len(q.finish) <= numbers.MaxFlows {
		return
	}
	least := waiter{score: forever}
	for flow, end := range q.finish {
		if w := (waiter{id: flow, score: end}); w.compare(least) < 0 {
			least = w
		}
	}
	delete(q.finish, least.id)
}

// A Left is a call that is over, or that leaves a queue, with what it counts there. The zero Flow is that of a call that counts nothing, or that
// has got what it was queued for.
type Left struct{ ID, Flow, Weight, Cost, Owed int64 }

// leave takes a call out of the queue, and reports whether it was there. Its flow gets back what the call counted.
func (q *Queue) leave(l *Limit, c Left) bool {
	in := q.remove(c.ID)
	if end, has := q.finish[c.Flow]; in && has {
		q.finish[c.Flow] = max(0, end-c.toll(l).step(c.Weight))
	}
	return in
}

// remove takes a call out of the queue, and reports whether it was there.
func (q *Queue) remove(id int64) bool {
	score, in := q.scores[id]
	if !in {
		return false
	}
	i, _ := q.find(waiter{id: id, score: score})
	q.waiting = slices.Delete(q.waiting, i, i+1)
	delete(q.scores, id)
	q.tidy()
	return true
}

// isFirst reports whether a call is the first in the queue.
func (q *Queue) isFirst(id int64) bool { return len(q.waiting) > 0 && q.waiting[0].id == id }

// served records in a fair queue that a call got its slot; inTurn is whether it was the call's turn, so that the queue advances.
func (q *Queue) served(c *Call, score int64, t toll, inTurn bool) {
	if len(q.waiting) == 0 {
		return
	}
	if _, in := q.scores[c.ID]; !in {
		q.advance(c, score, t)
	}
	if first := q.waiting[0]; first.id != c.ID { // it went within reach before its turn: nobody loses what its flow lags behind
		score = min(score, first.score)
	}
	tag := score - score%numbers.TagUnit
	if !inTurn || tag <= q.virtual {
		return
	}
	q.virtual = tag
	for flow, end := range q.finish {
		if end <= tag {
			delete(q.finish, flow)
		}
	}
}

// call returns the first n calls in the queue except one, and gives them so much time to retry.
func (q *Queue) call(now, n, but, lives int64) []int64 {
	var ids []int64
	for i := range q.waiting {
		if int64(i) >= n || i >= numbers.MostCalled {
			break
		}
		w := &q.waiting[i]
		if w.id == but {
			continue
		}
		w.until = min(w.until, now+lives)
		q.soonest = min(q.soonest, w.until)
		ids = append(ids, w.id)
	}
	return ids
}

// length returns how many calls are queued at now.
func (q *Queue) length(now int64) int64 {
	if now < q.soonest {
		return int64(len(q.waiting))
	}
	n := int64(0)
	for i := range q.waiting {
		if q.waiting[i].until > now {
			n++
		}
	}
	return n
}
