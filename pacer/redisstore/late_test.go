package redisstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// A process that starts when policies are set for the fleet has them from its first call on.
func TestALateProcessHasWhatIsSet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := func() *pacer.Pacer {
		p, err := pacer.New(pacer.Config{
			Upstream: "test", Store: must(redisstore.New(server.Client())), Policies: []policies.Policy{policies.Every(10 * time.Second).Named("x")},
			MaxWait: pacer.Forever, StoreTimeout: patience,
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		return p
	}
	require.NoError(t, fleet.Of(open()).SetPolicies(t.Context(), policies.PerSecond(2000).Named("x")))
	for range 10 {
		p := open()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := p.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Equal(t, "x: 2000 per 1s", fleet.Of(p).Policies()[0].String())
	}
}
