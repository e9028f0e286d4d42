package policies_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

func TestShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy   policies.Policy
		n        int
		limit    int64
		interval time.Duration
	}{
		{policies.PerSecond(50), 1, 1, 20 * time.Millisecond},
		{policies.PerSecond(50), 0, 1, 20 * time.Millisecond},
		{policies.PerSecond(50), 4, 1, 80 * time.Millisecond},
		{policies.PerSecond(50).Burst(10), 4, 2, 80 * time.Millisecond},
		{policies.AtMost(50, time.Second), 4, 1, (1010*time.Millisecond + 11*time.Microsecond) / 12},
		{policies.AtMost(50, time.Second).Burst(8), 4, 2, (1010*time.Millisecond + 11*time.Microsecond) / 12},
		{policies.AtMost(3000, time.Second).Burst(8), 4, 2, (1010 * time.Millisecond) / 749},
		{policies.AtMost(2, time.Second), 4, 1, 2020 * time.Millisecond},
		{policies.Fixed(10, time.Second), 4, 2, time.Second},
		{policies.Sliding(3, time.Second), 4, 1, 10 * time.Millisecond},
		{policies.Daily(1000, time.UTC), 3, 333, 24 * time.Hour},
		{policies.Every(specs.MaxPeriod), 4, 1, specs.MaxPeriod},
	} {
		s := c.policy.Share(c.n)
		require.Equal(t, c.limit, s.Limit, "%v among %d", c.policy, c.n)
		require.InDelta(t, c.interval.Microseconds(), s.Interval, 1, "%v among %d", c.policy, c.n)
		require.Equal(t, c.policy.Spec().Algorithm, s.Algorithm)
		require.Equal(t, c.policy.Spec().Calendar, s.Calendar)
	}
}

// Whatever n processes do on their shares of a strict policy, no period holds more than its limit.
func TestSharesOfAStrictPolicyKeepItTogether(t *testing.T) {
	t.Parallel()
	for limit := int64(1); limit <= 60; limit++ {
		for n := 1; int64(n) <= limit; n++ {
			for burst := int64(1); burst <= limit; burst += 3 {
				s := policies.AtMost(limit, time.Second).Burst(burst).Share(n)
				if s.Most > 0 {
					require.LessOrEqual(t, s.Most*int64(n), limit, "%d per second, burst %d, among %d", limit, burst, n)
					continue
				}
				// A rate of interval T and burst B lets ⌊(P + τ)/T⌋ + 1 calls into a period P, with τ = (B−1)·T.
				each := (time.Second.Microseconds()+s.Tolerance())/s.Interval + 1
				require.LessOrEqual(t, each*int64(n), limit, "%d per second, burst %d, among %d", limit, burst, n)
			}
		}
	}
}
