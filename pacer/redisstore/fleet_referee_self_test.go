package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// on returns calls of a tenant that the store granted, at the ms of these slots.
func on(tenant string, ms ...int64) (calls []outing) {
	for _, at := range ms {
		calls = append(calls, outing{Tenant: tenant, Granted: 1, Slot: at * 1000, At: at * 1000})
	}
	return calls
}

// The referee finds each kind of violation, and nothing where there is none: the last call of each list is the one too many.
func TestTheRefereeFindsEachViolation(t *testing.T) {
	t.Parallel()
	second := time.Second
	for name, c := range map[string]struct {
		rule  rule
		calls []outing
	}{
		"a window anywhere":         {rule{kind: anyWindow, n: 3, period: second}, on("", 0, 600, 900, 1600, 1899, 1800)},
		"its very last microsecond": {rule{kind: anyWindow, n: 1, period: second}, []outing{{Granted: 1}, {Granted: 1, Slot: 999_999, At: 999_999}}},
		"a window of the clock":     {rule{kind: clockWindow, n: 2, period: second}, on("", 998, 999, 1000, 1001, 1999)},
		"a rate":                    {rule{kind: evenly, n: 10, period: second, burst: 1}, on("", 0, 100, 200, 299)},
		"a rate with a burst":       {rule{kind: evenly, n: 10, period: second, burst: 3}, on("", 0, 0, 0, 100, 200, 200)},
		"a burst in the middle":     {rule{kind: evenly, n: 10, period: second, burst: 2}, on("", 0, 500, 500, 600, 699)},
		"a tenant":                  {rule{kind: anyWindow, n: 1, period: second, perTenant: true}, append(on("a", 0), append(on("b", 0), on("a", 500)...)...)},
	} {
		require.NotEmpty(t, referee(c.calls, c.rule), name)
		require.Empty(t, referee(c.calls[:len(c.calls)-1], c.rule), name)
	}
}

// A delay beyond a call's slack is the machine's lateness; a start before its slot never is.
func TestTheRefereeKnowsWhoIsToBlame(t *testing.T) {
	t.Parallel()
	one := rule{kind: anyWindow, n: 1, period: time.Second}
	calls := []outing{{Granted: 1, Slot: 0, Slack: 100, At: 900_000}, {Granted: 1, Slot: 1_000_100, At: 1_000_100}}
	require.Empty(t, referee(calls, one), "a timer was late")
	calls[0].Slack = 900_000
	require.NotEmpty(t, referee(calls, one), "it may go so late, so the next must be later")
	calls[1].Slot, calls[1].At = 2_000_000, 1_999_999
	require.Len(t, referee(calls, one), 1, "it went before its slot")
}

// A process that paces locally has its share, and each epoch of a store stands for itself.
func TestTheRefereeJudgesLocalProcesses(t *testing.T) {
	t.Parallel()
	limit := rule{kind: anyWindow, n: 2 * fleetSize, period: time.Second}
	var calls []outing
	for process := range fleetSize {
		for i := range int64(2) {
			calls = append(calls, outing{Slot: 1000 + i, At: 1000 + i, process: process})
		}
	}
	for range 2 * fleetSize {
		calls = append(calls, outing{Granted: 10, Slot: 10, At: 10}, outing{Granted: 20, Slot: 20, At: 20})
	}
	require.Empty(t, refereeOfEpochs(calls, []int64{15}, limit))
	require.NotEmpty(t, refereeOfEpochs(calls, nil, limit), "one epoch has the limit once")
	require.NotEmpty(t, refereeOfEpochs(append(calls, outing{Slot: 1002, At: 1002}), []int64{15}, limit), "more than its share")
	rate := rule{kind: evenly, n: 10 * fleetSize, period: time.Second, burst: fleetSize}
	require.Empty(t, refereeOfEpochs([]outing{{Slot: 0, At: 0}, {Slot: 100_000, At: 100_000}}, nil, rate))
	require.NotEmpty(t, refereeOfEpochs([]outing{{Slot: 0, At: 0}, {Slot: 99_999, At: 99_999}}, nil, rate))
}
