package pacer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/waiters"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// An ask is one call as its context and options describe it.
type ask struct {
	cost      int64
	maxWait   time.Duration
	notBefore time.Duration
	tracked   bool
	byPolicy  bool // an option is a CostOf
	permits   bool // the caller gives permits back
	waits     bool // the caller waits until the call may go
	untried   bool // the store was not asked yet whether it may go at once
	weight    int64
	lane      string
	opts      []Option
	scopes    *scopeContext
	set       *binding.Set  // by which the call is bound
	wrong     error         // what a call is refused with whose policies are enforced
	held      []heldPermit  // by the calls that this one is made in
	which     binding.Which // which of its limits are meant
	pooled    *pooled       // of a call that any one of some credentials may make; nil for others
}

// newAsk reads what a call requests.
func (p *Pacer) newAsk(ctx context.Context, opts []Option) (ask, error) {
	a := ask{cost: 1, maxWait: p.maxWait, weight: 1, opts: opts, set: p.set()}
	if a.set.Scoped {
		a.scopes = scopesOf(ctx)
	}
	if outer := outerOf(ctx, a.set); outer != nil {
		a.held, a.scopes = p.heldBy(outer), scopesOf(ctx)
	}
	for i := range opts {
		switch o := &opts[i]; o.kind {
		case optCost:
			if o.n < 1 {
				return a, badNumber("Cost", o.n, "must be at least 1")
			}
			a.cost = o.n
		case optMaxWait:
			if o.n < 0 {
				return a, badDuration("MaxWait", time.Duration(o.n))
			}
			a.maxWait = time.Duration(o.n)
		case optNotBefore:
			if o.n < 0 {
				return a, badDuration("NotBefore", time.Duration(o.n))
			}
			if o.n > int64(Forever) {
				return a, &ConfigError{Field: "NotBefore", Value: time.Duration(o.n).String(), Reason: "must be at most Forever"}
			}
			a.notBefore = time.Duration(o.n)
		case optCostOf:
			if o.n < 0 {
				return a, badNumber("CostOf("+o.name+")", o.n, "must not be negative; 0 means that the policy does not bind the call")
			}
			a.byPolicy = true
		case optTracked:
			a.tracked = true
		case optScope, optKeep, optAttempt:
		}
	}
	err := p.placeAsk(&a)
	if err != nil && a.set.Free { // no lane is enforced
		a.wrong, a.lane, a.weight, err = err, "", 1, nil
	}
	return a, err
}

// placeAsk reads a call's lane and weight.
func (p *Pacer) placeAsk(a *ask) error {
	if len(a.set.Lanes) > 0 {
		if a.lane = a.scope(laneScope); a.lane != "" && !slices.Contains(a.set.Lanes, a.lane) {
			return &ConfigError{
				Field: "Lane", Value: strconv.Quote(a.lane),
				Reason: fmt.Sprintf("no policy of upstream %q has that lane, but %s: give a policy one with Lane; 100 per cent will do", p.upstream, strings.Join(a.set.Lanes, ", ")),
			}
		}
	}
	if a.set.FairBy != "" {
		if v := a.scope(weightScope); v != "" {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 1 || n > MaxWeight {
				return &ConfigError{Field: "Weight", Value: v, Reason: fmt.Sprintf("must be from 1 to %d", MaxWeight)}
			}
			a.weight = n
		}
	}
	return nil
}

// costOf returns what the call costs a policy: the last CostOf for it, or else other.
func (a *ask) costOf(policy string, other int64) int64 {
	if o := a.costOption(policy); o != nil {
		return o.n
	}
	return other
}

// costOption returns the option that sets what the call costs a policy; nil if none does.
func (a *ask) costOption(policy string) *Option {
	for i := len(a.opts) - 1; i >= 0; i-- {
		if o := &a.opts[i]; o.kind == optCostOf && o.name == policy {
			return o
		}
	}
	return nil
}

// ownCost returns what an option says that the call costs a policy.
func (a *ask) ownCost(policy string) (own binding.Cost, ok bool) {
	o := a.costOption(policy)
	if o == nil {
		return own, false
	}
	return binding.Cost{N: o.n, Estimate: o.estimate, Learned: o.learned}, true
}

// scope returns the value that the call carries for a scope; "" if none.
func (a *ask) scope(name string) string {
	for i := len(a.opts) - 1; i >= 0; i-- {
		if o := &a.opts[i]; o.kind == optScope && o.name == name {
			return o.value
		}
	}
	for s := a.scopes; s != nil; s = s.outer {
		if s.name == name {
			return s.value
		}
	}
	return ""
}

// bind returns the limits that bind a call, in room if there is enough.
func (p *Pacer) bind(a *ask, room []store.Limit) ([]store.Limit, error) {
	limits, missing := a.set.Bind(a.which, a.lane, a.scope, room)
	if missing != nil {
		return nil, &ScopeError{Upstream: p.upstream, Policy: missing.Policy, Scope: missing.Scope}
	}
	return limits, nil
}

// request returns the limits that bind a call, in room if there is enough, and what it costs them. What its settlement has to know goes to
// s; nil if there will be none.
func (p *Pacer) request(a *ask, room []store.Limit, s *binding.Settling) (r waiters.Request, err error) {
	if a.pooled != nil {
		r, err = p.requestAny(a)
	} else if r.Limits, err = p.bind(a, room); err == nil {
		r.Limits, r.Call.Costs, err = p.costs(a, a.share(r.Limits), s)
	}
	if err == nil && a.pooled == nil {
		err = p.checkNested(a, r.Limits)
	}
	if err != nil {
		return r, err
	}
	r.Call.Cost, r.Call.Tracked = a.cost, a.tracked && p.reconciles
	if a.set.HasQueues {
		err = p.queueUp(a, &r)
	}
	return r, err
}

// costs returns what a call costs each of its limits; nil if it is the same for all. What the settlement has to know goes to s; nil if there
// will be none.
func (p *Pacer) costs(a *ask, limits []store.Limit, s *binding.Settling) ([]store.Limit, []int64, error) {
	var own func(policy string) (binding.Cost, bool)
	if a.byPolicy {
		if err := p.checkCosts(a); err != nil {
			return nil, nil, err
		}
		own = a.ownCost
	}
	limits, costs, excess := a.set.Costs(limits, a.cost, own, &p.learner, s)
	if excess != nil {
		l := excess.Limit
		return nil, nil, &LimitError{
			Upstream: p.upstream, Policy: l.Policy, Scope: p.set().Describe(l), Cost: excess.Cost, Limit: l.Spec.Limit, Never: true, MaxWait: a.maxWait,
		}
	}
	return limits, costs, nil
}

// checkCosts returns an error if a CostOf names a policy that does not exist, or one whose cost cannot be set.
func (p *Pacer) checkCosts(a *ask) error {
	for i := range a.opts {
		o := &a.opts[i]
		if o.kind != optCostOf {
			continue
		}
		l := a.set.Named(o.name)
		switch {
		case l == nil:
			return &ConfigError{
				Field: "CostOf", Value: strconv.Quote(o.name), Reason: fmt.Sprintf("no policy of upstream %q has that name", p.upstream),
			}
		case l.Whole != "":
			return &ConfigError{
				Field: "CostOf", Value: strconv.Quote(o.name), Reason: fmt.Sprintf("is a part of policy %q: a call costs both the same", l.Whole),
			}
		case l.Spec.Algorithm == policies.Concurrency && o.n > 1:
			return badNumber("CostOf("+o.name+")", o.n, "a call has one permit: leave it out, or use 0 if the policy does not bind the call")
		}
	}
	return nil
}

// queueUp gives a call what it needs to be queued in the store, if one of its limits has a queue there.
func (p *Pacer) queueUp(a *ask, r *waiters.Request) error {
	fair := ""
	for i := range r.Limits {
		l := &r.Limits[i]
		r.HasQueue = r.HasQueue || l.Spec.HasQueue()
		if l.Spec.Algorithm == policies.Concurrency && !a.permits {
			return notEnough(l.Policy)
		}
		if l.Spec.Queue == policies.FairQueue {
			fair = l.Policy
		}
	}
	if !r.HasQueue {
		return nil
	}
	r.Call.Weight = a.weight
	if fair != "" {
		who := a.scope(a.set.FairBy)
		if who == "" {
			return &ScopeError{Upstream: p.upstream, Policy: fair, Scope: a.set.FairBy}
		}
		r.Call.Flow = binding.FlowOf(who)
	}
	return nil
}

// notEnough makes the error of a call that a policy counts while it is in flight, and that nobody could release.
func notEnough(policy string) error {
	return &ConfigError{
		Field: "Wait", Value: "not enough",
		Reason: fmt.Sprintf("policy %q counts calls in flight, so it must be known when this one is over: use Acquire, or TryAcquire, and Release what it returns", policy),
	}
}

// asked is what a call that waits has requested, so that it can be bound anew when the policies change.
type asked struct {
	pacer *Pacer
	opts  []Option // what those of ask are kept in

	mu         sync.Mutex
	ask        ask
	credential string            // of a pool, by which the call goes
	settling   *binding.Settling // of a reservation: what its settlement has to know; nil if the call is not settled
}

// read reads what a call requests, and remembers it: the caller's options are not kept, and need not be on the heap.
func (k *asked) read(ctx context.Context, p *Pacer, opts []Option) (ask, error) {
	k.pacer = p
	k.opts = append(k.opts[:0], opts...)
	return p.newCall(ctx, k.opts)
}

// keep remembers how a call is bound.
func (k *asked) keep(a *ask, s *binding.Settling) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ask, k.settling = *a, s
}

// forget makes it one that nothing is kept in.
func (k *asked) forget() {
	clear(k.opts)
	k.opts = k.opts[:0]
	k.pacer, k.ask, k.settling = nil, ask{}, nil
}

// observes reports whether policies that are observed may bind the call.
func (k *asked) observes() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ask.set.Observes
}

// now returns what the call requests, as it is bound now.
func (k *asked) now() ask {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ask
}

// bound returns the policies by which the call is bound, and what its settlement has to know.
func (k *asked) bound() (*binding.Set, binding.Settling) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ask.set, *k.settling
}

// Bind is for package pacer itself: do not call it.
func (k *asked) Bind() (r waiters.Request, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, a := k.pacer, k.ask
	a.set, a.which = p.set(), binding.Enforced
	if p.placeAsk(&a) != nil {
		return r, false
	}
	var s *binding.Settling
	if k.settling != nil {
		s = new(binding.Settling)
	}
	r, err := p.request(&a, nil, s)
	if err != nil {
		return r, false
	}
	k.ask, k.settling = a, s
	return r, true
}

// spares are calls of plain Waits that are over. Their callers never saw them, so they can serve again, for the same
// Pacer.
type spares struct {
	off  bool      // the store is one that could keep what it is given
	pool sync.Pool // of *spare
}

// A spare is a call and room for its limits.
type spare struct {
	asked
	call   waiters.Call
	limits [store.MaxAdmission]store.Limit
}

// get returns a call whose caller will not see it.
func (s *spares) get() *spare {
	if one, ok := s.pool.Get().(*spare); ok {
		return one
	}
	return new(spare)
}

// put takes back a call that went at its first slot, if no other goroutine can have it any more. No Report or Settle
// can come, because the caller has no handle.
func (s *spares) put(one *spare) {
	if s.off || !one.call.IsReusable() {
		return
	}
	one.forget()
	one.call, one.limits = waiters.Call{}, [store.MaxAdmission]store.Limit{}
	s.pool.Put(one)
}
