package pacer

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Settings are what operators have set for an upstream, in place of what its processes declare: see [Pacer.SetPolicies] and
// [Pacer.SetLimit].
type Settings struct {
	Upstream string
	At       time.Time // by the store's clock
	Changed  time.Time // when something was set or unset last; zero if never, or if the store has forgotten

	Policies *Setting  // those of the whole upstream; nil if none are set
	Limits   []Setting // those of single keys, by policy and scope

	_ struct{}
}

// A Setting is one of them.
type Setting struct {
	Policy string // whose limit is set for one key; "" for the policies of the whole upstream
	Scope  string // its scopes and values, such as `tenant=acme`

	Policies []policies.Policy // what is set; of a key, one
	Text     string            // the same, as the store has it, one on each line
	Err      error             // why this version cannot read it: then it does not hold here
	Since    time.Time
	Until    time.Time // zero if it holds for good

	_ struct{}
}

// None reports whether nothing is set.
func (s *Settings) None() bool { return s == nil || s.Policies == nil && len(s.Limits) == 0 }

// Settings reads what is set for the upstream, and heeds it, should it have changed. It returns a [*StoreError] if the store fails, or keeps
// no settings: the cause is [store.ErrNoSettings] then.
func (p *Pacer) Settings(ctx context.Context) (*Settings, error) {
	if p.isClosed() {
		return nil, ErrClosed
	}
	s, ok := p.store.(store.Settable)
	if !ok {
		return nil, p.storeError(opSettings, store.ErrNoSettings)
	}
	all, err := s.Settings(ctx, p.upstream)
	if err != nil {
		return nil, p.storeError(opSettings, err)
	}
	p.settingsRead(all) //nolint:contextcheck // that others heed it does not end with this look
	return newSettings(p.upstream, all), nil
}

// settingsJSON are Settings as scripts get them: docs/command.md describes the fields.
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

// MarshalJSON returns the Settings for scripts and browsers: instants are as in RFC 3339, or null for none, and lists are never null.
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
	if s.Text != noPolicies {
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

// newSettings converts what a store keeps, for people.
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
		s.Policies, s.Err = parsePolicies(from.Text)
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

// lastsForGood reports whether a setting was made without an end: stores keep it for so long that nobody sees the end.
func lastsForGood(s *store.Setting) bool { return s.Until.Sub(s.Since) >= policies.MaxPeriod }

// timeOf returns an instant as a time; the zero time for none.
func timeOf(at store.Instant) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(at))
}
