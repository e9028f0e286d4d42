package pacer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/parts"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Declare replaces the policies of the Config: those that this process has from its code, or from a file. They hold at once, for this
// process. Calls that wait are bound by the new policies, in the order in which they came, and none of them fails; one that lacks a scope
// of a new policy keeps the limits that it has. What was spent still counts: see docs/policies.md. While policies are set for the whole
// fleet, by [Pacer.SetPolicies], those hold, and what is declared holds when they end.
//
// Declare returns a [*ConfigError] for policies that are not valid or do not go together, and changes nothing then.
func (p *Pacer) Declare(list ...policies.Policy) error {
	if err := checkPolicies("Policies", list); err != nil {
		return err
	}
	p.beforeEnforcing(list, p.Mode())
	p.changing.Lock()
	defer p.changing.Unlock()
	if p.isClosed() {
		return ErrClosed
	}
	p.declared = slices.Clone(list)
	p.settle()
	return nil
}

// SetPolicies sets the policies of the upstream for every process that shares the store, in place of what each of them declares, until
// [Pacer.UnsetPolicies]. The store keeps them: processes that start later have them, too. Each process learns of them with its next
// request, and heeds them as [Pacer.Declare] describes; together they exceed the lower limit by no more than one burst meanwhile.
//
// It returns a [*ConfigError] for policies that are not valid, do not go together, or cannot be written as text (see
// policies.Policy.MarshalText), and then changes nothing; and a [*StoreError] if the store fails, or keeps no settings.
func (p *Pacer) SetPolicies(ctx context.Context, list ...policies.Policy) error {
	if err := checkPolicies("SetPolicies", list); err != nil {
		return err
	}
	lines := make([]string, 0, len(list))
	for i := range list {
		text, err := list[i].MarshalText()
		if err != nil {
			return &ConfigError{Field: fmt.Sprintf("SetPolicies[%d]", i), Err: err}
		}
		lines = append(lines, string(text))
	}
	if len(lines) == 0 {
		lines = append(lines, noPolicies)
	}
	return p.setInStore(ctx, store.Setting{Text: strings.Join(lines, "\n")})
}

// noPolicies is the text of an empty list.
const noPolicies = "none"

// UnsetPolicies ends what [Pacer.SetPolicies] set: each process has the policies again that it declares.
func (p *Pacer) UnsetPolicies(ctx context.Context) error { return p.setInStore(ctx, store.Setting{}) }

// SetLimit sets the numbers of a policy for one key, such as one tenant: those of with hold in place of the policy's own, for every process
// that shares the store, for so long; 0 for good. The context and options give the values of the policy's scopes. It is for plans and
// exceptions that change while programs run; those that are known beforehand are better declared: see policies.Policy.Override. An upstream
// has at most [store.MaxSettings] of them.
//
// It returns a [*ConfigError] if the Pacer has no such policy, or with does not fit it, a [*ScopeError] if the policy needs a scope that is
// not given, and a [*StoreError] if the store fails.
func (p *Pacer) SetLimit(ctx context.Context, policy string, with policies.Policy, lasts time.Duration, opts ...Option) error {
	l, key, values, err := p.keyOf(ctx, policy, opts)
	if err != nil {
		return err
	}
	if lasts < 0 {
		return badDuration("SetLimit", lasts)
	}
	base, _ := l.Of.For(values...) // without its overrides
	one, err := base.Override(with, values...).For(values...)
	if err != nil {
		return &ConfigError{Field: "SetLimit", Value: strconv.Quote(policy), Err: err}
	}
	text, err := one.MarshalText()
	if err != nil {
		return &ConfigError{Field: "SetLimit", Value: strconv.Quote(policy), Err: err}
	}
	return p.setInStore(ctx, store.Setting{Policy: key.Policy, Scope: key.Scope, Text: string(text), For: lasts})
}

// UnsetLimit ends what [Pacer.SetLimit] set for one key.
func (p *Pacer) UnsetLimit(ctx context.Context, policy string, opts ...Option) error {
	_, key, _, err := p.keyOf(ctx, policy, opts)
	if err != nil {
		return err
	}
	return p.setInStore(ctx, store.Setting{Policy: key.Policy, Scope: key.Scope})
}

// keyOf returns a policy with scopes, and the key that a context and options name.
func (p *Pacer) keyOf(ctx context.Context, policy string, opts []Option) (l *binding.Limit, key store.Key, values []string, err error) {
	a, err := p.newAsk(ctx, opts)
	if err != nil {
		return nil, key, nil, err
	}
	a.scopes = scopesOf(ctx)
	i := slices.IndexFunc(a.set.Limits, func(l binding.Limit) bool { return l.Policy == policy && l.Whole == "" })
	if i < 0 {
		return nil, key, nil, &ConfigError{
			Field: "Policy", Value: strconv.Quote(policy), Reason: fmt.Sprintf("no policy of upstream %q has that name", p.upstream),
		}
	}
	l = &a.set.Limits[i]
	if len(l.Scopes) == 0 {
		return nil, key, nil, &ConfigError{
			Field: "Policy", Value: strconv.Quote(policy), Reason: "has no scopes, and so one limit for the whole upstream: use SetPolicies",
		}
	}
	scope, missing := l.ScopeOf(a.scope)
	if missing != "" {
		return nil, key, nil, &ScopeError{Upstream: p.upstream, Policy: policy, Scope: missing}
	}
	for _, name := range l.Scopes {
		values = append(values, a.scope(name))
	}
	return l, store.Key{Policy: policy, Scope: scope}, values, nil
}

// setInStore has the store keep a setting, and heeds it.
func (p *Pacer) setInStore(ctx context.Context, one store.Setting) error {
	if p.isClosed() {
		return ErrClosed
	}
	s, ok := p.store.(store.Settable)
	if !ok {
		return p.storeError(opSet, store.ErrNoSettings)
	}
	all, err := s.Set(ctx, p.upstream, []store.Setting{one})
	if err != nil {
		return p.storeError(opSet, err)
	}
	p.settingsRead(all) //nolint:contextcheck // calls that wait have contexts of their own
	return nil
}

// settingsRead heeds what operators have set. A store that knows of nothing that was ever set has lost it, or forgotten it long after it was
// unset: then what is declared holds.
func (p *Pacer) settingsRead(all *store.Settings) {
	p.changing.Lock()
	defer p.changing.Unlock()
	if p.isClosed() || all.Version != 0 && all.Version < p.settings.Version || all.Version == 0 && p.settings.Version == 0 {
		return
	}
	p.settings = *all
	p.settle()
}

// reread reads what operators have set, of a store that no member stands in front of.
func (p *Pacer) reread() {
	if s, ok := p.store.(store.Settable); ok {
		if all, err := s.Settings(context.Background(), p.upstream); err == nil {
			p.settingsRead(all)
		}
	}
}

// settle has those policies hold that are to hold now: what is set for the fleet, or else what is declared, and what is set for keys. The
// caller holds changing.
func (p *Pacer) settle() {
	list, source := p.declared, ""
	special := make(map[store.Key]policies.Policy)
	var soonest store.Instant
	for i := range p.settings.All {
		one := &p.settings.All[i]
		switch {
		case one.Until <= p.settings.Now:
			continue
		case one.Policy == "":
			if set, err := parsePolicies(one.Text); err == nil {
				list, source = set, setAt(one.Since)
			} else {
				source = "not understood: " + err.Error()
			}
		default:
			if policy, err := policies.Parse(one.Text); err == nil {
				special[store.Key{Policy: one.Policy, Scope: one.Scope}] = policy
			}
		}
		if soonest == 0 || one.Until < soonest {
			soonest = one.Until
		}
	}
	if p.ends != nil {
		p.ends.Stop()
	}
	if soonest > 0 {
		p.ends = time.AfterFunc(min(soonest.Sub(p.settings.Now), store.Forever), p.endSettings)
	}
	before := p.set()
	if source == before.Source && slices.EqualFunc(list, before.Given, samePolicy) && maps.EqualFunc(special, before.Special, samePolicy) &&
		before.AllObserved == (p.mode == Observe) {
		return
	}
	set := binding.New(&p.bindings, &binding.InForce{Given: list, Source: source, AllObserved: p.mode == Observe, Special: special}, before)
	p.policies.Store(set)
	if p.repolicied != nil {
		p.repolicied(set.Bound)
	}
	p.describePolicies(set)
	p.waiters.Replan(set.Generation)
	if before.WillEnforce(list, p.mode == Observe) {
		p.observer.Retire()
	}
}

// setAt says who set policies that are set, and when.
func setAt(since store.Instant) string {
	return "set at " + time.UnixMicro(int64(since)).UTC().Format("2006-01-02 15:04:05.000")
}

// endSettings is called when a setting ends.
func (p *Pacer) endSettings() {
	p.changing.Lock()
	defer p.changing.Unlock()
	if p.isClosed() {
		return
	}
	now := p.settings.Now
	for _, one := range p.settings.All {
		if one.Until > p.settings.Now && (now == p.settings.Now || one.Until < now) {
			now = one.Until
		}
	}
	p.settings.Now = now // that of the one that ends first
	p.settle()
}

// samePolicy reports whether two policies are the same, as far as text can tell; those with overrides of their own are not.
func samePolicy(a, b policies.Policy) bool {
	return a.String() == b.String() && a.Spec().Equal(b.Spec()) && !a.HasOverrides() && !b.HasOverrides()
}

// parsePolicies reads the policies of an upstream, one on each line, and checks them.
func parsePolicies(text string) ([]policies.Policy, error) {
	list := []policies.Policy{}
	if text == noPolicies {
		return list, nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		one, err := policies.Parse(line)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, checkPolicies("Policies", list)
}

// checkPolicies returns a [*ConfigError] about the first policy that is not valid, or does not go together with those before.
func checkPolicies(field string, list []policies.Policy) error {
	for i, p := range list {
		if err := p.Validate(); err != nil {
			return &ConfigError{Field: fmt.Sprintf("%s[%d]", field, i), Err: err}
		}
	}
	if bad := parts.Check(list); bad != nil {
		return &ConfigError{Field: fmt.Sprintf("%s[%d]", field, bad.Index), Value: bad.Value, Reason: bad.Reason}
	}
	return nil
}
