package redisstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A request of as many calls as any, each with a stack of many limits, is served like all others, whether its calls go at once or wait.
func TestManyCallsOfManyLimits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := must(redisstore.New(server.Client()))
	for name, policy := range map[string]policies.Policy{
		"rates": policies.PerSecond(1000).Burst(1000), "windows": policies.Sliding(1000, time.Second), "exact": policies.AtMost(1000, time.Second).Burst(500),
		"slow rates": policies.PerSecond(1000), "slow exact": policies.AtMost(1000, time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const calls, limits = 256, 40
			for _, shared := range []bool{true, false} {
				batches := make([]store.Batch, 0, calls)
				for i := range calls {
					stack := store.Stack{Upstream: name[:4]}
					for j := range limits {
						scope := fmt.Sprint(j)
						if !shared {
							scope = fmt.Sprint(i, j)
						}
						stack.Limits = append(stack.Limits, store.Limit{Policy: "p", Scope: store.EscapeScope(scope), Spec: policy.Spec()})
					}
					batches = append(batches, store.Batch{Stack: stack, Calls: []store.Call{{Cost: 1, MaxWait: store.Forever}}, Grants: make([]store.Grant, 1)})
				}
				if shared {
					one := store.Batch{Stack: batches[0].Stack, Grants: make([]store.Grant, calls)}
					for range calls {
						one.Calls = append(one.Calls, store.Call{Cost: 1, MaxWait: store.Forever})
					}
					require.NoError(t, s.Reserve(t.Context(), one.Stack, one.Calls, one.Grants))
					require.NoError(t, s.Cancel(t.Context(), one.Stack, one.Grants))
					continue
				}
				require.NoError(t, s.ReserveAll(t.Context(), batches))
				batches = slices.DeleteFunc(batches, func(b store.Batch) bool { return !b.Grants[0].OK }) // deferred
				require.NotEmpty(t, batches)
				require.NoError(t, s.CancelAll(t.Context(), batches))
			}
		})
	}
}
