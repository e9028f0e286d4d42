package policies_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// A key has the numbers of its override, and everything else of the policy.
func TestOverride(t *testing.T) {
	t.Parallel()
	berlin := zone(t, "Europe/Berlin")
	for _, c := range []struct{ p, with, want policies.Policy }{
		{
			policies.PerSecond(5).Burst(3).Per("tenant"), policies.AtMost(50, time.Second).Burst(10).Skew(time.Millisecond),
			policies.AtMost(50, time.Second).Burst(10).Skew(time.Millisecond).Per("tenant").Named("per-second.tenant"),
		},
		{
			policies.PerSecond(5).Per("tenant").Optional().Named("plan").Adaptive(policies.Adaptation{}).Lane("batch", 50), policies.PerMinute(60),
			policies.PerMinute(60).Per("tenant").Optional().Named("plan").Lane("batch", 50),
		},
		{
			policies.PerSecond(5).Per("tenant").Fair("user").Observed(), policies.PerSecond(9).Adaptive(policies.Adaptation{Floor: 5}),
			policies.PerSecond(9).Adaptive(policies.Adaptation{Floor: 5}).Per("tenant").Fair("user").Observed(),
		},
		{
			policies.Daily(100, time.UTC).Per("tenant").Skew(time.Second), policies.Monthly(9, berlin),
			policies.Monthly(9, berlin).Per("tenant").Named("daily.tenant"),
		},
		{
			policies.Sliding(100, time.Minute).Per("tenant"), policies.Sliding(9, time.Hour).Buckets(7),
			policies.Sliding(9, time.Hour).Buckets(7).Per("tenant").Named("sliding-1m.tenant"),
		},
		{
			policies.InFlight(5).Per("tenant"), policies.InFlight(7).LongerThan(time.Second).Lease(time.Minute),
			policies.InFlight(7).LongerThan(time.Second).Lease(time.Minute).Per("tenant"),
		},
	} {
		p := c.p.Override(c.with, "acme")
		require.True(t, p.HasOverrides())
		require.False(t, c.p.HasOverrides(), "the policy itself is not changed")
		require.NoError(t, p.Validate())
		require.NoError(t, same(c.p, p), "what a policy says of itself is its own")

		got, err := p.For("acme")
		require.NoError(t, err)
		require.NoError(t, same(c.want, got))
		require.False(t, got.HasOverrides())
		other, err := p.For("globex")
		require.NoError(t, err)
		require.NoError(t, same(c.p, other))
		require.False(t, other.HasOverrides())

		by := c.p.OverrideBy(func(values []string) (policies.Policy, bool) { return c.with, values[0] == "acme" })
		require.NoError(t, by.Validate())
		got, err = by.For("acme")
		require.NoError(t, err)
		require.NoError(t, same(c.want, got))
		other, err = by.For("globex")
		require.NoError(t, err)
		require.NoError(t, same(c.p, other))
	}
}

// Each method changes a copy: policies made from one another do not have each other's keys.
func TestOverridesAreCopies(t *testing.T) {
	t.Parallel()
	limit := func(p policies.Policy, values ...string) int64 {
		q, err := p.For(values...)
		require.NoError(t, err)
		n, _ := q.Limit()
		return n
	}
	values := []string{"acme", "7"}
	base := policies.PerSecond(1).Per("tenant", "user").Override(policies.PerSecond(2), values...)
	values[0] = "changed"
	a, b := base.Override(policies.PerSecond(3), "globex", "7"), base.Override(policies.PerSecond(4), "globex", "7")
	for p, want := range map[*policies.Policy][3]int64{&base: {2, 1, 1}, &a: {2, 3, 1}, &b: {2, 4, 1}} {
		require.NoError(t, p.Validate())
		require.Equal(t, want, [3]int64{limit(*p, "acme", "7"), limit(*p, "globex", "7"), limit(*p, "changed", "7")})
	}
}

// The function is called for the keys that have no override, also after others were added.
func TestOverrideByIsForTheOthers(t *testing.T) {
	t.Parallel()
	var requested []string
	p := policies.PerSecond(1).Per("tenant").Override(policies.PerSecond(2), "acme").
		OverrideBy(func([]string) (policies.Policy, bool) { panic("the last one counts") }).
		OverrideBy(func(values []string) (policies.Policy, bool) {
			requested = append(requested, values...)
			return policies.PerSecond(3), true
		}).Override(policies.PerSecond(4), "globex")
	require.NoError(t, p.Validate())
	for tenant, want := range map[string]int64{"acme": 2, "globex": 4, "other": 3} {
		q, err := p.For(tenant)
		require.NoError(t, err)
		n, _ := q.Limit()
		require.Equal(t, want, n, tenant)
	}
	require.Equal(t, []string{"other"}, requested)
}

// A burst that is not set depends on the stack, for a key as for the policy.
func TestOverridesInAStack(t *testing.T) {
	t.Parallel()
	p := policies.PerSecond(5).Burst(9).Per("tenant").Override(policies.PerSecond(50), "a").Override(policies.PerSecond(50).Burst(1), "b").
		Override(policies.Rate(1, specs.MaxPeriod), "c")
	alone := policies.Stacked([]policies.Policy{p})[0]
	shared := policies.Stacked([]policies.Policy{p, policies.PerSecond(1).Per("user")})[0]
	require.NoError(t, shared.Validate())
	for i, want := range [][2]int64{{1, 2}, {1, 1}, {1, 1}} {
		key := string(rune('a' + i))
		q, err := alone.For(key)
		require.NoError(t, err)
		require.Equal(t, want[0], q.Spec().Limit, key)
		q, err = shared.For(key)
		require.NoError(t, err)
		require.Equal(t, want[1], q.Spec().Limit, key)
	}
}

// A lane has its part of a key's numbers.
func TestOverridesOfLanes(t *testing.T) {
	t.Parallel()
	p := policies.Daily(100, time.UTC).Per("tenant").Lane("batch", 80).Override(policies.Daily(1000, time.UTC), "acme")
	part, ok := p.InLane("batch")
	require.True(t, ok)
	q, err := part.For("acme")
	require.NoError(t, err)
	require.Equal(t, "daily.tenant.batch", q.Name())
	require.Equal(t, int64(800), q.Spec().Limit)
	whole, err := p.For("acme")
	require.NoError(t, err)
	again, ok := whole.InLane("batch")
	require.True(t, ok)
	require.NoError(t, same(again, q))

	few := func([]string) (policies.Policy, bool) { return policies.PerSecond(9).Burst(1), true }
	part, ok = policies.PerSecond(5).Burst(5).Per("tenant").Lane("batch", 80).OverrideBy(few).InLane("batch")
	require.True(t, ok)
	q, err = part.For("acme")
	require.ErrorContains(t, err, "a part of a rate with a burst of 1")
	require.Equal(t, int64(4), q.Spec().Limit, "the policy's own numbers")
}

// Share and Lowered of a key's policy are made from the key's numbers.
func TestOverridesAreLoweredAndShared(t *testing.T) {
	t.Parallel()
	q, err := policies.AtMost(9, time.Second).Per("tenant").Override(policies.AtMost(100, time.Second).Burst(10), "acme").For("acme")
	require.NoError(t, err)
	plainly := policies.AtMost(100, time.Second).Burst(10)
	require.Equal(t, plainly.Share(4), q.Share(4))
	require.Equal(t, plainly.Lowered(20).Spec(), q.Lowered(20).Spec())
	require.Equal(t, plainly.Margin(), q.Margin())
}

func TestOverridesThatDoNotFit(t *testing.T) {
	t.Parallel()
	p, w, f := policies.PerSecond(5).Per("tenant"), policies.Sliding(5, time.Minute).Per("a", "b"), policies.InFlight(5).Per("tenant")
	for want, bad := range map[string]policies.Policy{
		`policy "per-second": Overrides is given: a policy of the whole upstream has no keys: add Per`: policies.PerSecond(5).Override(policies.PerSecond(1), "acme"),
		`OverrideBy is nil: give a function`:                                                       p.OverrideBy(nil),
		`Override is for "x", "y": must have a value for each scope, in this order: tenant`:        p.Override(policies.PerSecond(1), "x", "y"),
		`Override is for "x": must have a value for each scope, in this order: a, b`:               w.Override(policies.Sliding(1, time.Hour), "x"),
		`Override is for no values: must have a value for each scope`:                              p.Override(policies.PerSecond(1)),
		`Override is for "": has an empty value`:                                                   p.Override(policies.PerSecond(1), ""),
		`Override is for "acme": is given twice: leave one of them out`:                            p.Override(policies.PerSecond(1), "acme").Override(policies.PerSecond(2), "b").Override(policies.PerSecond(2), "acme"),
		`Override for "acme" is "gold": must have no name: it is the policy's`:                     p.Override(policies.PerSecond(1).Named("gold"), "acme"),
		`must not be observed: set that on the policy itself`:                                      p.Override(policies.PerSecond(1).Observed(), "acme"),
		`must have no scopes: they are the policy's`:                                               p.Override(policies.PerSecond(1).Per("tenant"), "acme"),
		`is per-second: 1 per 1s, burst 2, 50 % for lane a: must have no lanes`:                    p.Override(policies.PerSecond(1).Burst(2).Lane("a", 50), "acme"),
		`is in-flight: 1 in flight, fair by user: must have no lanes and not be fair by a scope`:   f.Override(policies.InFlight(1).Fair("user"), "acme"),
		`must have no overrides itself`:                                                            p.Override(policies.PerSecond(1).OverrideBy(never), "acme"),
		`Override for "acme" is the zero value: make it with a constructor`:                        p.Override(policies.Policy{}, "acme"),
		`is daily: 1 daily (UTC): must be of the policy's kind: a rate`:                            p.Override(policies.Daily(1, time.UTC), "acme"),
		`is in-flight: 1 in flight: must be of the policy's kind: a window`:                        w.Override(policies.InFlight(1), "x", "y"),
		`is per-second: 1 per 1s: must be of the policy's kind: calls in flight`:                   f.Override(policies.PerSecond(1), "acme"),
		`Override for "acme" Limit is 0: must be at least 1`:                                       p.Override(policies.PerSecond(0), "acme"),
		`Override for "x", "y" Burst is 3: only rates, Fixed and calendar windows have a burst`:    w.Override(policies.Sliding(1, time.Hour).Burst(3), "x", "y"),
		`Override for "acme" Lane batch is a part of a rate with a burst of 1: what a lane leaves`: p.Lane("batch", 50).Override(policies.PerSecond(1).Burst(1), "acme"),
	} {
		err := bad.Validate()
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, new(*policies.Error))
	}
}

func never([]string) (policies.Policy, bool) { return policies.Policy{}, false }

// An error of For comes with the policy's own numbers, and names the key.
func TestForOfWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	p := policies.PerSecond(5).Per("tenant").Named("plan")
	daily := p.OverrideBy(func([]string) (policies.Policy, bool) { return policies.Daily(1, time.UTC), true })
	require.NoError(t, daily.Validate(), "nobody can know before it is asked")
	q, err := daily.For("acme")
	require.EqualError(t, err, `policies: policy "plan": Override for "acme" is daily: 1 daily (UTC): must be of the policy's kind: a rate`)
	require.NoError(t, same(p, q))
	require.False(t, q.HasOverrides())
	for _, values := range [][]string{nil, {"a", "b"}, {""}} {
		q, err = daily.For(values...)
		require.ErrorAs(t, err, new(*policies.Error))
		require.NoError(t, same(p, q))
	}
	_, err = p.For("a", "b")
	require.EqualError(t, err, `policies: policy "plan": Override is for "a", "b": must have a value for each scope, in this order: tenant`)
	_, err = policies.PerSecond(1).For()
	require.NoError(t, err, "the whole upstream has one key")
}

// Different keys are different, however their values are written.
func TestKeysOfOverrides(t *testing.T) {
	t.Parallel()
	p := policies.PerSecond(1).Per("a", "b")
	keys := [][]string{{"x", "y"}, {"xy", "z"}, {"x", "yz"}, {"1:x", "y"}, {"x1:", "y"}, {"x", "1:y"}, {"\x00", "\x00\x00"}, {"\x00\x00", "\x00"}}
	for i, key := range keys {
		p = p.Override(policies.PerSecond(int64(10+i)), key...)
	}
	require.NoError(t, p.Validate())
	for i, key := range keys {
		q, err := p.For(key...)
		require.NoError(t, err)
		n, _ := q.Limit()
		require.Equal(t, int64(10+i), n)
	}
}

// Ten thousand keys are fine, and one more is a mistake. They are looked up by many at once.
func TestManyOverrides(t *testing.T) {
	t.Parallel()
	p := policies.PerSecond(1).Per("tenant")
	for i := range 10_000 {
		p = p.Override(policies.PerSecond(int64(i+2)), strconv.Itoa(i))
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := g; i < 10_000; i += 97 {
				q, err := p.For(strconv.Itoa(i))
				if n, _ := q.Limit(); err != nil || n != int64(i+2) {
					panic(fmt.Sprint(i, n, err))
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, p.Validate())
	require.ErrorContains(t, p.Override(policies.PerSecond(1), "more").Validate(), "Overrides is 10001: must be at most 10000: use OverrideBy")
}

// A text holds no overrides: String leaves them out, and MarshalText returns an error.
func TestOverridesAreNotWritten(t *testing.T) {
	t.Parallel()
	p := policies.PerSecond(5).Per("tenant")
	for _, q := range []policies.Policy{p.Override(policies.PerSecond(1), "acme"), p.OverrideBy(never)} {
		require.NoError(t, roundTrip(q))
		require.NotContains(t, q.String(), "override")
		_, err := q.MarshalText()
		require.EqualError(t, err, `policies: policy "per-second.tenant": Overrides is given: one line cannot hold them: use Lines`)
		key, err := q.For("acme")
		require.NoError(t, err)
		_, err = key.MarshalText()
		require.NoError(t, err)
	}
}
