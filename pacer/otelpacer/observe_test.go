package otelpacer_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/otelpacer"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// newPacer returns one without hooks.
func newPacer(t *testing.T, store store.Store, limits ...policies.Policy) *pacer.Pacer {
	t.Helper()
	p, err := pacer.New(pacer.Config{Upstream: "crm", Store: store, Policies: limits, Jitter: pacer.NoJitter})
	require.NoError(t, err)
	return p
}

// A collection reports the state of an observed Pacer, until stop is called.
func TestObserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		telemetry, reader := newTelemetry(t, otelpacer.Config{})
		p := newPacer(t, nil,
			policies.PerSecond(2).Burst(4).Named("peak"), policies.Fixed(100, 24*time.Hour).Named("quota"), policies.InFlight(4).Named("permits"))
		defer p.Close()
		stop, err := telemetry.Observe(p)
		require.NoError(t, err)
		for range 3 {
			_, err := p.Acquire(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Refused: true, Wait: 30 * time.Second, Policies: []string{"peak"}}))
		want := []string{
			`headway.fallback.active{headway.upstream=crm} 0`,
			`headway.pause.remaining{headway.policy=peak,headway.upstream=crm} 30`,
			`headway.pause.remaining{headway.policy=permits,headway.upstream=crm} 0`,
			`headway.pause.remaining{headway.policy=quota,headway.upstream=crm} 0`,
			`headway.pause.remaining{headway.upstream=crm} 0`,
			`headway.policies.versions{headway.upstream=crm} 1`,
			`headway.policy.capacity{headway.policy=peak,headway.upstream=crm} 2`,
			`headway.policy.capacity{headway.policy=quota,headway.upstream=crm} 0.0011574074074074073`,
			`headway.policy.margin{headway.policy=peak,headway.upstream=crm} 0`,
			`headway.policy.queued{headway.policy=peak,headway.upstream=crm} 0`,
			`headway.policy.queued{headway.policy=permits,headway.upstream=crm} 0`,
			`headway.policy.queued{headway.policy=quota,headway.upstream=crm} 0`,
			`headway.policy.remaining{headway.policy=peak,headway.upstream=crm} 0`,
			`headway.policy.remaining{headway.policy=permits,headway.upstream=crm} 1`,
			`headway.policy.remaining{headway.policy=quota,headway.upstream=crm} 97`,
			`headway.policy.utilization{headway.policy=permits,headway.upstream=crm} 0.75`,
			`headway.policy.utilization{headway.policy=quota,headway.upstream=crm} 0.03`,
			`headway.policy.waiting{headway.policy=peak,headway.upstream=crm} 0`,
			`headway.policy.waiting{headway.policy=permits,headway.upstream=crm} 0`,
			`headway.policy.waiting{headway.policy=quota,headway.upstream=crm} 0`,
			`headway.policy.waiting{headway.upstream=crm} 0`,
			`headway.processes{headway.upstream=crm} 1`,
		}
		ofARate := `headway.policy.utilization{headway.policy=peak,headway.upstream=crm}` // is of the seconds before
		all := readings(t, reader)
		require.Equal(t, want, slices.DeleteFunc(slices.Clone(all), func(line string) bool { return strings.HasPrefix(line, ofARate) }))
		require.Len(t, all, len(want)+1)

		require.NoError(t, p.Report(t.Context(), policies.Feedback{Refused: true, Wait: 50 * time.Second}))
		var calls sync.WaitGroup
		calls.Go(func() {
			if _, err := p.Acquire(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		require.Contains(t, readings(t, reader), `headway.policy.waiting{headway.upstream=crm} 1`)
		calls.Wait()
		stop()
		require.Equal(t, want[:1], readings(t, reader))
	})
}

// The margin is that of the policies that may have one: what it is now.
func TestObserveMargins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		telemetry, reader := newTelemetry(t, otelpacer.Config{MetricScopes: []string{"tenant"}})
		p := newPacer(t, nil, policies.AtMost(50, time.Second).Named("peak"), policies.AtMost(50, time.Second).Skew(0).Named("pinned"),
			policies.PerMinute(60).Per("tenant").Named("tenant"), policies.InFlight(4).Named("permits"))
		defer p.Close()
		_, err := telemetry.Observe(p)
		require.NoError(t, err)
		require.Equal(t, []string{`headway.policy.margin{headway.policy=peak,headway.upstream=crm} 0`}, with(readings(t, reader), "headway.policy.margin"))
		r, err := p.Acquire(t.Context(), pacer.Scope("tenant", "acme"))
		require.NoError(t, err)
		require.NoError(t, r.Report(t.Context(), policies.Feedback{Refused: true, Policies: []string{"peak", "tenant"}}))
		require.Equal(t, []string{
			`headway.policy.margin{headway.policy=peak,headway.upstream=crm} 0.008`,
			`headway.policy.margin{headway.policy=tenant,headway.scope.tenant=acme,headway.upstream=crm} 0.06`,
		}, with(readings(t, reader), "headway.policy.margin"))
		time.Sleep(time.Minute)
		require.Contains(t, readings(t, reader), `headway.policy.margin{headway.policy=peak,headway.upstream=crm} 0.003`, "it fades")
	})
}

// A store that does not answer holds up a collection only for the configured time. That is counted, and the rest is collected.
func TestASilentStoreDoesNotBlockACollection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		telemetry, reader := newTelemetry(t, otelpacer.Config{})
		silent := newPacer(t, silentStore{memstore.New()}, policies.PerSecond(2))
		defer silent.Close()
		_, err := telemetry.Observe(silent)
		require.NoError(t, err)
		telemetry.Hooks().Admitted(t.Context(), hooks.Admitted{Upstream: "crm", Cost: 1})
		start := time.Now()
		require.Equal(t, []string{
			`headway.calls{headway.upstream=crm} 1`,
			`headway.fallback.active{headway.upstream=crm} 0`,
			`headway.observation.failures{error.type=timeout,headway.upstream=crm} 1`,
		}, readings(t, reader))
		require.Equal(t, otelpacer.DefaultReadTimeout, time.Since(start))
	})
}

// silentStore does not answer a question about the status before its context ends.
type silentStore struct{ store.Store }

func (s silentStore) Status(ctx context.Context, _ store.Stack) (store.StackStatus, error) {
	<-ctx.Done()
	return store.StackStatus{}, ctx.Err()
}

// Anyone who closes a Pacer that is observed sees that it cannot be read.
func TestObserveAClosedPacer(t *testing.T) {
	t.Parallel()
	telemetry, reader := newTelemetry(t, otelpacer.Config{})
	p := newPacer(t, nil, policies.PerSecond(2))
	_, err := telemetry.Observe(p)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.Contains(t, readings(t, reader), `headway.observation.failures{error.type=closed,headway.upstream=crm} 1`)
}

// Without a Pacer there is nothing to observe.
func TestObserveNothing(t *testing.T) {
	t.Parallel()
	telemetry, _ := newTelemetry(t, otelpacer.Config{})
	stop, err := telemetry.Observe(nil)
	require.Nil(t, stop)
	require.EqualError(t, err, "otelpacer: Observe is nil: give it the Pacer that pacer.New returned")
}

// That a store is lost is not forgotten because somebody observes.
func TestObserveInAFallback(t *testing.T) {
	t.Parallel()
	telemetry, reader := newTelemetry(t, otelpacer.Config{})
	telemetry.Hooks().Failover(hooks.Failover{Upstream: "crm", On: true})
	p := newPacer(t, nil)
	defer p.Close()
	_, err := telemetry.Observe(p)
	require.NoError(t, err)
	require.Contains(t, readings(t, reader), `headway.fallback.active{headway.upstream=crm} 1`)
}

// Each caller has a metric of its spending.
func TestObserveCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		telemetry, reader := newTelemetry(t, otelpacer.Config{})
		p := newPacer(t, nil, policies.Fixed(10, 24*time.Hour).Named("day"))
		defer p.Close()
		_, err := telemetry.Observe(p)
		require.NoError(t, err)
		readings(t, reader)
		require.NoError(t, p.Wait(t.Context(), pacer.Caller("sync/contacts"), pacer.Cost(3)))
		require.Equal(t, []string{`headway.caller.cost{headway.caller=sync/contacts,headway.policy=day,headway.upstream=crm} 3`}, with(readings(t, reader), "headway.caller.cost"))
	})
}

// Policies with scopes show their busiest keys with their values if all of the scopes were requested, and otherwise the key that uses most,
// without its values.
func TestObserveTheBusiest(t *testing.T) {
	t.Parallel()
	limits := []policies.Policy{
		policies.Fixed(10, 24*time.Hour).Per("tenant").Named("by-tenant"),
		policies.Fixed(10, 24*time.Hour).Per("tenant", "user").Named("by-user"),
	}
	for _, one := range []struct {
		scopes []string
		want   []string
	}{
		{nil, []string{
			`headway.policy.remaining{headway.policy=by-tenant,headway.upstream=crm} 7`,
			`headway.policy.remaining{headway.policy=by-user,headway.upstream=crm} 7`,
		}},
		{[]string{"tenant"}, []string{
			`headway.busiest.cost{headway.policy=by-tenant,headway.scope.tenant=acme,headway.upstream=crm} 3`,
			`headway.policy.remaining{headway.policy=by-tenant,headway.scope.tenant=acme,headway.upstream=crm} 7`,
			`headway.policy.remaining{headway.policy=by-user,headway.upstream=crm} 7`,
		}},
		{[]string{"tenant", "user"}, []string{
			`headway.busiest.cost{headway.policy=by-tenant,headway.scope.tenant=acme,headway.upstream=crm} 3`,
			`headway.busiest.cost{headway.policy=by-user,headway.scope.tenant=acme,headway.scope.user=7,headway.upstream=crm} 3`,
			`headway.policy.remaining{headway.policy=by-tenant,headway.scope.tenant=acme,headway.upstream=crm} 7`,
			`headway.policy.remaining{headway.policy=by-user,headway.scope.tenant=acme,headway.scope.user=7,headway.upstream=crm} 7`,
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			telemetry, reader := newTelemetry(t, otelpacer.Config{MetricScopes: one.scopes})
			p := newPacer(t, nil, limits...)
			defer p.Close()
			_, err := telemetry.Observe(p)
			require.NoError(t, err)
			readings(t, reader) // from memory, what goes is counted from the first look on
			for range 3 {
				require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "acme"), pacer.Scope("user", "7")))
			}
			time.Sleep(5 * time.Second) // processes report their calls every few seconds
			all := readings(t, reader)
			require.Equal(t, one.want, with(all, "headway.busiest.cost", "headway.policy.remaining"))
			require.Len(t, with(all, "headway.policy.waiting"), 3, "of each policy, and of the whole upstream")
			require.Len(t, with(all, "headway.policy.utilization", "headway.policy.capacity"), 4)
		})
	}
}
