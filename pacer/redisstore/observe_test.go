package redisstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// On Redis, too, observed calls are charged slots to come, which are given back when the policies are enforced, whatever they are.
func TestObserveOnRedis(t *testing.T) {
	t.Parallel()
	slow := policies.Every(time.Minute)
	for name, policy := range map[string]policies.Policy{
		"rate":     slow.Burst(3),
		"window":   policies.Sliding(3, 3*time.Minute),
		"exact":    policies.AtMost(3, time.Minute).Burst(3),
		"lane":     slow.Burst(3).Lane("batch", 50),
		"shares":   slow.Burst(3).Fair("tenant"),
		"adaptive": slow.Burst(3).Adaptive(policies.Adaptation{}),
		"permits":  policies.InFlight(3),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := redisstore.New(redistest.Start(t).Client())
			require.NoError(t, err)
			var went, waits, lost atomic.Int64
			p, err := pacer.New(pacer.Config{
				Upstream: "api", Store: store, Policies: []policies.Policy{policy.Named("p").Observed(), policies.Daily(1000, time.UTC).Observed()},
				StoreTimeout: patience,
				Hooks: []*hooks.Set{{
					Observed: func(_ context.Context, o hooks.Observed) {
						if o.Wait > 0 && o.Refused == nil {
							waits.Add(1)
						}
						if !o.InFlight {
							went.Add(1)
						}
					},
					NotObserved: func(n int64) { lost.Add(n) },
				}},
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close()) }()
			who := pacer.Scope("tenant", "a")
			for range 10 {
				r, err := p.Acquire(t.Context(), who, pacer.MaxWait(pacer.Forever))
				require.NoError(t, err)
				r.Release()
			}
			require.Eventually(t, func() bool { return went.Load() == 10 }, patience, 10*time.Millisecond)
			require.Zero(t, lost.Load())
			backlog := func() (n int64) {
				s, err := p.Status(t.Context(), who)
				assert.NoError(t, err)
				return s.Policies[0].Backlog
			}
			if name != "permits" {
				require.Equal(t, int64(7), waits.Load())
				require.Positive(t, backlog())
			}
			require.NoError(t, p.Declare(policy.Named("p"), policies.Daily(1000, time.UTC)))
			require.Zero(t, backlog())
			r, err := p.TryAcquire(t.Context(), who)
			if name == "permits" {
				require.NoError(t, err, "nobody holds one")
				r.Release()
				return
			}
			require.ErrorIs(t, err, pacer.ErrNotYet, "three have gone")
		})
	}
}
