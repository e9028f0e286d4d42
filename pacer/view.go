package pacer

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/internal/parts"
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// toldLate returns how late a store knows, at the latest, what a process did that is one of n.
func toldLate(n int) time.Duration {
	return failover.PulsesOf(min(n, failover.MaxProcesses)).Describe + time.Second
}

// A view is a Fleet in the making.
type view struct {
	Fleet

	pacer  *Pacer
	ask    *ask
	limits []plainLimit   // in the order in which they are shown
	keys   []store.KeyUse // the busiest
}

// A plainLimit is a policy, or a lane's part of one, as those see it who only look.
type plainLimit struct {
	store.Limit

	policy policies.Policy
	scopes []string
	went   usage.Tally
	waits  int64
}

// registry returns what knows the fleet; nil if nothing does, or it is out of reach.
func (p *Pacer) registry() store.Registry {
	if p.member != nil {
		return p.member.Registry()
	}
	registry, _ := p.store.(store.Registry)
	return registry
}

// limitsOf returns the limits that texts of policies mean, and those texts that mean nothing.
func limitsOf(texts []string) (limits []plainLimit, unknown []string) {
	known, unknown := parsePolicies(texts)
	for i := range unknown {
		unknown[i] = printable(unknown[i])
	}
	for _, one := range parts.Of(known) {
		limits = append(limits, plainLimit{Limit: store.Limit{Policy: one.Name(), Spec: one.Spec()}, policy: one.Policy, scopes: one.Scopes()})
	}
	return limits, unknown
}

// addOwn adds those of this process that are not there yet.
func (v *view) addOwn() {
	for i := range v.pacer.limits {
		if l := &v.pacer.limits[i]; v.named(l.Policy) == nil {
			v.limits = append(v.limits, plainLimit{Limit: l.Limit, policy: l.policy, scopes: l.scopes})
		}
	}
	slices.SortStableFunc(v.limits, func(a, b plainLimit) int { return strings.Compare(a.Policy, b.Policy) })
}

func (v *view) named(policy string) *plainLimit {
	for i := range v.limits {
		if v.limits[i].Policy == policy {
			return &v.limits[i]
		}
	}
	return nil
}

// read takes what processes have said.
func (v *view) read(index *store.Index) {
	v.Alive = index.Alive
	for _, w := range index.Went {
		if l := v.named(w.Policy); l != nil {
			l.went.Add(w.Second, w.What)
		}
	}
	spent, waiting := make(map[store.Key]int64), make(map[store.Key]int64)
	for i := range index.Processes {
		one := &index.Processes[i]
		if len(v.Processes) < MaxShownProcesses {
			v.Processes = append(v.Processes, Process{ID: printable(one.ID), Name: printable(one.Name), For: max(0, index.Now.Sub(one.Came)), Waiting: v.waiting(one.Waiting)})
		}
		for _, k := range one.Keys {
			if l := v.named(k.Policy); l != nil && len(l.scopes) > 0 && store.IsEscaped(k.Scope) {
				spent[k.Key()] += k.Cost
				waiting[k.Key()] += k.Waiting
			}
		}
	}
	v.keys = usage.Top(spent, waiting, MaxBusiest)
}

// printable returns a name as it can be shown anywhere: anybody who can write to the store can say anything.
func printable(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
	return strings.ToValidUTF8(name[:min(len(name), maxProcessName)], "?")
}

// waiting adds up who waits, by policy and in all.
func (v *view) waiting(uses []store.KeyUse) (sum int64) {
	for _, u := range uses {
		sum += u.Waiting
		if u.Policy == "" {
			v.Waiting += u.Waiting
		} else if l := v.named(u.Policy); l != nil {
			l.waits += u.Waiting
		}
	}
	return sum
}

// look asks the store how the limits stand, and completes the Fleet.
func (v *view) look(ctx context.Context) error {
	p := v.pacer
	stack := store.Stack{Upstream: p.upstream}
	shown := make([]int, len(v.limits)) // where in the stack; −1: not
	for i := range v.limits {
		bound := v.limits[i].Limit
		shown[i] = -1
		if scope, missing := scopeOf(v.limits[i].scopes, v.ask); missing == "" {
			bound.Scope, shown[i] = scope, len(stack.Limits)
			stack.Limits = append(stack.Limits, bound)
		}
	}
	first := len(stack.Limits)
	for _, k := range v.keys {
		bound := v.named(k.Policy).Limit
		bound.Scope = k.Scope
		stack.Limits = append(stack.Limits, bound)
	}
	seen, err := p.store.Status(ctx, stack)
	if err != nil {
		return p.storeError("status", err)
	}
	v.finish(&seen, &stack, shown, first)
	return nil
}

func (v *view) finish(seen *store.StackStatus, stack *store.Stack, shown []int, first int) {
	v.At = time.UnixMicro(int64(seen.Now))
	until := usage.SecondOf(int64(seen.Now))
	if v.Shared {
		until = usage.SecondOf(int64(seen.Now) - toldLate(v.Alive).Microseconds())
	}
	v.Counted = time.Unix(until, 0)
	v.PausedFor = max(0, seen.Paused.Sub(seen.Now))
	for i := range v.limits {
		l := &v.limits[i]
		one := FleetPolicy{PolicyStatus: PolicyStatus{Policy: l.policy}, Waiting: l.waits, History: l.went.History(until, HistorySeconds)}
		if at := shown[i]; at >= 0 {
			one.Shown, one.PolicyStatus = true, l.status(seen, at, stack.Limits[at].Scope)
		}
		v.Policies = append(v.Policies, one)
	}
	for i, k := range v.keys {
		v.Busiest = append(v.Busiest, BusyKey{PolicyStatus: v.named(k.Policy).status(seen, first+i, k.Scope), Cost: k.Cost, Waiting: k.Waiting})
	}
}

// status returns how a limit stands for a scope value: what was seen of the limit with an index.
func (l *plainLimit) status(seen *store.StackStatus, index int, scope string) PolicyStatus {
	return policyStatus(l.policy, describeScope(l.scopes, scope), &seen.Limits[index], seen.Now)
}

// readOwn takes what this process knows of itself.
func (v *view) readOwn() {
	p := v.pacer
	now := store.Instant(time.Now().UnixMicro())
	if s, ok := p.store.(interface{ Now() store.Instant }); ok {
		now = s.Now()
	}
	p.sleepers.mu.Lock()
	used := p.used(now)
	for i := range p.limits {
		v.named(p.limits[i].Policy).went = p.limits[i].seen.went
	}
	p.sleepers.mu.Unlock()
	if p.direct != nil {
		limits := make([]store.Prepared, len(p.limits))
		for i := range p.limits {
			limits[i] = p.limits[i].prepared
		}
		for k, n := range p.direct.Spent(limits, func(limit int, second, cost int64) {
			v.named(p.limits[limit].Policy).went.Add(second, store.Second{Cost: cost})
		}) {
			used.spent[k] += n
		}
	}
	v.Alive = 1
	v.Processes = []Process{{ID: "", Name: p.name, Waiting: v.waiting(used.byPolicy())}}
	v.keys = slices.DeleteFunc(usage.Top(used.spent, used.waiting, MaxBusiest), func(k store.KeyUse) bool { return v.named(k.Policy) == nil })
}
