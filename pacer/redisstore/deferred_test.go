package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A run of the script works for a bounded time: it leaves calls that have to wait to the next one, which goes on where it ended. Calls that
// may go at once are charged together, and none is left.
func TestARunWorksForSoLong(t *testing.T) {
	t.Parallel()
	backing, err := redisstore.New(redistest.Start(t).Client())
	require.NoError(t, err)
	stacks := map[string][]policies.Policy{
		"rates":   {policies.PerSecond(1000), policies.PerSecond(700), policies.PerSecond(300)},
		"exact":   {policies.AtMost(100, time.Second).Burst(2), policies.AtMost(70, time.Second).Burst(2)},
		"guarded": {policies.Fixed(60, time.Second).Skew(50 * time.Millisecond), policies.AtMost(50, time.Second)},
		"permits": {policies.InFlight(10), policies.PerSecond(300)},
	}
	const most = 150 // calls that one run decides
	for name, list := range stacks {
		stack := store.Stack{Upstream: name}
		for i, p := range list {
			stack.Limits = append(stack.Limits, store.Limit{Policy: fmt.Sprint(i), Spec: p.Spec()})
		}
		calls, grants := make([]store.Call, 256), make([]store.Grant, 256)
		for i := range calls {
			calls[i] = store.Call{Cost: 1, MaxWait: pacer.Forever}
			if name == "permits" {
				calls[i].ID, calls[i].Weight = 1e14+int64(i), 1
			}
		}
		require.NoError(t, backing.ReserveAll(t.Context(), []store.Batch{{Stack: stack, Calls: calls, Grants: grants}}))
		decided := 0
		for i := range grants {
			if !grants[i].Deferred {
				require.Equal(t, i, decided, "%s: the last ones are left", name)
				decided++
			}
		}
		require.Positive(t, decided, name)
		require.Less(t, decided, most, name)

		// A caller that requests all gets an answer for all.
		require.NoError(t, backing.Reserve(t.Context(), stack, calls[decided:], grants[decided:]))
		last := store.Instant(0)
		for i := range grants {
			require.False(t, grants[i].Deferred, name)
			if name != "permits" {
				require.True(t, grants[i].OK, name)
				require.GreaterOrEqual(t, grants[i].At, last, name)
				last = grants[i].At
			}
		}
	}

	stack := store.Stack{Upstream: "free", Limits: []store.Limit{{Policy: "p", Spec: policies.PerSecond(1000).Burst(1000).Spec()}}}
	calls, grants := make([]store.Call, 256), make([]store.Grant, 256)
	for i := range calls {
		calls[i].Cost = 1
	}
	require.NoError(t, backing.ReserveAll(t.Context(), []store.Batch{{Stack: stack, Calls: calls, Grants: grants}}))
	require.True(t, grants[255].OK)
}
