package pacer_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A Pacer in memory knows itself, from the first look on.
func TestRegistryOfThisProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := limits(policies.PerSecond(1).Per("tenant").Named("tenant"))
		c.Name = "me"
		p := newPacer(t, c)
		acme := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
		require.NoError(t, p.Wait(acme))
		registry, shared := inside.Of(p).Registry()
		require.False(t, shared)
		index := func() *store.Index {
			index, err := registry.Index(t.Context(), "test")
			require.NoError(t, err)
			return index
		}
		require.Empty(t, index().Went, "nobody had looked")
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 2 {
				if err := p.Wait(acme); err != nil {
					t.Error(err)
				}
			}
		})
		synctest.Wait()
		i := index()
		require.Equal(t, []string{"tenant: 1 per 1s, per tenant"}, i.Policies)
		require.Equal(t, 1, i.Alive)
		require.Equal(t, "me", i.Processes[0].Name)
		require.Equal(t, []store.KeyUse{{Policy: "tenant", Waiting: 1}}, i.Processes[0].Waiting)
		require.Equal(t, []store.KeyUse{{Policy: "tenant", Scope: "acme", Waiting: 1}}, i.Processes[0].Keys)
		wg.Wait()
		i = index()
		second := int64(i.Now) / 1e6
		require.Equal(t, []store.Went{
			{Policy: "tenant", Second: second - 1, What: store.Second{Cost: 1, Waits: 1, Waited: time.Second}},
			{Policy: "tenant", Second: second, What: store.Second{Cost: 1, Waits: 1, Waited: time.Second}},
		}, i.Went)
		require.Equal(t, []store.KeyUse{{Policy: "tenant", Scope: "acme", Cost: 2}}, i.Processes[0].Keys)

		names, err := registry.Upstreams(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"test"}, names)
		other, err := registry.Index(t.Context(), "other")
		require.NoError(t, err)
		require.Equal(t, &store.Index{Now: other.Now}, other)
		require.NoError(t, errorOf(registry.Describe(t.Context(), "test", store.About{})))
		require.NoError(t, p.Close())
		_, err = registry.Index(t.Context(), "test")
		require.ErrorIs(t, err, pacer.ErrClosed)
	})
}

// keysOf is StatusOf of package inside.
func keysOf(ctx context.Context, p *pacer.Pacer, all []policies.Policy, keys []store.Key) (*pacer.Status, error) {
	s, err := inside.Of(p).StatusOf(ctx, all, keys, nil)
	status, _ := s.(*pacer.Status)
	return status, err
}

// The status of policies and keys that a Pacer does not have can be queried.
func TestStatusOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		peak, tenant := policies.PerSecond(10).Burst(5).Named("peak"), policies.PerSecond(2).Per("tenant").Named("tenant")
		p := newPacer(t, limits(peak))
		all := []policies.Policy{tenant, peak}
		require.NoError(t, p.Wait(t.Context(), pacer.Cost(3), pacer.MaxWait(0)))
		s, err := keysOf(t.Context(), p, all, []store.Key{{Policy: "tenant", Scope: "a%20b"}})
		require.NoError(t, err)
		require.Equal(t, "test", s.Upstream)
		require.WithinDuration(t, time.Now(), s.At, 0)
		require.Len(t, s.Policies, 3)
		require.Equal(t, pacer.PolicyStatus{Policy: tenant}, s.Policies[0], "no tenant is given")
		require.Equal(t, int64(2), s.Policies[1].Remaining)
		require.Equal(t, "tenant=a%20b", s.Policies[2].Scope)
		require.Equal(t, int64(1), s.Policies[2].Remaining)
		s, err = keysOf(pacer.With(t.Context(), pacer.Scope("tenant", "x")), p, all, nil)
		require.NoError(t, err)
		require.Equal(t, "tenant=x", s.Policies[0].Scope)

		_, err = keysOf(t.Context(), p, all, []store.Key{{Policy: "other"}})
		require.EqualError(t, err, `pacer: Key.Policy is "other": is not one of the policies asked for`)
		require.NoError(t, p.Close())
		_, err = keysOf(t.Context(), p, all, nil)
		require.ErrorIs(t, err, pacer.ErrClosed)
	})
}

// errorOf returns the error of Describe.
func errorOf(_ int, err error) error { return err }
