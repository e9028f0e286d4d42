package engine

import (
	"fmt"
	"math"

	"github.com/headway-go/headway/luascripts/numbers"
	"github.com/headway-go/headway/policies"
)

// Calls queue for some limits. A permit is taken when the call starts, because it is unknown how long the running calls take. Slots of a
// lane or of a fair share are granted shortly before they are due: a grant cannot be taken back, so otherwise a later call could only get
// what the queued calls leave.
//
// A call that such a limit binds gets its slots and its permits together or nothing. If it has to wait for limits of the other kind (its
// tenant's own rate, for example), it gets its slots at once, so that it delays no other call, and takes its permits when its slot comes.
// If they are taken by then, it gives the slots back in the same step and is queued. So a queued call holds no slot, and a call that waits
// for a slot holds no permit.

// A kind is how a limit takes part in the search for a slot.
type kind uint8

const (
	atOnce      kind = 1 << iota // gives slots as far ahead as necessary
	wholeOfLane                  // gives slots far ahead, but not to calls of its lanes
	ofLane
	fair
	leases
)

const (
	rates     = atOnce | wholeOfLane | ofLane | fair // those that are for a time
	shared    = rates &^ ofLane
	waitedFor = ofLane | fair | leases // those that calls are queued for
)

// manyLimits is how many limits a stack has at most in practice.
const manyLimits = 64

func (e *Entry) kind() kind {
	s := e.Limit.Spec
	switch s.Algorithm {
	case policies.Concurrency:
		return leases
	case policies.GCRA, policies.Window:
	default:
		e.unknown()
	}
	switch s.Queue {
	case policies.NoQueue:
		return atOnce
	case policies.QueueOfLane:
		return ofLane
	case policies.FairQueue:
		return fair
	}
	panic(fmt.Sprintf("engine: no such queue: %d", s.Queue))
}

// A role is the part that a limit has in the search for a slot.
type role struct {
	kind  kind
	whole int // of a lane: the index of the rate that it is a part of
}

// rolesOf appends the roles of the entries of a stack. A lane comes right after the rate that it is a part of: this is the only place
// that relies on it.
func rolesOf(stack []Entry, roles []role) []role {
	for i := range stack {
		r := role{kind: stack[i].kind()}
		if r.kind == ofLane {
			r.whole = i - 1
			if i == 0 || !Keeps(stack[r.whole].Account, policies.GCRA) || roles[r.whole].kind == ofLane {
				panic(fmt.Sprintf("engine: entry %d is of a lane, and does not come right after the rate that it is a part of", i))
			}
			if roles[r.whole].kind == atOnce {
				roles[r.whole].kind = wholeOfLane
			}
		}
		roles = append(roles, r)
	}
	return roles
}

// fairly reports whether the queue is one of fair shares.
func (e *Entry) fairly() bool { return e.Limit.Spec.Queue == policies.FairQueue }

// queue returns the queue of a limit that has one.
func (e *Entry) queue() *Queue {
	switch a := e.Account.(type) {
	case *GCRA:
		if e.Limit.Spec.Queue == policies.NoQueue {
			return nil
		}
		if a.queue == nil {
			a.queue = &Queue{}
		}
		return a.queue
	case *Concurrency:
		return &a.queue
	case *Window:
		return nil
	}
	e.unknown()
	return nil
}

// purge drops what has run out, and reports whether there was any.
func (e *Entry) purge(now int64) bool {
	if f, ok := e.Account.(*Concurrency); ok {
		return f.purge(now)
	}
	return e.queue().purge(now)
}

// A queuedCall is a call bound by a limit that calls queue for.
type queuedCall struct {
	now   int64
	stack []Entry
	roles []role // of the entries
	call  Call
	at    Grant
	early bool  // it gets its slot before its turn
	near  int64 // as the constant, or farther
}

// ReserveQueued is Reserve for such a call. It also returns which queued calls are to retry.
func ReserveQueued(now, pause int64, stack []Entry, c Call, charges []Charge) (g Grant, charged []Charge, called []int64) {
	var freed [manyLimits]bool
	var room [manyLimits]role
	q := &queuedCall{now: now, stack: stack, roles: rolesOf(stack, room[:0]), call: c, near: max(numbers.Near, c.Reach)}
	for i := range stack {
		if i < len(c.Held) {
			stack[i].cancel(now, c.Held[i])
		}
		if q.roles[i].kind&waitedFor != 0 {
			freed[i%manyLimits] = stack[i].purge(now)
		}
	}
	charges = q.decide(pause, charges)
	for i := range stack {
		if q.roles[i].kind&waitedFor == 0 {
			continue
		}
		// A served call has left the queue. A call that leaves it otherwise makes room for the next one.
		stays := q.at.Queued && q.at.Binds == i
		if !stays && stack[i].queue().leave(c.ID) || freed[i%manyLimits] {
			called = append(called, stack[i].Next(now, c.ID)...)
		}
	}
	return q.at, charges, called
}

// lastMoment returns how long before it expires a slot is lent beyond the lane's share: half of the shortest near, plus the time to reach
// the store.
func (q *queuedCall) lastMoment() int64 { return q.near - numbers.Near/2 }

// Next returns the queued calls whose turn it is, except one.
func (e *Entry) Next(now, but int64) []int64 {
	q := e.queue()
	if q == nil {
		return nil
	}
	free := int64(1)
	if f, ok := e.Account.(*Concurrency); ok {
		free = f.free(&e.Limit, now)
	}
	return q.call(now, free, but)
}

// joint finds the first slot from an instant on at which all limits of some kinds admit the call, and notes where each of
// them places it, unless places is nil.
func (q *queuedCall) joint(from int64, kinds kind, g *Grant, places []Placement) {
	g.At = from
	n := 0
	for i := range q.stack {
		if q.roles[i].kind&kinds != 0 {
			n++
		}
	}
	for quiet, asked, i := 0, 0, 0; quiet < n; i = (i + 1) % len(q.stack) {
		if q.roles[i].kind&kinds == 0 {
			continue
		}
		p := q.stack[i].earliest(q.now, g.At, q.call.cost(i), asked/n)
		if places != nil {
			places[i] = p
		}
		if p.At > g.At {
			g.At, g.Binds, g.Paused = p.At, i, false
			quiet = 0
		}
		quiet++
		asked++
	}
}

// decide grants the call, queues it or refuses it.
func (q *queuedCall) decide(pause int64, charges []Charge) []Charge {
	base := max(q.now+q.call.NotBefore, q.call.Slot)
	begin := Grant{At: base, Binds: BindsNothing}
	if pause > begin.At {
		begin.At, begin.Binds = pause, BindsUpstream
	}
	all := kind(0)
	for i := range q.stack {
		all |= q.roles[i].kind
		if p := q.stack[i].paused(); p > begin.At {
			begin.At, begin.Binds, begin.Paused = p, i, true
		}
	}
	var others Grant
	q.joint(base, atOnce, &others, nil)
	q.at = begin
	q.joint(begin.At, rates, &q.at, nil)
	queues := all&(ofLane|fair) != 0 && q.call.Held == nil // a call that has a slot need not queue for one
	if others.At-q.now > q.near || !queues && q.at.At-q.now > q.near {
		q.early = true
		return q.commit(charges, rates)
	}
	kinds := rates
	if queues {
		var admitted bool
		if kinds, admitted = q.inTurn(begin); !admitted {
			return charges
		}
	}
	for i := range q.stack {
		if q.roles[i].kind == leases && !q.hasPermit(i) {
			return charges
		}
	}
	return q.commit(charges, kinds|leases)
}

// inTurn reports whether it is the call's turn for a slot, and of which kinds of limits. If it is not, the call is
// queued, or is refused because that takes too long.
func (q *queuedCall) inTurn(begin Grant) (kind, bool) {
	turn, fairTurn := q.at.At-q.now <= q.near, true
	blocks, lane := -1, -1
	again, ahead := int64(math.MinInt64), int64(0)
	for i := range q.stack {
		e := &q.stack[i]
		if q.roles[i].kind&(ofLane|fair) == 0 {
			continue
		}
		rank, _ := e.queue().position(&q.call, q.now, e.fairly())
		behind := q.at.At + debt(rank*q.call.cost(i), e.step(q.now))
		waits := rank > 0 && behind-q.now > q.near
		turn = turn && !waits
		if q.roles[i].kind == ofLane {
			lane, ahead = i, max(ahead, debt(rank*q.call.cost(i), q.stack[q.roles[i].whole].step(q.now)))
			continue
		}
		fairTurn = fairTurn && !waits
		if behind-q.near > again {
			blocks, again = i, behind-q.near
		}
	}
	if turn {
		return rates, true
	}
	soonest := again + q.near
	if lane >= 0 {
		lent, lost := q.borrow(begin)
		if fairTurn && lent.At-q.now <= q.near && lost+ahead-q.now <= q.lastMoment() {
			q.at = lent
			return shared, true
		}
		// The first call in the queue may start at the lane's own slot or at one that is lent, and the next ones no sooner than the whole
		// rate permits. They retry earlier by the time to reach the store.
		first := max(q.now, min(q.at.At-q.near, max(lent.At-q.near, lost-q.lastMoment()))) + ahead
		if blocks < 0 || fairTurn {
			blocks = lane
		}
		soonest = max(again, first)
		again = max(again, first-(q.near-numbers.Near))
	}
	if soonest-q.now > q.call.MaxWait {
		q.at = Grant{At: soonest, Binds: blocks}
		return 0, false
	}
	q.enqueue(blocks, again)
	return 0, false
}

// step returns the emission interval of a rate.
func (e *Entry) step(now int64) int64 {
	return e.Account.(*GCRA).step(&e.Limit, now) //nolint:forcetypeassert // a rate
}

// borrow looks for a slot without the lanes' own limits, and for when that capacity of their rates expires if no call uses it.
func (q *queuedCall) borrow(begin Grant) (g Grant, lost int64) {
	g = begin
	var room [fewLimits]Placement
	places := placements(&room, len(q.stack))
	q.joint(begin.At, shared, &g, places)
	for i := range q.stack {
		if q.roles[i].kind == ofLane {
			lost = max(lost, places[q.roles[i].whole].begin)
		}
	}
	return g, lost
}

// hasPermit reports whether there is a permit for the call. If there is none, the call is queued.
func (q *queuedCall) hasPermit(i int) bool {
	e := &q.stack[i]
	f := e.Account.(*Concurrency) //nolint:forcetypeassert // of leases
	rank, _ := f.queue.position(&q.call, q.now, e.fairly())
	free := f.free(&e.Limit, q.now)
	if _, has := f.leases[q.call.ID]; has || rank < free {
		return true
	}
	if q.call.MaxWait == 0 {
		q.at = Grant{At: q.now, Binds: i}
		return false
	}
	again := forever
	if rank-max(0, free) < numbers.Front {
		again = q.now + numbers.FrontAgain
	}
	if e.Limit.Spec.After == 0 {
		again = min(again, f.expiry(rank-max(0, free)))
	}
	q.enqueue(i, again)
	return false
}

// enqueue puts the call in a queue.
func (q *queuedCall) enqueue(i int, again int64) {
	e := &q.stack[i]
	// The calls do not all retry at the same time.
	again = max(q.now+numbers.SoonAgain, min(again, q.now+numbers.FarAgain+q.call.ID%numbers.FarAgain))
	rank, score := e.queue().position(&q.call, q.now, e.fairly())
	e.queue().join(&q.call, score, again+numbers.WaitGrace, e.fairly())
	q.at = Grant{Queued: true, At: again, Binds: i, Ahead: rank}
}

// served takes the call out of a queue because it has what the queue is for. A call that gets a slot before its turn does not advance the
// queue; one that had a slot has paid for its turn.
func (q *queuedCall) served(i int) {
	e := &q.stack[i]
	if e.fairly() && (q.roles[i].kind == leases || q.call.Held == nil) {
		_, score := e.queue().position(&q.call, q.now, true)
		e.queue().served(&q.call, score, !q.early)
	}
	e.queue().leave(q.call.ID)
}

// commit charges the call to limits of some kinds, unless its slot is too far away.
func (q *queuedCall) commit(charges []Charge, kinds kind) []Charge {
	g := &q.at
	if g.At-q.now > q.call.MaxWait {
		return charges
	}
	for i := range q.stack {
		if g.At >= q.stack[i].Limit.horizon() {
			g.Binds, g.Paused = i, false
			return charges
		}
	}
	var room [fewLimits]Placement
	places := placements(&room, len(q.stack))
	q.joint(g.At, kinds&rates, &Grant{}, places)
	g.OK, g.Slack = true, math.MaxInt64
	timed := false
	for i := range q.stack {
		e := &q.stack[i]
		c, slack := Charge{}, int64(math.MaxInt64)
		switch k := q.roles[i].kind; {
		case k == leases:
			c = permitOf(q.call.ID, kinds&leases != 0)
			if kinds&leases != 0 {
				q.served(i)
				f := e.Account.(*Concurrency) //nolint:forcetypeassert // of leases
				f.Renew(&e.Limit, q.now, q.call.ID, g.At)
			}
		case k&kinds != 0:
			timed = true
			c, slack = e.commit(q.now, places[i], q.call.cost(i), q.call.Tracked)
			if k == ofLane || k == fair {
				q.served(i)
			}
		case k == ofLane:
			e.queue().leave(q.call.ID) // lent: the call starts, and the lane is not charged
		default:
			panic(fmt.Sprintf("engine: a limit of kind %b would not be charged", k))
		}
		charges = append(charges, c)
		g.Slack = min(g.Slack, slack)
	}
	if !timed {
		g.Slack = numbers.UnboundSlack
	}
	return charges
}
