package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// A Plan describes what a random history does besides reserving.
type Plan struct {
	Ops       int
	Cancels   bool
	Pauses    bool
	StepsBack bool // the clock steps back now and then, by less than a second in all
	Changes   bool // limits change
	Feedback  bool // the upstream speaks, policies adapt, and calls settle
	Memory    bool // with Feedback: charges are claimed, limits reset, and calls cost more than a burst
	Exact     bool // all policies are rates whose windows are exact
	Queues    bool // calls queue for some limits: permits, lanes and fair shares
	Paced     bool // what calls wait for is a rate, as a rule: windows are long, and the calls of a request cost the same
	Choices   bool // calls are bound by one of several choices of the limits of a stack
	Refusals  bool // the second store does not receive what the first one refuses, calendars have months and days, and calls reach far ahead
}

// history makes random operations on random stacks of one upstream. The same seed makes the same history.
type history struct {
	rng   *rand.Rand
	plan  Plan
	keys  []Key // what stacks are made of
	sets  [][]int
	back  store.Instant
	queue []queuedCall // queued calls that may still poll

	before map[int]policies.Policy // what a policy was before it changed
}

func newHistory(seed uint64, plan Plan) *history {
	h := &history{rng: rand.New(rand.NewPCG(seed, 0x68656164776179)), plan: plan, before: make(map[int]policies.Policy)}
	for i := range 1 + h.rng.IntN(5) {
		scope := ""
		if h.rng.IntN(3) == 0 {
			scope = string(rune('a' + h.rng.IntN(3)))
		}
		h.keys = append(h.keys, Key{Policy: h.policy(i), Scope: scope})
		if (plan.Feedback || plan.Pauses) && h.rng.IntN(3) == 0 {
			h.keys = append(h.keys, Key{h.policy(i), scope, true, h.rng.Int64N(4)})
		}
	}
	for range 1 + h.rng.IntN(4) {
		h.sets = append(h.sets, h.rng.Perm(len(h.keys))[:h.rng.IntN(len(h.keys)+1)])
	}
	if plan.Queues {
		h.makeQueues()
	}
	return h
}

// policy makes a random policy. Times are short and odd on purpose.
func (h *history) policy(i int) policies.Policy {
	limit := 1 + h.rng.Int64N(8)
	period := time.Duration(1+h.rng.Int64N(400_000)) * time.Microsecond
	if h.rng.IntN(3) > 0 {
		period = period.Truncate(10*time.Millisecond) + 10*time.Millisecond
	}
	kind := h.rng.IntN(8)
	if h.plan.Exact {
		kind, limit = 3, max(2, limit)
	}
	if h.plan.Paced && kind >= 3 {
		kind, limit, period = 4+kind%3, 20+h.rng.Int64N(40), period+time.Second
	}
	var p policies.Policy
	switch kind {
	case 0, 1, 2:
		p = policies.Rate(limit, period).Burst(1 + h.rng.Int64N(5))
	case 3:
		burst := 1 + h.rng.Int64N(limit)
		if h.plan.Exact {
			burst = max(2, burst)
		}
		p = policies.AtMost(limit, period).Burst(burst).Skew(time.Duration(h.rng.Int64N(int64(period))))
	case 4:
		p = policies.Fixed(limit, period).Skew(time.Duration(h.rng.Int64N(int64(period) / 4)))
	case 5, 6:
		p = policies.Sliding(limit, period).Buckets(1 + h.rng.Int64N(6))
	default:
		if zone, err := time.LoadLocation("America/New_York"); h.plan.Refusals && err == nil {
			return []policies.Policy{policies.Monthly(limit, zone), policies.Daily(limit, zone)}[h.rng.IntN(2)].Named(fmt.Sprintf("p%d", i))
		}
		p = policies.Hourly(limit, time.UTC).Skew(time.Duration(h.rng.Int64N(int64(time.Minute))))
	}
	if h.plan.Feedback && h.rng.IntN(2) == 0 && (p.Spec().Algorithm == specs.GCRA) {
		p = p.Adaptive(policies.Adaptation{
			Floor: 1 + h.rng.IntN(50), Decrease: 1 + h.rng.IntN(99),
			Hold: time.Duration(h.rng.Int64N(int64(time.Second))), Recovery: time.Duration(1 + h.rng.Int64N(int64(2*time.Second))),
		})
	}
	if (kind == 4 || kind == 7) && h.rng.IntN(2) == 0 {
		p = p.Burst(1 + h.rng.Int64N(limit))
	}
	if p.Validate() != nil { // such as more than one call per microsecond
		p = policies.PerSecond(limit)
	}
	return p.Named(fmt.Sprintf("p%d", i))
}

// held is a grant that may still be cancelled.
type held struct {
	set   int
	stack store.Stack
	grant store.Grant
	call  store.Call

	// With Queues:
	over      bool // given back, released or exchanged
	exchanged bool // for another that the call has instead
}

// op is one operation: exactly one of the pointers is set, or none for a reading of the status.
type op struct {
	step   store.Instant // the clock moves by this first
	set    int
	asks   []requested
	cancel []int // indexes into what is held
	pause  time.Duration
	notes  []store.Note
	status bool

	about  store.Call // that runs, is over or has left the queue; its ID is 0 for none
	began  store.Instant
	renews bool // it runs
}

// requested is calls of one stack; a request may have several stacks.
type requested struct {
	set     int
	calls   []store.Call
	instead int // the number, from 1, of the grant that the call has and gives back; 0: none
}

func (h *history) next(s *Session, made []held) op {
	holds := len(made)
	if h.plan.Changes && h.rng.IntN(30) == 0 {
		h.change(h.rng.IntN(len(h.keys)))
	}
	o := op{set: h.rng.IntN(len(h.sets))}
	if h.rng.IntN(3) == 0 {
		o.step = store.Instant(h.rng.Int64N(60_000))
	}
	if h.rng.IntN(40) == 0 {
		o.step = store.Instant(h.rng.Int64N(3_000_000))
	}
	if h.plan.StepsBack && h.rng.IntN(25) == 0 {
		if back := store.Instant(h.rng.Int64N(200_000)); h.back+back < 900_000 {
			h.back += back
			o.step = -back
		}
	}
	if h.plan.Queues && h.queued(&o, s.now, made) {
		return o
	}
	switch n := h.rng.IntN(20); {
	case n < 5 && h.plan.Cancels && holds > 0:
		for range min(holds, 1+h.rng.IntN(3)) {
			o.cancel = append(o.cancel, h.rng.IntN(holds))
		}
	case n == 5 && h.plan.Pauses:
		o.pause = time.Duration(1+h.rng.Int64N(300_000)) * time.Microsecond
	case n == 6:
		o.status = true
	case n < 11 && h.plan.Feedback && len(h.sets[o.set]) > 0:
		for range 1 + h.rng.IntN(3) {
			o.notes = append(o.notes, h.note(s, o.set))
		}
	default:
		o.asks = append(o.asks, h.ask(s, o.set))
		for h.rng.IntN(3) == 0 {
			o.asks = append(o.asks, h.ask(s, h.rng.IntN(len(h.sets))))
		}
	}
	return o
}

// change changes the numbers of a policy.
func (h *history) change(i int) {
	old := h.keys[i].Policy
	if h.keys[i].Left {
		return
	}
	if _, lane := old.InLane("lane"); lane || hasQueue(new(old.Spec())) {
		h.changeQueued(i)
		return
	}
	if h.plan.Queues && old.Spec().Algorithm == specs.Window {
		return // what was counted by a shorter window may be forgotten any time after that, which a long history could see
	}
	for range 20 {
		p := h.policy(i).Named(old.Name())
		if h.rng.IntN(2) == 0 && h.before[i].Validate() == nil { // a version that was in use before
			p = h.before[i]
		}
		if p.Spec().Algorithm == old.Spec().Algorithm || !h.plan.Queues {
			h.keys[i].Policy, h.before[i] = p, old
			return
		}
	}
}

// ask makes up calls of one stack.
func (h *history) ask(s *Session, set int) requested {
	a := requested{set: set}
	st := s.Stack(h.stackKeys(set)...)
	highest := int64(5)
	for i := range st.Limits {
		if st.Limits[i].Spec.Algorithm != specs.Concurrency { // a call takes one permit, whatever it costs
			highest = min(highest, st.Limits[i].Spec.Limit)
		}
	}
	queues := anyQueue(&st)
	for range 1 + h.rng.IntN(4)*h.rng.IntN(2) {
		c := store.Call{Cost: 1, MaxWait: time.Duration(h.rng.Int64N(int64(2 * time.Second)))}
		if h.rng.IntN(3) == 0 {
			c.Cost = 1 + h.rng.Int64N(highest)
		}
		if h.rng.IntN(6) == 0 {
			c.NotBefore = time.Duration(h.rng.Int64N(int64(time.Second)))
		}
		if h.rng.IntN(6) == 0 {
			c.MaxWait = store.Forever
		}
		if h.plan.Paced {
			if c.NotBefore = 0; len(a.calls) > 0 {
				c.Cost = a.calls[0].Cost
			}
		}
		if h.plan.Memory && !queues && h.rng.IntN(8) == 0 {
			c.Cost += h.rng.Int64N(4) // more than there is at once
		}
		if h.plan.Feedback {
			if h.rng.IntN(4) == 0 {
				for i := range st.Limits {
					c.Costs = append(c.Costs, 1+h.rng.Int64N(min(9, st.Limits[i].Spec.Limit)))
				}
			}
		}
		if units := unitsOf(&st); h.plan.Choices && !isFair(&st) && len(units) > 1 && h.rng.IntN(4) > 0 {
			c.AnyOf = h.choices(units)
			c.First = h.rng.IntN(len(c.AnyOf))
		}
		if queues {
			h.newQueued(&c, s.now)
			if c.AnyOf == nil && h.rng.IntN(4) == 0 { // earlier calls cost more, or less
				for i := range st.Limits {
					c.Owed = append(c.Owed, h.rng.Int64N(4)+1-c.CostOf(i))
					if st.Limits[i].Spec.Algorithm == specs.Concurrency {
						c.Owed[i] *= 100_000
					}
				}
			}
		}
		a.calls = append(a.calls, c)
		for h.rng.IntN(3) == 0 { // others request the same
			if queues {
				h.newQueued(&c, s.now)
			}
			a.calls = append(a.calls, c)
		}
	}
	return a
}

// isFair reports whether a stack's calls queue for fair shares.
func isFair(st *store.Stack) bool {
	return slices.ContainsFunc(st.Limits, func(l store.Limit) bool { return l.Spec.Queue == specs.FairQueue })
}

// unitsOf returns the limits of a stack that choices have or lack together: a lane's comes after its rate.
func unitsOf(st *store.Stack) (units [][]int) {
	for i := range st.Limits {
		if n := len(units); st.Limits[i].Spec.Queue == specs.QueueOfLane {
			units[n-1] = append(units[n-1], i)
		} else {
			units = append(units, []int{i})
		}
	}
	return units
}

// choices makes choices of some limits: common ones, and each of the others.
func (h *history) choices(units [][]int) (all [][]int) {
	common := h.rng.IntN(len(units) - 1)
	for _, unit := range units[common:] {
		all = append(all, slices.Concat(slices.Concat(units[:common]...), unit))
	}
	return all
}

// note makes a random upstream's report. A Settle gets its call later.
func (h *history) note(s *Session, set int) store.Note {
	i := h.rng.IntN(len(h.sets[set]))
	spec := h.keys[h.sets[set][i]].Policy.Spec()
	n := store.Note{Limit: i, For: time.Duration(h.rng.Int64N(int64(time.Second)))}
	if h.keys[h.sets[set][i]].Left && h.rng.IntN(6) > 0 {
		return h.answer(s, n)
	}
	kinds := 6
	if h.plan.Memory {
		kinds = 9
	}
	if h.rng.IntN(8) == 0 {
		n.Kind, n.Value, n.Remaining = store.NoteStray, h.rng.Int64N(60_000), h.rng.Int64N(100_000)
		n.At = s.now - store.Instant(h.rng.Int64N(500_000))
		return n
	}
	switch h.rng.IntN(kinds) {
	case 0:
		n.Kind = store.NoteSettle
		if h.keys[h.sets[set][i]].Left {
			n.Kind = store.NoteResume
		}
		if h.plan.Memory && h.rng.IntN(4) == 0 {
			n.Kind = store.NoteReset
		}
	case 1:
		n.Kind = store.NoteSlow
		if h.rng.IntN(2) == 0 {
			n.At = s.now - store.Instant(h.rng.Int64N(2_000_000))
		}
	case 2:
		n.Kind, n.Value = store.NoteLearn, h.rng.Int64N(spec.Limit+2)
		if spec.Algorithm == specs.GCRA {
			n.Value = spec.Interval/2 + h.rng.Int64N(3*spec.Interval)
		}
		if h.keys[h.sets[set][i]].Left { // a pace
			n.Value = h.rng.Int64N(300_000) - 50_000
		}
	case 6, 7, 8:
		n.Kind = store.NoteClaim
		n.Charge.From = int64(s.now) + h.rng.Int64N(1_500_000) - 500_000
		n.Charge.To = n.Charge.From + h.rng.Int64N(4*spec.Interval)
	default:
		n.Kind = store.NoteSettle
	}
	return n
}

// answer makes a random answer. It gets its call later, or none.
func (h *history) answer(s *Session, n store.Note) store.Note {
	n.Kind, n.Remaining, n.Refused = store.NoteAnswer, h.rng.Int64N(12)-2, h.rng.IntN(4) == 0
	switch h.rng.IntN(4) {
	case 0:
		n.For = 0
	case 1:
		n.For *= time.Duration(1 + h.rng.Int64N(9))
	case 2:
		n.For = time.Duration(1+h.rng.IntN(20)) * time.Second
	}
	if h.rng.IntN(8) == 0 {
		n.Value = h.rng.Int64N(3)
	}
	n.Guessed, n.Teaches = h.rng.IntN(4) == 0, n.Refused && h.rng.IntN(2) == 0
	n.Remaining = max(-1, n.Remaining)
	if h.rng.IntN(4) == 0 {
		n.At, n.Cost = s.now-store.Instant(h.rng.Int64N(12_000_000)), h.rng.Int64N(4)
	}
	return n
}

// settle gives notes a call that was made with their stack: a bucket, or what is settled or claimed.
func (h *history) settle(notes []store.Note, holds []held, st *store.Stack) {
	for i := range notes {
		n := &notes[i]
		var made []held
		for j := range holds {
			if n.Limit >= 0 && len(holds[j].stack.Limits) > n.Limit && holds[j].stack.Limits[n.Limit].Policy == st.Limits[n.Limit].Policy &&
				holds[j].stack.Limits[n.Limit].Spec.Algorithm == st.Limits[n.Limit].Spec.Algorithm {
				made = append(made, holds[j])
			}
		}
		switch n.Kind { //nolint:exhaustive // the others are about no call
		case store.NoteAnswer:
			if len(made) > 0 && h.rng.IntN(8) > 0 {
				c := made[h.rng.IntN(len(made))].grant.Charges[n.Limit]
				n.At, n.Cost = store.Instant(c.From), c.To
			}
		case store.NoteClaim:
			if st.Limits[n.Limit].Spec.Algorithm == specs.Window {
				if len(made) == 0 {
					n.Kind, n.Value = store.NoteLearn, 0
					continue
				}
				n.Charge = store.Charge{From: made[h.rng.IntN(len(made))].grant.Charges[n.Limit].From, To: h.rng.Int64N(st.Limits[n.Limit].Spec.Limit + 3)}
			}
		case store.NoteSettle:
			if len(made) == 0 { // a call that cost nothing at first
				n.Actual = h.rng.Int64N(3)
				continue
			}
			m := made[h.rng.IntN(len(made))]
			n.Charge, n.Cost = m.grant.Charges[n.Limit], m.call.CostOf(n.Limit)
			n.Actual = h.rng.Int64N(2*n.Cost + 3)
		}
	}
}

func (h *history) stackKeys(set int) []Key {
	keys := make([]Key, 0, len(h.sets[set]))
	for _, i := range h.sets[set] {
		keys = append(keys, h.keys[i])
	}
	return keys
}
