package binding_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/costs"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

func newSet(before *binding.Set, in binding.InForce) *binding.Set {
	return binding.New(&binding.Config{Upstream: "test", MaxPause: time.Hour}, &in, before)
}

func given(all ...policies.Policy) binding.InForce { return binding.InForce{Given: all} }

// carrying returns what a call carries, by scope.
func carrying(values map[string]string) binding.Carried {
	return func(scope string) string { return values[scope] }
}

func nothing(string) string { return "" }

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
	acme := carrying(map[string]string{"tenant": "acme"})
	bob := carrying(map[string]string{"tenant": "acme", "user": "bob"})
	part := s.Limits[1].Policy
	for _, one := range []struct {
		which   binding.Which
		lane    string
		carried binding.Carried
		want    []string
	}{
		{binding.Enforced, "", acme, []string{"all/", "tenant/acme"}},
		{binding.Enforced, "", bob, []string{"all/", "tenant/acme", "user/acme:bob"}},
		{binding.Enforced, "low", acme, []string{"all/", part + "/", "tenant/acme"}},
		{binding.Predicted, "low", acme, []string{"seen/"}}, // calls in flight are counted elsewhere
		{binding.All, "", acme, []string{"all/", "tenant/acme", "seen/", "permits/"}},
	} {
		limits, missing := s.Bind(one.which, one.lane, one.carried, nil)
		require.Nil(t, missing)
		require.ElementsMatch(t, one.want, names(limits))
	}
	_, missing := s.Bind(binding.Enforced, "", nothing, nil)
	require.Equal(t, &binding.Missing{Policy: "tenant", Scope: "tenant"}, missing)
	require.ElementsMatch(t, []string{"all/", "seen/", "permits/"}, names(s.Bindable("", false, nothing)))
	require.ElementsMatch(t, []string{"all/", part + "/", "seen/", "permits/"}, names(s.Bindable("", true, nothing)), "of all lanes")
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
	limits, _ := s.Bind(binding.Enforced, "", carrying(map[string]string{"tenant": "acme"}), nil)
	require.Equal(t, policies.PerSecond(30).Spec(), limits[0].Spec)
	limits, _ = s.Bind(binding.Enforced, "", carrying(map[string]string{"tenant": "other"}), nil)
	require.Equal(t, policies.PerSecond(20).Spec(), limits[0].Spec)
}

// What holds for a key is what operators have set for it, or else its override, found by the key's scope, even if that is a hash; of a
// policy that is not the set's, there are no overrides.
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

// What a call costs: the same for all, or as an option says for one; what costs nothing does not bind it, and what is never admitted is an
// excess, unless it is an estimate.
func TestCosts(t *testing.T) {
	t.Parallel()
	s := newSet(nil, given(policies.PerSecond(10).Burst(10).Named("a"), policies.PerSecond(10).Burst(5).Named("b"), policies.InFlight(1).Named("c")))
	limits, _ := s.Bind(binding.Enforced, "", nothing, nil)
	var learner costs.Learner
	bound, all, excess := s.Costs(limits, 5, nil, &learner, nil)
	require.Nil(t, excess)
	require.Nil(t, all)
	require.Len(t, bound, 3)
	_, _, excess = s.Costs(limits, 6, nil, &learner, nil)
	require.Equal(t, "b", excess.Limit.Policy)
	require.Equal(t, int64(6), excess.Cost)

	own := func(of string, cost binding.Cost) func(string) (binding.Cost, bool) {
		return func(policy string) (binding.Cost, bool) { return cost, policy == of }
	}
	var settling binding.Settling
	bound, all, excess = s.Costs(limits, 6, own("b", binding.Cost{}), &learner, &settling)
	require.Nil(t, excess)
	require.ElementsMatch(t, []string{"a/", "c/"}, names(bound))
	require.Equal(t, []int64{6, 6}, all)
	require.Equal(t, []string{"b/"}, names(settling.Free))

	settling = binding.Settling{}
	how := policies.Learned{Times: 1}
	_, all, excess = s.Costs(limits, 1, own("b", binding.Cost{N: 99, Estimate: true, Learned: how}), &learner, &settling)
	require.Nil(t, excess)
	require.Contains(t, all, int64(5), "as much as it admits")
	require.Equal(t, []costs.Lesson{{Key: store.Key{Policy: "b"}, How: how}}, settling.Lessons)
	_, _, excess = s.Costs(limits, 1, own("b", binding.Cost{N: 99}), &learner, nil)
	require.Equal(t, int64(99), excess.Cost)
}

// Binding a call allocates nothing if there is room for its limits.
func TestBindingAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts what is allocated
	s := newSet(nil, given(policies.PerSecond(10).Per("tenant"), policies.PerMinute(10)))
	room := make([]store.Limit, 0, 2)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if limits, missing := s.Bind(binding.Enforced, "", func(string) string { return "acme" }, room); len(limits) != 2 || missing != nil {
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
