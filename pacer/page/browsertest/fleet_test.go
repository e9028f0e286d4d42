package browsertest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/page"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// A page of an operator, who is none of the processes, shows all of them, and receives a pause that one of them reports: within a second,
// where the machine is not busy.
func TestOperatorSeesTheFleet(t *testing.T) {
	t.Parallel()
	needBrowser(t)
	server := redistest.Start(t)
	ctx, stop := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	var all []*pacer.Pacer
	for i := range 3 {
		store, err := redisstore.New(server.Client())
		require.NoError(t, err)
		p, err := pacer.New(pacer.Config{
			Upstream: "zendesk", Store: store, Name: fmt.Sprintf("worker-%d", i),
			Policies: []policies.Policy{policies.PerSecond(30).Burst(3).Named("peak"), policies.Daily(1000, time.UTC).Per("tenant").Named("daily")},
		})
		require.NoError(t, err)
		all = append(all, p)
		for range 4 {
			callers.Go(func() {
				ctx := pacer.With(ctx, pacer.Scope("tenant", fmt.Sprintf("t%d", i)))
				for p.Wait(ctx) == nil {
					continue
				}
			})
		}
	}
	t.Cleanup(func() {
		stop()
		callers.Wait()
		for _, p := range all {
			require.NoError(t, p.Close())
		}
	})
	store, err := redisstore.New(server.Client())
	require.NoError(t, err)
	var operator *fleet.Operator
	require.Eventually(t, func() bool {
		operator, err = fleet.Open(t.Context(), store, "zendesk")
		return err == nil
	}, patience, 100*time.Millisecond, "the store does not know the upstream")
	t.Cleanup(func() { require.NoError(t, operator.Close()) })
	h, err := page.New(page.Config{Operators: []*fleet.Operator{operator}})
	require.NoError(t, err)
	url := serve(t, h)
	t.Cleanup(func() { require.NoError(t, h.Close()) })

	b := newTab(t, 1240, 900)
	b.open(url)
	b.until(`["worker-0", "worker-1", "worker-2"].every((name) => document.getElementById("processes").textContent.includes(name))`)
	b.until(`["tenant=t0", "tenant=t1", "tenant=t2"].every((key) => document.getElementById("busiest").textContent.includes(key))`)
	b.until(`parseFloat(document.querySelector('[data-policy="peak"] .caption b').textContent) > 0`)
	require.Contains(t, value[string](b, `document.getElementById("foot").textContent`), "All processes that share the store.")

	require.NoError(t, all[1].Report(t.Context(), policies.Feedback{Policies: []string{"peak"}, Wait: 30 * time.Minute}, pacer.Scope("tenant", "t1")))
	b.showsPause()
}
