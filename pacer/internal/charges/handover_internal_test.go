package charges

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// of returns the policy of any limit.
func of(p policies.Policy) func(*store.Limit) policies.Policy {
	return func(*store.Limit) policies.Policy { return p }
}

// Whatever is known of an absence, a local account begins with a bounded number of claims: calls wait for it under a lock.
func TestALocalAccountBeginsWithFewClaims(t *testing.T) {
	t.Parallel()
	const now = int64(1_700_000_000_000_000)
	for name, away := range map[string]Absence{
		"it has just ended":  {Processes: 4},
		"found long ago":     {Processes: 4, Found: 1},
		"lost long ago":      {Processes: 4, Since: 1, Found: store.Instant(now)},
		"found late":         {Processes: 4, Since: store.Instant(now - 60_000_000), Found: store.Instant(now)},
		"now":                {Processes: 4, Since: store.Instant(now), Found: store.Instant(now)},
		"the clock has gone": {Processes: 4, Since: store.Instant(now), Found: store.Instant(2 * now)},
	} {
		spec := specs.Spec{Algorithm: specs.Window, Limit: 10, Interval: 10, Buckets: specs.MaxBuckets}
		r := record{limit: store.Limit{Spec: spec}, ahead: now}
		require.LessOrEqual(t, len(r.startLocal(0, &spec, &away, 10, now)), 5, name)
	}
}

// A process whose requests take long before they fail does not consider a limit idle if it knows a queue: others got slots until then.
func TestALocalLineBeginsBehindOthers(t *testing.T) {
	t.Parallel()
	const now, ahead, late = int64(1_700_000_000_000_000), 100_000, 300_000
	spec := specs.Spec{Algorithm: specs.GCRA, Limit: 200, Interval: 5000}
	r := record{limit: store.Limit{Spec: spec}, asOf: now - late, tail: now - late + ahead, spans: spans{{now - late, now - late + ahead}}}
	own := spec
	own.Interval *= 8
	notes := r.startLocal(0, &own, &Absence{Processes: 8, Since: store.Instant(now - late), Found: store.Instant(now)}, 200, now)
	require.GreaterOrEqual(t, notes[0].Charge.To, now+ahead)
}

// Simultaneous spending of processes adds up, where the store charges it, also when each call is older than an emission interval.
func TestWhatWasSpentAtOnceAddsUp(t *testing.T) {
	t.Parallel()
	for _, ago := range []time.Duration{10 * time.Millisecond, 30 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			const n, interval = 4, 25 * time.Millisecond
			shared := memstore.New()
			limit := store.Limit{Policy: "rate", Spec: policies.PerSecond(40).Burst(n).Named("rate").Spec()}
			now := int64(shared.Now())
			stack := store.Stack{Upstream: "api", Limits: []store.Limit{limit}}
			for range n {
				share := limit.Spec
				share.Interval *= n
				spent := spending{limit: limit}
				spent.add(&share, store.Charge{From: now - ago.Microseconds(), To: now - ago.Microseconds() + share.Interval}, now)
				_, _, err := shared.Report(t.Context(), stack, spent.due(now))
				require.NoError(t, err)
			}
			var grants [2]store.Grant
			require.NoError(t, shared.Reserve(t.Context(), stack, []store.Call{{Cost: 1, MaxWait: time.Second}, {Cost: 1, MaxWait: time.Second}}, grants[:]))
			require.GreaterOrEqual(t, grants[1].Wait(), 2*interval-ago)
		})
	}
}

// Processes start the calls of a strict rate in cells of their own, however idle they are. Of those up to the barrier the store knows as soon as
// a process has found it.
func TestProcessesStartInCellsOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, interval, calls = 3, 100 * time.Millisecond, 4
		policy := policies.Every(interval)
		limits := []store.Limit{{Policy: "first", Spec: policy.Spec()}, {Policy: "second", Spec: policy.Spec()}}
		barrier := int64(memstore.New().Now().Add(1234 * time.Millisecond))
		var slots []store.Instant
		claimed := make(map[store.Instant]bool)
		for rank := range n {
			time.Sleep(17 * time.Millisecond)
			known := &Ledger{}
			a := Accounts{policy: of(policy), store: memstore.New(), known: known, bill: &Bill{}}
			away := &Absence{Processes: n, Rank: rank, Counted: true}
			own := a.Share(&store.Stack{Limits: limits}, away)
			require.Zero(t, own.Limits[1].Spec.Phase, "two strict rates may have no slot in common")
			own.Limits = own.Limits[:1]
			var grants [calls]store.Grant
			require.NoError(t, a.store.Reserve(t.Context(), own, slices.Repeat([]store.Call{{Cost: 1, MaxWait: time.Minute}}, calls), grants[:]))
			for _, g := range grants {
				slots = append(slots, g.At)
			}
			known.of(&limits[0], 0).seeded = away
			for _, m := range a.ReserveShares(nil, away, barrier) {
				for _, note := range m.Notes {
					at := store.Instant(note.Charge.From)
					require.False(t, claimed[at])
					require.Equal(t, interval, store.Instant(note.Charge.To).Sub(at))
					claimed[at] = true
				}
			}
		}
		slices.Sort(slots)
		for i, at := range slots {
			require.Equal(t, int64(at) < barrier, claimed[at])
			require.True(t, i == 0 || at.Sub(slots[i-1]) >= interval)
		}
		require.LessOrEqual(t, slots[len(slots)-1].Sub(slots[0]), (calls+1)*n*interval)
	})
}

// A call that costs more than the share of a window takes as much of the windows after its own, also of calls in the same request.
func TestCallsThatCostMoreThanAShare(t *testing.T) {
	t.Parallel()
	for _, policy := range []policies.Policy{policies.Fixed(40, time.Second), policies.Sliding(40, time.Second)} {
		synctest.Test(t, func(t *testing.T) {
			const n, cost, calls = 4, 20, 5
			known := &Ledger{}
			a := Accounts{policy: of(policy), store: memstore.New(), permits: func() []readings.Report { return nil }, known: known, bill: &Bill{}}
			stack, away := store.Stack{Limits: []store.Limit{{Policy: "window", Spec: policy.Spec()}}}, &Absence{Processes: n, Counted: true}
			known.of(&stack.Limits[0], 0).seeded = away
			var grants [calls]store.Grant
			_, err := a.Reserve(t.Context(), &stack, slices.Repeat([]store.Call{{Cost: cost, MaxWait: time.Minute}}, calls), grants[:], away)
			require.NoError(t, err)
			require.Equal(t, int64(40/n), a.Share(&stack, away).Limits[0].Spec.Limit)
			for i, g := range grants[1:] {
				require.GreaterOrEqual(t, g.At.Sub(grants[i].At), 2*time.Second)
			}
			require.Less(t, grants[calls-1].Wait(), 2*calls*time.Second)
		})
	}
}
