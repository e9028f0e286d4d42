package pacer

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// A Status is the state of the policies for a call with given scopes, at one instant.
type Status struct {
	Upstream   string
	At         time.Time     // by the store's clock
	PausedFor  time.Duration // how much longer the whole upstream is paused; 0 if it is not
	PausedBy   string        // where the upstream stated that, such as "Retry-After"; "" if that is not known
	Policies   []PolicyStatus
	Allowances []Allowance // what is left by the upstream's replies, also of limits without a policy

	_ struct{}
}

// An Allowance is what an upstream stated as left of one of its limits, and what calls may use of that.
type Allowance struct {
	Policy string        // that it is about; "" for a limit that fits no policy
	Limit  string        // of one without a policy: its name, or how much it allows; "" if unknown
	Scope  string        // as in [PolicyStatus]
	Left   int64         // the least value that was stated and not withdrawn
	Free   int64         // of it: not spoken for by calls that are not answered
	For    time.Duration // how much longer that holds
	Source string        // where the upstream stated that, such as "X-RateLimit-Reset"; "" if that is not known

	_ struct{}
}

// A PolicyStatus is one policy of a [Status].
type PolicyStatus struct {
	Policy policies.Policy
	Scope  string // its scopes and values, such as `tenant=acme`; "" for the whole upstream

	// Remaining is how many calls of cost 1 this policy admits at once, now. With PerSecond(25).Burst(10) and no call for a second it is
	// 10; right after those ten it is 0.
	Remaining int64
	// Next is how long until the next call of cost 1 may go; 0 for now.
	Next time.Duration
	// Backlog is the cost that is charged to future slots. With PerSecond(10) and 35 calls requested at once it is 34, and shrinks by one
	// each 100 ms. With more than 512 gaps between these slots it is an estimate: the further ones count as long as the average.
	Backlog int64
	// PausedFor is how much longer this policy is paused; 0 if it is not paused.
	PausedFor time.Duration
	// PausedBy is where the upstream stated that, such as "Retry-After"; "" if unknown.
	PausedBy string
	// Pace is the current limit: the microseconds between two calls of a rate, or the limit of a window. It differs from the policy's own
	// number while the upstream reports that it allows less, or after an adaptive rate has slowed down. For calls in flight it is how many
	// may run; if no permit is free, Next is the longest time until the first lease runs out.
	Pace int64
	// Queued is how many calls are queued: for a permit, in a lane, or for their fair share.
	Queued int64
	// Margin is what the fleet adds to the policy's period at present: see [policies.Policy.Margin].
	Margin time.Duration
	// Full is how long until Remaining is back at its maximum, the burst of a rate or the limit of a window, if nothing else is charged,
	// given back or reported until then; 0 if it is. It takes into account pauses, a limit that the upstream lowered, an adaptive rate that
	// has slowed down, and future slots. It ignores the margin, which is small and shrinks slowly. For calls in flight it is the longest
	// time until the last lease runs out.
	Full time.Duration
	// Gone is how long until nothing is left of a [policies.Fixed] or calendar window, at its mean pace so far; 0 if it lasts to its end at
	// that pace, as one with a burst does, or if not even a tenth is spent, which shows little. For a party's part, it is about the part.
	Gone time.Duration

	_ struct{}
}

// Status returns the state of the policies that bind a call with these scopes. It charges nothing and changes nothing. It returns the
// same errors as Reserve, and does not wait for a store that has never answered.
func (p *Pacer) Status(ctx context.Context, opts ...ScopeOption) (*Status, error) {
	a, err := p.newAsk(ctx, optionsOf(nil, opts))
	if err != nil {
		return nil, err
	}
	limits, err := p.calls.Bind(&a, nil)
	if err != nil {
		return nil, err
	}
	seen, err := p.store.Status(ctx, store.Stack{Upstream: p.upstream, Limits: limits})
	if err != nil {
		return nil, p.storeError(opStatus, err)
	}
	s := newStatus(p.upstream, &seen)
	for i := range limits {
		if l := &limits[i]; l.Spec.Algorithm == specs.Allowance {
			s.addLimit(l, p.set().Describe(l), &seen.Limits[i])
		} else {
			s.Policies = append(s.Policies, policyStatus(a.Set.PolicyOf(l), p.set().Describe(l), &seen.Limits[i], seen.Now))
		}
	}
	s.attribute(events{p}.Stated(math.MaxInt))
	return s, nil
}

// attribute sets where pauses and allowances were stated, by the processes' reports: see [store.About].
func (s *Status) attribute(stated []store.Statement) {
	s.PausedBy = s.statedBy(stated, "", "", s.PausedFor)
	for i := range s.Policies {
		one := &s.Policies[i]
		one.PausedBy = s.statedBy(stated, one.Policy.Name(), one.Scope, one.PausedFor)
	}
	for i := range s.Allowances {
		one := &s.Allowances[i]
		one.Source = s.statedBy(stated, one.Policy, one.Scope, one.For)
	}
}

// statedTolerance is how far the end of a wait may differ from the stated one, by the clocks of processes that were without their store.
const statedTolerance = 2 * time.Second

// statedBy returns the statement that a wait lasts for d.
func (s *Status) statedBy(stated []store.Statement, policy, scope string, d time.Duration) (source string) {
	nearest := statedTolerance + 1
	for i := range stated {
		one := &stated[i]
		off := one.Until.Sub(store.Instant(s.At.UnixMicro()).Add(d)).Abs()
		if d > 0 && one.Policy == policy && one.Scope == scope && off < nearest {
			nearest, source = off, one.Source
		}
	}
	return source
}

// addLimit adds a limit, and what it means for the policy before it.
func (s *Status) addLimit(l *store.Limit, scope string, seen *store.LimitStatus) {
	now := store.Instant(s.At.UnixMicro())
	one := Allowance{Policy: readings.PolicyOf(l.Policy), Limit: readings.TagOf(l.Policy), Scope: scope, Left: seen.Pace, Free: seen.Remaining}
	if one.For = seen.Full.Sub(now); one.For <= 0 {
		return
	}
	if !slices.Contains(s.Allowances, one) { // a key may be listed twice
		s.Allowances = append(s.Allowances, one)
	}
	if one.Policy == "" && scope == "" {
		s.PausedFor = max(s.PausedFor, seen.Paused.Sub(now))
	}
	for i := range s.Policies {
		if of := &s.Policies[i]; of.Policy.Name() == one.Policy && of.Scope == scope {
			of.Remaining = min(of.Remaining, one.Free)
			of.Next = max(of.Next, seen.Next.Sub(now))
			of.PausedFor = max(of.PausedFor, seen.Paused.Sub(now))
			of.Full = max(of.Full, one.For)
		}
	}
}

// statusOf is inside.Pacer.StatusOf.
func (p *Pacer) statusOf(ctx context.Context, all []policies.Policy, keys []store.Key, stated []store.Statement) (any, error) {
	a, err := p.newAsk(ctx, nil)
	if err != nil {
		return nil, err
	}
	a.CarryAll(ctx)
	stack := store.Stack{Upstream: p.upstream}
	requested := make([]int, len(all), len(all)+len(keys)) // index in the stack; −1 if not in it
	of := slices.Clone(all)
	for i := range all {
		requested[i] = -1
		if scope, missing := a.ScopeOf(all[i].Scopes()); missing == "" {
			requested[i] = len(stack.Limits)
			of[i] = p.set().Keyed(all[i], scope)
			stack.Limits = append(stack.Limits, store.Limit{Policy: all[i].Name(), Scope: scope, Spec: of[i].Spec()})
		}
	}
	for _, k := range keys {
		i := slices.IndexFunc(all, func(one policies.Policy) bool { return one.Name() == k.Policy })
		if i < 0 {
			return nil, &ConfigError{Field: "Key.Policy", Value: strconv.Quote(k.Policy), Reason: "is not one of the policies asked for"}
		}
		one := p.set().Keyed(all[i], k.Scope)
		of, requested = append(of, one), append(requested, len(stack.Limits))
		stack.Limits = append(stack.Limits, store.Limit{Policy: k.Policy, Scope: k.Scope, Spec: one.Spec()})
	}
	known := len(stack.Limits)
	stack.Limits = append(stack.Limits, p.set().AllowancesOf(stack.Limits)...)
	seen, err := p.store.Status(ctx, stack)
	if err != nil {
		return nil, p.storeError(opStatus, err)
	}
	s := newStatus(p.upstream, &seen)
	for i, at := range requested {
		one := PolicyStatus{Policy: of[i]}
		if at >= 0 {
			one = policyStatus(of[i], binding.Describe(of[i].Scopes(), stack.Limits[at].Scope), &seen.Limits[at], seen.Now)
		}
		s.Policies = append(s.Policies, one)
	}
	for i := known; i < len(stack.Limits); i++ {
		s.addLimit(&stack.Limits[i], p.set().Describe(&stack.Limits[i]), &seen.Limits[i])
	}
	s.attribute(stated)
	return s, nil
}

// newStatus returns the status of an upstream, without its policies.
func newStatus(upstream string, seen *store.StackStatus) *Status {
	return &Status{
		Upstream: upstream, At: time.UnixMicro(int64(seen.Now)),
		Policies: make([]PolicyStatus, 0, len(seen.Limits)),
	}
}

// policyStatus converts a store's report on a policy, for people.
func policyStatus(policy policies.Policy, scope string, seen *store.LimitStatus, now store.Instant) PolicyStatus {
	return PolicyStatus{
		Policy:    policy,
		Scope:     scope,
		Remaining: seen.Remaining,
		Next:      max(0, seen.Next.Sub(now)),
		Backlog:   seen.Backlog,
		Pace:      seen.Pace,
		Queued:    seen.Queued,
		Margin:    marginOf(policy, seen.Margin),
		Full:      max(0, seen.Full.Sub(now)),
		Gone:      goneIn(policy.Spec(), seen, int64(now)),
	}
}

// goneIn returns how long until a window is spent: see [PolicyStatus].
func goneIn(s specs.Spec, seen *store.LimitStatus, now int64) time.Duration {
	spent := seen.Pace - seen.Remaining
	if s.Algorithm != specs.Window || s.Buckets > 0 || s.Ahead > 0 || seen.Remaining == 0 || spent < seen.Pace/10 || spent <= 0 {
		return 0
	}
	begin := now - now%s.Interval
	end := begin + s.Interval
	if s.Calendar != nil {
		bounds := s.Calendar.Bounds(now, now)
		begin, end = bounds[1], bounds[2]
	}
	left := int64(float64(now-begin) * (float64(seen.Remaining) / float64(spent)))
	if now+left >= end-s.Guard {
		return 0
	}
	return time.Duration(left) * time.Microsecond
}

// marginOf converts a margin in millionths of a policy's period to a time.
func marginOf(p policies.Policy, share int64) time.Duration {
	_, period := p.Limit()
	return time.Duration(share) * period / 1_000_000
}

// Binding returns the policy for which the next call of cost 1 has to wait longest; nil if the call may go now, or waits only for a pause
// of the whole upstream.
func (s *Status) Binding() *PolicyStatus {
	var binding *PolicyStatus
	longest := s.PausedFor
	for i := range s.Policies {
		if p := &s.Policies[i]; max(p.Next, p.PausedFor) > longest {
			binding, longest = p, max(p.Next, p.PausedFor)
		}
	}
	return binding
}

// describeProcess makes what operators see of this process.
func (p *Pacer) describeProcess(name string) {
	set := p.set()
	p.process = &usage.Process{
		Upstream: p.upstream, Name: name, Meter: usage.NewMeter(set.Names(), p.direct == nil),
		Source: events{p},
	}
	p.process.SetPolicies(set.Names(), set.Texts(), set.Source)
}

// CallsWaiting implements [usage.Source].
func (e events) CallsWaiting() map[store.Key]int64 {
	all := make(map[store.Key]int64)
	for k, n := range e.dispatcher.Waiting() {
		all[store.Key{Policy: readings.PolicyOf(k.Policy), Scope: k.Scope}] += n
	}
	return all
}

// Stated implements [usage.Source].
func (e events) Stated(n int) []store.Statement { return e.reports.Memory.Stated(n, e.set().Describe) }

// registry is inside.Pacer.Registry.
func (p *Pacer) registry() (registry store.Registry, shared bool) {
	if p.member != nil {
		registry = p.member.Registry()
	} else {
		registry, _ = p.store.(store.Registry)
	}
	if registry != nil {
		return registry, true
	}
	return &usage.Registry{Process: p.process, Store: p.store, Closed: p.dispatcher.Closed()}, false
}

// readyTimeout bounds Ready if its context does not.
const readyTimeout = 10 * time.Second

// Ready reports whether the store works now. Use it when a program starts. Do not use it as a readiness probe, except with RefuseCalls: it
// fails in all processes while the store is away, although they could go on pacing locally. For a store in memory it returns nil. For a
// Redis store it checks that the server can be reached, accepts the credentials, runs the scripts, takes writes, and lets this user run
// every command on the keys and the channel of the upstream. It leaves nothing behind on the server. If a check fails, Ready returns a
// [*StoreError] that names what is missing and what to do about it, and wraps a *redisstore.NotReadyError. If the Pacer is closed, it
// returns [ErrClosed].
//
// Ready returns when its context ends, or after ten seconds. It does not depend on Config.Outage, and does not affect pacing: the store may
// be lost right after a successful check. Do not check before each call.
func (p *Pacer) Ready(ctx context.Context) error {
	if p.isClosed() {
		return ErrClosed
	}
	r, ok := p.store.(store.Readier)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := r.Ready(ctx, p.upstream); err != nil {
		return p.storeError(opReady, err)
	}
	return nil
}
