//go:build measure

package simulate_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
)

// requireConformance judges what is true of a fleet on any machine: calls went, none before its slot, and each policy holds
// for the slots.
func requireConformance(t *testing.T, all []policies.Policy, reported []reported) {
	t.Helper()
	var calls []went
	for _, one := range reported {
		require.Zero(t, one.Alone, "a process lost the store")
		for _, c := range one.Went {
			require.GreaterOrEqual(t, c.At+one.Drift, c.Slot, "a call went before its slot")
		}
		calls = append(calls, one.Went...)
	}
	require.NotEmpty(t, calls, "no call went")
	for _, p := range all {
		require.Empty(t, broken(p, calls), "%v", p)
	}
}

// broken judges the calls that a policy of this file counts together: all of them, or those of each tenant. A delay beyond the slack is the
// machine's lateness: the call counts as if it had gone at the latest instant that was promised.
func broken(p policies.Policy, calls []went) string {
	times := make(map[string][]int64)
	for _, c := range calls {
		key := ""
		if len(p.Scopes()) > 0 {
			key = c.Tenant
		}
		times[key] = append(times[key], min(c.At, c.Slot+c.Slack))
	}
	limit, period := p.Limit()
	window := limit * p.Spec().Interval // the period, and what its skew adds
	if window < period.Microseconds() {
		return fmt.Sprintf("it has a call each %d µs", p.Spec().Interval)
	}
	for key, at := range times {
		slices.Sort(at)
		for i := range at {
			if j := i + int(limit); j < len(at) && at[j]-at[i] < window {
				return fmt.Sprintf("%s: more than %d calls in %d µs from %d on", key, limit, at[j]-at[i], at[i])
			}
		}
	}
	return ""
}
