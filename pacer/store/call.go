package store

import (
	"math/rand/v2"
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

	// AnyOf are the choices of a call: instead of the whole stack, one of these lists of limits binds it, by rising indexes. The call gets
	// the choice with the nearest slot; among equals, the next one from First on. If it lacks only permits, and no other choice has a near
	// slot, it is queued for the choice that needs the fewest returned permits, in proportion to their number. The choice may change at
	// each poll; the call keeps its position. No choice has lanes or fair shares. Nil: the whole stack.
	AnyOf [][]int
	First int

	// Kept is a bit mask of limits that keep a part for others ([specs.Spec].Floor). The call must leave that part, and is not charged to
	// these limits: they get the zero Charge.
	Kept uint64

	// Caller is the part of the program that makes the call: see [About].Callers. Stores ignore it.
	Caller string

	// Set if a limit of the call has a queue: permits, lanes and fair shares. See [Grant].Queued.
	ID     int64   // of this call, at random; 0 for all others
	Since  Instant // when it was first requested, which is its position in the queue; 0: now
	Flow   int64   // the party whose fair share the call uses, from 1
	Weight int64   // of the flow, from 1
	// Owed is how much more earlier calls of the flow cost each limit than they were charged. The call's fair share is computed as if the call
	// cost that much more, or less. Nil means nothing. Of permits, it is for how many microseconds the call counts: as long as it will probably
	// have one, and as much more, or less, as earlier calls had theirs; 0: that is not known.
	Owed []int64
	// Reach is how long before its slot the call may be granted. It polls that early, and the answer has to arrive in time. At least 40 ms
	// count; at least 10 ms if the call is queued only for permits and holds no slot, so that it gets its permits no earlier than it needs
	// them.
	Reach time.Duration
	Held  []Charge // of a slot that it was granted without its permits: given back first
	Slot  Instant  // that slot: it gets no earlier one

	_ struct{}
}

// NewID returns the ID of a call, at random. All have the same number of digits, so they sort alike as numbers and as text, and are exact in
// Lua.
func NewID() int64 { return 1e14 + rand.Int64N(9e14) }

// Keeps reports whether the call only has to leave what the limit at i keeps for others.
func (c *Call) Keeps(i int) bool { return i >= 0 && c.Kept>>i&1 == 1 }

// KeptOf is Kept for a choice of limits, by their indexes in the choice.
func (c *Call) KeptOf(choice []int) (kept uint64) {
	for k, i := range choice {
		kept |= c.Kept >> i & 1 << k
	}
	return kept
}

// Left returns the note that the call is over, or leaves the queue of a limit, by its index in the stack.
func (c *Call) Left(limit int) Note {
	n := Note{Kind: NoteRelease, Limit: limit, Value: c.ID, Charge: Charge{From: c.Flow, To: c.Weight}, Cost: c.CostOf(limit)}
	if c.Owed != nil {
		n.Actual = c.Owed[limit]
	}
	return n
}

// CostOf returns what the call costs the limit at i; its own cost if there is no such limit, as for [BindsNothing].
func (c *Call) CostOf(i int) int64 {
	if i >= 0 && i < len(c.Costs) {
		return c.Costs[i]
	}
	return c.Cost
}

// LimitOf returns the index in the stack of the limit with an index in one of the call's choices. It returns values such as [BindsNothing]
// unchanged, and every index if the call has no choices.
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
	// Paused is the instant until which the allowance Binds is used up; 0 if Binds is none, or nothing is known of it.
	Paused Instant

	// AtLeast reports that the slot of a refused call may be later than At, because the request did not know the calendar windows beyond
	// it.
	AtLeast bool

	// Charges is what each limit was charged. Only the store knows what it means.
	Charges []Charge
	// Choice is the index of the choice that binds the call, or for which it is queued. Limits outside it have the zero Charge.
	Choice int

	// Queued reports that the call is queued for limit Binds, behind Ahead others, and was charged nothing. It must poll at At with the
	// same ID and Since, or earlier if a [Change] wakes it.
	Queued bool
	Ahead  int64

	// Deferred reports that nothing was decided: send the call again. Only [Shared.ReserveAll] defers calls, the last ones of a request
	// that would keep the store busy for too long, and never all.
	Deferred bool

	// Local reports that this process granted the slot itself, while its store was out of reach: no other process knows of it.
	Local bool
	// Receipt is what else the store needs to take the slot back. Callers keep it with the grant.
	Receipt any

	_ struct{}
}

// Granted returns the grants that were charged.
func Granted(grants []Grant) []Grant {
	return slices.DeleteFunc(slices.Clone(grants), func(g Grant) bool { return !g.OK })
}

// InParts calls reserve, starting at the first undecided call of a stack, until no call is Deferred. If reserve fails, InParts gives back
// the earlier grants and reports none.
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

// ReachOf returns the longest wait of calls that are requested together. The request knows calendar windows that far ahead.
func ReachOf(calls []Call) (reach time.Duration) {
	for i := range calls {
		reach = max(reach, calls[i].MaxWait)
	}
	return reach
}

// Bound sets AtLeast in a call's grant if its slot is later than the calendar windows that its request contained, which reach that far
// ahead.
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

// Values of [Grant].Binds that are not an index.
const (
	BindsNothing = -1 // the call may go at its requested time
	BindsStore   = -2 // the store is out of reach, and this process has no share without it: see ErrNoShare
)

// Wait returns how long after the decision the slot is.
func (g *Grant) Wait() time.Duration { return g.At.Sub(g.Now) }

// A Charge is what a reservation took from one account, as integers whose meaning is the store's. The stores of this module use an interval
// of virtual time [From, To) for a rate, zero if it was lent to a lane; the start of a bucket and a cost for a window, and Seen for what
// that bucket then held; the slot and a cost for an allowance; and for permits the call's ID as From, and 1 as To once it has its permit. A
// call that was granted a distant slot without a permit requests the permit shortly before, with Held set.
//
// Made is the store time of the grant, in µs; 0 if unknown, or if nothing was charged. Charges from before a reset of the account are not
// given back: other calls may have them.
type Charge struct{ From, To, Seen, Made int64 }
