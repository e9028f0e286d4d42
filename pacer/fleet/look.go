package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Snapshot returns the state of the upstream for all processes that share the store. If [Of] received a Pacer whose store has no registry
// or is out of reach, it covers this process only. To see the state of policies with scopes, give the scopes' values by [pacer.Scope].
// Snapshot changes nothing. It returns a [*pacer.StoreError] if the store fails.
//
// With a store in memory, counting starts with the first Snapshot: before, calls spend no time on it.
func (o *Operator) Snapshot(ctx context.Context, opts ...pacer.ScopeOption) (*Snapshot, error) {
	registry, shared := o.in.Registry()
	index, err := registry.Index(ctx, o.Upstream())
	if errors.Is(err, pacer.ErrClosed) {
		return nil, pacer.ErrClosed
	}
	if err != nil {
		return nil, o.failed(inside.OpIndex, err)
	}
	v := view{Snapshot: Snapshot{Upstream: o.Upstream(), Shared: shared}}
	if shared { // otherwise all that is known is the Pacer's
		var known []policies.Policy
		known, v.Unknown = parse(index.Policies)
		for i := range v.Unknown {
			v.Unknown[i] = printable(v.Unknown[i])
		}
		v.add(known)
	}
	v.add(o.Policies())
	slices.SortStableFunc(v.limits, func(a, b limit) int { return strings.Compare(a.Name(), b.Name()) })
	v.read(index)
	v.compare(index)
	if v.Settings, err = o.settings(ctx, shared); err != nil {
		return nil, err
	}
	if v.Settings != nil {
		v.SetLimits = len(v.Settings.Limits)
		v.Settings.Limits = v.Settings.Limits[:min(v.SetLimits, MaxShownLimits)]
	}
	if err := v.look(ctx, o, opts); err != nil {
		return nil, err
	}
	return &v.Snapshot, nil
}

// settings returns the settings; nil if the store keeps none, or a Pacer is without its store.
func (o *Operator) settings(ctx context.Context, shared bool) (*Settings, error) {
	s, err := o.Settings(ctx)
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, store.ErrNoSettings), !shared && ctx.Err() == nil:
		return nil, nil //nolint:nilnil // there is nothing to show, and nothing is wrong
	}
	return nil, err
}

// parse reads policies that processes report, and returns unreadable ones, too: other versions may report more.
func parse(texts []string) (known []policies.Policy, unknown []string) {
	for _, text := range texts {
		one, err := policies.Parse(text)
		if err != nil || binding.Check("Policies", append(slices.Clip(known), one)) != nil {
			unknown = append(unknown, text)
			continue
		}
		known = append(known, one)
	}
	return known, unknown
}

// A view is a Snapshot in the making.
type view struct {
	Snapshot

	limits []limit        // in display order
	keys   []store.KeyUse // those that spend or wait most
	others []store.KeyUse // of each policy with scopes, more that may use most of its limit
	stated []store.Statement
}

// A limit is a policy, or a lane's part of one, with the reports about it.
type limit struct {
	policies.Policy

	went    usage.Tally
	waiting int64
}

// add adds policies, and their lanes' parts, unless there are others of the same name.
func (v *view) add(all []policies.Policy) {
	for _, one := range binding.PartsOf(all) {
		if v.named(one.Name()) == nil {
			v.limits = append(v.limits, limit{Policy: one.Policy})
		}
	}
}

// named returns the limit of a policy; nil without one.
func (v *view) named(policy string) *limit {
	for i := range v.limits {
		if v.limits[i].Name() == policy {
			return &v.limits[i]
		}
	}
	return nil
}

// read adds the processes' reports.
func (v *view) read(index *store.Index) {
	v.Alive = index.Alive
	for _, w := range index.Went {
		if l := v.named(w.Policy); l != nil {
			l.went.Add(w.Second, w.What)
		}
	}
	spent, waiting, callers := make(map[store.Key]int64), make(map[store.Key]int64), make(map[store.Key]int64)
	for i := range index.Processes {
		one := &index.Processes[i]
		n := v.addWaiting(one.Waiting)
		if len(v.Processes) < MaxShownProcesses {
			v.Processes = append(v.Processes, Process{
				ID: printable(one.ID), Name: printable(one.Name), For: max(0, index.Now.Sub(one.Came)), Waiting: n,
				Source: printable(one.Source), Version: printable(one.Version),
			})
		}
		v.learn(one.Stated)
		for _, k := range one.Keys {
			if l := v.named(k.Policy); l != nil && len(l.Scopes()) > 0 && store.IsEscaped(k.Scope) {
				spent[k.Key()] += k.Cost
				waiting[k.Key()] += k.Waiting
			}
		}
		for _, k := range one.Callers {
			if v.named(k.Policy) != nil {
				callers[k.Key()] += k.Cost
			}
		}
	}
	for _, k := range usage.Top(callers, nil, usage.MaxCallers) {
		v.Callers = append(v.Callers, Caller{Name: printable(k.Scope), Policy: k.Policy, Cost: k.Cost})
	}
	v.choose(usage.Top(spent, waiting, len(spent)+len(waiting)))
}

// maxOthers is how many keys of each policy are read besides the TopKeys, to find the one that uses most of its limit.
const maxOthers = 5

// choose chooses the keys to read. The ones that spend or wait most are first.
func (v *view) choose(all []store.KeyUse) {
	of := make(map[string]int)
	for _, k := range all {
		if len(v.keys) < MaxTopKeys && k.Cost+k.Waiting > 0 {
			v.keys = append(v.keys, k)
		} else if of[k.Policy]++; of[k.Policy] <= maxOthers {
			v.others = append(v.others, k)
		}
	}
}

// addWaiting adds a process's waiting calls, and returns their number.
func (v *view) addWaiting(uses []store.KeyUse) (sum int64) {
	for _, u := range uses {
		sum += u.Waiting
		if u.Policy == "" {
			v.Waiting += u.Waiting
		} else if l := v.named(u.Policy); l != nil {
			l.waiting += u.Waiting
		}
	}
	return sum
}

// maxName bounds the bytes of a shown name, as pacer.Config.Name does.
const maxName = 100

// printable returns a name that can be shown anywhere: anyone who can write to the store can write anything.
func printable(name string) string {
	name = printed(name)
	return strings.ToValidUTF8(name[:min(len(name), maxName)], "?")
}

// printed removes from a text what a terminal could take for a command.
func printed(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// look reads the limits and the keys, and completes the Snapshot.
func (v *view) look(ctx context.Context, o *Operator, opts []pacer.ScopeOption) error {
	o.mu.Lock()
	for policy, key := range o.used {
		same := func(k store.KeyUse) bool { return k.Key() == key }
		if v.named(policy) != nil && !slices.ContainsFunc(v.keys, same) && !slices.ContainsFunc(v.others, same) {
			v.others = append(v.others, store.KeyUse{Policy: policy, Scope: key.Scope})
		}
	}
	o.mu.Unlock()
	all := make([]policies.Policy, len(v.limits))
	for i := range v.limits {
		all[i] = v.limits[i].Policy
	}
	uses := slices.Concat(v.keys, v.others)
	keys := make([]store.Key, len(uses))
	for i := range uses {
		keys[i] = uses[i].Key()
	}
	found, err := o.in.StatusOf(pacer.With(ctx, opts...), all, keys, v.stated)
	if err != nil {
		return err
	}
	status := found.(*pacer.Status) //nolint:forcetypeassert // by its documentation
	v.At, v.PausedFor, v.PausedBy, v.Allowances = status.At, status.PausedFor, status.PausedBy, status.Allowances
	until := usage.SecondOf(v.At.UnixMicro())
	if v.Shared {
		until = usage.SecondOf(v.At.Add(-reportedWithin(v.Alive)).UnixMicro())
	}
	v.Counted = time.Unix(until, 0)
	for i := range v.limits {
		l, one := &v.limits[i], status.Policies[i]
		history := make([]Second, 0, HistorySeconds)
		for _, s := range l.went.History(until, HistorySeconds) {
			history = append(history, Second{Cost: s.Cost, Waits: s.Waits, Waited: s.Waited})
		}
		v.Policies = append(v.Policies, Policy{
			PolicyStatus: one, Shown: len(l.Scopes()) == 0 || one.Scope != "",
			Waiting: l.waiting, History: history,
		})
	}
	used := make(map[string]store.Key)
	for i := range uses {
		if v.show(&uses[i], &status.Policies[len(v.limits)+i]) {
			used[uses[i].Policy] = keys[i]
		}
	}
	o.mu.Lock()
	o.used = used
	o.mu.Unlock()
	for i, k := range v.keys {
		v.TopKeys = append(v.TopKeys, TopKey{PolicyStatus: status.Policies[len(v.limits)+i], Cost: k.Cost, Waiting: k.Waiting})
	}
	return nil
}

// show shows a key in the row of its policy if the row is of this key, or if no key was requested and this one uses more of its limit than
// those before. In the second case it returns true.
func (v *view) show(k *store.KeyUse, key *pacer.PolicyStatus) bool {
	p := &v.Policies[slices.IndexFunc(v.Policies, func(p Policy) bool { return p.Policy.Name() == k.Policy })]
	if p.Shown && !p.Busiest {
		if p.Scope == key.Scope {
			p.KeyCost = k.Cost
		}
		return false
	}
	one := *p
	one.PolicyStatus, one.Shown, one.Busiest, one.KeyCost = *key, true, true, k.Cost
	if p.Busiest && one.Utilization() <= p.Utilization() {
		return false
	}
	*p = one
	return true
}

// reportedWithin returns after how long a store knows, at the latest, what one of n processes did.
func reportedWithin(n int) time.Duration {
	return failover.ScheduleOf(min(n, failover.MaxProcesses)).Describe + time.Second
}
