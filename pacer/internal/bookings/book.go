package bookings

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Book charges the earliest slot at which a call may go, and returns it as a token, with the time until the slot. Any credential of the
// pool, if there is one, may make the call.
func (s *Bookings) Book(ctx context.Context, opts []binding.Option, l *binding.Pool) (tok string, wait time.Duration, err error) {
	a, err := s.Calls.Call(ctx, opts)
	if err != nil {
		return "", 0, err
	}
	if l != nil {
		a.ByAny(l)
	}
	t := &token{upstream: s.Upstream, keep: s.Keep, maxWait: min(a.MaxWait, store.Forever), tracked: a.Tracked, cost: a.Cost}
	_, _ = rand.Read(t.id[:]) // it never fails
	if err := s.carry(ctx, t, opts); err != nil {
		return "", 0, err
	}
	b, err := s.bind(&a, nil)
	if err == nil {
		_, err = s.Calls.Await(ctx, &a)
	}
	var g store.Grant
	if err == nil {
		if lead := s.lead(); lead > a.NotBefore { // a slot that is nearer is past when the token can be redeemed
			a.NotBefore, a.MaxWait = lead, max(a.MaxWait, lead)
		}
		g, err = s.bookSlot(ctx, &a, &b, t)
	}
	if err != nil {
		return "", 0, err
	}
	if tok = t.String(); len(tok) > s.MaxToken {
		s.giveBack(ctx, b.limits, &g)
		return "", 0, s.badBook(len(tok), "bytes are too many for a token, which has at most "+strconv.Itoa(s.MaxToken)+": use shorter scope values")
	}
	return tok, s.until(t), nil
}

// until returns how long until a booking must be redeemed: the request starts before its slot.
func (s *Bookings) until(t *token) time.Duration {
	return max(0, t.slot.Sub(store.NowOf(s.Store))-s.lead())
}

// lead returns how long before a slot to redeem its booking: the request may wait for the answer to the one before it.
func (s *Bookings) lead() time.Duration { return 2 * s.way.Longest() }

// carry writes the options and the context's values to a token.
func (s *Bookings) carry(ctx context.Context, t *token, opts []binding.Option) error {
	has := make(map[string]bool)
	scope := func(name, value string) {
		if !has[name] {
			has[name] = true
			t.scopes = append(t.scopes, binding.Option{Kind: binding.Scope, Name: name, Value: value})
		}
	}
	costs := make(map[string]bool)
	for _, o := range slices.Backward(opts) { // the last one counts
		switch o.Kind {
		case binding.Scope:
			scope(o.Name, o.Value)
		case binding.CostOf:
			if !costs[o.Name] {
				costs[o.Name] = true
				t.costs = append(t.costs, binding.Option{Kind: binding.CostOf, Name: o.Name, N: o.N, Estimate: o.Estimate})
			}
		case binding.Keep:
			if d := time.Duration(o.N); d < time.Second || d > maxKeep {
				return binding.Invalid("Keep", d.String(), "must be from a second to 30 days")
			}
			t.keep = (time.Duration(o.N) + time.Second - 1).Truncate(time.Second)
		case binding.Cost, binding.MaxWait, binding.NotBefore, binding.Tracked:
		}
	}
	binding.Scopes(ctx, scope)
	if len(t.scopes) > maxItems || len(t.costs) > maxItems {
		return s.badBook(max(len(t.scopes), len(t.costs)), "scopes or costs are too many for a token")
	}
	return nil
}

func (s *Bookings) badBook(n int, reason string) error {
	return binding.Invalid("Book", strconv.Itoa(n), reason)
}

// A bookable is the limits of a booked call.
type bookable struct {
	limits  []store.Limit // that slots are charged to
	costs   []int64       // of the call, for each of them
	permits []store.Limit // that it needs when it goes
	choices store.Call    // its choices, if it is by any one of some credentials, and what it leaves to others
}

// bind returns the limits of a booked call, which takes its permits when it is redeemed, and writes what its settlement needs to settling.
func (s *Bookings) bind(a *binding.Ask, settling *binding.Settling) (b bookable, err error) {
	if a.Set.Free {
		a.ChooseAny()
		return b, nil
	}
	a.Which = binding.Enforced
	var q dispatch.Request
	if a.IsPooled() {
		q, err = s.Calls.RequestAny(a)
	} else if q.Limits, err = s.Calls.Bind(a, nil); err == nil {
		q.Limits, q.Call.Costs, err = s.Calls.Costs(a, q.Limits, settling)
	}
	if err != nil {
		return b, err
	}
	places := make([]int, len(q.Limits)) // in b.limits; −1 of permits
	for i, l := range q.Limits {
		places[i] = -1
		switch {
		case l.Spec.Queue == specs.FairQueue && a.Set.FairBy != binding.ProcessScope:
			return b, binding.Invalid("Book", "not possible", "policy "+strconv.Quote(l.Policy)+
				" has fair shares, which go to those who wait, and a booking would take one ahead of them: use Acquire when the job runs")
		case l.Spec.Algorithm == specs.Concurrency:
			b.permits = append(b.permits, l)
		default:
			places[i], l.Spec.Queue = len(b.limits), specs.NoQueue
			if b.limits = append(b.limits, l); q.Call.Costs != nil {
				b.costs = append(b.costs, q.Call.Costs[i])
			}
		}
	}
	b.choices.First, b.choices.Kept = q.Call.First, a.Kept(b.limits)
	for _, choice := range q.Call.AnyOf {
		rest := make([]int, 0, len(choice))
		for _, i := range choice {
			if places[i] >= 0 {
				rest = append(rest, places[i])
			}
		}
		b.choices.AnyOf = append(b.choices.AnyOf, rest)
	}
	return b, nil
}

// bookSlot charges a slot, and writes it to a token.
func (s *Bookings) bookSlot(ctx context.Context, a *binding.Ask, b *bookable, t *token) (g store.Grant, err error) {
	booker, err := s.booker(OpBook)
	if err != nil {
		return g, err
	}
	epoch, err := booker.Epoch() // if another one begins meanwhile, the token is of none, and refused
	if err != nil {
		return g, &dispatch.StoreError{Op: OpBook, Err: err}
	}
	call := store.Call{AnyOf: b.choices.AnyOf, First: b.choices.First, Kept: b.choices.Kept, Cost: a.Cost, Costs: b.costs, NotBefore: a.NotBefore, MaxWait: a.MaxWait}
	c := &dispatch.Call{}
	ctx = context.WithoutCancel(ctx) // its deadline is not the slot's
	began := time.Now()
	defer func() { s.way.Took(time.Since(began)) }()
	if a.Set.Free {
		err = s.Calls.Dispatcher.Free(ctx, c, &call)
	} else {
		err = s.Calls.Dispatcher.Reserve(ctx, c, &dispatch.Request{Limits: b.limits, Call: call})
	}
	if err != nil {
		return g, err
	}
	t.scopes = append(t.scopes, a.ScopesBy(c.View().Choice)...) // the call is by this credential from now on, if it is one of a pool
	g, b.limits, b.costs = c.TakeAway()
	if g.Local && !a.Set.Free {
		s.giveBack(ctx, b.limits, &g)
		return g, &dispatch.StoreError{Op: OpBook, Err: store.ErrUnreachable}
	}
	if !a.Set.Free {
		booker.Booked(store.Stack{Upstream: s.Upstream, Limits: b.limits}, g)
	}
	t.granted(&g, b, epoch)
	return g, nil
}

// granted writes a grant into a token.
func (t *token) granted(g *store.Grant, b *bookable, epoch store.Epoch) {
	t.epoch, t.slot, t.made = epoch.Began, g.At, g.Now
	t.slack = max(0, min(g.Slack, maxSlack*time.Microsecond))
	t.limits = t.limits[:0:0]
	call := store.Call{Cost: t.cost, Costs: b.costs}
	for i := range b.limits {
		l := &b.limits[i]
		t.limits = append(t.limits, tokenLimit{l.Policy, l.Scope, shapeOf(&l.Spec), call.CostOf(i), g.Charges[i]})
	}
}

// giveBack gives back a grant that no one uses.
func (s *Bookings) giveBack(ctx context.Context, limits []store.Limit, g *store.Grant) {
	if len(limits) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dispatch.Timeout)
	defer cancel()
	_ = s.Store.Cancel(ctx, store.Stack{Upstream: s.Upstream, Limits: limits}, []store.Grant{*g}) // one that cannot be given back is lost, as any
}
