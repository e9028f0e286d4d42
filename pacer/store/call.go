package store

import (
	"slices"
	"time"
)

// Forever as a MaxWait or a NotBefore is longer than any that matters.
const Forever = 20 * 365 * 24 * time.Hour

// A Call is one call that requests a slot.
type Call struct {
	Cost      int64
	Costs     []int64       // for each limit of the stack, each at least 1; nil: Cost for all
	NotBefore time.Duration // the slot is no earlier than this from now
	MaxWait   time.Duration // grant no slot that is further away

	// AnyOf has the limits with these indexes, in rising order, bind the call: one of these choices, and not the whole stack. It gets the
	// choice with the nearest slot; of those that are equally near, the first from First on, going round. If permits are all that it lacks
	// by some choices, and no other has a slot that is near, it is queued for one of them: where the fewest permits have to be given back
	// until it has one, in proportion to how many there are. The choice may change at each poll; the call keeps its position. No choice has
	// lanes or fair shares. Nil: the whole stack.
	AnyOf [][]int
	First int

	// Kept are the limits of the stack, by their indexes from the lowest bit on, of which the call only leaves what they keep for others
	// ([specs.Spec].Floor). Such a limit is charged the zero Charge.
	Kept uint64

	// Caller is the part of a program that makes the call: see [About].Callers. Stores ignore it.
	Caller string

	// Of a call bound by a limit that calls queue for: permits, lanes and fair shares. See [Grant].Queued.
	ID     int64   // of this call, at random; 0 for all others
	Since  Instant // when it was first requested, which is its position in the queue; 0: now
	Flow   int64   // by whom fair shares are counted, from 1
	Weight int64   // of the flow, from 1
	// Owed is how much more earlier calls of the flow have cost each limit than they were charged, as was found out since: the call counts as so
	// much dearer for the share of its flow, or cheaper. Nil: nothing.
	Owed []int64
	// Reach is how long before its slot the call may get it: it polls so long before, and the answer has to be there in time. Less than 40
	// ms counts as 40 ms; less than 10 ms as 10 ms, if the call is queued for permits alone and holds no slot, so that it does not have its
	// permits long before it needs them.
	Reach time.Duration
	Held  []Charge // of a slot that it was granted without its permits: given back first
	Slot  Instant  // that slot: it gets no earlier one

	_ struct{}
}

// Keeps reports whether the call only leaves what the limit at i of the stack keeps for others.
func (c *Call) Keeps(i int) bool { return i >= 0 && c.Kept>>i&1 == 1 }

// KeptOf is Kept for a choice of limits, by their indexes in the choice.
func (c *Call) KeptOf(choice []int) (kept uint64) {
	for k, i := range choice {
		kept |= c.Kept >> i & 1 << k
	}
	return kept
}

// CostOf returns what the call costs the limit at i of the stack; its own cost if there is no such limit, as for [BindsNothing].
func (c *Call) CostOf(i int) int64 {
	if i >= 0 && i < len(c.Costs) {
		return c.Costs[i]
	}
	return c.Cost
}

// LimitOf returns which limit of the stack is the one with an index in one of the call's choices. An index that is none, such as
// [BindsNothing], it returns as it is; and so it does if the call has no choices.
func (c *Call) LimitOf(choice, index int) int {
	if c.AnyOf == nil || index < 0 {
		return index
	}
	return c.AnyOf[choice][index]
}

// A Grant is a store's answer to a [Call].
type Grant struct {
	OK    bool          // granted and charged
	Now   Instant       // when the store decided
	At    Instant       // the slot; if not OK, when it would have been, at the earliest if AtLeast
	Slack time.Duration // how much later than At the call may go

	// Binds is the index of the limit that decided At, or BindsNothing or BindsStore.
	Binds int
	// Paused is until when not so much is left of the allowance Binds; 0 if Binds is none, or nothing is known of it.
	Paused Instant

	// AtLeast reports that the slot of a refused call may be later than At, because the windows of a calendar are not known behind it.
	AtLeast bool

	// Charges is what each limit of the stack was charged. It means something to the store alone.
	Charges []Charge
	// Choice is the index of the choice that binds a call with choices, or for which it is queued. Limits outside it are charged the zero
	// Charge.
	Choice int

	// Queued reports that the call is not granted, and is queued for limit Binds, behind Ahead others: it is charged nothing. It must poll
	// at At, with the same ID and Since, or earlier, if a [Change] wakes it.
	Queued bool
	Ahead  int64

	// Deferred reports that nothing was decided: send the call again. Only [Shared.ReserveAll] leaves calls so, the last of a request that
	// would keep the store busy for too long, and never all of them.
	Deferred bool

	// Local reports that this process granted the slot by itself, while its store was out of reach: nobody else knows of it.
	Local bool
	// Receipt is what the store that granted the slot needs besides Charges, to take it back. It means nothing to others, who keep it
	// with the grant.
	Receipt any

	_ struct{}
}

// Granted returns those of some grants that are charged.
func Granted(grants []Grant) []Grant {
	return slices.DeleteFunc(slices.Clone(grants), func(g Grant) bool { return !g.OK })
}

// InParts has calls of one stack reserved by a function that begins with the first one that is not decided, and may leave the last ones
// Deferred, until all are decided. If that fails, it gives back what was granted before, and reports none of it.
func InParts(grants []Grant, reserve func(done int) error, giveBack func([]Grant)) error {
	for done := 0; done < len(grants); {
		if err := reserve(done); err != nil {
			if all := Granted(grants[:done]); len(all) > 0 {
				giveBack(all)
			}
			return err
		}
		for done < len(grants) && !grants[done].Deferred {
			done++
		}
	}
	return nil
}

// ReachOf returns how long calls that are requested together wait at most: so far ahead, the request knows the windows of calendars.
func ReachOf(calls []Call) (reach time.Duration) {
	for i := range calls {
		reach = max(reach, calls[i].MaxWait)
	}
	return reach
}

// Bound sets AtLeast in the answer to a call whose request knew the windows of calendars for so long ahead.
func (g *Grant) Bound(limits []Limit, c *Call, reach time.Duration) {
	if g.OK || g.Queued || g.Deferred {
		return
	}
	for i := range limits {
		if calendar := limits[i].Spec.Calendar; calendar != nil && (c.AnyOf == nil || slices.Contains(c.AnyOf[g.Choice], i)) {
			bounds := calendar.Bounds(int64(g.Now), int64(g.Now.Add(reach)))
			g.AtLeast = g.AtLeast || int64(g.At) >= bounds[len(bounds)-1]
		}
	}
}

// Values of [Grant].Binds that are no index.
const (
	BindsNothing = -1 // the call may go at its requested time
	BindsStore   = -2 // the store is out of reach, and this process has no share without it: see ErrNoShare
)

// Wait returns how long after the decision the slot is.
func (g *Grant) Wait() time.Duration { return g.At.Sub(g.Now) }

// A Charge is what a reservation took from one account, in two integers whose meaning is the store's. The stores of this module use an
// interval of virtual time [From, To) for a rate, zero if it was lent to a lane, and the start of a bucket and a cost for a window, and the
// slot and a cost for an allowance. Seen is how much a window's bucket then held. Of concurrency limit, From is the call's ID, and To 1 if
// it has its permit. A call that was granted without one, because its slot is not near, requests it shortly before, with Held set.
//
// Made is the store time of the grant, in µs; 0 if that is not known, or nothing was charged. Charges from before a reset of the account
// are not given back: others may have them by now.
type Charge struct{ From, To, Seen, Made int64 }
