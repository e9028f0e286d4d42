package engine

import (
	"fmt"
	"math"

	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/policies/specs"
)

// Limit is the state of one policy at the time of a call: its spec and, for a calendar, the bounds of its windows.
type Limit struct {
	Spec   *specs.Spec // not changed meanwhile
	Bounds []int64
}

// horizon returns the instant from which nothing can be reserved yet, because the bounds of the calendar end there.
func (l *Limit) horizon() int64 {
	if n := len(l.Bounds); n > 0 {
		return l.Bounds[n-1]
	}
	return forever
}

// An Account is the state of one key under one algorithm.
type Account interface { //nolint:interfacebloat // one method for each thing that can happen to an account
	// Earliest returns where a call of cost n would be placed: at the first instant ≥ e at which it may start. It changes nothing. The
	// round is how many times the search has gone through the stack: see Reserve.
	Earliest(l *Limit, now, e, n int64, round int) Placement
	// Commit charges a call of cost n to its placement, and returns the charge and the slack: how much later than the slot the call may
	// start and still conform. The placement must come from Earliest, for the same limit, now and cost, and the account must not have
	// changed since.
	Commit(l *Limit, now int64, p Placement, n int64) (Charge, int64)
	// Cancel gives a charge back, and reports whether calls that found no room may now go earlier: see Allowance. Giving the same charge back
	// twice is harmless for a GCRA and bounded for a Window.
	Cancel(l *Limit, now int64, c Charge) (more bool)
	// Settle corrects the charge of a call that was made at a cost and turned out to cost something else: it gives the
	// difference back, or charges it, even beyond the limit.
	Settle(l *Limit, now int64, c Charge, cost, actual int64)
	// Slow slows an adaptive limit down because the call with slot at was refused.
	Slow(l *Limit, now, at int64) (changed bool)
	// Stray handles the refusal of the call with slot at, although its account had room: for a while, the account assumes a slightly longer
	// period. If the limit is adaptive and its share was growing, it grew too far, and falls back. Stray reports whether the refusal pauses
	// nobody (it was the only one for some time, or the limit fell back), and whether the limit fell back and so granted slots are too close.
	Stray(l *Limit, now, at int64, s Stray) (alone, slower bool)
	// Learn applies a lower limit that the upstream reported, until an instant: a larger emission interval of a rate, or fewer calls per
	// window. A value of 0 ends it.
	Learn(l *Limit, now, value, until int64) (changed bool)
	// Claim restores a charge that a process remembers: an interval of a rate, or a least number of calls in a bucket of a window. Claiming
	// what is already charged changes nothing. It reports whether a part of the interval that is still to come was free.
	Claim(l *Limit, now int64, c Charge) (changed bool)
	// Renew renews the lease of a running call that began at an instant. The call then counts for the length of a lease, even if it no
	// longer had a permit.
	Renew(l *Limit, now, id, began int64)
	// Release gives back a call's permit, or its position, and reports whether it had one.
	Release(l *Limit, c Left) bool
	// Reset forgets everything except the time of the reset: what was charged before is not given back.
	Reset(now int64)
	// Expires is the instant from which the account is equivalent to a new one, except for a reset that it remembers.
	Expires() int64
	// Remembers is the instant from which charges made before a reset no longer matter; 0 if there was no reset.
	Remembers() int64
	// Inspect reports on the account at now.
	Inspect(l *Limit, now int64) Inspection
}

// inert is embedded by accounts that do not heed everything: a permit costs nothing and has no period, readings state what the calls of an
// allowance cost and what is left, windows do not adapt, and only permits are renewed.
type inert struct{}

func (inert) Settle(*Limit, int64, Charge, int64, int64)             {}
func (inert) Slow(*Limit, int64, int64) bool                         { return false }
func (inert) Stray(*Limit, int64, int64, Stray) (alone, slower bool) { return false, false }
func (inert) Learn(*Limit, int64, int64, int64) bool                 { return false }
func (inert) Claim(*Limit, int64, Charge) bool                       { return false }
func (inert) Renew(*Limit, int64, int64, int64)                      {}
func (inert) Release(*Limit, Left) bool                              { return false }
func (inert) Remembers() int64                                       { return 0 }

// A Placement is where an account would place a call: Earliest returns it, and Commit charges it. Nothing else passes from the one to the
// other. It has four fields, so that it is passed in registers: with a fifth one a decision in memory takes a third longer.
type Placement struct {
	At int64 // the slot: when the call starts

	begin int64 // of a rate, of the call's interval of virtual time; of a window, of its bucket
	takes int64 // of a rate, the gap that holds the interval: its index, or tail; of a window with a pace, its line now, or none
	full  int64 // of a window: no bucket before has room for even one call; 0 if that is nothing new
}

// An Inspection is an account seen at one instant.
type Inspection struct {
	Remaining int64 // calls of cost 1 that may start now
	Next      int64 // the first instant at which a call of cost 1 may start
	Backlog   int64 // cost that is charged to instants after now
	Paused    int64 // no call starts before; 0 if not paused
	Pace      int64 // the present one, learned and adapted: the emission interval of a rate, the limit of a window or of leases
	Queued    int64 // queued calls
	Margin    int64 // how much longer a period the account assumes, in millionths of the period
	Full      int64 // when the whole limit is available, if nothing is charged or reported until then; this does not wait for a margin to fade
}

// NewAccount returns an empty account for an algorithm, nil for an unknown one.
func NewAccount(a specs.Algorithm) Account {
	switch a {
	case specs.GCRA:
		return &GCRA{}
	case specs.Window:
		return &Window{}
	case specs.Concurrency:
		return &Concurrency{}
	case specs.Allowance:
		return &Allowance{}
	}
	return nil
}

// Entry is one policy of a stack: its account and its limit.
type Entry struct {
	Account Account
	Limit   Limit
	More    bool // calls that found no room may go earlier, because of a charge that was given back
}

// The methods of an entry call those of its account. They switch on the algorithm, as [NewAccount] does: in a call through the interface,
// the account could keep the limit, as far as the compiler knows, so every stack would be on the heap. An account of another type is a
// programming error, and panics: any result for it would admit calls that no account counts.

// unknown panics because an account or its limit is of an algorithm that the engine does not know.
func (e *Entry) unknown() {
	panic(fmt.Sprintf("engine: no such algorithm: an account of an unknown type under a limit of algorithm %d", e.Limit.Spec.Algorithm))
}

// said returns the end of the allowance that the entry states, if that is in the future; 0 otherwise.
func (e *Entry) said(now int64) int64 {
	if a, ok := e.Account.(*Allowance); ok && a.until > now {
		return a.until
	}
	return 0
}

func (e *Entry) earliest(now, at, n int64, round int) Placement {
	switch a := e.Account.(type) {
	case *GCRA:
		return a.Earliest(&e.Limit, now, at, n, round)
	case *Window:
		return a.Earliest(&e.Limit, now, at, n, round)
	case *Concurrency:
		return a.Earliest(&e.Limit, now, at, n, round)
	case *Allowance:
		return a.Earliest(&e.Limit, now, at, n, round)
	}
	e.unknown()
	return Placement{}
}

func (e *Entry) commit(now int64, p Placement, n int64) (Charge, int64) {
	switch a := e.Account.(type) {
	case *GCRA:
		return a.Commit(&e.Limit, now, p, n)
	case *Window:
		return a.Commit(&e.Limit, now, p, n)
	case *Concurrency:
		return a.Commit(&e.Limit, now, p, n)
	case *Allowance:
		return a.Commit(&e.Limit, now, p, n)
	}
	e.unknown()
	return Charge{}, 0
}

// Cancel gives a charge back.
func (e *Entry) Cancel(now int64, c Charge) {
	switch a := e.Account.(type) {
	case *GCRA:
		a.Cancel(&e.Limit, now, c)
	case *Window:
		a.Cancel(&e.Limit, now, c)
	case *Concurrency:
		a.Cancel(&e.Limit, now, c)
	case *Allowance:
		e.More = a.Cancel(&e.Limit, now, c) || e.More
	default:
		e.unknown()
	}
}

// A Call is the request that Reserve decides.
type Call struct {
	Cost      int64
	Costs     []int64 // for each entry; nil: Cost
	NotBefore int64   // relative to now
	MaxWait   int64   // the longest wait that is granted
	Kept      uint64  // the entries of parts kept for others: see place

	// Of ReserveQueued.
	ID     int64    // of the call; 0 for others
	Since  int64    // when it was first requested; 0: now
	Flow   int64    // to whom it belongs, for fair shares
	Weight int64    // of its flow
	Owed   []int64  // for each entry, by how much earlier calls of the flow cost more than they were charged; nil: nothing
	Reach  int64    // how long before its slot it may get it; no less than 40 ms, or 10 ms with its permits
	Held   []Charge // of a slot that it holds and gives back first
	Slot   int64    // that slot
}

// left returns the call as it leaves the queue of an entry.
func (c *Call) left(i int) Left {
	l := Left{c.ID, c.Flow, c.Weight, c.cost(i), 0}
	if c.Owed != nil {
		l.Owed = c.Owed[i]
	}
	return l
}

func (c *Call) cost(i int) int64 {
	if c.Costs == nil {
		return c.Cost
	}
	return c.Costs[i]
}

// BindsNothing is what binds a call, besides the index of an entry.
const BindsNothing = -1

// A Grant is Reserve's answer.
type Grant struct {
	OK     bool
	At     int64 // the slot; if not OK, when it would have been
	Slack  int64
	Binds  int   // the index of the entry that decided At, or BindsNothing
	Paused int64 // if Binds is an allowance, not so much is left of it until then; 0 if it is none, or nothing is known

	Queued bool  // it is queued for entry Binds, and requests again at At
	Ahead  int64 // how many calls are before it in the queue
}

// fewLimits is the most limits that stacks usually have. Up to that, Reserve allocates nothing.
const fewLimits = 4

// placements returns room for the placements of n limits.
func placements(room *[fewLimits]Placement, n int) []Placement {
	if n > fewLimits {
		return make([]Placement, n)
	}
	return room[:n]
}

// Reserve finds the first slot at which every entry of the stack admits the call and charges it, appending
// one charge per entry to charges. A refusal changes nothing.
//
// Each account's Earliest is monotone and never moves a slot back. So the search calls them in turn until a whole round leaves the slot
// where it is. It ends at the first common slot, whatever the order, and each account has then placed the call there.
func Reserve(now int64, stack []Entry, c Call, charges []Charge) (Grant, []Charge) {
	g := Grant{At: now + c.NotBefore, Binds: BindsNothing}
	var one [1]Placement
	places := one[:]
	if len(stack) > 1 { // otherwise, clearing room for several costs time
		var few [fewLimits]Placement
		places = placements(&few, len(stack))
	}
	for quiet, i, round := 0, 0, 0; quiet < len(stack); {
		p := place(stack, i, now, g.At, &c, round)
		places[i] = p
		if p.At > g.At {
			g.At, g.Binds = p.At, i
			quiet = 0
		}
		quiet++
		if i++; i == len(stack) {
			i, round = 0, round+1
		}
	}
	if g.Binds >= 0 {
		g.Paused = stack[g.Binds].said(now)
	}
	if g.At-now > c.MaxWait {
		return g, charges
	}
	for i := range stack {
		if g.At >= stack[i].Limit.horizon() {
			g.Binds, g.Paused = i, 0
			return g, charges
		}
	}
	g.OK, g.Slack = true, math.MaxInt64
	for i := range stack {
		charge, slack := charge(stack, i, now, places[i], &c)
		charges = append(charges, charge)
		g.Slack = min(g.Slack, slack)
	}
	if len(stack) == 0 {
		g.Slack = numbers.UnboundSlack
	}
	return g, charges
}

// A Choice is one of several stacks that may bind a call, with the call's cost for each of its accounts (nil: the same for all), and which of
// them are parts kept for others.
type Choice struct {
	Stack []Entry
	Costs []int64
	Owed  []int64
	Kept  uint64
}
