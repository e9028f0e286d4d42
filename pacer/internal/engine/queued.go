package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/policies/specs"
)

// Calls queue for some limits. A permit is taken when the call starts, because it is unknown how long the running calls take. Slots of a
// lane or of a fair share are granted shortly before they are due: a grant cannot be taken back, so otherwise a later call could only get
// what the queued calls leave.
//
// A call that such a limit binds gets its slots and its permits together or nothing. If it has to wait for limits of the other kind (its
// tenant's own rate, for example), it gets its slots at once, so that it delays no other call, and takes its permits when its slot comes:
// a permit that waits for a slot serves no call. If they are taken by then, it gives the slots back in the same step and is queued. So a
// queued call holds no slot, and a call that waits for a slot holds no permit.

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
	case specs.Concurrency:
		return leases
	case specs.GCRA, specs.Window, specs.Allowance:
	default:
		e.unknown()
	}
	switch s.Queue {
	case specs.NoQueue:
		return atOnce
	case specs.QueueOfLane:
		return ofLane
	case specs.FairQueue:
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
			if i == 0 || stack[r.whole].Limit.Spec.Algorithm != specs.GCRA || roles[r.whole].kind == ofLane {
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
func (e *Entry) fairly() bool { return e.Limit.Spec.Queue == specs.FairQueue }

// queue returns the queue of a limit that has one.
func (e *Entry) queue() *Queue {
	switch a := e.Account.(type) {
	case *GCRA:
		if e.Limit.Spec.Queue == specs.NoQueue {
			return nil
		}
		if a.queue == nil {
			a.queue = &Queue{}
		}
		return a.queue
	case *Concurrency:
		return &a.queue
	case *Window, *Allowance:
		return nil
	}
	e.unknown()
	return nil
}

// IsQueuedFor reports whether calls are queued for a rate. Otherwise [Reserve] decides as [ReserveQueued] does about a call that goes now.
func (e *Entry) IsQueuedFor() bool {
	g, ok := e.Account.(*GCRA)
	return ok && e.Limit.Spec.Queue != specs.NoQueue && g.queue != nil && len(g.queue.waiting) > 0
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
	whole []Entry // the stack of the current choice
	stack []Entry
	roles []role // of the entries
	call  Call
	held  []start // which it gives back: see kept
	near  int64   // as the constant, or farther
	lead  int64   // how long before its slot it may go without another poll: near, or less if it would have permits for so long
}

// A verdict is what becomes of a call by a stack. It changes nothing until it is carried out: see queuedCall.charge and queuedCall.enqueue.
type verdict struct {
	at    Grant // neither OK nor Queued: it is refused
	kinds kind  // of a grant: the kinds of its limits
	early bool  // of a grant: it gets its slot before its turn, and without its permits

	// Of a call that is queued for the limit at.Binds, behind at.Ahead others.
	again int64 // when it must poll by default
	score int64
	need  int64 // how many of the permits have to come back until it has one
	of    int64
	first bool // it is the next to get a returned permit
}

// Classes of verdicts: each is better than those after it.
const (
	goes    = iota // it has its slot and its permits
	waits          // it is queued: its slot is near, and permits are given back all the time
	sleeps         // its slot is far
	refused        // it is too far, or the call does not wait
)

func (v *verdict) class() int {
	switch {
	case v.at.Queued:
		return waits
	case !v.at.OK:
		return refused
	case v.early:
		return sleeps
	}
	return goes
}

// isBetter reports whether this verdict is better for a call than another one. Of queues for permits, the best is the one whose turn comes
// soonest if calls take the same time by all choices: the fewest permits have to return, in proportion to their number. Of queues for slots it
// is the one in which the call polls soonest. These are better than queues for permits, whose turn nobody can foresee.
func (v *verdict) isBetter(than *verdict) bool {
	switch a, b := v.class(), than.class(); {
	case a != b || a != waits:
		return a < b || a == b && v.at.At < than.at.At
	case v.of > 0 && than.of > 0:
		return v.need*than.of < than.need*v.of
	case v.of == 0 && than.of == 0:
		return v.again < than.again
	}
	return v.of == 0
}

// ReserveQueued is [Reserve] for such a call. It also returns which queued calls must retry.
func ReserveQueued(now int64, stack []Entry, c Call, charges []Charge) (g Grant, charged []Charge, called []int64) {
	choice := [1]Choice{{stack, c.Costs, c.Owed, c.Kept}}
	_, g, charged, called = ReserveAny(now, stack, choice[:], 0, c, charges)
	return g, charged, called
}

// ReserveAny is [Reserve], or [ReserveQueued], for a call that one of some choices binds, whose entries are of the stack. It returns which one that
// is: of those by which the call may go, the one with the nearest slot. If there is none, and it lacks only permits by some, the call is
// queued for one of them: see verdict.isBetter. It may poll by all choices, and is in one queue at a time; its position in each is by its
// first request, so it loses nothing by changing. While slots by other choices come nearer, the first in a queue polls in time for them. If
// all slots are far, it gets the nearest. Of equally good choices, it is the first one from first on, going round.
//
// A call's charges are those of the whole stack, and so is its Slot: it gets no earlier one by any choice.
func ReserveAny(
	now int64, stack []Entry, choices []Choice, first int, c Call, charges []Charge,
) (choice int, g Grant, charged []Charge, called []int64) {
	held := giveBack(now, stack, c.Held)
	var freed []Account // whose queues may admit others now
	var roles [manyLimits]role
	var best verdict
	var q queuedCall
	far := forever // the nearest slot that is far
	for k := range choices {
		i := (first + k) % len(choices)
		look := queuedCall{now: now, whole: stack, stack: choices[i].Stack, call: c, held: held, near: max(numbers.Near, c.Reach)}
		look.call.Costs, look.call.Owed, look.call.Kept = choices[i].Costs, choices[i].Owed, choices[i].Kept
		look.roles = rolesOf(look.stack, roles[:0])
		look.near += look.before()
		freed = look.purge(freed)
		v := look.decide()
		if v.class() == sleeps {
			far = min(far, v.at.At)
		}
		if k == 0 || v.isBetter(&best) {
			choice, best, q = i, v, look
		}
		if v.at.OK && v.at.At <= max(now+c.NotBefore, c.Slot) {
			break // there is none that is nearer
		}
	}
	q.roles = rolesOf(q.stack, roles[:0])
	var joined Account
	lives := int64(numbers.CalledLives)
	switch best.class() {
	case goes, sleeps:
		charges = q.charge(&best, charges)
	case waits:
		if best.first {
			best.again = min(best.again, far-q.lead)
		}
		q.enqueue(&best)
		joined = q.stack[best.at.Binds].Account
	case refused: // it hurries nobody
		lives = numbers.MaxDebt
	}
	for i := range stack {
		e := &stack[i]
		if e.kind()&waitedFor == 0 {
			continue
		}
		// A served call has left the queue. A call that leaves it otherwise makes room for the next one: if it starts by another
		// choice, the next one is now the first, and retries in time for the slots of other choices.
		least := int64(0)
		if len(choices) > 1 && best.at.OK && e.queue().isFirst(c.ID) {
			least = 1
		}
		if e.Account != joined && e.queue().leave(&e.Limit, c.left(i)) || slices.Contains(freed, e.Account) {
			called = append(called, e.next(now, c.ID, least, lives)...)
		}
	}
	return choice, best.at, charges, called
}

// giveBack gives charges of a call back, and returns where the call was to start in rates whose windows are exact, for each entry; nil if
// there are none.
func giveBack(now int64, stack []Entry, charges []Charge) (held []start) {
	for i := range min(len(stack), len(charges)) {
		if g, ok := stack[i].Account.(*GCRA); ok && g.logs(&stack[i].Limit) {
			if held == nil {
				held = make([]start, len(charges))
			}
			held[i] = g.log.first(charges[i].interval())
		}
		stack[i].Cancel(now, charges[i])
	}
	return held
}

// purge drops what has expired in the limits that calls queue for, and appends the accounts in which something had.
func (q *queuedCall) purge(freed []Account) []Account {
	for i := range q.stack {
		if q.roles[i].kind&waitedFor != 0 && q.stack[i].purge(q.now) {
			freed = append(freed, q.stack[i].Account)
		}
	}
	return freed
}

// before returns how long before its slot it is the call's turn: it is charged so much earlier if it costs more than the burst of a lane.
// Where shares are fair, it goes when one that needs little would: otherwise those would always be before it. It is no further ahead than it takes
// the rate: those that need little also fit into gaps.
func (q *queuedCall) before() (most int64) {
	for i := range q.stack {
		switch s := q.stack[i].Limit.Spec; q.roles[i].kind { //nolint:exhaustive // the others have no turns
		case ofLane:
			most = max(most, debt(q.call.cost(i)-1, s.Interval)-s.Tolerance())
		case fair:
			e, from := &q.stack[i], q.now+q.call.NotBefore
			further := e.earliest(q.now, from, q.call.cost(i), 0).At - e.earliest(q.now, from, 1, 0).At
			most = max(most, min(further, debt(q.call.cost(i), s.Interval)+numbers.Near))
		}
	}
	return most
}

// lastMoment returns how long before it expires a slot is lent beyond the lane's share: half of the shortest near, plus the time to reach
// the store.
func (q *queuedCall) lastMoment() int64 { return q.near - numbers.Near/2 }

// Next returns the queued calls whose turn it is, except one.
func (e *Entry) Next(now, but int64) []int64 { return e.next(now, but, 0, numbers.CalledLives) }

// next is Next with a lower bound of how many it returns, and with the time in which they must retry.
func (e *Entry) next(now, but, least, lives int64) []int64 {
	q := e.queue()
	if q == nil {
		return nil
	}
	free := int64(1)
	if f, ok := e.Account.(*Concurrency); ok {
		free = f.free(&e.Limit, now)
	}
	return q.call(now, max(free, least), but, lives)
}

// joint finds the first slot from an instant on at which all limits of some kinds admit the call, and records its place in each, unless places
// is nil.
func (q *queuedCall) joint(from int64, kinds kind, g *Grant, places []Placement) {
	g.At = from
	n := 0
	for i := range q.stack {
		if q.roles[i].kind&kinds != 0 {
			n++
		}
	}
	for quiet, tries, i := 0, 0, 0; quiet < n; i = (i + 1) % len(q.stack) {
		if q.roles[i].kind&kinds == 0 {
			continue
		}
		p := place(q.stack, i, q.now, g.At, &q.call, tries/n)
		if p.At > g.At && q.call.Held != nil {
			p = q.kept(i, g.At, p)
		}
		if places != nil {
			places[i] = p
		}
		if p.At > g.At {
			g.At, g.Binds, g.Paused = p.At, i, q.stack[i].said(q.now)
			quiet = 0
		}
		quiet++
		tries++
	}
}

// kept returns where a limit places a call from an instant on that gives a slot back only for its permits: where it was, if that is earlier
// than a new placement. Calls that came after it are no reason to go later by an allowance. Where windows are exact, a call may be placed
// strictly now, and was not; nothing has changed since it gave its slot back, so each other call is where it would be if it had not.
func (q *queuedCall) kept(i int, at int64, p Placement) Placement {
	e := &q.stack[i]
	j := slices.IndexFunc(q.whole, func(o Entry) bool { return o.Account == e.Account })
	if j >= len(q.call.Held) || q.call.Held[j].To == 0 {
		return p
	}
	switch a := e.Account.(type) {
	case *Allowance:
		if slot := q.call.Held[j].From; at <= max(slot, q.now) && e.said(q.now) <= at {
			p.At = min(p.At, max(at, slot))
		}
	case *GCRA:
		if q.held != nil && at <= q.held[j].at && q.held[j].at < p.At {
			return a.again(&e.Limit, q.now, q.call.cost(i), q.held[j], p)
		}
	}
	return p
}

// decide returns whether the call is granted, queued or refused.
func (q *queuedCall) decide() verdict {
	base := max(q.now+q.call.NotBefore, q.call.Slot)
	begin := Grant{At: base, Binds: BindsNothing}
	all := kind(0)
	for i := range q.stack {
		all |= q.roles[i].kind
	}
	others := begin
	q.joint(base, atOnce, &others, nil)
	slot := others
	if all&^atOnce != 0 {
		slot = begin
		q.joint(base, rates, &slot, nil)
	}
	queues := all&(ofLane|fair) != 0 && q.call.Held == nil // a call that has a slot need not queue for one
	if q.lead = q.near; all&leases != 0 && all&(ofLane|fair) == 0 {
		q.lead = max(numbers.PermitNear, q.call.Reach)
	}
	within := q.lead
	if q.call.Held != nil {
		within = q.near // a call with a slot knows when to request its permits
	}
	if others.At-q.now > within || !queues && slot.At-q.now > within {
		v := q.granted(slot, rates)
		v.early = true
		return v
	}
	v := verdict{at: slot, kinds: rates}
	if queues {
		if v = q.inTurn(begin, slot); !v.at.OK {
			return v
		}
	}
	for i := range q.stack {
		if q.roles[i].kind != leases {
			continue
		}
		lacks, has := q.permit(i)
		switch {
		case has:
		case queues && lacks.at.Queued && v.at.At > q.now: // it waits for its slot, and keeps its turn: permits may be back by then
			return q.queued(slices.IndexFunc(q.roles, func(r role) bool { return r.kind&(ofLane|fair) != 0 }), v.at.At)
		default:
			return lacks
		}
	}
	return q.granted(v.at, v.kinds|leases)
}

// inTurn returns the call's slot, if it is its turn for one, and for which kinds of limits. If it is not, the call is queued, or is refused
// because that takes too long.
func (q *queuedCall) inTurn(begin, slot Grant) verdict {
	turn, fairTurn := slot.At-q.now <= q.near, true
	blocks, lane := -1, -1
	again, own, ahead := int64(math.MinInt64), int64(math.MinInt64), int64(0)
	for i := range q.stack {
		e := &q.stack[i]
		if q.roles[i].kind&(ofLane|fair) == 0 {
			continue
		}
		rank, score := e.queue().position(&q.call, q.now, e.fairly())
		if q.roles[i].kind == fair {
			fairTurn = fairTurn && e.queue().isNext(&q.call, rank, score, q.now+q.near-slot.At)
			if at := slot.At + e.queue().ahead(&q.call, rank, score) - q.near; at > again {
				blocks, again = i, at
			}
			continue
		}
		behind := slot.At + debt(rank*q.call.cost(i), e.step(q.now))
		turn = turn && behind-q.now <= q.near
		lane, own, ahead = i, max(own, behind-q.near), max(ahead, debt(rank*q.call.cost(i), q.stack[q.roles[i].whole].step(q.now)))
	}
	turn = turn && fairTurn
	var lent Grant
	lost := forever
	if lane >= 0 && (!turn || slot.At > begin.At) {
		lent, lost = q.borrow(begin)
	}
	if turn && lost >= slot.At {
		slot.OK = true
		return verdict{at: slot, kinds: rates}
	}
	soonest := again + q.near
	if lane >= 0 {
		if fairTurn && q.mayBorrow(lent, lost+ahead) {
			lent.OK = true
			return verdict{at: lent, kinds: shared}
		}
		// A call may start at a slot that is lent, no sooner than the whole rate permits, or at the lane's own if nothing of the rate is lost
		// before that. It retries earlier by the time to reach the store.
		first := max(lent.At-q.near, lost-q.lastMoment()) + ahead
		if lost >= slot.At {
			first = min(first, own)
		}
		if blocks < 0 || fairTurn {
			blocks = lane
		}
		soonest = max(again, first, begin.At)
		again = max(again, first-(q.near-numbers.Near))
	}
	if soonest-q.now > q.call.MaxWait {
		return verdict{at: Grant{At: soonest, Binds: blocks}}
	}
	return q.queued(blocks, again)
}

// mayBorrow reports whether a call may start at a slot that is lent now, because it would be lost otherwise.
func (q *queuedCall) mayBorrow(lent Grant, lost int64) bool {
	return lent.At-q.now <= q.near && lost-q.now <= q.lastMoment()
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

// permit reports whether there is a permit for the call. If there is none, it returns what becomes of the call.
func (q *queuedCall) permit(i int) (v verdict, has bool) {
	e := &q.stack[i]
	f := e.Account.(*Concurrency) //nolint:forcetypeassert // of leases
	rank, _ := f.queue.position(&q.call, q.now, e.fairly())
	free := f.free(&e.Limit, q.now)
	if _, has := f.leases[q.call.ID]; has || rank < free {
		return v, true
	}
	if q.call.MaxWait == 0 {
		return verdict{at: Grant{At: q.now, Binds: i}}, false
	}
	again, before := forever, rank-max(0, free)
	if before < max(1, min(numbers.Front, f.most(&e.Limit, q.now))) {
		again = q.now + numbers.FrontAgain
	}
	if e.Limit.Spec.After == 0 {
		again = min(again, f.expiry(before))
	}
	v = q.queued(i, again)
	v.need, v.of, v.first = rank+1-free, f.most(&e.Limit, q.now), before == 0
	return v, false
}

// queued returns the verdict to queue the call for a limit.
func (q *queuedCall) queued(i int, again int64) verdict {
	e := &q.stack[i]
	rank, score := e.queue().position(&q.call, q.now, e.fairly())
	return verdict{at: Grant{Queued: true, Binds: i, Ahead: rank}, again: again, score: score}
}

// enqueue puts the call in the queue of its verdict.
func (q *queuedCall) enqueue(v *verdict) {
	e := &q.stack[v.at.Binds]
	// The calls do not all retry at the same time.
	v.at.At = max(q.now+numbers.SoonAgain, min(v.again, q.now+numbers.FarAgain+q.call.ID%numbers.FarAgain))
	e.queue().join(&q.call, v.score, v.at.At+numbers.WaitGrace, q.call.left(v.at.Binds).toll(&e.Limit))
}

// served takes the call out of a queue because it has what the queue is for. A call that gets a slot before its turn does not advance the
// queue; one that had a slot has paid for its turn.
func (q *queuedCall) served(i int, early bool) {
	e := &q.stack[i]
	if e.fairly() && (q.roles[i].kind == leases || q.call.Held == nil) {
		_, score := e.queue().position(&q.call, q.now, true)
		e.queue().served(&q.call, score, q.call.left(i).toll(&e.Limit), !early)
	}
	e.queue().remove(q.call.ID)
}

// granted returns that the call gets a slot of limits of some kinds, unless it is too far away.
func (q *queuedCall) granted(slot Grant, kinds kind) verdict {
	v := verdict{at: slot, kinds: kinds}
	v.at.OK = slot.At-q.now <= q.call.MaxWait
	for i := 0; v.at.OK && i < len(q.stack); i++ {
		if slot.At >= q.stack[i].Limit.horizon() {
			v.at.OK, v.at.Binds, v.at.Paused = false, i, 0
		}
	}
	return v
}

// charge charges the call to the limits of its verdict.
func (q *queuedCall) charge(v *verdict, charges []Charge) []Charge {
	g, kinds := &v.at, v.kinds
	var room [fewLimits]Placement
	places := placements(&room, len(q.stack))
	q.joint(g.At, kinds&rates, &Grant{}, places)
	g.Slack = math.MaxInt64
	timed := false
	for i := range q.stack {
		e := &q.stack[i]
		c, slack := Charge{}, int64(math.MaxInt64)
		switch k := q.roles[i].kind; {
		case k == leases:
			c = permitOf(q.call.ID, kinds&leases != 0)
			if kinds&leases != 0 {
				q.served(i, v.early)
				f := e.Account.(*Concurrency) //nolint:forcetypeassert // of leases
				f.Renew(&e.Limit, q.now, q.call.ID, g.At)
			}
		case k&kinds != 0:
			timed = true
			c, slack = charge(q.stack, i, q.now, places[i], &q.call)
			if k == ofLane || k == fair {
				q.served(i, v.early)
			}
		case k == ofLane:
			e.queue().remove(q.call.ID) // lent: the call starts, and the lane is not charged
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
