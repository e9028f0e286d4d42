package pacer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"

	"github.com/headway-go/headway/pacer/internal/feedback"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/internal/waiters"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A Pacer paces the calls to one upstream. Make one with [New]. It is safe for concurrent use.
//
// Most callers should use [Pacer.Wait]. [Pacer.Reserve] is for callers that do something else while they wait, such
// as a job queue, and [Pacer.Allow] for callers that would rather drop a call than wait.
type Pacer struct {
	upstream string
	store    store.Store
	given    store.Store  // the store below the member, if the store is one; otherwise the store
	direct   store.Direct // the store, if it is one
	member   store.Member // the store, if it is one
	limits   []limit
	byName   map[string]*limit
	scoped   bool // some limits have scopes
	maxWait  time.Duration
	maxPause time.Duration
	jitter   time.Duration
	maxLate  time.Duration
	outage   Outage

	telemetry *telemetry.Dispatcher[Hooks] // nil if there are no hooks
	storeLog  *storeLog                    // nil if losses of the store are not to be logged

	fixed []store.Limit // the stack of every call, if no limit has a scope

	lanes      []string // of all policies
	hasQueues  bool     // some limits are granted only shortly before the slot, or bind only one lane
	fairBy     string   // the scope by which shares are fair; "" if no shares are
	hasPermits bool     // some limits are of calls in flight
	leases     *leases.Leases

	reconciles bool
	rules      *feedback.Rules
	usage      feedback.Usage

	spares spares

	made      time.Time
	name      string        // of the process
	topKeys   usage.TopKeys // under waiters.mu
	wentUntil int64         // under waiters.mu: the store has what went before this second
	wentSaid  int64         // under waiters.mu: the store has what went before this second, or a report is under way
	looked    atomic.Bool   // an observer wants to know what goes

	closed    chan struct{}
	waiting   sync.WaitGroup
	waiters   waiterSet
	queues    queues
	way       waiters.Way // the round trip to the store
	listening listening
	clock     storeClock
}

// A limit is a policy, unpacked once.
type limit struct {
	store.Limit

	policy   policies.Policy
	scopes   []string
	optional bool
	lane     string // it binds only calls of this lane; "" for all
	whole    string // of a lane's part: the policy that it belongs to

	prepared store.Prepared // if the store is direct

	seen *seen
}

// seen is what is known of the calls of a limit that went.
type seen struct {
	went usage.Tally // under waiters.mu: of the calls that did not go at once from memory
}

// Wait blocks until the call may go, and returns nil: go now. The call costs 1, unless [Cost] sets another cost.
//
// Wait returns at once, without a charge, a [*LimitError] if the call's slot lies beyond MaxWait or the context's
// deadline; the context's error if it ends first; [ErrClosed] if the Pacer is closed first; a [*ScopeError] if the
// call lacks a scope; a [*ConfigError] if a policy counts calls in flight, because the Pacer must then know when the
// call is over: use [Pacer.Acquire]; a [*StoreError] if the store fails, which for a [store.Shared] happens only if
// Config.Outage is [RefuseCalls], if the store is not set up right, or if it has never answered this process for as long
// as the call may wait: see Config.Processes. A slot that is not used is given back.
func (p *Pacer) Wait(ctx context.Context, opts ...Option) error {
	a, err := p.newCall(ctx, opts)
	if err != nil || p.goesAtOnce(ctx, &a) {
		return err
	}
	a.waits = true
	w := p.spares.get()
	if err := p.reserve(ctx, &a, &w.Reservation, w.limits[:0]); err != nil {
		return err
	}
	if err := w.Wait(ctx); err != nil {
		return err
	}
	p.spares.put(w)
	return nil
}

// Acquire is [Pacer.Wait] for calls that a policy counts while they are in flight. It blocks until the call may go,
// and returns its reservation: go now, and call [Reservation.Release] when the call is over. Without such a policy
// Release does nothing, and does no harm. The context bounds the wait, not the call. Acquire returns the same errors
// as Wait.
func (p *Pacer) Acquire(ctx context.Context, opts ...Option) (*Reservation, error) {
	a, err := p.newCall(ctx, opts)
	if err != nil {
		return nil, err
	}
	a.permits, a.waits = true, true
	r := &Reservation{}
	if err := p.reserve(ctx, &a, r, nil); err != nil {
		return nil, err
	}
	if err := r.Wait(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// Allow charges the call if it may go now, and returns nil. Otherwise it returns at once, without a charge, a
// [*LimitError] that matches [ErrNotYet] and whose Wait is how long until you can ask again. It is shorthand for
// Reserve with MaxWait(0).
func (p *Pacer) Allow(ctx context.Context, opts ...Option) error {
	a, err := p.newCall(ctx, opts)
	if err != nil || p.goesAtOnce(ctx, &a) {
		return err
	}
	a.maxWait = 0
	r := &Reservation{}
	if err := p.reserve(ctx, &a, r, nil); err != nil {
		return err
	}
	// The slot is now and the call goes: there is nothing to wait for and nothing to keep.
	p.waiters.mu.Lock()
	r.use()
	p.waiters.mu.Unlock()
	r.admitted(ctx)
	return nil
}

// Reserve charges the earliest slot at which the call may go, and returns it without waiting. Then either call
// [Reservation.Wait], or sleep [Reservation.Delay] and go, or give the slot back with [Reservation.Cancel]. Reserve
// returns the same errors as Wait, except those about calls in flight.
//
// A call that is queued, for a permit, in a lane or for its fair share, has no slot yet. Call [Reservation.Wait] for
// it, soon: a call that does not ask again for some seconds loses its position. If a policy counts calls in flight,
// call [Reservation.Release] when the call is over.
func (p *Pacer) Reserve(ctx context.Context, opts ...Option) (*Reservation, error) {
	a, err := p.newCall(ctx, opts)
	if err != nil {
		return nil, err
	}
	a.permits = true
	r := &Reservation{}
	if err := p.reserve(ctx, &a, r, nil); err != nil {
		return nil, err
	}
	return r, nil
}

// newCall reads what a call requests, unless its context has ended or the Pacer is closed.
func (p *Pacer) newCall(ctx context.Context, opts []Option) (ask, error) {
	if err := ctx.Err(); err != nil {
		return ask{}, err
	}
	if p.isClosed() {
		return ask{}, ErrClosed
	}
	return p.newAsk(ctx, opts)
}

// reserve charges the earliest slot at which a call may go, for r. room is for its limits.
func (p *Pacer) reserve(ctx context.Context, a *ask, r *Reservation, room []store.Limit) error {
	err := p.reserveSlot(ctx, a, r, room)
	if err != nil {
		p.refused(ctx, err)
	}
	return err
}

func (p *Pacer) reserveSlot(ctx context.Context, a *ask, r *Reservation, room []store.Limit) error {
	limits, err := p.bind(a, room)
	if err != nil {
		return err
	}
	limits, costs, err := p.costs(a, limits)
	if err != nil {
		return err
	}
	if p.member == nil {
		return p.reserveBound(ctx, a, r, limits, costs)
	}
	waited, err := p.awaitStore(ctx, a)
	if err != nil {
		return err
	}
	err = p.reserveBound(ctx, a, r, limits, costs)
	if e, ok := errors.AsType[*LimitError](err); ok && waited > 0 {
		e.MaxWait, e.Waited = min(e.MaxWait+waited, Forever), e.Waited+waited
	}
	return err
}

// awaitStore waits until the store has answered this process for the first time, if it must: see Config.Processes. It takes the time
// that this took off what the call may wait, and returns it.
func (p *Pacer) awaitStore(ctx context.Context, a *ask) (waited time.Duration, err error) {
	began := time.Now()
	var latest time.Time
	if a.maxWait < Forever {
		latest = began.Add(a.maxWait)
	}
	if err := p.member.Await(ctx, latest, p.closed); err != nil {
		if err == ErrClosed || err == ctx.Err() { //nolint:errorlint // as they are: anything else is the store's
			return 0, err
		}
		return 0, p.storeError("reserve", err)
	}
	waited = time.Since(began)
	if a.maxWait < Forever {
		a.maxWait = max(0, a.maxWait-waited)
	}
	a.notBefore = max(0, a.notBefore-waited)
	return waited, nil
}

// reserveBound charges the earliest slot for a call that costs its limits so much.
func (p *Pacer) reserveBound(ctx context.Context, a *ask, r *Reservation, limits []store.Limit, costs []int64) error {
	r.pacer, r.stack.Upstream, r.stack.Limits, r.requested = p, p.upstream, limits, time.Now()
	r.notBefore = r.requested.Add(min(a.notBefore, Forever))
	call, grant := &r.call[0], &r.grant[0]
	*call = store.Call{Cost: a.cost, Costs: costs, Tracked: a.tracked && p.reconciles, NotBefore: a.notBefore, MaxWait: a.maxWait}
	if p.hasQueues {
		if err := p.prepareQueued(a, limits, call); err != nil {
			return err
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		if left := max(0, deadline.Sub(r.requested)); left < call.MaxWait {
			call.MaxWait, r.byDeadline = left, true
		}
	}
	call.MaxWait = min(call.MaxWait, Forever)
	if call.MaxWait < Forever {
		r.latest = r.requested.Add(call.MaxWait)
	}
	grant.Charges = r.room.charges[:0]
	if a.waitsInQueue(call) {
		if err := p.chargeInOrder(ctx, r); err != nil {
			return err
		}
	} else {
		if err := p.charge(ctx, r); err != nil {
			return err
		}
		if !grant.OK && !grant.Queued {
			return p.notYet(r)
		}
		p.granted(r)
	}
	if err := ctx.Err(); err != nil {
		_ = r.Cancel(ctx)
		return err
	}
	if r.byDeadline && r.due.After(r.latest) && grant.Wait() > 0 && !grant.Queued { // the answer took too long
		err := p.notYet(r)
		_ = r.Cancel(ctx)
		return err
	}
	return nil
}

// begin reads what a call requests, and which limits bind it.
func (p *Pacer) begin(ctx context.Context, opts []Option) (ask, []store.Limit, error) {
	if p.isClosed() {
		return ask{}, nil, ErrClosed
	}
	a, err := p.newAsk(ctx, opts)
	if err != nil {
		return a, nil, err
	}
	limits, err := p.bind(&a, nil)
	return a, limits, err
}

// charge asks the store for a slot. The end of the context must not cut that short: the store may have charged the
// call already, and a charge whose answer is not read is lost. So charge waits for the answer as long as the store's
// own timeouts allow, and the slot is given back if the answer comes too late.
func (p *Pacer) charge(ctx context.Context, r *Reservation) error {
	return p.reserveIn(ctx, &r.stack, r.call[:], r.grant[:], r.requested)
}

// reserveIn has the store reserve for calls, as charge describes, and measures how long that takes.
func (p *Pacer) reserveIn(ctx context.Context, stack *store.Stack, calls []store.Call, grants []store.Grant, asked time.Time) error {
	if p.direct == nil { // a direct store answers without blocking
		ctx = context.WithoutCancel(ctx)
	}
	if err := p.store.Reserve(ctx, *stack, calls, grants); err != nil {
		return p.storeError("reserve", err)
	}
	if p.direct == nil {
		p.way.Took(time.Since(asked))
	}
	return nil
}

// dueTime returns when to go by this machine's monotonic clock: at the slot, and within its slack a little later, so
// that calls that become due together do not go together. It counts from the latest time at which the store can have
// decided, so that it is never early. A call that need not wait was due when it asked.
func (p *Pacer) dueTime(r *Reservation) time.Time {
	wait := r.grant[0].Wait()
	if wait <= 0 {
		return r.requested
	}
	decided := time.Now()
	if p.direct == nil {
		decided = p.clock.latest(r.grant[0].Now, r.requested, decided)
	}
	most := min(p.jitter, r.grant[0].Slack)
	if !r.latest.IsZero() {
		most = min(most, r.latest.Sub(decided)-wait)
	}
	if most > 0 {
		wait += rand.N(most + 1)
	}
	return decided.Add(wait)
}

// bind returns the limits that bind a call, in room if there is enough.
func (p *Pacer) bind(a *ask, room []store.Limit) ([]store.Limit, error) {
	if p.fixed != nil {
		return p.fixed, nil
	}
	limits := room
	if cap(room) < len(p.limits) {
		limits = make([]store.Limit, 0, len(p.limits))
	}
	for i := range p.limits {
		l := &p.limits[i]
		if l.lane != "" && l.lane != a.lane {
			continue
		}
		scope, missing := l.scope(a)
		if missing == "" {
			bound := l.Limit
			bound.Scope = scope
			limits = append(limits, bound)
		} else if !l.optional {
			return nil, &ScopeError{Upstream: p.upstream, Policy: l.Policy, Scope: missing}
		}
	}
	return limits, nil
}

// bindable returns the limits whose scopes a call carries, whether they are optional or not. Limits of a lane are
// included only for calls of that lane; those of all lanes, if lanes is set and the call is in none.
func (p *Pacer) bindable(a *ask, lanes bool) []store.Limit {
	limits := make([]store.Limit, 0, len(p.limits))
	for i := range p.limits {
		if lane := p.limits[i].lane; lane != "" && lane != a.lane && (!lanes || a.lane != "") {
			continue
		}
		if scope, missing := p.limits[i].scope(a); missing == "" {
			bound := p.limits[i].Limit
			bound.Scope = scope
			limits = append(limits, bound)
		}
	}
	return limits
}

// scope returns the value of the limit's scopes for a call, or the name of the first that the call lacks.
func (l *limit) scope(a *ask) (value, missing string) { return scopeOf(l.scopes, a) }

// scopeOf returns the value of some scopes for a call, or the name of the first that the call lacks.
func scopeOf(scopes []string, a *ask) (value, missing string) {
	switch len(scopes) {
	case 0:
		return "", ""
	case 1:
		v := a.scope(scopes[0])
		if v == "" {
			return "", scopes[0]
		}
		return store.EscapeScope(v), ""
	}
	var few [4]string
	values := few[:0]
	for _, name := range scopes {
		v := a.scope(name)
		if v == "" {
			return "", name
		}
		values = append(values, v)
	}
	return store.EscapeScope(values...), ""
}

// costs returns what a call costs each of its limits; nil if it is the same for all. A limit that the call costs
// nothing does not bind it. A cost that a limit never admits is refused.
func (p *Pacer) costs(a *ask, limits []store.Limit) ([]store.Limit, []int64, error) {
	var costs []int64
	if a.byPolicy {
		if err := p.checkCosts(a); err != nil {
			return nil, nil, err
		}
		bound := make([]store.Limit, 0, len(limits))
		costs = make([]int64, 0, len(limits))
		for i := range limits {
			l := p.byName[limits[i].Policy]
			if n := a.costOf(cmp.Or(l.whole, l.Policy), a.cost); n > 0 {
				bound, costs = append(bound, limits[i]), append(costs, n)
			}
		}
		limits = bound
	}
	for i := range limits {
		n := a.cost
		if costs != nil {
			n = costs[i]
		}
		l := &limits[i]
		if l.Spec.Algorithm == policies.Leases {
			continue // a call has one permit, whatever it costs
		}
		if n > l.Spec.Limit {
			return nil, nil, &LimitError{
				Upstream: p.upstream, Policy: l.Policy, Scope: p.describe(l), Cost: n, Limit: l.Spec.Limit, Never: true, MaxWait: a.maxWait,
			}
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
		l := p.byName[o.name]
		switch {
		case l == nil:
			return &ConfigError{
				Field: "CostOf", Value: strconv.Quote(o.name), Reason: fmt.Sprintf("no policy of upstream %q has that name", p.upstream),
			}
		case l.whole != "":
			return &ConfigError{
				Field: "CostOf", Value: strconv.Quote(o.name), Reason: fmt.Sprintf("is a part of policy %q: a call costs both the same", l.whole),
			}
		case l.Spec.Algorithm == policies.Leases && o.n > 1:
			return badNumber("CostOf("+o.name+")", o.n, "a call has one place in flight; 0 means that the policy does not bind it")
		}
	}
	return nil
}

// maxShown is how many bytes of a scope value an error shows.
const maxShown = 64

// describe returns the scopes of a limit and their values, for people.
func (p *Pacer) describe(l *store.Limit) string {
	if of := p.byName[l.Policy]; of != nil {
		return describeScope(of.scopes, l.Scope)
	}
	return l.Scope // of a policy that only another process has
}

// describeScope returns scopes and their values, which are escaped, for people.
func describeScope(scopes []string, scope string) string {
	values := strings.Split(scope, ":") // what EscapeScope joined, unless it was hashed
	var b strings.Builder
	for i, name := range scopes {
		if i > 0 {
			b.WriteByte(' ')
		}
		v := scope
		if len(values) == len(scopes) {
			v = values[i]
		}
		if len(v) > maxShown {
			v = v[:maxShown] + "…"
		}
		b.WriteString(name + "=" + v)
	}
	return b.String()
}

// notYet makes the error for the slot in r.grant, which is too far away.
func (p *Pacer) notYet(r *Reservation) *LimitError {
	g := &r.grant[0]
	e := &LimitError{Upstream: p.upstream, Cost: r.cost(g.Binds), Wait: g.Wait(), MaxWait: r.call[0].MaxWait, Deadline: r.byDeadline}
	e.Paused = g.Paused || g.Binds == store.BindsUpstream
	if i := g.Binds; i >= 0 && i < len(r.stack.Limits) {
		l := &r.stack.Limits[i]
		e.Policy = l.Policy
		e.Scope = p.describe(l)
		if l.Spec.Algorithm == policies.Leases && !g.Paused {
			e.InFlight, e.Limit, e.Wait = true, l.Spec.Limit, 0
		}
	}
	e.Queued, e.Ahead = g.Queued, g.Ahead
	if g.Queued {
		e.Wait = 0
	}
	return e
}

func (p *Pacer) storeError(op string, err error) error {
	return &StoreError{Upstream: p.upstream, Op: op, Err: err}
}

// MaxWait returns the longest wait of calls that have no MaxWait option of their own.
func (p *Pacer) MaxWait() time.Duration { return p.maxWait }

// MaxPause returns the longest pause that this Pacer applies.
func (p *Pacer) MaxPause() time.Duration { return p.maxPause }

// Policies returns the policies, in the order of the Config.
func (p *Pacer) Policies() []policies.Policy {
	all := make([]policies.Policy, 0, len(p.limits))
	for i := range p.limits {
		if p.limits[i].whole == "" {
			all = append(all, p.limits[i].policy)
		}
	}
	return all
}

// Upstream returns the upstream's name.
func (p *Pacer) Upstream() string { return p.upstream }

func (p *Pacer) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// Close wakes every call that waits, with [ErrClosed], waits until these calls have given their slots back, and
// refuses all further calls. It does not close the store. Calls in flight that are not over keep their permits until
// they are released, or their leases run out. Closing twice is harmless.
func (p *Pacer) Close() error {
	p.waiters.mu.Lock()
	if !p.isClosed() {
		close(p.closed)
	}
	p.waiters.mu.Unlock()
	p.leases.Close()
	p.waiting.Wait()
	if p.listening.stop != nil {
		p.listening.stop()
	}
	if p.member != nil {
		p.member.Close()
	}
	p.storeLog.close()
	p.telemetry.Close()
	return nil
}
