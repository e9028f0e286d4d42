package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// How long calls would wait makes no difference to calls that go at once: a process that asks for the first of a queue without a limit,
// and for those behind it within a reach, has them all charged by the short way of the script.
func TestPatienceCostsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	backing, err := redisstore.New(server.Client())
	require.NoError(t, err)
	ample := policies.PerSecond(1_000_000).Burst(1_000_000)
	for name, policy := range map[string]policies.Policy{
		"a rate": ample, "an exact rate": policies.AtMost(1_000_000, time.Second).Burst(1000), "a window": policies.Sliding(1_000_000, time.Second),
	} {
		stack := store.Stack{Upstream: name, Limits: []store.Limit{{Policy: "p", Spec: policy.Spec()}, {Policy: "ample", Spec: ample.Spec()}}}
		reserve := func(tracked bool, patience ...time.Duration) ([]string, []store.Grant) {
			calls, grants := make([]store.Call, 0, len(patience)), make([]store.Grant, len(patience))
			for _, wait := range patience {
				calls = append(calls, store.Call{Cost: 2, MaxWait: wait, Tracked: tracked})
			}
			forgetCounts(t, server)
			require.NoError(t, backing.ReserveAll(t.Context(), []store.Batch{{Stack: stack, Calls: calls, Grants: grants}}))
			return commandsRun(t, server), grants
		}
		for _, tracked := range []bool{false, true} {
			reserve(tracked, store.Forever) // the keys are there
			short, _ := reserve(tracked, store.Forever, store.Forever, store.Forever)
			also, grants := reserve(tracked, store.Forever, 40*time.Millisecond, 40*time.Millisecond)
			require.Equal(t, short, also, name)
			for i, g := range grants {
				require.True(t, g.OK, name)
				require.Equal(t, g.Now, g.At, name)
				for j, c := range g.Charges {
					if i > 0 && stack.Limits[j].Spec.Algorithm == policies.GCRA {
						require.Equal(t, grants[i-1].Charges[j].To, c.From, "%s: each has a charge of its own", name)
					}
				}
			}
		}
	}
}

// commandsRun returns which commands a server has run since its counts were last reset, in scripts, and how often.
func commandsRun(t *testing.T, server *redistest.Server) (all []string) {
	t.Helper()
	info, err := server.Client().Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	for line := range strings.Lines(info) {
		if name, counts, ok := strings.Cut(line, ":calls="); ok {
			calls, _, _ := strings.Cut(counts, ",")
			all = append(all, name+" "+calls)
		}
	}
	return all
}
