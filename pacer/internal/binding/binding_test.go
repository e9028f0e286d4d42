package binding_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

func newSet(before *binding.Set, in binding.InForce) *binding.Set {
	return binding.NewSet(&binding.Config{Upstream: "test", MaxPause: time.Hour}, &in, before)
}

func given(all ...policies.Policy) binding.InForce { return binding.InForce{Given: all} }

// asking returns a call with a tenant and a user, if they are given.
func asking(s *binding.Set, which binding.Which, lane string, values ...string) *binding.Ask {
	a := &binding.Ask{Set: s, Which: which, Lane: lane, Cost: 1}
	for i, v := range values {
		a.Options = append(a.Options, scope([]string{"tenant", "user"}[i], v))
	}
	return a
}

// bound returns the limits that bind a call.
func bound(t *testing.T, a *binding.Ask) []store.Limit {
	t.Helper()
	limits, err := (&binding.Reader{Errors: short{}}).Bind(a, nil)
	require.NoError(t, err)
	return limits
}

// names returns limits as policy and scope.
func names(limits []store.Limit) (all []string) {
	for i := range limits {
		all = append(all, limits[i].Policy+"/"+limits[i].Scope)
	}
	return all
}

// Which limits bind a call: by its scopes, its lane, and whether they are observed.
func TestBind(t *testing.T) {
	t.Parallel()
	s := newSet(nil, given(
		policies.PerSecond(10).Named("all").Lane("low", 40),
		policies.PerSecond(10).Named("tenant").Per("tenant"),
		policies.PerSecond(10).Named("user").Per("tenant", "user").Optional(),
		policies.PerSecond(10).Named("seen").Observed(),
		policies.InFlight(3).Named("permits").Observed(),
	))
	part := s.Limits[1].Policy
	for _, one := range []struct {
		which binding.Which
		lane  string
		carry []string
		want  []string
	}{
		{binding.Enforced, "", []string{"acme"}, []string{"all/", "tenant/acme"}},
		{binding.Enforced, "", []string{"acme", "bob"}, []string{"all/", "tenant/acme", "user/acme:bob"}},
		{binding.Enforced, "low", []string{"acme"}, []string{"all/", part + "/", "tenant/acme"}},
		{binding.Predicted, "low", []string{"acme"}, []string{"seen/"}}, // calls in flight are counted elsewhere
		{binding.All, "", []string{"acme"}, []string{"all/", "tenant/acme", "seen/", "permits/"}},
	} {
		require.ElementsMatch(t, one.want, names(bound(t, asking(s, one.which, one.lane, one.carry...))))
	}
	nothing := asking(s, binding.Enforced, "")
	_, err := (&binding.Reader{Errors: short{}}).Bind(nothing, nil)
	require.EqualError(t, err, "tenant lacks tenant")
	require.ElementsMatch(t, []string{"all/", "seen/", "permits/"}, names(nothing.Bindable(false)))
	require.ElementsMatch(t, []string{"all/", part + "/", "seen/", "permits/"}, names(nothing.Bindable(true)), "of all lanes")
}

// A set knows the names of those before it, and numbers that operators have set for a key.
func TestSetsThatFollow(t *testing.T) {
	t.Parallel()
	old := newSet(nil, given(policies.PerSecond(10).Named("old")))
	in := given(policies.PerSecond(20).Named("new").Per("tenant"))
	in.Special = map[store.Key]policies.Policy{{Policy: "new", Scope: "acme"}: policies.PerSecond(30).Named("new").Per("tenant")}
	s := newSet(old, in)
	require.Equal(t, old.Generation+1, s.Generation)
	require.Equal(t, "old", s.PolicyOf(&store.Limit{Policy: "old"}).Name())
	require.Equal(t, policies.PerSecond(30).Spec(), bound(t, asking(s, binding.Enforced, "", "acme"))[0].Spec)
	require.Equal(t, policies.PerSecond(20).Spec(), bound(t, asking(s, binding.Enforced, "", "other"))[0].Spec)
}

// A key has the operators' setting, or else its override, found by the key's scope, even if that is a hash. A policy outside the set has no
// overrides.
func TestKeyed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2*store.MaxScope)
	policy := policies.PerSecond(5).Per("tenant", "user").Named("p").Override(policies.PerSecond(9), "a b", "bob").
		Override(policies.PerSecond(8), long, "bob").Override(policies.PerSecond(7), "set", "bob")
	in := given(policy)
	set := store.Key{Policy: "p", Scope: store.EscapeScope("set", "bob")}
	in.Special = map[store.Key]policies.Policy{set: policies.PerSecond(6).Per("tenant", "user").Named("p")}
	s := newSet(nil, in)
	for want, values := range map[string][]string{
		"9 per 1s": {"a b", "bob"}, "8 per 1s": {long, "bob"}, "6 per 1s": {"set", "bob"}, "5 per 1s": {"other", "bob"},
	} {
		require.Contains(t, s.Keyed(policy, store.EscapeScope(values...)).String(), want)
	}
	require.Equal(t, policy.String(), s.Keyed(policy, "").String())
	other := policies.PerSecond(4).Per("tenant", "user").Named("p")
	require.Equal(t, other.String(), s.Keyed(other, store.EscapeScope("a b", "bob")).String())
}

// Calls cost each limit the same, or as an option sets it for one; a limit that costs nothing does not bind, and a cost above the limit is
// an excess, unless it is an estimate.
func TestCosts(t *testing.T) {
	t.Parallel()
	s := newSet(nil, given(policies.PerSecond(10).Burst(10).Named("a"), policies.PerSecond(10).Burst(5).Named("b"), policies.InFlight(1).Named("c")))
	r := &binding.Reader{Errors: short{}}
	costs := func(settling *binding.Settling, cost int64, opts ...binding.Option) ([]string, []int64, error) {
		a := asking(s, binding.Enforced, "")
		a.Cost, a.Options, a.ByPolicy = cost, opts, len(opts) > 0
		limits, all, err := r.Costs(a, bound(t, a), settling)
		return names(limits), all, err
	}
	limits, all, err := costs(nil, 5)
	require.NoError(t, err)
	require.Nil(t, all)
	require.Len(t, limits, 3)
	_, _, err = costs(nil, 6)
	require.EqualError(t, err, "b: 6, 0s")

	var settling binding.Settling
	limits, all, err = costs(&settling, 6, costOf("b", 0))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a/", "c/"}, limits)
	require.Equal(t, []int64{6, 6}, all)
	require.Equal(t, []string{"b/"}, names(settling.Free))

	settling = binding.Settling{}
	how := policies.Learned{Times: 1}
	_, all, err = costs(&settling, 1, binding.Option{Kind: binding.CostOf, Name: "b", N: 99, Estimate: true, Learned: how})
	require.NoError(t, err)
	require.Contains(t, all, int64(5), "as much as it admits")
	require.Equal(t, []binding.Lesson{{Key: store.Key{Policy: "b"}, How: how}}, settling.Lessons)
	_, _, err = costs(nil, 1, costOf("b", 99))
	require.EqualError(t, err, "b: 99, 0s")
}

// Binding a call allocates nothing if there is room for its limits.
func TestBindingAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts what is allocated
	s := newSet(nil, given(policies.PerSecond(10).Per("tenant"), policies.PerMinute(10)))
	room := make([]store.Limit, 0, 2)
	r, a := &binding.Reader{Errors: short{}}, asking(s, binding.Enforced, "", "acme")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if limits, err := r.Bind(a, room); len(limits) != 2 || err != nil {
			t.Fail()
		}
	}))
}

// A fair share's number is the same in every process, and fits a float.
func TestFlowOf(t *testing.T) {
	t.Parallel()
	require.Equal(t, int64(125675981721454), binding.FlowOf("acme"))
	require.NotEqual(t, binding.FlowOf("acme"), binding.FlowOf("other"))
	for _, one := range []string{"", "acme", "other", "tenant-77"} {
		require.Positive(t, binding.FlowOf(one))
		require.LessOrEqual(t, binding.FlowOf(one), int64(1)<<53)
	}
}
