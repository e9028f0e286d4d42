package pacer

import (
	"container/heap"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/internal/waiters"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A policy that is observed holds no call. When a call goes, the store is asked for the slot that the call would have had, and says how
// long it would have waited. The slots that are still to come are the virtual queue: what calls would wait in, were the policies enforced.
// The limits of a stack that are enforced do not know of it: those that are observed are a stack of their own.
//
//	the call goes ──▶ pending ──the store is asked──▶ its slot has come ──────▶ settled, if its cost was
//	                     │                   │              ▲
//	                     │                   └─ to come ────┘
//	                     │                        │ the policies are enforced, the call is cancelled, or Close
//	                     └─ too many: lost        └──────▶ given back
//
// A store in memory is asked in the goroutine of the call, since that takes no time. Any other is asked by a goroutine that is there only
// while something is pending, so that no call waits for it.

// Bounds of what is observed, in each process.
const (
	// maxPending is how many calls wait for the store to be asked. Further ones are lost.
	maxPending = 8192
	// maxVirtual is how many slots may be to come. Further calls are lost until some have come.
	maxVirtual = 32_768
	// maxVirtualWait is how far ahead slots are charged. A call that would wait for longer is reported as refused.
	maxVirtualWait = time.Hour
	// maxAsking is how many stacks the store is asked for at the same time. Their requests are batched, also with those of calls that wait for
	// policies that are enforced: these are not to wait behind thousands.
	maxAsking = 16
	// maxSettling is how many settlements are on their way. Further ones are lost: calls then keep what they were charged first.
	maxSettling = 1024
)

// An observer has the calls of a Pacer that observed policies bind.
type observer struct {
	pacer *Pacer
	life  context.Context //nolint:containedctx // of what no call asks for
	busy  sync.WaitGroup  // goroutines

	mu       sync.Mutex
	closed   bool
	epoch    int64 // how often the policies were enforced: slots of before are given back
	pending  []*observation
	asking   bool // a goroutine asks the store
	settling int
	lost     int64
	virtual  virtualQueue
	now      store.Instant // as the store said last
	nowAt    time.Time     // when it did
	running  map[store.Key]int64
}

// An observation is what observed policies would have done to one call. A nil one is of a call that none binds.
type observation struct {
	of     *observer
	ctx    context.Context //nolint:containedctx // for its values
	limits []store.Limit
	call   store.Call
	delay  time.Duration // when it goes, if not at once
	ends   bool          // the context's deadline says how long it may wait
	free   []store.Limit // that the call cost nothing at first
	learns []lesson
	epoch  int64

	// The fields below are under the lock of the observer.
	permits  []store.Key
	state    observationState
	grant    store.Grant
	counted  int64                            // the second in which the meter has it
	actual   func(policy string) int64        // what the call really cost; nil if that is not known
	mentions func(policy string) (named bool) // whether the settlement names a policy
}

type observationState uint8

const (
	isPending observationState = iota
	isRefused                  // or lost: it holds nothing
	isVirtual                  // its slot is to come
	isPast
	isOver // given back, or settled
)

// observe has the observed policies say what they would have done to a call that goes after a delay, n times.
func (p *Pacer) observe(ctx context.Context, a *ask, delay time.Duration, n int64) *observation {
	b := *a
	b.part = observedPart
	o := &observation{of: &p.observer, ctx: ctx, delay: delay}
	err := b.wrong
	if err == nil {
		err = p.countPermits(o, &b)
	}
	if err == nil {
		err = p.bindObserved(o, &b, n)
	}
	switch {
	case err != nil:
		o.state = isRefused
		p.observed(ctx, p.refusal(err))
	case len(o.limits) > 0:
		p.observer.add(ctx, o)
	default:
		o.state = isPast
	}
	return o
}

// bindObserved binds a call to the policies that are observed.
func (p *Pacer) bindObserved(o *observation, a *ask, n int64) error {
	limits, err := p.bind(a, nil)
	if err != nil {
		return err
	}
	var s settling
	limits, costs, err := p.costs(a, limits, &s)
	if err != nil {
		return err
	}
	for i := range limits {
		l := &limits[i]
		if l.Spec.Queue == policies.FairQueue && a.scope(a.set.fairBy) == "" {
			return &ScopeError{Upstream: p.upstream, Policy: l.Policy, Scope: a.set.fairBy}
		}
		l.Spec.Queue = policies.NoQueue
	}
	o.limits, o.free, o.learns = limits, s.free, s.lessons
	o.call = store.Call{Cost: a.cost, Costs: costs, NotBefore: o.delay, MaxWait: min(a.maxWait, maxVirtualWait)}
	if deadline, ok := o.ctx.Deadline(); ok {
		if left := max(0, time.Until(deadline)); left < o.call.MaxWait {
			o.call.MaxWait, o.ends = left, true
		}
	}
	if n > 1 {
		o.call.Costs = make([]int64, len(limits))
		for i := range limits {
			cost := a.cost
			if costs != nil {
				cost = costs[i]
			}
			most := limits[i].Spec.Limit
			o.call.Costs[i] = min(most, cost*min(n, most))
		}
	}
	return nil
}

// countPermits counts a call as one in flight, for each observed policy that counts those, and reports which permits would have been taken.
func (p *Pacer) countPermits(o *observation, a *ask) error {
	for i := range a.set.limits {
		l := &a.set.limits[i]
		if !l.observed || l.Spec.Algorithm != policies.Concurrency || l.Spec.After > 0 {
			continue
		}
		if option := a.costOption(l.Policy); option != nil && option.n == 0 {
			continue
		}
		scope, missing := l.scope(a)
		switch {
		case missing != "" && l.optional:
			continue
		case missing != "":
			return &ScopeError{Upstream: p.upstream, Policy: l.Policy, Scope: missing}
		case !a.permits:
			return notEnough(l.Policy)
		}
		key, most := store.Key{Policy: l.Policy, Scope: scope}, a.set.specOf(l, a, scope).Limit
		if n := p.observer.enter(o, key); n > most {
			p.observed(o.ctx, Observed{
				Policy: l.Policy, Scope: describeScope(l.scopes, scope), Cost: 1, InFlight: true, Running: n,
			})
		}
	}
	return nil
}

// observed emits what would have become of a call.
func (p *Pacer) observed(ctx context.Context, one Observed) {
	one.Upstream = p.upstream
	telemetry.EmitCall(ctx, p.telemetry, one, func(h *Hooks) func(context.Context, Observed) { return h.Observed })
}

// refusal returns the event of a call that would have been refused with an error.
func (p *Pacer) refusal(err error) Observed {
	one := Observed{Refused: err}
	switch e := err.(type) { //nolint:errorlint // they are as they were made
	case *ScopeError:
		one.Policy = e.Policy
	case *LimitError:
		one.Policy, one.Scope, one.Cost, one.Wait, one.Paused = e.Policy, e.Scope, e.Cost, e.Wait, e.Paused
	}
	return one
}

// enter counts a call that runs, and returns how many do.
func (o *observer) enter(one *observation, key store.Key) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running == nil {
		o.running = make(map[store.Key]int64)
	}
	o.running[key]++
	one.permits = append(one.permits, key)
	return o.running[key]
}

// release counts a call as over.
func (one *observation) release() {
	if one == nil {
		return
	}
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	one.leave()
}

// leave is release for a caller who holds mu.
func (one *observation) leave() {
	for _, key := range one.permits {
		if one.of.running[key]--; one.of.running[key] <= 0 {
			delete(one.of.running, key)
		}
	}
	one.permits = nil
}

// add asks the store about a call, at once or in the background.
func (o *observer) add(ctx context.Context, one *observation) {
	o.mu.Lock()
	one.epoch = o.epoch
	o.advance(ctx, o.estimate())
	switch {
	case o.closed:
		one.state = isRefused
		o.mu.Unlock()
		return
	case len(o.pending) >= maxPending || len(o.virtual) >= maxVirtual:
		one.state = isRefused
		o.lost++
	case o.pacer.direct == nil:
		o.pending = append(o.pending, one)
	default:
		o.mu.Unlock()
		o.ask(ctx, []*observation{one})
		return
	}
	if !o.asking {
		o.asking = true
		o.busy.Go(func() { o.askAll(context.WithoutCancel(ctx)) })
	}
	o.mu.Unlock()
}

// askAll asks the store about pending calls until there are no more.
func (o *observer) askAll(ctx context.Context) {
	for {
		o.mu.Lock()
		all, lost := o.pending, o.lost
		o.pending, o.lost = nil, 0
		o.asking = len(all) > 0
		o.mu.Unlock()
		o.tellLost(lost)
		if len(all) == 0 {
			return
		}
		if m := o.pacer.member; m != nil {
			if err := m.Await(ctx, time.Time{}, o.pacer.waiters.Closed()); err != nil {
				o.lose(all)
				continue
			}
		}
		var asking sync.WaitGroup
		room := make(chan struct{}, maxAsking)
		for _, group := range byStack(all) {
			room <- struct{}{}
			asking.Go(func() {
				for some := range slices.Chunk(group, batch.MaxCalls) {
					o.ask(ctx, some)
				}
				<-room
			})
		}
		asking.Wait()
	}
}

// tellLost emits how many calls the store was not asked about.
func (o *observer) tellLost(n int64) {
	if n > 0 {
		telemetry.Emit(o.pacer.telemetry, n, func(h *Hooks) func(int64) { return h.NotObserved })
	}
}

// byStack groups calls by their stacks, in order.
func byStack(all []*observation) (groups [][]*observation) {
	index := make(map[string]int)
	for _, one := range all {
		var b strings.Builder
		for i := range one.limits {
			b.WriteString(one.limits[i].Policy + "\n" + one.limits[i].Scope + "\n")
		}
		i, known := index[b.String()]
		if known {
			first := store.Stack{Limits: groups[i][0].limits}
			known = first.Alike(&store.Stack{Limits: one.limits}) // not if the policies have changed
		}
		if !known {
			i = len(groups)
			index[b.String()], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], one)
	}
	return groups
}

// lose counts calls that the store was not asked about.
func (o *observer) lose(all []*observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost += int64(len(all))
	for _, one := range all {
		one.state = isRefused
	}
}

// ask asks the store about calls of one stack.
func (o *observer) ask(ctx context.Context, all []*observation) {
	calls, grants := make([]store.Call, len(all)), make([]store.Grant, len(all))
	for i, one := range all {
		calls[i] = one.call
	}
	ctx, cancel := o.bounded(ctx)
	defer cancel()
	if err := o.pacer.store.Reserve(ctx, all[0].stack(), calls, grants); err != nil {
		o.lose(all)
		if o.pacer.direct != nil { // no goroutine will emit it
			o.mu.Lock()
			lost := o.lost
			o.lost = 0
			o.mu.Unlock()
			o.tellLost(lost)
		}
		return
	}
	var back []*observation
	for i, one := range all {
		if o.answered(ctx, one, &grants[i]) {
			back = append(back, one)
		}
	}
	o.giveBack(ctx, back)
}

// bounded returns a context for a request to the store, with the values of a call's: the call has gone. A member bounds its requests itself.
func (o *observer) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if o.pacer.member != nil || o.pacer.direct != nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, waiters.Timeout)
}

// stack returns the limits that are observed.
func (one *observation) stack() store.Stack {
	return store.Stack{Upstream: one.of.pacer.upstream, Limits: one.limits}
}

// answered applies what the store said about a call, and reports whether the slot is to be given back.
func (o *observer) answered(ctx context.Context, one *observation, g *store.Grant) (back bool) {
	p := o.pacer
	if p.telemetry != nil {
		p.observed(one.ctx, one.event(g)) //nolint:contextcheck // the others of the request have their own
	}
	counted := int64(0)
	if p.process.Meter.IsOn() {
		counted = p.process.Meter.Add(one.limits, &one.call, g.Now.Add(one.delay), store.BindsNothing, 0)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(ctx, g.Now)
	switch {
	case !g.OK:
		one.state = isRefused
	case one.state == isOver:
		one.grant = *g
		return true
	case g.At > g.Now && (one.epoch != o.epoch || o.closed):
		one.grant, one.state = *g, isOver
		return true
	case g.At > g.Now:
		one.grant, one.state, one.counted = *g, isVirtual, counted
		heap.Push(&o.virtual, one)
	default:
		one.grant, one.state, one.counted = *g, isPast, counted
		o.settleIfKnown(ctx, one)
	}
	return false
}

// event returns what the store's answer means for a call.
func (one *observation) event(g *store.Grant) Observed {
	p := one.of.pacer
	if !g.OK {
		r := waiters.Refusal{
			Wait:    waiters.Wait{Cost: one.call.Cost, Paused: g.Paused || g.Binds == store.BindsUpstream, For: g.Wait()},
			MaxWait: one.call.MaxWait, ByDeadline: one.ends,
		}
		if g.Binds >= 0 {
			r.Limit, r.Cost = &one.limits[g.Binds], one.cost(g.Binds)
		}
		return p.refusal(p.notYet(r))
	}
	e := Observed{Cost: one.call.Cost, Wait: max(0, g.Wait()-one.delay)}
	if e.Wait > 0 {
		e.Paused = g.Paused || g.Binds == store.BindsUpstream
		if g.Binds >= 0 {
			e.Policy, e.Scope, e.Cost = one.limits[g.Binds].Policy, p.describe(&one.limits[g.Binds]), one.cost(g.Binds)
		}
	}
	return e
}

// cost returns what the call costs the limit with this index.
func (one *observation) cost(i int) int64 {
	if i < len(one.call.Costs) {
		return one.call.Costs[i]
	}
	return one.call.Cost
}

// estimate returns about what the store's clock shows. The caller holds mu.
func (o *observer) estimate() store.Instant {
	if o.nowAt.IsZero() {
		return 0
	}
	return o.now.Add(time.Since(o.nowAt))
}

// advance takes slots out of the virtual queue that have come. The caller holds mu.
func (o *observer) advance(ctx context.Context, now store.Instant) {
	if now > o.estimate() || o.nowAt.IsZero() {
		o.now, o.nowAt = now, time.Now()
	}
	for len(o.virtual) > 0 && o.virtual[0].grant.At <= now {
		one := heap.Pop(&o.virtual).(*observation) //nolint:forcetypeassert // it holds no other
		if one.state == isVirtual {
			one.state = isPast
			o.settleIfKnown(ctx, one)
		}
	}
}

// cancel gives back what a call holds that does not go. One that has gone keeps it, but for its permits.
func (one *observation) cancel(ctx context.Context, gone bool) {
	if one == nil {
		return
	}
	o := one.of
	o.mu.Lock()
	one.leave()
	before := one.state
	if !gone && before != isRefused {
		one.state = isOver
	}
	o.mu.Unlock()
	if !gone && (before == isVirtual || before == isPast) {
		o.inBackground(func() { o.giveBack(ctx, []*observation{one}) })
	}
}

// inBackground runs a function that asks the store: at once, if that takes no time.
func (o *observer) inBackground(do func()) {
	if o.pacer.direct != nil {
		do()
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.busy.Go(do)
}

// giveBack gives slots back. What cannot be given back is lost.
func (o *observer) giveBack(ctx context.Context, all []*observation) {
	if len(all) == 0 {
		return
	}
	var batches []store.Batch
	for _, group := range byStack(all) {
		b := store.Batch{Stack: group[0].stack()}
		for _, one := range group {
			b.Grants = append(b.Grants, one.grant)
		}
		batches = append(batches, b)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), waiters.Timeout)
	defer cancel()
	if m := o.pacer.member; m != nil {
		_ = m.CancelAll(ctx, batches)
		return
	}
	for i := range batches {
		_ = o.pacer.store.Cancel(ctx, batches[i].Stack, batches[i].Grants)
	}
}

// takeAll empties the virtual queue. What is pending has no part in it from now on. The caller holds mu.
func (o *observer) takeAll() (all []*observation) {
	o.epoch++
	for _, one := range o.virtual {
		if one.state == isVirtual {
			one.state = isOver
			all = append(all, one)
		}
	}
	o.virtual = nil
	return all
}

// giveBackAll gives all slots to come back, and waits until that is done.
func (o *observer) giveBackAll() {
	o.mu.Lock()
	all := o.takeAll()
	o.mu.Unlock()
	o.giveBack(o.life, all)
}

// retire gives all slots to come back, because the policies are enforced from now on, and then has calls that wait already look for
// earlier slots. With a store that is not in memory, it does not wait for that.
func (o *observer) retire() {
	o.mu.Lock()
	all := o.takeAll()
	o.mu.Unlock()
	if len(all) == 0 {
		return
	}
	o.inBackground(func() {
		o.giveBack(o.life, all)
		o.pacer.waiters.Changed(o.life, []store.Change{{Kind: store.Slowed}}) // of everyone: slots are to be had anew
	})
}

// close gives all slots to come back, and waits for what is under way. What is pending is not asked for any more.
func (o *observer) close() {
	o.mu.Lock()
	lost := o.lost + int64(len(o.pending))
	o.closed, o.pending, o.lost = true, nil, 0
	all := o.takeAll()
	o.mu.Unlock()
	o.tellLost(lost)
	o.giveBack(o.life, all)
	o.busy.Wait()
}

// lessons returns what is to be learned from what the call costs.
func (one *observation) lessons() []lesson {
	if one == nil {
		return nil
	}
	return one.learns
}

// settle corrects what observed policies were charged: the call cost as much as actual returns, or as charged if that is negative. A limit
// that it cost nothing at first is charged if the settlement names its policy.
func (one *observation) settle(ctx context.Context, actual func(policy string) int64, mentions func(policy string) bool) {
	if one == nil {
		return
	}
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	if one.actual == nil {
		one.actual, one.mentions = actual, mentions
		if one.state == isPast {
			one.of.settleIfKnown(ctx, one)
		}
	}
}

// settleIfKnown reports to the store what a call really cost whose slot has come. The caller holds mu.
func (o *observer) settleIfKnown(ctx context.Context, one *observation) {
	if one.actual == nil || o.closed {
		return
	}
	one.state = isOver
	stack := one.stack()
	var notes []store.Note
	for i := range one.limits {
		cost := one.cost(i)
		if n := one.actual(one.limits[i].Policy); n >= 0 && n != cost {
			o.pacer.process.Meter.Settle(&one.limits[i], one.grant.At, one.counted, n-cost)
			notes = append(notes, store.Note{
				Kind: store.NoteSettle, Limit: i, Charge: one.grant.Charges[i], Cost: cost, Actual: n, Local: one.grant.Local,
			})
		}
	}
	for i := range one.free {
		if n := one.actual(one.free[i].Policy); n > 0 && one.mentions(one.free[i].Policy) {
			stack.Limits = append(slices.Clip(stack.Limits), one.free[i])
			notes = append(notes, store.Note{Kind: store.NoteSettle, Limit: len(stack.Limits) - 1, Actual: n, Local: one.grant.Local})
		}
	}
	if len(notes) == 0 || o.settling >= maxSettling {
		return
	}
	o.settling++
	o.busy.Go(func() {
		ctx, cancel := o.bounded(ctx)
		defer cancel()
		_, _, _ = o.pacer.store.Report(ctx, stack, notes)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.settling--
	})
}

// A virtualQueue is the slots that are to come, the first one first.
type virtualQueue []*observation

// Len implements [heap.Interface].
func (q *virtualQueue) Len() int { return len(*q) }

// Less implements [heap.Interface].
func (q *virtualQueue) Less(i, j int) bool { return (*q)[i].grant.At < (*q)[j].grant.At }

// Swap implements [heap.Interface].
func (q *virtualQueue) Swap(i, j int) { (*q)[i], (*q)[j] = (*q)[j], (*q)[i] }

// Push implements [heap.Interface].
func (q *virtualQueue) Push(one any) { *q = append(*q, one.(*observation)) } //nolint:forcetypeassert // it holds no other

// Pop implements [heap.Interface].
func (q *virtualQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}
