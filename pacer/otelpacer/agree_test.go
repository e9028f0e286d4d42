package otelpacer_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/otelpacer"
	"github.com/headway-go/headway/pacer/page"
	"github.com/headway-go/headway/policies"
)

// reported is a wait as one of the sources reports it.
type reported struct {
	policy, scope string
	wait          time.Duration
}

// onThePage reads the page's answer for scripts, which is what its charts and tables are made of.
type onThePage struct {
	Binding  string
	Policies []struct {
		Name        string
		NextSeconds float64
		Waiting     int64
	}
	Busiest []struct {
		Policy, Scope string
		NextSeconds   float64
		Waiting       int64
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// The error, the hook, the status, the page and the metric agree on which policy makes a call wait, for which scope, and how
// long.
func TestEverybodyAgrees(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		want := reported{"tenant", "tenant=acme", 7500 * time.Millisecond}
		var mu sync.Mutex
		received := make(map[string]reported)
		receive := func(hook, policy, scope string, wait time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			received[hook] = reported{policy, scope, wait}
		}
		telemetry, registry := newExporter(t, otelpacer.Config{MetricScopes: []string{"tenant"}})
		p, err := pacer.New(pacer.Config{
			Upstream: "crm", Jitter: pacer.NoJitter,
			Policies: []policies.Policy{policies.PerSecond(50).Burst(10).Named("peak"), policies.PerMinute(8).Per("tenant").Named("tenant")},
			Hooks: []*hooks.Set{telemetry.Hooks(), {
				Refused:  func(_ context.Context, r hooks.Refusal) { receive("refused", r.Policy, r.Scope, r.Wait) },
				Waiting:  func(_ context.Context, s hooks.Waiting) { receive("sleeps", s.Policy, s.Scope, s.Wait) },
				WaitDone: func(_ context.Context, s hooks.WaitDone) { receive("slept", s.Policy, s.Scope, s.Took) },
				Admitted: func(_ context.Context, g hooks.Admitted) { receive("goes", g.Policy, g.Scope, g.Waited) },
			}},
		})
		require.NoError(t, err)
		defer p.Close()
		stop, err := telemetry.Observe(p)
		require.NoError(t, err)
		defer stop()
		h, err := page.New(page.Config{Operators: []*fleet.Operator{fleet.Of(p)}})
		require.NoError(t, err)
		look := func() (seen onThePage) {
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/fleet.json?upstream=crm&scope=tenant%3Dacme", nil))
			require.Equal(t, http.StatusOK, answer.Code, answer.Body)
			require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &seen))
			return seen
		}
		look() // from memory, what goes is counted from the first look on
		acme := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
		require.NoError(t, p.Wait(acme, pacer.MaxWait(0)))
		synctest.Wait()

		// A call that would have to wait, and does not want to.
		var limit *pacer.LimitError
		require.ErrorAs(t, p.Wait(acme, pacer.MaxWait(0)), &limit)
		require.Equal(t, want, reported{limit.Policy, limit.Scope, limit.Wait}, "the error")
		require.ErrorContains(t, limit, `policy "tenant" for tenant=acme: the next slot is 7.5s away`)
		status, err := p.Status(acme)
		require.NoError(t, err)
		binding := status.Binding()
		require.Equal(t, want, reported{binding.Policy.Name(), binding.Scope, binding.Next}, "the status")
		seen := look()
		require.Equal(t, want, reported{seen.Policies[1].Name, seen.Busiest[0].Scope, seconds(seen.Policies[1].NextSeconds)}, "the page")
		require.Equal(t, want, reported{seen.Busiest[0].Policy, seen.Busiest[0].Scope, seconds(seen.Busiest[0].NextSeconds)}, "the page's tenants")
		synctest.Wait()
		require.Equal(t, want, received["refused"], "the hook")
		require.Contains(t, scrape(registry),
			`headway_refusals_total{headway_policy="tenant",headway_reason="not_yet",headway_scope_tenant="acme",headway_upstream="crm"} 1`)

		// One that waits, while it does.
		var calls sync.WaitGroup
		calls.Go(func() {
			if err := p.Wait(acme); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		require.Equal(t, want, received["sleeps"], "the hook")
		seen = look()
		require.Equal(t, want.policy, seen.Binding)
		require.Equal(t, want.scope, seen.Busiest[0].Scope)
		require.Equal(t, []int64{0, 1, 1}, []int64{seen.Policies[0].Waiting, seen.Policies[1].Waiting, seen.Busiest[0].Waiting})
		require.Contains(t, scrape(registry), `headway_policy_waiting{headway_policy="tenant",headway_upstream="crm"} 1`)

		// And when it has gone.
		calls.Wait()
		synctest.Wait()
		require.Equal(t, want, received["slept"])
		require.Equal(t, want, received["goes"])
		require.Subset(t, scrape(registry), []string{
			`headway_wait_duration_seconds_sum{headway_policy="tenant",headway_scope_tenant="acme",headway_upstream="crm"} 7.5`,
			`headway_wait_duration_seconds_count{headway_policy="tenant",headway_scope_tenant="acme",headway_upstream="crm"} 1`,
		}, "the metric")
		snapshot, err := fleet.Of(p).Snapshot(t.Context())
		require.NoError(t, err)
		require.Nil(t, snapshot.Binding(), "what went in this second is counted when it is over")
		time.Sleep(time.Second)
		snapshot, err = fleet.Of(p).Snapshot(t.Context())
		require.NoError(t, err)
		last := snapshot.Binding().History[fleet.HistorySeconds-1]
		require.Equal(t, want, reported{snapshot.Binding().Policy.Name(), want.scope, last.Waited}, "the last minute")
	})
}
