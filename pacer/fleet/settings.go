package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// SetPolicies sets the policies of the upstream for every process that shares the store, in place of those that each declares, until
// [Operator.UnsetPolicies]. The store keeps them, with the bursts of [policies.Stacked], so processes that start later use them, too. Each
// process receives them with its next request, and applies them as [pacer.Pacer.Declare] describes. Meanwhile the processes together exceed
// the lower limit by no more than one burst.
//
// The store also keeps their [policies.Policy.Override]s, at most [store.MaxSettings] in all. It cannot keep the function of a
// [policies.Policy.OverrideBy]: leave such a policy to the code of each process.
//
// It returns a [*pacer.ConfigError] and changes nothing if a policy is not valid or cannot be written as text (see
// [policies.Policy.Lines]), if there are too many overrides, or if the policies cannot be combined. It returns a [*pacer.StoreError] if the
// store fails or keeps no settings.
func (o *Operator) SetPolicies(ctx context.Context, list ...policies.Policy) error {
	if err := binding.Check("SetPolicies", list); err != nil {
		return err
	}
	list = policies.Stacked(list) // operators see the bursts that hold
	lines := make([]string, 0, len(list))
	for i := range list {
		some, err := list[i].Lines()
		if err != nil {
			return &pacer.ConfigError{Field: fmt.Sprintf("SetPolicies[%d]", i), Err: err}
		}
		lines = append(lines, some...)
	}
	if n := len(lines) - len(list); n > store.MaxSettings {
		return &pacer.ConfigError{
			Field: "SetPolicies", Value: fmt.Sprintf("%d overrides", n),
			Reason: fmt.Sprintf("must have at most %d in all: leave more to the code of each process", store.MaxSettings),
		}
	}
	if len(lines) == 0 {
		lines = append(lines, binding.NoPolicies)
	}
	return o.setInStore(ctx, store.Setting{Text: strings.Join(lines, "\n")})
}

// UnsetPolicies undoes [Operator.SetPolicies]: each process uses its own policies again.
func (o *Operator) UnsetPolicies(ctx context.Context) error {
	return o.setInStore(ctx, store.Setting{})
}

// SetLimit sets the numbers of a policy for one key, such as one tenant. For the duration lasts, or permanently if that is 0, the numbers
// of with replace the policy's own, in every process that shares the store. The context and options give the values of the policy's scopes.
// Use SetLimit for plans and exceptions that change while programs run, and [policies.Policy.Override] for those that you know beforehand.
// An upstream has at most [store.MaxSettings] such limits.
//
// It returns a [*pacer.ConfigError] if the upstream has no such policy or the policy in with is of another kind, a [*pacer.LimitError] if
// the policy needs a scope that is not given, and a [*pacer.StoreError] if the store fails.
func (o *Operator) SetLimit(ctx context.Context, policy string, with policies.Policy, lasts time.Duration, opts ...pacer.ScopeOption) error {
	l, key, values, err := o.keyOf(ctx, policy, opts)
	if err != nil {
		return err
	}
	if lasts < 0 {
		return &pacer.ConfigError{Field: "SetLimit", Value: lasts.String(), Reason: "must not be negative"}
	}
	base, _ := l.Of.For(values...) // without its overrides
	one, err := base.Override(with, values...).For(values...)
	if err != nil {
		return &pacer.ConfigError{Field: "SetLimit", Value: strconv.Quote(policy), Err: err}
	}
	text, err := one.MarshalText()
	if err != nil {
		return &pacer.ConfigError{Field: "SetLimit", Value: strconv.Quote(policy), Err: err}
	}
	return o.setInStore(ctx, store.Setting{Policy: key.Policy, Scope: key.Scope, Text: string(text), For: lasts})
}

// UnsetLimit undoes [Operator.SetLimit] for one key.
func (o *Operator) UnsetLimit(ctx context.Context, policy string, opts ...pacer.ScopeOption) error {
	_, key, _, err := o.keyOf(ctx, policy, opts)
	if err != nil {
		return err
	}
	return o.setInStore(ctx, store.Setting{Policy: key.Policy, Scope: key.Scope})
}

// keyOf returns a policy with scopes, and the key that a context and options name.
func (o *Operator) keyOf(ctx context.Context, policy string, opts []pacer.ScopeOption) (l *binding.Limit, key store.Key, values []string, err error) {
	ctx = pacer.With(ctx, opts...)
	a, err := o.in.Calls.New(ctx, nil)
	if err != nil {
		return nil, key, nil, err
	}
	a.CarryAll(ctx)
	i := slices.IndexFunc(a.Set.Limits, func(l binding.Limit) bool { return l.Policy == policy && l.Whole == "" })
	if i < 0 {
		return nil, key, nil, &pacer.ConfigError{
			Field: "Policy", Value: strconv.Quote(policy), Reason: fmt.Sprintf("no policy of upstream %q has that name", o.in.Upstream),
		}
	}
	l = &a.Set.Limits[i]
	if len(l.Scopes) == 0 {
		return nil, key, nil, &pacer.ConfigError{
			Field: "Policy", Value: strconv.Quote(policy), Reason: "has no scopes, and so one limit for the whole upstream: use SetPolicies",
		}
	}
	scope, missing := a.ScopeOf(l.Scopes)
	if missing != "" {
		return nil, key, nil, &pacer.LimitError{Upstream: o.in.Upstream, Reason: pacer.NoScope, Policy: policy, Scope: missing}
	}
	for _, name := range l.Scopes {
		values = append(values, a.Scope(name))
	}
	return l, store.Key{Policy: policy, Scope: scope}, values, nil
}

// setInStore stores a setting, and applies it.
func (o *Operator) setInStore(ctx context.Context, one store.Setting) error {
	if o.in.Dispatcher.IsClosed() {
		return pacer.ErrClosed
	}
	s, ok := o.in.Store.(store.Settable)
	if !ok {
		return o.failed(inside.OpSet, store.ErrNoSettings)
	}
	all, err := s.Set(ctx, o.in.Upstream, []store.Setting{one})
	if err != nil {
		return o.failed(inside.OpSet, err)
	}
	o.in.Policies.Read(all)
	return nil
}

// Settings reads what operators have set for the upstream, and applies changes. It returns a [*pacer.StoreError] if the store fails. If the
// store keeps no settings, the error wraps [store.ErrNoSettings].
func (o *Operator) Settings(ctx context.Context) (*Settings, error) {
	if o.in.Dispatcher.IsClosed() {
		return nil, pacer.ErrClosed
	}
	s, ok := o.in.Store.(store.Settable)
	if !ok {
		return nil, o.failed(inside.OpSettings, store.ErrNoSettings)
	}
	all, err := s.Settings(ctx, o.in.Upstream)
	if err != nil {
		return nil, o.failed(inside.OpSettings, err)
	}
	o.in.Policies.Read(all)
	return newSettings(o.in.Upstream, all), nil
}

// Settings are operators' settings for an upstream, in place of what its processes declare: see [Operator.SetPolicies] and
// [Operator.SetLimit].
type Settings struct {
	Upstream string
	At       time.Time // by the store's clock
	Changed  time.Time // when something was last set or unset; zero if never, or if the store has lost its data

	Policies *Setting  // those of the whole upstream; nil if none are set
	Limits   []Setting // those of single keys, by policy and scope

	_ struct{}
}

// A Setting is one entry of the [Settings].
type Setting struct {
	Policy string // whose limit is set for one key; "" for the policies of the whole upstream
	Scope  string // its scopes and values, such as `tenant=acme`

	Policies []policies.Policy // what is set; for a single key, one policy
	Text     string            // the same as text, as the store holds it: see [policies.Policy.Lines]
	Err      error             // why this version of the library cannot read it; the setting then has no effect in this process
	Since    time.Time
	Until    time.Time // zero if it is permanent

	_ struct{}
}

// None reports whether nothing is set.
func (s *Settings) None() bool { return s == nil || s.Policies == nil && len(s.Limits) == 0 }

// settingsJSON is Settings in JSON: texts has one for each policy, and behind it one for each of its overrides.
type settingsJSON struct {
	Upstream string        `json:"upstream"`
	Changed  *time.Time    `json:"changed"`
	Policies *settingJSON  `json:"policies"`
	Limits   []settingJSON `json:"limits"`
}

type settingJSON struct {
	Policy string     `json:"policy,omitempty"`
	Scope  string     `json:"scope,omitempty"`
	Texts  []string   `json:"texts"`
	Error  string     `json:"error,omitempty"`
	Since  *time.Time `json:"since"`
	Until  *time.Time `json:"until"`
}

// MarshalJSON returns the Settings for scripts and browsers: instants are as in RFC 3339, or null, and lists are never null.
func (s *Settings) MarshalJSON() ([]byte, error) {
	v := settingsJSON{Upstream: s.Upstream, Changed: orNull(s.Changed), Limits: make([]settingJSON, len(s.Limits))}
	if s.Policies != nil {
		one := s.Policies.json()
		v.Policies = &one
	}
	for i := range s.Limits {
		v.Limits[i] = s.Limits[i].json()
	}
	return json.Marshal(v)
}

func (s *Setting) json() settingJSON {
	v := settingJSON{Policy: s.Policy, Scope: s.Scope, Texts: []string{}, Since: orNull(s.Since), Until: orNull(s.Until)}
	if s.Text != binding.NoPolicies {
		v.Texts = strings.Split(s.Text, "\n")
	}
	if s.Err != nil {
		v.Error = s.Err.Error()
	}
	return v
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// newSettings converts a store's settings, for people.
func newSettings(upstream string, all *store.Settings) *Settings {
	s := &Settings{Upstream: upstream, At: timeOf(all.Now), Changed: timeOf(all.Version)}
	for i := range all.All {
		one := newSetting(&all.All[i])
		if one.Policy == "" {
			s.Policies = &one
		} else {
			s.Limits = append(s.Limits, one)
		}
	}
	return s
}

func newSetting(from *store.Setting) Setting {
	s := Setting{Policy: from.Policy, Text: from.Text, Since: timeOf(from.Since)}
	if !lastsForGood(from) {
		s.Until = timeOf(from.Until)
	}
	if from.Policy == "" {
		s.Policies, s.Err = binding.Parse(from.Text)
		return s
	}
	s.Scope = from.Scope
	one, err := policies.Parse(from.Text)
	if err != nil {
		s.Err = err
		return s
	}
	s.Policies = []policies.Policy{one}
	if scopes := one.Scopes(); len(scopes) > 0 {
		s.Scope = binding.Describe(scopes, from.Scope)
	}
	return s
}

// lastsForGood reports whether a setting was made without an end: stores keep it for ten years.
func lastsForGood(s *store.Setting) bool { return s.Until.Sub(s.Since) >= specs.MaxPeriod }

// timeOf returns an instant as a time; the zero time for none.
func timeOf(at store.Instant) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(at))
}
