package failover

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
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
		spec := policies.Spec{Algorithm: policies.Window, Limit: 10, Interval: 10, Buckets: policies.MaxBuckets}
		r := record{limit: store.Limit{Spec: spec}, ahead: now}
		require.LessOrEqual(t, len(r.startLocal(0, spec, away, 10, now)), 5, name)
	}
}

// A process whose requests take long before they fail does not take a limit for idle of which it knows a line: others got slots until then.
func TestALocalLineBeginsBehindOthers(t *testing.T) {
	t.Parallel()
	const now, ahead, late = int64(1_700_000_000_000_000), 100_000, 300_000
	spec := policies.Spec{Algorithm: policies.GCRA, Limit: 200, Interval: 5000}
	r := record{limit: store.Limit{Spec: spec}, asOf: now - late, tail: now - late + ahead, spans: spans{{now - late, now - late + ahead}}}
	own := spec
	own.Interval *= 8
	notes := r.startLocal(0, own, absence{processes: 8, since: store.Instant(now - late), found: store.Instant(now)}, 200, now)
	require.GreaterOrEqual(t, notes[0].Charge.To, now+ahead)
}

// What processes spent at the same time adds up, where the store charges it, also when each call is older than an emission interval.
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
