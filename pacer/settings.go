package pacer

import (
	"context"
	"slices"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Declare replaces the policies of the Config, which this process has from its code or from a file, at once. The new ones bind waiting
// calls too, in order of arrival, and none of them fails; a call that lacks a scope of a new policy keeps its limits. Earlier calls still
// count: see docs/policies.md. Policies that an operator has set for the whole fleet (see package fleet) go first; the declared ones apply
// when those end.
//
// Declare returns a [*ConfigError] and changes nothing if a policy is not valid or the policies cannot be combined.
func (p *Pacer) Declare(list ...policies.Policy) error {
	if err := binding.Check("Policies", list); err != nil {
		return err
	}
	p.beforeEnforcing(list)
	if !p.policies.Declare(slices.Clone(list)) {
		return ErrClosed
	}
	return nil
}

// reread reads operators' settings from a store without a member in front of it.
func (p *Pacer) reread() {
	if s, ok := p.store.(store.Settable); ok {
		if all, err := s.Settings(context.Background(), p.upstream); err == nil {
			p.policies.Read(all)
		}
	}
}

// policiesChanged adapts what depends on the policies.
func (p *Pacer) policiesChanged(before, now *binding.Set) {
	if m, ok := p.member.(*failover.Store); ok {
		m.SetPolicies(now.Bound)
	}
	p.process.SetPolicies(now.Names(), now.Texts(), now.Source)
	p.dispatcher.Replan(now.Generation)
	if before.WillEnforce(now.Given) {
		p.observer.Retire()
	}
}
