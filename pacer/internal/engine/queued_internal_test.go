package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/specs"
)

// A lane's rate is found once, wherever the two are in a stack. A lane without one is a programming error: whatever it were held for
// would let calls go that nobody counts.
func TestRoles(t *testing.T) {
	t.Parallel()
	entry := func(a specs.Algorithm, q specs.Queue) Entry {
		return Entry{Account: NewAccount(a), Limit: Limit{Spec: &specs.Spec{Algorithm: a, Queue: q}}}
	}
	rate, lane := entry(specs.GCRA, specs.NoQueue), entry(specs.GCRA, specs.QueueOfLane)
	fairly, window, permits := entry(specs.GCRA, specs.FairQueue), entry(specs.Window, specs.NoQueue), entry(specs.Concurrency, specs.NoQueue)
	for name, c := range map[string]struct {
		stack []Entry
		want  []role
	}{
		"a lane":        {[]Entry{rate, lane}, []role{{wholeOfLane, 0}, {ofLane, 0}}},
		"a fair lane":   {[]Entry{fairly, lane}, []role{{fair, 0}, {ofLane, 0}}},
		"behind others": {[]Entry{permits, window, rate, rate, lane}, []role{{leases, 0}, {atOnce, 0}, {atOnce, 0}, {wholeOfLane, 0}, {ofLane, 3}}},
		"two of them":   {[]Entry{rate, lane, window, rate, lane}, []role{{wholeOfLane, 0}, {ofLane, 0}, {atOnce, 0}, {wholeOfLane, 0}, {ofLane, 3}}},
	} {
		require.Equal(t, c.want, rolesOf(c.stack, nil), name)
	}
	for name, stack := range map[string][]Entry{
		"no rate": {lane}, "a window": {rate, window, lane}, "permits": {permits, lane}, "another lane": {rate, lane, lane},
	} {
		require.PanicsWithValue(t, "engine: entry "+string(rune('0'+len(stack)-1))+" is of a lane, and does not come right after the rate that it is a part of",
			func() { rolesOf(stack, nil) }, name)
	}
}
