package failover

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

// Whatever is known of an absence, a local account begins with a bounded number of claims: calls wait for it under a lock.
func TestALocalAccountBeginsWithFewClaims(t *testing.T) {
	t.Parallel()
	const now = int64(1_700_000_000_000_000)
	for name, away := range map[string]absence{
		"it has just ended":  {processes: 4},
		"found long ago":     {processes: 4, found: 1},
		"lost long ago":      {processes: 4, since: 1, found: store.Instant(now)},
		"found late":         {processes: 4, since: store.Instant(now - 60_000_000), found: store.Instant(now)},
		"now":                {processes: 4, since: store.Instant(now), found: store.Instant(now)},
		"the clock has gone": {processes: 4, since: store.Instant(now), found: store.Instant(2 * now)},
	} {
		spec := specs.Spec{Algorithm: specs.Window, Limit: 10, Interval: 10, Buckets: specs.MaxBuckets}
		r := record{limit: store.Limit{Spec: spec}, ahead: now}
		require.LessOrEqual(t, len(r.startLocal(0, spec, away, 10, now)), 5, name)
	}
}

// A process whose requests take long before they fail does not take a limit for idle of which it knows a line: others got slots until then.
func TestALocalLineBeginsBehindOthers(t *testing.T) {
	t.Parallel()
	const now, ahead, late = int64(1_700_000_000_000_000), 100_000, 300_000
	spec := specs.Spec{Algorithm: specs.GCRA, Limit: 200, Interval: 5000}
	r := record{limit: store.Limit{Spec: spec}, asOf: now - late, tail: now - late + ahead, spans: spans{{now - late, now - late + ahead}}}
	own := spec
	own.Interval *= 8
	notes := r.startLocal(0, own, absence{processes: 8, since: store.Instant(now - late), found: store.Instant(now)}, 200, now)
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
				spent := record{limit: limit, each: n * limit.Spec.Interval}
				spent.take(now-ago.Microseconds(), now-ago.Microseconds()+spent.each, now)
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
			a, away := localStore{policy: Nobody{policy}.PolicyOf, store: memstore.New()}, absence{number: 1, processes: n, rank: rank, counted: true}
			own := a.share(&store.Stack{Limits: limits}, away)
			require.Zero(t, own.Limits[1].Spec.Phase, "two strict rates may have no slot in common")
			own.Limits = own.Limits[:1]
			var grants [calls]store.Grant
			require.NoError(t, a.store.Reserve(t.Context(), own, slices.Repeat([]store.Call{{Cost: 1, MaxWait: time.Minute}}, calls), grants[:]))
			for _, g := range grants {
				slots = append(slots, g.At)
			}
			var known ledger
			known.of(&limits[0], 0).seeded = away.number
			for _, m := range a.reserveShares(&known, nil, away, barrier) {
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
			a := localStore{policy: Nobody{policy}.PolicyOf, store: memstore.New(), permits: func() []readings.Report { return nil }}
			stack, away := store.Stack{Limits: []store.Limit{{Policy: "window", Spec: policy.Spec()}}}, absence{number: 1, processes: n, counted: true}
			var known ledger
			known.of(&stack.Limits[0], 0).seeded = away.number
			var grants [calls]store.Grant
			_, err := a.reserve(t.Context(), &known, &stack, slices.Repeat([]store.Call{{Cost: cost, MaxWait: time.Minute}}, calls), grants[:], away)
			require.NoError(t, err)
			require.Equal(t, int64(40/n), a.share(&stack, away).Limits[0].Spec.Limit)
			for i, g := range grants[1:] {
				require.GreaterOrEqual(t, g.At.Sub(grants[i].At), 2*time.Second)
			}
			require.Less(t, grants[calls-1].Wait(), 2*calls*time.Second)
		})
	}
}
