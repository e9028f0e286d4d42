package policies_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

func TestSpecs(t *testing.T) {
	t.Parallel()
	const us = time.Microsecond
	for _, c := range []struct {
		policy policies.Policy
		want   specs.Spec
	}{
		{policies.PerSecond(25), specs.Spec{Algorithm: specs.GCRA, Limit: 1, Interval: 40_000}},
		{policies.PerSecond(25).Burst(10), specs.Spec{Algorithm: specs.GCRA, Limit: 10, Interval: 40_000}},
		{policies.PerSecond(3), specs.Spec{Algorithm: specs.GCRA, Limit: 1, Interval: 333_334}},
		{policies.PerMinute(120), specs.Spec{Algorithm: specs.GCRA, Limit: 1, Interval: 500_000}},
		{policies.Rate(90, time.Minute), specs.Spec{Algorithm: specs.GCRA, Limit: 1, Interval: 666_667}},
		{policies.Every(1500 * time.Millisecond), specs.Spec{Algorithm: specs.GCRA, Limit: 1, Interval: 1_500_000}},
		{policies.Every(time.Second + time.Nanosecond), specs.Spec{Algorithm: specs.GCRA, Limit: 1, Interval: 1_000_001}},
		{policies.AtMost(50, time.Second), specs.Spec{Algorithm: specs.GCRA, Limit: 1, Interval: 20_200}},
		{policies.AtMost(50, time.Second).Burst(10), specs.Spec{Algorithm: specs.GCRA, Limit: 10, Interval: 20_200, Most: 50, Within: 1_010_000}},
		{policies.AtMost(256, time.Second).Burst(2).Skew(0), specs.Spec{Algorithm: specs.GCRA, Limit: 2, Interval: 3907, Most: 256, Within: 1_000_000}},
		{policies.AtMost(257, time.Second).Burst(2).Skew(0), specs.Spec{Algorithm: specs.GCRA, Limit: 2, Interval: 3907}},
		{policies.AtMost(5, time.Second).Skew(0), specs.Spec{Algorithm: specs.GCRA, Limit: 1, Interval: 200_000}},
		{policies.AtMost(5, time.Second).Burst(5).Skew(us), specs.Spec{Algorithm: specs.GCRA, Limit: 5, Interval: 200_001, Most: 5, Within: 1_000_001}},
		{policies.Fixed(300, 10*time.Second).Skew(50 * time.Millisecond), specs.Spec{Algorithm: specs.Window, Limit: 300, Interval: 10_000_000, Guard: 50_000}},
		{policies.Sliding(120, time.Minute), specs.Spec{Algorithm: specs.Window, Limit: 120, Interval: 600_000, Buckets: 100}},
		{policies.Sliding(120, time.Minute).Buckets(7).Skew(time.Millisecond), specs.Spec{Algorithm: specs.Window, Limit: 120, Interval: 8_571_572, Buckets: 7}},
	} {
		require.NoError(t, c.policy.Validate(), "%v", c.policy)
		require.Equal(t, c.want, c.policy.Spec(), "%v", c.policy)
	}
}

// AtMost promises that n+1 calls span more than the period, whatever the burst and the skew: because the store counts, or,
// where it does not, by arithmetic.
func TestAtMostHoldsByArithmetic(t *testing.T) {
	t.Parallel()
	limits := []int64{specs.MaxExact, specs.MaxExact + 1, 1000}
	for n := int64(1); n <= 40; n++ {
		limits = append(limits, n)
	}
	for _, n := range limits {
		for b := int64(1); b <= min(n, 40); b++ {
			for _, skew := range []time.Duration{0, time.Millisecond, 333 * time.Millisecond} {
				s := policies.AtMost(n, time.Second).Burst(b).Skew(skew).Spec()
				if b > 1 && n <= specs.MaxExact {
					require.Equal(t, n, s.Most)
					require.Equal(t, (time.Second + skew).Microseconds(), s.Within)
					require.GreaterOrEqual(t, n*s.Interval, s.Within)
					continue
				}
				require.Zero(t, s.Most)
				// n+1 cells within Δ need n·T ≤ Δ + τ.
				require.GreaterOrEqual(t, n*s.Interval-s.Tolerance(), (time.Second + skew).Microseconds())
			}
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]policies.Policy{
		"per-second":              policies.PerSecond(25),
		"per-second.tenant":       policies.PerSecond(25).Per("tenant"),
		"per-minute":              policies.PerMinute(2),
		"every-1.5s":              policies.Every(1500 * time.Millisecond),
		"rate-1h":                 policies.Rate(5, time.Hour),
		"at-most-10m.user.ticket": policies.AtMost(30, 10*time.Minute).Per("user", "ticket"),
		"fixed-10s":               policies.Fixed(300, 10*time.Second),
		"sliding-1m":              policies.Sliding(120, time.Minute),
		"hourly":                  policies.Hourly(1, time.UTC),
		"daily":                   policies.Daily(1, time.UTC),
		"monthly":                 policies.Monthly(1, time.UTC),
		"every-500us":             policies.Every(500 * time.Microsecond),
		"mine":                    policies.Daily(1, time.UTC).Per("x").Named("mine"),
	} {
		require.NoError(t, p.Validate())
		require.Equal(t, want, p.Name())
		require.Contains(t, p.String(), want+": ")
	}
}

func TestBadPolicies(t *testing.T) {
	t.Parallel()
	nowhere, err := time.LoadLocation("Nowhere/Atall")
	require.Error(t, err)
	for name, c := range map[string]struct {
		policy policies.Policy
		field  string
	}{
		"zero value":          {policies.Policy{}, "Policy"},
		"zero value, named":   {policies.Policy{}.Named("x"), "Policy"},
		"rate of 0":           {policies.PerSecond(0), "Limit"},
		"negative rate":       {policies.PerMinute(-5), "Limit"},
		"beyond 1 per µs":     {policies.PerSecond(1_000_001), "Limit"},
		"absurd limit":        {policies.Daily(math.MaxInt64, time.UTC), "Limit"},
		"every 0":             {policies.Every(0), "Period"},
		"every -1s":           {policies.Every(-time.Second), "Period"},
		"every 1ns":           {policies.Every(1), "Period"},
		"period of 100 years": {policies.Fixed(1, 100*365*24*time.Hour), "Period"},
		"burst of 0":          {policies.PerSecond(1).Burst(0), "Burst"},
		"negative burst":      {policies.PerSecond(1).Burst(-1), "Burst"},
		"burst of ages":       {policies.Every(time.Hour).Burst(math.MaxInt64), "Burst"},
		"burst over limit":    {policies.AtMost(5, time.Second).Burst(6), "Burst"},
		"burst of a window":   {policies.Fixed(1, time.Second).Burst(2), "Burst"},
		"skew of a rate":      {policies.PerSecond(1).Skew(1), "Skew"},
		"negative skew":       {policies.AtMost(1, time.Second).Skew(-1), "Skew"},
		"skew of hours":       {policies.AtMost(1, time.Second).Skew(time.Hour), "Skew"},
		"skew eats window":    {policies.Fixed(1, time.Second).Skew(time.Second), "Skew"},
		"buckets of a rate":   {policies.PerSecond(1).Buckets(2), "Buckets"},
		"no buckets":          {policies.Sliding(1, time.Second).Buckets(0), "Buckets"},
		"many buckets":        {policies.Sliding(1, time.Second).Buckets(101), "Buckets"},
		"unknown time zone":   {policies.Daily(1, nowhere), "Location"},
		"nil time zone":       {policies.Hourly(1, nil), "Location"},
		"empty name":          {policies.PerSecond(1).Named(""), "Name"},
		"hostile name":        {policies.PerSecond(1).Named("a:b"), "Name"},
		"name with brace":     {policies.PerSecond(1).Named("{a}"), "Name"},
		"long name":           {policies.PerSecond(1).Named(string(make([]byte, 65))), "Name"},
		"no scopes":           {policies.PerSecond(1).Per(), "Scopes"},
		"bad scope":           {policies.PerSecond(1).Per("a b").Named("x"), "Scope"},
		"bad scope in name":   {policies.PerSecond(1).Per("a b"), "Scope"},
		"same scope twice":    {policies.PerSecond(1).Per("a", "a"), "Scope"},
		"nine scopes":         {policies.PerSecond(1).Per("a", "b", "c", "d", "e", "f", "g", "h", "i"), "Scopes"},
		"optional, no scope":  {policies.PerSecond(1).Optional(), "Optional"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.policy.Validate()
			var pe *policies.Error
			require.ErrorAs(t, err, &pe)
			require.Equal(t, c.field, pe.Field, "%v", err)
			require.NotEmpty(t, pe.Reason)
		})
	}
}

// A builder returns a copy: policies can be shared as templates.
func TestBuildersCopy(t *testing.T) {
	t.Parallel()
	scopes := []string{"tenant"}
	base := policies.PerSecond(10)
	scoped := base.Per(scopes...)
	scopes[0] = "changed"
	scoped.Scopes()[0] = "changed"
	require.Equal(t, []string{"tenant"}, scoped.Scopes())
	require.Empty(t, base.Scopes())
	require.Equal(t, int64(1), base.Spec().Limit)
	require.Equal(t, int64(7), base.Burst(7).Spec().Limit)
}
