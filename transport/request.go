package transport

import (
	"net/http"
	"slices"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// fewOptions is the most options that requests usually need. So many take no allocation.
const fewOptions = 4

// describe appends a request's scopes, lane and costs to opts.
func (t *Transport) describe(opts []pacer.Option, req *http.Request) []pacer.Option {
	opts = append(opts, pacer.Tracked())
	t.checkCredential(req)
	for _, s := range t.profile.Scopes {
		if v := s.Value(req); v != "" {
			opts = append(opts, pacer.Scope(s.Name, v))
		}
	}
	for _, s := range t.scopes {
		if v := s.Value(req); v != "" || t.overrides(s.Name) {
			opts = append(opts, pacer.Scope(s.Name, v)) // the last value of a name counts
		}
	}
	if t.endpoint != nil {
		opts = append(opts, pacer.Scope(ScopeEndpoint, t.endpoint(req)))
	}
	if t.lane != nil {
		if lane := t.lane(req); lane != "" {
			opts = append(opts, pacer.Lane(lane))
		}
	}
	if t.profile.Costs != nil {
		opts = t.appendCosts(opts, t.profile.Costs(req), t.profile.Settle != nil)
	}
	if t.cost != nil {
		opts = append(opts, pacer.Cost(t.cost(req)))
	}
	if t.call != nil {
		opts = append(opts, t.call(req)...)
	}
	return opts
}

// firstCalls is how many calls without a credential show that none will come.
const firstCalls = 3

// checkCredential warns once if the profile distinguishes callers by credentials, and the first calls have none, unless the user's own
// scopes distinguish them.
func (t *Transport) checkCredential(req *http.Request) {
	if t.unknown.Load() < 0 {
		return
	}
	none := len(t.profile.Credentials) > 0 && len(t.scopes) == 0 && t.pool == nil
	for _, name := range t.profile.Credentials {
		none = none && req.Header.Get(name) == ""
	}
	if !none {
		t.unknown.Store(-1)
		return
	}
	if t.unknown.Add(1) == firstCalls {
		t.unknown.Store(-1)
		go func() { // a logger may hang, or panic
			defer func() { _ = recover() }()
			t.logger.Warn("transport: requests have no credential, so that all callers share one limit: put authentication above the transport, "+
				"not below it by WithBase, or name the account with WithScope", "profile", t.profile.Name, "fields", t.profile.Credentials)
		}()
	}
}

// overrides reports whether the profile has a scope of that name.
func (t *Transport) overrides(name string) bool {
	for i := range t.profile.Scopes {
		if t.profile.Scopes[i].Name == name {
			return true
		}
	}
	return false
}

// appendCosts appends costs of policies of the stack. An estimate is at most what the policy admits at once: a high estimate must not
// refuse a call for ever, and is settled afterwards.
func (t *Transport) appendCosts(opts []pacer.Option, costs []policies.Cost, estimate bool) []pacer.Option {
	if len(costs) == 0 {
		return opts
	}
	list := t.operator.Policies() // as they are now: operators change them
	for _, c := range costs {
		switch has := slices.ContainsFunc(list, func(one policies.Policy) bool { return one.Name() == c.Policy }); {
		case c.Policy == "" && estimate:
			opts = t.appendEstimates(opts, list, costs, c.N)
		case c.Policy == "":
			opts = append(opts, pacer.Cost(c.N))
		case has && estimate:
			opts = append(opts, pacer.EstimateOf(c.Policy, c.N, c.Learned))
		case has:
			opts = append(opts, pacer.CostOf(c.Policy, c.N))
		}
	}
	return opts
}

// appendEstimates appends an estimate for every policy without a cost of its own, at most what it admits. WithCost overrides it.
func (t *Transport) appendEstimates(opts []pacer.Option, list []policies.Policy, costs []policies.Cost, n int64) []pacer.Option {
	if t.cost != nil {
		return opts
	}
	for _, one := range list {
		name := one.Name()
		if one.Spec().Algorithm != specs.Concurrency && !slices.ContainsFunc(costs, func(c policies.Cost) bool { return c.Policy == name }) {
			opts = append(opts, pacer.EstimateOf(name, n, policies.Learned{}))
		}
	}
	return opts
}
