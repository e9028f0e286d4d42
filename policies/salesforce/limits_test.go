package salesforce_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/salesforce"
	"github.com/headway-go/headway/policies/specs"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	for edition, want := range map[salesforce.Edition]int64{
		salesforce.Developer: 15_000, salesforce.Professional: 150_000, salesforce.Enterprise: 150_000,
		salesforce.Unlimited: 350_000, salesforce.Performance: 350_000, salesforce.Sandbox: 5_000_000,
	} {
		limits := salesforce.Limits(edition, 50)
		profiletest.Limits(t, salesforce.Profile, limits)
		n, period := limits[0].Limit()
		require.Equal(t, want, n)
		require.Equal(t, 24*time.Hour, period)
	}
}

// Calls count once they have run for 20 seconds.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	for edition, want := range map[salesforce.Edition]int64{
		salesforce.Developer: 5, salesforce.Professional: 25, salesforce.Enterprise: 25,
		salesforce.Unlimited: 25, salesforce.Performance: 25, salesforce.Sandbox: 25,
	} {
		limits := salesforce.Limits(edition, 50)
		require.Len(t, limits, 2)
		p := limits[1]
		require.Equal(t, salesforce.Concurrent(want), p)
		require.NoError(t, p.Validate())
		require.Equal(t, salesforce.PolicyConcurrent, p.Name())
		require.Equal(t, limits[0].Scopes(), p.Scopes())
		require.False(t, p.IsOptional())
		spec := p.Spec()
		require.Equal(t, specs.Concurrency, spec.Algorithm)
		require.Equal(t, want, spec.Limit)
		require.Equal(t, (20 * time.Second).Microseconds(), spec.After)
	}
	require.Error(t, salesforce.Concurrent(0).Validate())
	require.Error(t, salesforce.Limits(99, 1)[1].Validate())
}

func TestWhatIsNoPlanIsNoPolicy(t *testing.T) {
	t.Parallel()
	for _, limits := range [][]policies.Policy{
		salesforce.Limits(0, 1), salesforce.Limits(99, 1), salesforce.Limits(salesforce.Enterprise, -1),
		salesforce.Limits(salesforce.Unlimited, math.MaxInt64), {salesforce.Share(100, 0, "batch")}, {salesforce.Share(100, 101, "batch")},
	} {
		require.Error(t, limits[0].Validate())
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	p := salesforce.Share(15_000, 80, "batch")
	require.NoError(t, p.Validate())
	n, _ := p.Limit()
	require.Equal(t, int64(12_000), n)
	require.Equal(t, []string{"org", "batch"}, p.Scopes())
	n, _ = salesforce.Share(specs.MaxLimit, 99, "batch").Limit()
	require.Equal(t, specs.MaxLimit/100*99, n)
}
