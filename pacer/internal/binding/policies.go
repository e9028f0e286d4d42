package binding

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Config is what Policies need from their Pacer.
type Config struct {
	Upstream string
	Direct   store.Direct      // the store, if it is one; nil otherwise
	MaxPause time.Duration     // the longest pause that feedback makes
	Counts   bool              // stated limits and allowances apply, and not only pauses and refusals
	Declared []policies.Policy // which are valid and go together; they are not copied
	// Changed is called with the old and the new set, under the lock of the Policies.
	Changed func(before, now *Set)
}

// Policies are the present policies of a Pacer. Make them with [NewPolicies]. They are safe for concurrent use.
type Policies struct {
	config Config
	now    atomic.Pointer[Set]

	mu         sync.Mutex
	declared   []policies.Policy // by this process
	settings   store.Settings    // by operators, as far as this process knows
	read       time.Time         // when they were read
	ends       *time.Timer       // when the first of them ends
	fair       []string          // the policies that other processes share fairly
	allowances []string          // their names
	closed     bool
}

// NewPolicies returns the policies that are declared first.
func NewPolicies(c *Config) *Policies {
	p := &Policies{config: *c, declared: c.Declared}
	p.now.Store(NewSet(&p.config, &InForce{Given: p.declared}, nil))
	return p
}

// Now returns the present set.
func (p *Policies) Now() *Set { return p.now.Load() }

// PolicyOf returns the policy of a limit, present or former, as it holds for its key.
func (p *Policies) PolicyOf(l *store.Limit) policies.Policy { return p.Now().PolicyOf(l) }

// Declare replaces the process's own policies by a valid list, which it does not copy. It reports false after Close.
func (p *Policies) Declare(list []policies.Policy) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.declared = list
		p.settle()
	}
	return !p.closed
}

// maxAllowances bounds the allowances of an upstream that belong to no policy, and so what its headers can make a process do.
const maxAllowances = 64

// AddAllowances makes allowances bind calls, by their names.
func (p *Policies) AddAllowances(names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.add(names) && !p.closed {
		p.settle()
	}
}

// add adds unknown allowances, and reports whether there were any. The caller holds mu.
func (p *Policies) add(names []string) bool {
	before := len(p.allowances)
	for _, name := range names {
		if readings.IsAllowance(name) && !slices.Contains(p.allowances, name) && len(p.allowances) < maxAllowances {
			p.allowances = append(slices.Clip(p.allowances), name)
		}
	}
	return len(p.allowances) > before
}

// Read applies the operators' settings and the list of allowances. If a store has no record of settings, it has lost them, or has dropped
// them long after they were unset: then the declared policies hold.
func (p *Policies) Read(all *store.Settings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	more := p.add(all.Allowances)
	news := (all.Version == 0 || all.Version >= p.settings.Version) && (all.Version != 0 || p.settings.Version != 0)
	if news {
		p.settings, p.read = *all, time.Now()
	}
	if (more || news) && !p.closed {
		p.settle()
	}
}

// SetFair sets the policies that other processes share fairly.
func (p *Policies) SetFair(names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.fair = names
		p.settle()
	}
}

// Close ends all changes. Closing twice is harmless.
func (p *Policies) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.ends != nil {
		p.ends.Stop()
	}
}

// settle applies the policies that hold now: the fleet's, or else the declared ones, and the settings of keys. The caller holds mu.
func (p *Policies) settle() {
	list, source := p.declared, ""
	special := make(map[store.Key]policies.Policy)
	now := p.settings.Now.Add(time.Since(p.read)) // in store time
	var soonest store.Instant
	for i := range p.settings.All {
		one := &p.settings.All[i]
		switch {
		case one.Until <= now:
			continue
		case one.Policy == "":
			if set, err := Parse(one.Text); err == nil {
				list, source = set, setAt(one.Since)
			} else {
				source = "not understood: " + err.Error()
			}
		default:
			// Whether a key is observed follows from its policy, which may have changed since the key's numbers were set.
			if policy, err := policies.Parse(strings.TrimSuffix(one.Text, ", observed")); err == nil {
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
		p.ends = time.AfterFunc(min(soonest.Sub(now), store.Forever), p.endSettings)
	}
	before := p.Now()
	if source == before.Source && slices.EqualFunc(list, before.Given, samePolicy) && maps.EqualFunc(special, before.Special, samePolicy) &&
		slices.Equal(p.fair, before.Fair) && len(before.Allowances) == len(p.allowances) {
		return
	}
	in := &InForce{Given: list, Source: source, Special: special, Fair: p.fair, Allowances: p.allowances}
	set := NewSet(&p.config, in, before)
	p.now.Store(set)
	p.config.Changed(before, set)
}

// setAt describes who set policies, and when.
func setAt(since store.Instant) string {
	return "set at " + time.UnixMicro(int64(since)).UTC().Format("2006-01-02 15:04:05.000")
}

// endSettings runs when a setting ends.
func (p *Policies) endSettings() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.settle()
	}
}

// samePolicy reports whether two policies have the same text. Policies with functions of their own are never the same.
func samePolicy(a, b policies.Policy) bool {
	if a.String() != b.String() || !a.Spec().Equal(b.Spec()) || a.HasOverrides() != b.HasOverrides() {
		return false
	}
	if !a.HasOverrides() {
		return true
	}
	first, err := a.Lines()
	if err != nil {
		return false
	}
	second, err := b.Lines()
	return err == nil && slices.Equal(first, second)
}
