package transport

import (
	"fmt"
	"net/http"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/ietf"
)

// WithProfile teaches the transport a vendor's API: to which scopes a request belongs, what it costs, and what replies
// say about limits. Costs that the stack has no policy for are left out, and a profile without Read reads as the generic
// one does. [WithScope] and [WithCost] override what the profile says. Defaults to the generic profile, [ietf.Profile].
func WithProfile(p policies.Profile) Option {
	return func(o *options) error {
		for i, s := range p.Scopes {
			if !policies.ValidName(s.Name) || s.Value == nil {
				return bad(fmt.Sprintf("Profile %q: Scopes[%d]", p.Name, i), fmt.Sprintf("%q", s.Name), "must have a valid name and a function")
			}
		}
		if p.Read == nil {
			p.Read, p.Peek = ietf.Profile.Read, ietf.Profile.Peek
		}
		o.profile = p
		return nil
	}
}

// describe reads from a request what the pacer has to know: scopes and costs.
func (t *Transport) describe(req *http.Request) []pacer.Option {
	opts := make([]pacer.Option, 0, 1+len(t.profile.Scopes)+len(t.scopes))
	opts = append(opts, pacer.Tracked())
	for _, scopes := range [][]policies.Scope{t.profile.Scopes, t.scopes} {
		for _, s := range scopes {
			if v := s.Value(req); v != "" {
				opts = append(opts, pacer.Scope(s.Name, v))
			}
		}
	}
	if t.profile.Costs != nil {
		opts = t.appendCosts(opts, t.profile.Costs(req))
	}
	if t.cost != nil {
		opts = append(opts, pacer.Cost(t.cost(req)))
	}
	return opts
}

// appendCosts turns costs into options, as far as the stack has a policy for them.
func (t *Transport) appendCosts(opts []pacer.Option, costs []policies.Cost) []pacer.Option {
	for _, c := range costs {
		switch {
		case c.Policy == "":
			opts = append(opts, pacer.Cost(c.N))
		case t.has[c.Policy]:
			opts = append(opts, pacer.CostOf(c.Policy, c.N))
		}
	}
	return opts
}
