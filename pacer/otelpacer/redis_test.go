package otelpacer_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/otelpacer"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// Over Redis the operations of the store are measured; and when it goes away, that is seen while it lasts.
func TestPrometheusSeesTheStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, err := redisstore.New(server.Client())
	require.NoError(t, err)
	telemetry, registry := newExporter(t, otelpacer.Config{})
	p, err := pacer.New(pacer.Config{
		Upstream: "crm", Store: store, StoreTimeout: time.Minute, Processes: 1, Hooks: []*hooks.Set{telemetry.Hooks()},
		Policies: []policies.Policy{policies.PerSecond(1000).Burst(1000)},
	})
	require.NoError(t, err)
	defer p.Close()
	stop, err := telemetry.Observe(p)
	require.NoError(t, err)
	defer stop()

	eventually := func(wants ...string) {
		t.Helper()
		var missing []string
		ok := func() bool {
			require.NoError(t, p.Wait(t.Context()))
			lines := scrape(registry)
			missing = slices.DeleteFunc(slices.Clone(wants), func(want string) bool {
				return slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) })
			})
			return len(missing) == 0
		}
		require.Eventually(t, ok, time.Minute, 20*time.Millisecond, "no %v", &missing)
	}
	eventually(
		`headway_store_operation_duration_seconds_count{headway_store_operation="reserve",headway_upstream="crm"} `,
		`headway_processes{headway_upstream="crm"} 1`,
		`headway_fallback_active{headway_upstream="crm"} 0`,
	)
	other, err := pacer.New(pacer.Config{
		Upstream: "crm", Store: store, StoreTimeout: time.Minute, Policies: []policies.Policy{policies.PerSecond(2000).Burst(1000)},
	})
	require.NoError(t, err)
	require.NoError(t, other.Wait(t.Context()))
	disagree := alertNamed(t, "HeadwayProcessesDisagree")
	disagree.pending = 0 // nobody waits for half an hour
	require.Empty(t, disagree.fires(t, registry))
	eventually(`headway_policies_versions{headway_upstream="crm"} 2`)
	require.Equal(t, []string{"crm"}, disagree.fires(t, registry))
	require.NoError(t, other.Close())
	eventually(`headway_policies_versions{headway_upstream="crm"} 1`)
	require.Empty(t, disagree.fires(t, registry))
	call, err := p.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, call.Report(t.Context(), policies.Feedback{Refused: true, Wait: time.Second}))
	eventually(`headway_policy_margin_seconds{headway_policy="per-second",headway_upstream="crm"} 0.00`)
	server.Stop()
	eventually(
		`headway_store_operation_duration_seconds_count{error_type=`,
		`headway_fallbacks_total{headway_upstream="crm"} 1`,
		`headway_fallback_active{headway_upstream="crm"} 1`,
	)
	server.Restart()
	eventually(`headway_fallback_active{headway_upstream="crm"} 0`)
}
