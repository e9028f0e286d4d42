package redisstore_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// The bound on waits makes no difference to calls that go at once: a process that reserves the first of a queue without a bound, and those
// behind it within a reach, has them all charged by the fast path of the script.
func TestPatienceCostsNothing(t *testing.T) {
	t.Parallel()
	short := redisstore.NewShort(redistest.Start(t).Client())
	ample := policies.PerMinute(1).Burst(1000)
	for name, policy := range map[string]policies.Policy{
		"a rate": ample, "an exact rate": policies.AtMost(1000, time.Hour).Burst(1000), "a window": policies.Sliding(1000, time.Hour),
	} {
		stack := store.Stack{Upstream: name, Limits: []store.Limit{{Policy: "p", Spec: policy.Spec()}, {Policy: "ample", Spec: ample.Spec()}}}
		reserve := func(calls ...store.Call) ([]store.Grant, error) {
			grants := make([]store.Grant, len(calls))
			return grants, short.ReserveAll(t.Context(), []store.Batch{{Stack: stack, Calls: calls, Grants: grants}})
		}
		first := store.Call{Cost: 2, MaxWait: store.Forever}
		next := store.Call{Cost: 2, MaxWait: 40 * time.Millisecond}
		grants, err := reserve(first, next, next)
		require.NoError(t, err, name)
		for i, g := range grants {
			require.True(t, g.OK, name)
			require.Equal(t, g.Now, g.At, name)
			for j, c := range g.Charges {
				if i > 0 && stack.Limits[j].Spec.Algorithm == specs.GCRA {
					require.Equal(t, grants[i-1].Charges[j].To, c.From, "%s: each has a charge of its own", name)
				}
			}
		}
		for _, other := range []store.Call{{Cost: 1}, {Cost: 2, NotBefore: 1}} {
			_, err := reserve(first, other)
			require.ErrorContains(t, err, "the long way", name)
		}
	}
}

// A call in the last bucket of a window writes the counts alone if they take as much room as before, and the whole state if not. The key
// has the TTL that it got with the bucket.
func TestAWindowIsWrittenInPlace(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t).Client()
	window := policies.Sliding(1000, 100_000*time.Hour) // whose buckets take longer than the test
	for name, notBefore := range map[string]time.Duration{"the short way": 0, "the long way": time.Microsecond} {
		s, err := redisstore.New(server)
		require.NoError(t, err)
		stack := store.Stack{Upstream: name, Limits: []store.Limit{{Policy: "p", Spec: window.Spec()}}}
		key := fmt.Sprintf("pacer:7:{%s}:p", name)
		writes := func() int {
			info, err := server.Info(t.Context(), "commandstats").Result()
			require.NoError(t, err)
			m := regexp.MustCompile(`cmdstat_setrange:calls=(\d+)`).FindStringSubmatch(info)
			if m == nil {
				return 0
			}
			n, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			return n
		}
		before := writes()
		var ends string
		for n := 1; n <= 12; n++ {
			grants := make([]store.Grant, 1)
			calls := []store.Call{{Cost: 1, NotBefore: notBefore, MaxWait: store.Forever}}
			require.NoError(t, s.ReserveAll(t.Context(), []store.Batch{{Stack: stack, Calls: calls, Grants: grants}}))
			v, err := server.Get(t.Context(), key).Result()
			require.NoError(t, err)
			m := regexp.MustCompile(`^w\d+\.100 \d+ (\d+) (\d+) (\d+) (\d+) (\d+)\|$`).FindStringSubmatch(v)
			require.NotNil(t, m, "%s: %s", name, v)
			require.Equal(t, []string{strconv.Itoa(n), strconv.Itoa(n)}, m[4:], "%s: %s", name, v)
			require.Equal(t, m[1], m[2])
			if n > 1 {
				require.Equal(t, ends, m[3])
			}
			ends = m[3]
			left, err := server.PTTL(t.Context(), key).Result()
			require.NoError(t, err)
			require.Greater(t, left, 100_000*time.Hour-time.Minute)
		}
		require.Equal(t, 10, writes()-before, "%s: all but the first one and the tenth", name)
	}
}
