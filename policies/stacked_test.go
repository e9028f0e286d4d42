package policies_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// A rate whose calls come at uneven times has a burst of 2 by default: calls of different keys share it, or wait for permits.
func TestStacked(t *testing.T) {
	t.Parallel()
	tenant := policies.PerSecond(2).Per("tenant")
	for name, c := range map[string]struct {
		list []policies.Policy
		want []int64 // bursts
	}{
		"a rate alone":               {[]policies.Policy{policies.PerSecond(5)}, []int64{1}},
		"rates of the same calls":    {[]policies.Policy{policies.PerSecond(5), policies.PerMinute(100)}, []int64{1, 1}},
		"tenants share a rate":       {[]policies.Policy{policies.PerSecond(5), tenant}, []int64{2, 1}},
		"in any order":               {[]policies.Policy{tenant, policies.PerMinute(100)}, []int64{1, 2}},
		"Every goes once":            {[]policies.Policy{policies.Every(time.Hour), tenant, policies.InFlight(7)}, []int64{1, 2, 7}},
		"in fair shares, too":        {[]policies.Policy{policies.Every(time.Hour).Fair("tenant")}, []int64{1}},
		"it was given":               {[]policies.Policy{policies.PerSecond(5).Burst(1), policies.PerSecond(6).Burst(7), tenant}, []int64{1, 7, 1}},
		"tenants share a strict one": {[]policies.Policy{policies.AtMost(5, time.Second), tenant}, []int64{2, 1}},
		"of one call":                {[]policies.Policy{policies.AtMost(1, time.Second), tenant}, []int64{1, 1}},
		"each has another scope":     {[]policies.Policy{policies.PerSecond(5).Per("user"), policies.AtMost(9, time.Second).Per("base").Optional()}, []int64{2, 2}},
		"scopes of scopes":           {[]policies.Policy{policies.PerSecond(5).Per("user"), policies.PerSecond(5).Per("endpoint", "user").Named("x")}, []int64{2, 1}},
		"places of a tenant":         {[]policies.Policy{policies.PerSecond(5), policies.InFlight(7).Per("tenant")}, []int64{2, 7}},
		"permits":                    {[]policies.Policy{policies.PerSecond(5), policies.InFlight(7)}, []int64{2, 7}},
		"permits of all tenants":     {[]policies.Policy{tenant, policies.InFlight(7)}, []int64{2, 7}},
		"permits, and a strict rate": {[]policies.Policy{policies.AtMost(5, time.Second), policies.InFlight(7)}, []int64{1, 7}},
		"permits, and it was given":  {[]policies.Policy{policies.PerSecond(5).Burst(1), policies.InFlight(7)}, []int64{1, 7}},
		"permits, one a minute":      {[]policies.Policy{policies.PerMinute(1), policies.InFlight(7)}, []int64{1, 7}},
		"permits are only observed":  {[]policies.Policy{policies.PerSecond(5), policies.InFlight(7).Observed()}, []int64{1, 7}},
		"windows have none":          {[]policies.Policy{policies.Fixed(5, time.Second), policies.Sliding(6, time.Second), tenant}, []int64{5, 6, 1}},
		"fair shares":                {[]policies.Policy{policies.PerSecond(5).Fair("tenant")}, []int64{2}},
		"lanes":                      {[]policies.Policy{policies.AtMost(5, time.Second).Lane("batch", 80)}, []int64{2}},
		"ten years for each call":    {[]policies.Policy{policies.AtMost(2, specs.MaxPeriod), tenant}, []int64{1, 1}},
		"nothing":                    {nil, nil},
	} {
		stacked := policies.Stacked(c.list)
		var bursts []int64
		for i, p := range stacked {
			require.NoError(t, p.Validate(), name)
			require.Equal(t, c.list[i].Name(), p.Name(), name)
			bursts = append(bursts, p.Spec().Limit)
		}
		require.Equal(t, c.want, bursts, name)
		require.Equal(t, stacked, policies.Stacked(stacked), "%s: once is enough", name)
	}
	list := []policies.Policy{policies.PerSecond(5), tenant}
	require.Equal(t, "per-second: 5 per 1s", list[0].String(), "the list itself stays as it is")
	require.Equal(t, "per-second: 5 per 1s, burst 2", policies.Stacked(list)[0].String(), "the default is shown")
}

// An invalid policy stays invalid.
func TestStackedKeepsMistakes(t *testing.T) {
	t.Parallel()
	for _, p := range []policies.Policy{{}, policies.PerSecond(0), policies.PerSecond(5).Burst(0), policies.AtMost(5, -1)} {
		require.Error(t, policies.Stacked([]policies.Policy{p, policies.PerSecond(1).Per("tenant")})[0].Validate())
	}
}

// A burst is written only if it was set, so that each policy is read back as it was.
func TestTheBurstIsWrittenIfItWasGiven(t *testing.T) {
	t.Parallel()
	require.Equal(t, "per-second: 5 per 1s", policies.PerSecond(5).String())
	require.Equal(t, "per-second: 5 per 1s, burst 1", policies.PerSecond(5).Burst(1).String())
	require.Equal(t, "at-most-1s: at most 5 in any 1s, burst 2, skew 10ms", policies.AtMost(5, time.Second).Burst(2).String())
}

// A lowered limit keeps the same account: exact if the policy is exact, and by arithmetic if its limit was too large for that.
func TestLoweredKeepsItsAccount(t *testing.T) {
	t.Parallel()
	exact := policies.AtMost(100, time.Second).Burst(10).Skew(0)
	require.Equal(t, specs.Spec{Algorithm: specs.GCRA, Limit: 10, Interval: 50_000, Most: 20, Within: 1_000_000}, exact.Lowered(20).Spec())
	require.Equal(t, specs.Spec{Algorithm: specs.GCRA, Limit: 1, Interval: 1_000_000}, exact.Lowered(1).Spec())
	large := policies.AtMost(1000, time.Second).Burst(10).Skew(0)
	require.Equal(t, specs.Spec{Algorithm: specs.GCRA, Limit: 10, Interval: 90_910}, large.Lowered(20).Spec())
}
