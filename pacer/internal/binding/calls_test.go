package binding_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/pools"
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// newReader returns a reader of calls that some policies bind, over a store in memory. Its errors are short.
func newReader(t *testing.T, all ...policies.Policy) *binding.Reader {
	t.Helper()
	s := memstore.New()
	r := &binding.Reader{Upstream: "api", MaxWait: time.Minute, MaxWeight: 100, Counts: true, Direct: s}
	r.Policies = binding.NewPolicies(&binding.Config{
		Upstream: "api", Direct: s, MaxPause: time.Hour, Declared: all, Changed: func(_, _ *binding.Set) {},
	})
	r.Dispatcher = dispatch.New(&dispatch.Config{
		Upstream: "api", Store: s, Given: s, Direct: true, Meter: usage.NewMeter(nil, false),
	})
	r.Errors = short{}
	t.Cleanup(func() {
		r.Policies.Close()
		r.Dispatcher.Close()
		r.Dispatcher.Leases.Close()
		r.Dispatcher.Drain()
	})
	return r
}

// short makes short errors.
type short struct{}

func (short) Missing(policy, scope string) error { return fmt.Errorf("%s lacks %s", policy, scope) }

func (short) Excess(l *store.Limit, cost int64, most time.Duration) error {
	return fmt.Errorf("%s: %d, %s", l.Policy, cost, most)
}

func (short) Nested(l *store.Limit) error { return fmt.Errorf("nested in %s", l.Policy) }

func scope(name, value string) binding.Option {
	return binding.Option{Kind: binding.Scope, Name: name, Value: value}
}

func costOf(policy string, n int64) binding.Option {
	return binding.Option{Kind: binding.CostOf, Name: policy, N: n}
}

func rate(name string) policies.Policy { return policies.PerSecond(10).Burst(5).Named(name) }

// A call is described by its options, and else by its context.
func TestWhatACallRequests(t *testing.T) {
	t.Parallel()
	r := newReader(t, rate("all"), rate("each").Per("tenant"))
	a, err := r.Call(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), time.Minute, time.Duration(0), false, false}, []any{a.Cost, a.MaxWait, a.NotBefore, a.Tracked, a.ByPolicy})
	_, err = r.Request(&a, nil, nil)
	require.EqualError(t, err, "each lacks tenant")

	ctx := binding.WithScope(binding.WithScope(t.Context(), "tenant", "outer"), "tenant", "inner")
	a, err = r.Call(ctx, []binding.Option{{Kind: binding.Cost, N: 3}, {Kind: binding.MaxWait, N: 7}, {Kind: binding.NotBefore, N: 8}, {Kind: binding.Tracked}})
	require.NoError(t, err)
	q, err := r.Request(&a, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"all/", "each/inner"}, names(q.Limits))
	require.Equal(t, store.Call{Cost: 3}, q.Call, "how long it waits is for the caller to add")
	require.Equal(t, []time.Duration{7, 8}, []time.Duration{a.MaxWait, a.NotBefore})

	a, err = r.Call(ctx, []binding.Option{scope("tenant", "first"), scope("tenant", "last"), costOf("each", 4), costOf("each", 2), {Kind: binding.Tracked}})
	require.NoError(t, err)
	r.Counts = false
	q, err = r.Request(&a, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"all/", "each/last"}, names(q.Limits))
	require.Equal(t, store.Call{Cost: 1, Costs: []int64{1, 2}}, q.Call, "tracked in vain: counts are not applied")

	a, err = r.Call(binding.WithoutScopes(ctx), nil)
	require.NoError(t, err)
	require.Empty(t, a.Scope("tenant"))
	var all []string
	binding.Scopes(ctx, func(_, value string) { all = append(all, value) })
	require.Equal(t, []string{"inner", "outer"}, all)
}

// Calls of a party that the rate does not name are in none.
func TestAPartyThatTheRateDoesNotName(t *testing.T) {
	t.Parallel()
	r := newReader(t, rate("all").Reserve("support", 30), policies.Daily(1000, time.UTC).Lane("other", 99))
	ask := func(party string) []int64 {
		a, err := r.Call(t.Context(), []binding.Option{{Kind: binding.Scope, Name: binding.LaneScope, Value: party}})
		require.NoError(t, err)
		q, err := r.Request(&a, nil, nil)
		require.NoError(t, err)
		return []int64{q.Call.Weight, q.Call.Flow}
	}
	require.Equal(t, ask(""), ask("other"))
	require.NotEqual(t, ask(""), ask("support"))
}

func TestWhatACallCannotRequest(t *testing.T) {
	t.Parallel()
	r := newReader(t, rate("all").Lane("bulk", 50), policies.InFlight(3).Named("permits"))
	for want, o := range map[string]binding.Option{
		"Cost is 0":                {Kind: binding.Cost},
		"MaxWait is -1ns":          {Kind: binding.MaxWait, N: -1},
		"NotBefore is -1ns":        {Kind: binding.NotBefore, N: -1},
		"CostOf(all) is -1":        costOf("all", -1),
		`CostOf is "none"`:         costOf("none", 1),
		`Lane is "other"`:          scope(binding.LaneScope, "other"),
		"all: 6, 1m0s":             costOf("all", 6),
		"CostOf(permits) is 2":     costOf("permits", 2),
		"NotBefore is 175200h0m1s": {Kind: binding.NotBefore, N: int64(store.Forever + time.Second)},
	} {
		a, err := r.Call(t.Context(), []binding.Option{o})
		if err == nil {
			_, err = r.Request(&a, nil, nil)
		}
		require.ErrorContains(t, err, want)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Call(ended, nil)
	require.ErrorIs(t, err, context.Canceled)
	r.Dispatcher.Close()
	_, err = r.Call(t.Context(), nil)
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = r.New(ended, nil)
	require.NoError(t, err, "one that is not to be made")
}

// A wrong lane or weight does not matter while nothing is enforced.
func TestNothingIsEnforced(t *testing.T) {
	t.Parallel()
	r := newReader(t, rate("all").Lane("bulk", 50).Observed())
	a, err := r.Call(t.Context(), []binding.Option{scope(binding.LaneScope, "other")})
	require.NoError(t, err)
	require.ErrorContains(t, a.Wrong, `Lane is "other"`)
	require.Empty(t, a.Lane)
}

// A waiting call is bound again as a whole, or not at all.
func TestBoundAnew(t *testing.T) {
	t.Parallel()
	r := newReader(t, rate("before"))
	ctx := binding.WithScope(t.Context(), "tenant", "acme")
	var c binding.Reservation
	c.Options = []binding.Option{{Kind: binding.Cost, N: 2}, costOf("after", 0), scope(binding.LaneScope, "bulk")}
	_, err := c.Read(ctx, r)
	require.NoError(t, err)
	r.Policies.Declare([]policies.Policy{rate("after").Per("tenant"), rate("other").Per("tenant")})
	a, err := c.Read(ctx, r)
	require.NoError(t, err)
	a.CarryAll(ctx)
	c.Keep(&a, &c.First)

	r.Policies.Declare([]policies.Policy{rate("after"), rate("new").Per("tenant")})
	b := c.Bind()
	require.True(t, b.OK)
	require.Equal(t, []string{"new/acme"}, names(b.Limits))
	b.Keep()
	set, known := c.Settling()
	require.Same(t, r.Policies.Now(), set)
	require.Equal(t, []string{"after/"}, names(known.Free), "a settlement may charge it")

	r.Policies.Declare([]policies.Policy{rate("after"), rate("new").Per("user")})
	require.False(t, c.Bind().OK, "it lacks a scope")
	require.Same(t, set, c.Now().Set)

	r.Policies.Declare([]policies.Policy{rate("after").Lane("other", 50)})
	require.False(t, c.Bind().OK, "its lane is gone")

	options := c.Options
	c.Forget()
	require.Equal(t, make([]binding.Option, 3), options, "nothing of it is kept")
}

func TestSettlements(t *testing.T) {
	t.Parallel()
	r := newReader(t, rate("a"), rate("b"))
	set := r.Policies.Now()
	s, err := r.Settlement(set, []binding.Option{costOf("a", 0), {Kind: binding.Cost, N: 7}, costOf("a", 5)})
	require.NoError(t, err)
	require.Equal(t, []int64{5, 7}, []int64{s.CostOf("a"), s.CostOf("b")})
	require.True(t, s.Names("a"))
	require.False(t, s.Names("b"))
	s, err = r.Settlement(set, nil)
	require.NoError(t, err)
	require.EqualValues(t, -1, s.CostOf("a"), "as it was charged")
	for want, o := range map[string]binding.Option{
		"Settle is an option": {Kind: binding.Tracked},
		"Settle is -1":        {Kind: binding.Cost, N: -1},
		`Settle is "c"`:       costOf("c", 1),
	} {
		_, err := r.Settlement(set, []binding.Option{o})
		require.ErrorContains(t, err, want)
	}
	_, err = r.Settlement(set, []binding.Option{{Kind: binding.Cost, N: specs.MaxLimit + 1}})
	require.Error(t, err)
}

// A call finds out what the calls hold that it is made in.
func TestNestedCalls(t *testing.T) {
	t.Parallel()
	r := newReader(t, policies.InFlight(2).Named("permits").Per("tenant"), rate("all"))
	ctx := binding.WithScope(t.Context(), "tenant", "acme")
	ask := func(ctx context.Context, r *binding.Reader, opts ...binding.Option) (dispatch.Request, error) {
		a, err := r.Call(ctx, opts)
		require.NoError(t, err)
		a.Permits = true
		return r.Request(&a, nil, nil)
	}
	begin := func(ctx context.Context) (*dispatch.Call, context.Context) {
		q, err := ask(ctx, r)
		require.NoError(t, err)
		q.Call.MaxWait = time.Second
		c := &dispatch.Call{}
		require.NoError(t, r.Dispatcher.Reserve(ctx, c, &q))
		return c, r.WithCall(ctx, c)
	}
	one, inOne := begin(ctx)
	require.NotEqual(t, ctx, inOne)
	require.Equal(t, inOne, r.WithCall(inOne, one), "it is carried already")
	two, inTwo := begin(inOne)
	_, err := ask(inTwo, r)
	require.EqualError(t, err, "nested in permits")
	_, err = ask(inTwo, r, scope("tenant", "other"))
	require.NoError(t, err, "a limit of its own")
	_, err = ask(inTwo, newReader(t, policies.InFlight(2).Named("permits").Per("tenant")))
	require.NoError(t, err, "the permits of another Pacer")
	q, err := ask(inTwo, r, scope(binding.NestedScope, "yes"))
	require.NoError(t, err)
	require.Equal(t, []string{"all/"}, names(q.Limits), "it shares a permit")

	r.Dispatcher.Leases.Release(two.Lease())
	_, err = ask(inTwo, r)
	require.NoError(t, err, "one that is over holds nothing")
	free := &dispatch.Call{}
	require.NoError(t, r.Dispatcher.Free(ctx, free, &store.Call{Cost: 1}))
	require.Equal(t, ctx, r.WithCall(ctx, free), "nor does one without permits")
}

func newPool(scopes ...string) *binding.Pool {
	return &binding.Pool{Pool: pools.New([]pools.Credential{{ID: "a"}, {ID: "b"}, {ID: "c", Weight: 2}}, scopes)}
}

// The request of a pooled call has the limits of all accounts, each of them once.
func TestPooledCalls(t *testing.T) {
	t.Parallel()
	small := rate("each").Per("key").Override(policies.PerSecond(10).Burst(1), "b")
	r := newReader(t, rate("all"), small)
	l := newPool("key")
	ask := func(opts ...binding.Option) (binding.Ask, dispatch.Request, error) {
		a, err := r.Call(t.Context(), opts)
		require.NoError(t, err)
		a.ByAny(l)
		require.True(t, a.IsPooled())
		a.Which = binding.Enforced
		q, err := r.Request(&a, nil, nil)
		return a, q, err
	}
	a, q, err := ask()
	require.NoError(t, err)
	require.Equal(t, []string{"all/", "each/a", "each/b", "each/c"}, names(q.Limits))
	require.Equal(t, [][]int{{0, 1}, {0, 2}, {0, 3}}, q.Call.AnyOf)
	require.Equal(t, []binding.Option{scope("key", "c")}, a.ScopesBy(2))

	again, q2, err := ask()
	require.NoError(t, err)
	require.Same(t, &q.Limits[0], &q2.Limits[0], "usual calls are bound once")
	require.Equal(t, []binding.Option{scope("key", "b")}, again.ScopesBy(1))

	a, q, err = ask(binding.Option{Kind: binding.Cost, N: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"all/", "each/a", "each/c"}, names(q.Limits), "b never admits it")
	require.Equal(t, [][]int{{0, 1}, {0, 2}}, q.Call.AnyOf)
	require.Equal(t, []binding.Option{scope("key", "c")}, a.ScopesBy(1))
	_, _, err = ask(binding.Option{Kind: binding.Cost, N: 6})
	require.EqualError(t, err, "all: 6, 1m0s", "nobody admits it")

	r.Policies.Declare([]policies.Policy{rate("each").Per("key")})
	_, q, err = ask()
	require.NoError(t, err)
	require.Equal(t, []string{"each/a", "each/b", "each/c"}, names(q.Limits), "other policies hold")
	r.Policies.Declare([]policies.Policy{rate("each").Per("key").Fair("tenant")})
	_, _, err = ask()
	require.ErrorContains(t, err, "Pool is impossible: ")
	window := policies.Daily(100, time.UTC).Per("key")
	for i := range 18 {
		window = window.Reserve(fmt.Sprint("party", i), 1)
	}
	r.Policies.Declare([]policies.Policy{window})
	_, _, err = ask()
	require.ErrorContains(t, err, `Pool is with 57 limits: at most 52`)
	var windows []policies.Policy
	for i := range 4 {
		one := policies.Daily(100, time.UTC).Named(fmt.Sprint("day", i))
		for j := range 14 {
			one = one.Reserve(fmt.Sprint("party", j), 1)
		}
		windows = append(windows, one)
	}
	require.NoError(t, binding.Check("Policies", windows[:3]))
	require.ErrorContains(t, binding.Check("Policies", windows), `Policies is with 60 limits: at most 52`)
}

// A call that sticks to a credential has only its limits, while it is neither left nor paused.
func TestPooledCallsThatStick(t *testing.T) {
	t.Parallel()
	r := newReader(t, rate("each").Per("key"))
	l := newPool("key")
	ctx := l.Stick(t.Context())
	ask := func() dispatch.Request {
		a, err := r.Call(ctx, nil)
		require.NoError(t, err)
		r.ByAnyOrStick(ctx, &a, l)
		q, err := r.Request(&a, nil, nil)
		require.NoError(t, err)
		return q
	}
	require.Len(t, ask().Limits, 3)
	l.Pick("b", l.StickOf(ctx))
	q := ask()
	require.Equal(t, []string{"each/b"}, names(q.Limits))
	require.Nil(t, q.Call.AnyOf)
	l.Leave("b", time.Hour)
	require.Len(t, ask().Limits, 3)
}

// Scopes that a call carries already are the only ones that the pool fills in.
func TestAPoolOfSeveralScopes(t *testing.T) {
	t.Parallel()
	r := newReader(t, rate("k").Per("key").Optional(), rate("u").Per("user").Optional())
	l := newPool("key", "user")
	for want, carried := range map[string][]binding.Option{"k/a u/a": nil, "u/a": {scope("user", "?")}} {
		a, err := r.Call(t.Context(), carried)
		require.NoError(t, err)
		a.ByAny(l)
		q, err := r.Request(&a, nil, nil)
		require.NoError(t, err)
		var first []string
		for _, i := range q.Call.AnyOf[0] {
			first = append(first, names(q.Limits[i:i+1])...)
		}
		require.Equal(t, want, strings.Join(first, " "))
	}
}

// The choice is random by weight: the store begins with it. The bounds are ten standard deviations away.
func TestTheFirstChoice(t *testing.T) {
	t.Parallel()
	r := newReader(t, rate("each").Per("key"))
	l := newPool("key")
	for name, opts := range map[string][]binding.Option{"usual": nil, "unusual": {{Kind: binding.Cost, N: 2}}} {
		n := make([]int, 3)
		for range 2000 {
			a, err := r.Call(t.Context(), opts)
			require.NoError(t, err)
			a.ByAny(l)
			q, err := r.Request(&a, nil, nil)
			require.NoError(t, err)
			n[q.Call.First]++
		}
		require.InDelta(t, 500, n[0], 195, name)
		require.InDelta(t, 500, n[1], 195, name)
		require.InDelta(t, 1000, n[2], 225, name)
	}
}
