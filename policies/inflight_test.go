package policies_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

func TestSpecsOfWhatIsNotGivenFarAhead(t *testing.T) {
	t.Parallel()
	part := func(p policies.Policy, lane string) policies.Policy {
		own, ok := p.InLane(lane)
		require.True(t, ok)
		return own
	}
	for _, c := range []struct {
		policy policies.Policy
		name   string
		want   specs.Spec
	}{
		{policies.InFlight(25), "in-flight", specs.Spec{Algorithm: specs.Concurrency, Limit: 25, Interval: 15_000_000}},
		{
			policies.InFlight(25).LongerThan(20 * time.Second).Lease(time.Minute).Skew(time.Millisecond).Per("org"), "in-flight.org",
			specs.Spec{Algorithm: specs.Concurrency, Limit: 25, Interval: 60_000_000, After: 20_000_000, Guard: 1000},
		},
		{
			policies.InFlight(4).Fair("user"), "in-flight",
			specs.Spec{Algorithm: specs.Concurrency, Limit: 4, Interval: 15_000_000, Queue: specs.FairQueue},
		},
		{
			policies.PerSecond(100).Burst(10).Fair("tenant"), "per-second",
			specs.Spec{Algorithm: specs.GCRA, Limit: 10, Interval: 10_000, Queue: specs.FairQueue},
		},
		{policies.PerSecond(100).Burst(10).Lane("batch", 80), "per-second", specs.Spec{Algorithm: specs.GCRA, Limit: 10, Interval: 10_000}},
		{
			part(policies.PerSecond(100).Burst(10).Lane("batch", 80), "batch"), "per-second.batch",
			specs.Spec{Algorithm: specs.GCRA, Limit: 8, Interval: 12_500, Queue: specs.QueueOfLane},
		},
		{
			part(policies.PerSecond(100).Burst(2).Lane("low", 10).Lane("batch", 33).Per("tenant"), "batch"), "per-second.tenant.batch",
			specs.Spec{Algorithm: specs.GCRA, Limit: 1, Interval: 30_304, Queue: specs.QueueOfLane},
		},
		{
			part(policies.AtMost(50, time.Second).Burst(10).Lane("batch", 50), "batch"), "at-most-1s.batch",
			specs.Spec{Algorithm: specs.GCRA, Limit: 5, Interval: 40_400, Queue: specs.QueueOfLane},
		},
		{
			part(policies.Sliding(120, time.Minute).Lane("batch", 80).Named("minute"), "batch"), "minute.batch",
			specs.Spec{Algorithm: specs.Window, Limit: 96, Interval: 600_000, Buckets: 100},
		},
	} {
		require.NoError(t, c.policy.Validate(), "%v", c.policy)
		require.Equal(t, c.name, c.policy.Name())
		require.Equal(t, c.want, c.policy.Spec(), "%v", c.policy)
	}
	require.NoError(t, part(policies.Every(time.Hour).Burst(87_600).Lane("batch", 1), "batch").Validate(), "its burst is 876")
	_, ok := policies.PerSecond(9).Burst(2).Lane("all", 100).InLane("all")
	require.False(t, ok, "who may use everything needs no policy of its own")
	_, ok = policies.PerSecond(9).InLane("batch")
	require.False(t, ok)
	require.Equal(t, "tenant", policies.PerSecond(9).Fair("tenant").FairBy())
	kept := policies.PerSecond(9).Reserve("support", 30)
	for party, want := range map[string]int64{"support": 300, "": 700} {
		require.Equal(t, want, kept.Weight(party))
	}
}

func TestMistakesOfWhatIsNotGivenFarAhead(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]policies.Policy{
		`Limit is 0: must be at least 1`:                                                        policies.InFlight(0),
		`Lease is 1ms: must be from one second to an hour`:                                      policies.InFlight(1).Lease(time.Millisecond),
		`Lease is 1m0s: only InFlight has leases`:                                               policies.PerSecond(1).Lease(time.Minute),
		`LongerThan is -1s: must be from 0 to an hour`:                                          policies.InFlight(1).LongerThan(-time.Second),
		`LongerThan is 1s: only InFlight counts calls by how long they run`:                     policies.Every(1).LongerThan(time.Second),
		`Burst is 2: only rates, Fixed and calendar windows have a burst`:                       policies.InFlight(1).Burst(2),
		`Lane is "a": an in-flight policy has no lanes`:                                         policies.InFlight(9).Lane("a", 50),
		`Lane a is 0 %: must be from 1 to 100 per cent of the policy`:                           policies.PerSecond(9).Burst(2).Lane("a", 0),
		`Lane is "a": has a share already`:                                                      policies.PerSecond(9).Burst(2).Lane("a", 10).Lane("a", 20),
		`Lane is "/x": must start with a letter or digit`:                                       policies.PerSecond(9).Burst(2).Lane("/x", 10),
		`Lane a is a part of a rate with a burst of 1: what a lane leaves free can only be`:     policies.PerSecond(9).Burst(1).Lane("a", 10),
		`Lane a is 10 %: is less than one call: raise the limit or the share`:                   policies.Daily(9, time.UTC).Lane("a", 10),
		`Adaptive of lane a is 1h40m0s: between two calls is too slow to adapt: at most 1h0m0s`: policies.Every(10*time.Minute).Burst(2).Lane("a", 10).Adaptive(policies.Adaptation{}),
		`Fair is "x": only rates and InFlight are shared out: stack a fair rate with the wi`:    policies.Daily(9, time.UTC).Fair("x"),
		`Fair is "": must be the name of a scope`:                                               policies.PerSecond(9).Fair(""),
		`Fair is "tenant": does not go with lanes in one policy`:                                policies.PerSecond(9).Burst(2).Lane("a", 50).Fair("tenant"),
		`Fair is "tenant": is a scope of the policy`:                                            policies.PerSecond(9).Fair("tenant").Per("tenant"),
		`Adaptive is in-flight: only rates adapt`:                                               policies.InFlight(9).Adaptive(policies.Adaptation{}),
	} {
		require.ErrorContains(t, p.Validate(), want)
	}
}

// The shares of n processes together keep the whole policy, for lanes and permits as for the rest.
func TestSharesOfWhatIsNotGivenFarAhead(t *testing.T) {
	t.Parallel()
	require.Equal(t, int64(6), policies.InFlight(25).Share(4).Limit)
	require.Equal(t, int64(0), policies.InFlight(3).Share(4).Limit)
	part, _ := policies.PerSecond(100).Burst(10).Lane("batch", 80).InLane("batch")
	require.Equal(t, int64(50_000), part.Share(4).Interval)
	part, _ = policies.AtMost(100, time.Second).Burst(10).Lane("batch", 50).InLane("batch")
	require.GreaterOrEqual(t, part.Share(4).Interval, 4*part.Spec().Interval)
}
