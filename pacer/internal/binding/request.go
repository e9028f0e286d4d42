package binding

import (
	"context"
	"slices"
	"sync"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Request returns a call's request to the store, with its limits in room if there is enough. It writes what a settlement needs to s, unless
// s is nil. The caller adds the wait.
func (r *Reader) Request(a *Ask, room []store.Limit, s *Settling) (q dispatch.Request, err error) {
	if a.pooled != nil {
		q, err = r.RequestAny(a)
	} else if q.Limits, err = r.Bind(a, room); err == nil {
		q.Limits, q.Call.Costs, err = r.Costs(a, a.share(q.Limits), s)
	}
	if err == nil && a.pooled == nil {
		err = r.checkNested(a, q.Limits)
	}
	if err != nil {
		return q, err
	}
	q.Call.Cost, q.Call.Caller, q.Tracked = a.Cost, a.Caller, a.Tracked && r.Counts
	return q, r.queueUp(a, &q)
}

// queueUp prepares a call for the queue of the store, if one of its limits has one.
func (r *Reader) queueUp(a *Ask, q *dispatch.Request) error {
	if !a.Set.HasQueues && len(a.Set.Lanes) == 0 {
		return nil
	}
	fair := ""
	q.Call.Kept = a.Kept(q.Limits)
	for i := range q.Limits {
		l := &q.Limits[i]
		q.HasQueue = q.HasQueue || l.Spec.HasQueue()
		if l.Spec.Queue == specs.FairQueue {
			fair = l.Policy
		}
	}
	if !q.HasQueue {
		return nil
	}
	q.Call.Weight = a.weight
	switch {
	case fair == "":
	case a.Set.FairBy == ProcessScope:
		q.Call.Flow = r.Flow
	case a.Set.FairBy == LaneScope: // calls of a party that the rate does not name are in none
		of, party := a.Set.Named(fair).Of, a.Lane
		if !slices.Contains(of.Lanes(), party) {
			party = ""
		}
		q.Call.Weight = of.Weight(party)
		q.Call.Flow = FlowOf(party)
	default:
		who := a.Scope(a.Set.FairBy)
		if who == "" {
			return r.Errors.Missing(fair, a.Set.FairBy)
		}
		q.Call.Flow = FlowOf(who)
	}
	return nil
}

// Kept returns which limits are parts kept for other parties than the call's: see [store.Call].
func (a *Ask) Kept(limits []store.Limit) (kept uint64) {
	for i := range limits {
		if limits[i].Spec.Floor > 0 && a.Set.Named(limits[i].Policy).Lane != a.Lane {
			kept |= 1 << i
		}
	}
	return kept
}

// Requested is the request of a waiting call, which can be bound again when the policies change.
type Requested struct {
	Options []Option // storage for the options of the Ask: set before Read

	reader *Reader

	mu         sync.Mutex
	ask        Ask
	credential string    // of a pool, by which the call goes
	settling   *Settling // of a reservation: what its settlement has to know; nil if the call is not settled
}

// Read reads the Options of a call, as [Reader.Call] does.
func (k *Requested) Read(ctx context.Context, r *Reader) (Ask, error) {
	k.reader = r
	return r.Call(ctx, k.Options)
}

// Keep remembers how a call is bound.
func (k *Requested) Keep(a *Ask, s *Settling) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ask, k.settling = *a, s
}

// Forget clears it, except for the room for options.
func (k *Requested) Forget() {
	clear(k.Options)
	k.Options = k.Options[:0]
	k.reader, k.ask, k.settling = nil, Ask{}, nil
}

// Observes reports whether observed policies may bind the call.
func (k *Requested) Observes() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ask.Set.Observes
}

// Now returns the call as it is bound now.
func (k *Requested) Now() Ask {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ask
}

// Bound returns the policies that bind the call, and what its settlement needs.
func (k *Requested) Bound() (*Set, Settling) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ask.Set, *k.settling
}

// Bind implements [dispatch.Binder]. If a function of OverrideBy panics, the call stays bound as it is.
func (k *Requested) Bind() (b dispatch.Bound) {
	set := k.reader.Policies.Now()
	if !telemetry.Guard("a function of OverrideBy", func() { b = k.bind(set) }) {
		b = dispatch.Bound{}
	}
	b.Generation = set.Generation
	return b
}

func (k *Requested) bind(set *Set) (b dispatch.Bound) {
	k.mu.Lock()
	a, settles := k.ask, k.settling != nil
	k.mu.Unlock() // functions of the user may block
	a.Set, a.Which = set, Enforced
	if k.reader.place(&a) != nil {
		return b
	}
	var s *Settling
	if settles {
		s = new(Settling)
	}
	var err error
	b.Request, err = k.reader.Request(&a, nil, s)
	b.OK, b.Keep = err == nil, func() { k.Keep(&a, s) }
	return b
}

// A Reservation is a call that its caller sees: it has its slot, and room for the options that most calls have.
type Reservation struct {
	Requested
	dispatch.Call

	First Settling // by the policies that held when it was made
	few   [2]Option
}

// Init makes room for the options that most calls have.
func (c *Reservation) Init() { c.Options = c.few[:0] }

// Settling returns what the settlement of the call needs, and the policies that bind it.
func (c *Reservation) Settling() (*Set, Settling) {
	set, known := c.Bound()
	if c.Credential() != "" { // bound by one of several credentials
		a := c.Chosen()
		known = c.reader.settlingOf(&a)
	}
	return set, known
}
