package pacer

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/waiters"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Of bookings.
const (
	// RedeemEarly is how long before its slot a booking may be redeemed: [Pacer.Redeem] waits for the rest. Have a queue wake the job a
	// little later than that before the slot.
	RedeemEarly = 30 * time.Millisecond
	// DefaultKeep is for how long after its slot a booking may be redeemed, unless [Keep] sets another time.
	DefaultKeep = time.Hour

	maxKeep = 30 * 24 * time.Hour
)

// Keep sets for how long after its slot a booking may be redeemed: [Pacer.Book] alone heeds it. It is rounded up to a second, and from a
// second to 30 days. The store remembers for as long what became of a booking that was redeemed, in about 150 bytes. Defaults to
// [DefaultKeep], an hour.
func Keep(d time.Duration) Option { return Option{kind: optKeep, n: int64(d)} }

// Attempt says which attempt of the job this is, from 1: [Pacer.Redeem] and [Pacer.CancelBooking] alone heed it. Each attempt goes once.
// The first one has the slot that was booked, each other one gets a slot when it is redeemed, whenever that is: that it was redeemed is
// remembered for as long as [Keep] says from then on. Defaults to 1.
func Attempt(n int64) Option { return Option{kind: optAttempt, n: n} }

// Book charges the earliest slot at which the call may go, and returns it as a token: a short text to keep with a job, for whichever
// process is to run it. Nothing of the call stays in this process. wait is how long from now until the slot: have the queue wake the job
// up to [RedeemEarly] before that, and then call [Pacer.Redeem] with the token.
//
// The options and the context say what the call carries, as for [Pacer.Reserve]; [MaxWait] is how far away the slot may be, and holds
// again if the booking has to move. Defaults to Config.MaxWait. The context's deadline bounds the booking, not the slot.
//
// A booking takes no permit: Redeem takes it. In a lane, a booking takes the earliest slot that the part of the lane has left; it is not
// queued behind calls that wait. Policies with fair shares cannot be booked.
//
// Book returns the same errors as Reserve; a [*ConfigError] for a call that a policy with fair shares binds, and for scope values with
// which the token would be longer than [MaxToken]; and a [*StoreError] if the store is out of reach, whatever Config.Outage is, or keeps
// no bookings: a slot that only this process knows of cannot be redeemed by another one.
func (p *Pacer) Book(ctx context.Context, opts ...Option) (tok string, wait time.Duration, err error) {
	return p.book(ctx, opts, nil)
}

// book is Book for a call by any one of the credentials of a pool; nil: for any other call.
func (p *Pacer) book(ctx context.Context, opts []Option, l *Pool) (tok string, wait time.Duration, err error) {
	r := newReservation()
	a, err := r.read(ctx, p, opts)
	if err != nil {
		return "", 0, err
	}
	if l != nil {
		a.pooled = &pooled{pool: l}
	}
	t := &token{upstream: p.upstream, keep: DefaultKeep, maxWait: min(a.maxWait, Forever), tracked: a.tracked, cost: a.cost}
	_, _ = rand.Read(t.id[:]) // it never fails
	if err := t.carry(ctx, opts); err != nil {
		return "", 0, err
	}
	b, err := p.bindBooking(r, &a)
	if err == nil {
		_, err = p.awaitStore(ctx, &a)
	}
	var g store.Grant
	if err == nil {
		g, err = p.bookSlot(ctx, &a, &b, t)
	}
	if err != nil {
		p.refused(ctx, err)
		return "", 0, err
	}
	if tok = t.String(); len(tok) > MaxToken {
		p.giveBack(ctx, b.limits, &g)
		return "", 0, badNumber("Book", int64(len(tok)), "bytes are too many for a token, which has at most "+strconv.Itoa(MaxToken)+": use shorter scope values")
	}
	return tok, max(0, g.Wait()), nil
}

// carry has a token carry what the options and the context say.
func (t *token) carry(ctx context.Context, opts []Option) error {
	has := make(map[string]bool)
	scope := func(name, value string) {
		if !has[name] {
			has[name] = true
			t.scopes = append(t.scopes, Scope(name, value))
		}
	}
	costs := make(map[string]bool)
	for _, o := range slices.Backward(opts) { // the last one counts
		switch o.kind {
		case optScope:
			scope(o.name, o.value)
		case optCostOf:
			if !costs[o.name] {
				costs[o.name] = true
				t.costs = append(t.costs, Option{kind: optCostOf, name: o.name, n: o.n, estimate: o.estimate})
			}
		case optKeep:
			if d := time.Duration(o.n); d < time.Second || d > maxKeep {
				return &ConfigError{Field: "Keep", Value: d.String(), Reason: "must be from a second to 30 days"}
			}
			t.keep = (time.Duration(o.n) + time.Second - 1).Truncate(time.Second)
		case optCost, optMaxWait, optNotBefore, optTracked, optAttempt:
		}
	}
	for s := scopesOf(ctx); s != nil; s = s.outer {
		scope(s.name, s.value)
	}
	if len(t.scopes) > maxItems || len(t.costs) > maxItems {
		return badNumber("Book", int64(max(len(t.scopes), len(t.costs))), "scopes or costs are too many for a token")
	}
	return nil
}

// A bookable is what binds a call that is booked.
type bookable struct {
	limits  []store.Limit // that slots are charged to
	costs   []int64       // of the call, for each of them
	permits []store.Limit // that it needs when it goes
	choices store.Call    // its choices, if it is by any one of some credentials
}

// bindBooking returns what binds a call that is booked, for the reservation that it is or will be.
func (p *Pacer) bindBooking(r *Reservation, a *ask) (b bookable, err error) {
	r.keep(a, &r.first)
	if a.set.Free {
		if a.pooled != nil {
			a.pooled = a.pooled.any()
		}
		return b, nil
	}
	a.which = binding.Enforced
	if a.pooled != nil {
		r, err := p.requestAny(a)
		return withoutPermits(&r), err
	}
	limits, err := p.bind(a, nil)
	if err != nil {
		return b, err
	}
	limits, costs, err := p.costs(a, limits, &r.first)
	if err != nil {
		return b, err
	}
	for i := range limits {
		cost := a.cost
		if costs != nil {
			cost = costs[i]
		}
		switch l := limits[i]; {
		case l.Spec.Queue == policies.FairQueue:
			return b, &ConfigError{
				Field: "Book", Value: "not possible",
				Reason: "policy " + strconv.Quote(l.Policy) + " has fair shares, which go to those who wait, and a booking would take one ahead of them: use Acquire when the job runs",
			}
		case l.Spec.Algorithm == policies.Concurrency:
			b.permits = append(b.permits, l)
		default:
			b.limits, b.costs = append(b.limits, l), append(b.costs, cost)
		}
	}
	return b, nil
}

// bookSlot charges a slot for a token, and writes it there.
func (p *Pacer) bookSlot(ctx context.Context, a *ask, b *bookable, t *token) (g store.Grant, err error) {
	booker, err := p.booker(opBook)
	if err != nil {
		return g, err
	}
	epoch, err := booker.Epoch() // if another one begins meanwhile, the token is of none, and refused
	if err != nil {
		return g, p.storeError(opBook, err)
	}
	call := store.Call{AnyOf: b.choices.AnyOf, First: b.choices.First, Cost: a.cost, Costs: b.costs, Tracked: a.tracked && p.reconciles, NotBefore: a.notBefore, MaxWait: a.maxWait}
	c := &waiters.Call{}
	ctx = context.WithoutCancel(ctx) // its deadline is not the slot's
	if a.set.Free {
		err = p.waiters.Free(ctx, c, &call)
	} else {
		err = p.waiters.Reserve(ctx, c, &waiters.Request{Limits: b.limits, Call: call})
	}
	if err != nil {
		return g, err
	}
	if a.pooled != nil { // the call is by this credential from now on
		t.scopes = append(t.scopes, a.pooled.pool.scoped(a, a.pooled.accounts[c.Choice()])...)
	}
	g, b.limits, b.costs = c.TakeAway()
	if g.Local && !a.set.Free {
		p.giveBack(ctx, b.limits, &g)
		return g, p.storeError(opBook, store.ErrUnreachable)
	}
	if !a.set.Free {
		booker.Booked(store.Stack{Upstream: p.upstream, Limits: b.limits}, g)
	}
	t.granted(&g, b, epoch)
	return g, nil
}

// granted writes a grant into a token.
func (t *token) granted(g *store.Grant, b *bookable, epoch store.Epoch) {
	t.epoch, t.slot, t.made = epoch.Began, g.At, g.Now
	t.slack = max(0, min(g.Slack, maxSlack*time.Microsecond))
	t.limits = t.limits[:0:0]
	for i := range b.limits {
		l := &b.limits[i]
		cost := t.cost
		if b.costs != nil {
			cost = b.costs[i]
		}
		t.limits = append(t.limits, tokenLimit{l.Policy, l.Scope, shapeOf(&l.Spec), cost, g.Charges[i]})
	}
}

// giveBack gives a grant back that nobody has.
func (p *Pacer) giveBack(ctx context.Context, limits []store.Limit, g *store.Grant) {
	if len(limits) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), waiters.Timeout)
	defer cancel()
	_ = p.store.Cancel(ctx, store.Stack{Upstream: p.upstream, Limits: limits}, []store.Grant{*g}) // one that cannot be given back is lost, as any
}

// booker returns the store, if it keeps bookings.
func (p *Pacer) booker(op string) (store.Booker, error) {
	if b, ok := p.store.(store.Booker); ok {
		return b, nil
	}
	return nil, p.storeError(op, store.ErrNoBookings)
}
