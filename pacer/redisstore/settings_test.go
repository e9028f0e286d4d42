package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A setFleet is some processes with clients of their own, and calls that wait in each.
type setFleet struct {
	pacers []*pacer.Pacer
	calls  sync.WaitGroup
	went   atomic.Int64
}

func newSetFleet(t *testing.T, rdb *redis.Client, processes int, policy policies.Policy) *setFleet {
	t.Helper()
	c := &setFleet{}
	for i := range processes {
		c.pacers = append(c.pacers, named(t, rdb, fmt.Sprint("worker-", i), policy))
	}
	return c
}

// waits has calls wait in each process.
func (c *setFleet) waits(t *testing.T, each int) {
	t.Helper()
	for _, p := range c.pacers {
		for range each {
			c.calls.Go(func() {
				if err := p.Wait(t.Context()); err != nil {
					t.Error(err)
					return
				}
				c.went.Add(1)
			})
		}
	}
}

// have waits until each process has a policy.
func (c *setFleet) have(t *testing.T, text string) {
	t.Helper()
	for _, p := range c.pacers {
		require.Eventually(t, func() bool { return fleet.Of(p).Policies()[0].String() == text }, patience, time.Millisecond, "%v, want %s", fleet.Of(p).Policies(), text)
	}
}

// Settings reach processes with waiting calls, faster or slower, and those that start later; when they are unset, each has its own policies
// again. None of the calls fails, and every key expires.
func TestAFleetLearnsOfWhatIsSet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	slow := policies.PerSecond(2).Burst(1).Named("peak")
	rdb := redis.NewClient(patient(server.Addr, true))
	t.Cleanup(func() { _ = rdb.Close() })
	c := newSetFleet(t, rdb, 4, slow)
	c.waits(t, 200)
	require.Eventually(t, func() bool { return c.went.Load() > 0 }, patience, time.Millisecond)
	var op *fleet.Operator
	require.Eventually(t, func() (ok bool) {
		var err error
		op, err = fleet.Open(t.Context(), must(redisstore.New(server.Client())), "test")
		return err == nil
	}, patience, 50*time.Millisecond)

	fast := policies.PerSecond(2000).Burst(100).Named("peak")
	require.NoError(t, op.SetPolicies(t.Context(), fast))
	c.have(t, fast.String())
	c.calls.Wait()

	// A lower limit reaches calls that wait, too.
	c.waits(t, 200)
	low := policies.PerSecond(20).Burst(10).Named("peak")
	require.NoError(t, op.SetPolicies(t.Context(), low))
	c.have(t, low.String())

	joins := named(t, rdb, "late", slow)
	require.NoError(t, op.SetPolicies(t.Context(), fast))
	require.NoError(t, joins.Wait(t.Context()))
	c.pacers = append(c.pacers, joins)
	c.have(t, fast.String())
	c.calls.Wait()
	newest := named(t, rdb, "newest", slow)
	require.NoError(t, newest.Wait(t.Context()))
	require.Equal(t, fast.String(), fleet.Of(newest).Policies()[0].String(), "known with the first call")

	require.NoError(t, op.UnsetPolicies(t.Context()))
	c.have(t, slow.String())
	require.Equal(t, int64(2*4*200), c.went.Load())
	expires(t, server.Client())
	require.NoError(t, op.Close())
}

// expires checks that every key has a TTL.
func expires(t *testing.T, rdb *redis.Client) {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Contains(t, keys, "pacer:10:{test}/settings")
	for _, key := range keys {
		require.NotEqual(t, time.Duration(-1), rdb.PTTL(t.Context(), key).Val(), key)
	}
}

// Anyone who can write there can set anything: other forms are ignored, and unreadable settings do not hold.
func TestSettingsOfNonsense(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	p := named(t, rdb, "a", policies.PerSecond(50).Named("peak"), policies.PerSecond(1).Per("tenant").Named("tenant").Optional())
	require.NoError(t, fleet.Of(p).SetLimit(t.Context(), "tenant", policies.PerSecond(9), time.Hour, pacer.Scope("tenant", "good")))
	key, now, later := "pacer:10:{test}/settings", time.Now().UnixMicro(), time.Now().Add(time.Hour).UnixMicro()
	for field, value := range map[string]string{
		"policies": fmt.Sprintf("%d %d x: 5 per moon\x1b[2J", later, now), "limit/a": fmt.Sprintf("%d %d a: 1 per 1s", later, now),
		"limit/tenant/b": "b", "limit/tenant/c": fmt.Sprintf("-%d 1 c", later), "limit/tenant/d": fmt.Sprintf("%d", later), "": "", "other": "1 2 3",
		"limit/ten ant/e": fmt.Sprintf("%d %d e: 1 per 1s", later, now), "limit/tenant/f": "99999999999999999999 1 f",
		"limit/tenant/g": strings.Repeat("9", 400) + " 1 g", "limit/tenant/over": fmt.Sprintf("%d %d tenant: 1 per 1s", now-1, now-2),
	} {
		require.NoError(t, rdb.HSet(t.Context(), key, field, value).Err())
	}
	s, err := fleet.Of(p).Settings(t.Context())
	require.NoError(t, err)
	require.Error(t, s.Policies.Err)
	require.Len(t, s.Limits, 1)
	require.Equal(t, "tenant=good", s.Limits[0].Scope)
	require.Equal(t, "peak: 50 per 1s, burst 2", fleet.Of(p).Policies()[0].String())
	require.NoError(t, fleet.Of(p).SetPolicies(t.Context(), policies.PerSecond(40).Named("peak")), "what is set next holds")
	s, err = fleet.Of(p).Settings(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Policies.Err)
	fields, err := rdb.HKeys(t.Context(), key).Result()
	require.NoError(t, err)
	require.NotContains(t, fields, "limit/tenant/over", "what is over is taken out")

	require.NoError(t, rdb.HSet(t.Context(), key, "version", "tomorrow").Err())
	_, err = fleet.Of(p).Settings(t.Context())
	require.NoError(t, err)
	require.NoError(t, rdb.Set(t.Context(), key, "mine", 0).Err())
	_, err = fleet.Of(p).Settings(t.Context())
	require.ErrorIs(t, err, redisstore.ErrForeign)
	require.NoError(t, p.Wait(t.Context()), "it harms nobody's calls")
}

// Processes that disagree learn of it, and operators see which has which, in Redis as in a description that anybody could write.
func TestProcessesThatDisagreeAreSeen(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	a, b := named(t, rdb, "worker-1/17", policies.PerSecond(10).Named("peak")), named(t, rdb, "worker-9/4", policies.PerSecond(20).Named("peak"))
	for _, p := range []*pacer.Pacer{a, b} {
		require.NoError(t, p.Wait(t.Context()))
	}
	var s *fleet.Snapshot
	look := func() *fleet.Snapshot {
		var err error
		s, err = fleet.Of(a).Snapshot(t.Context())
		require.NoError(t, err)
		return s
	}
	require.Eventually(t, func() bool { return look().VersionCount == 2 }, patience, 50*time.Millisecond)
	require.Len(t, s.Disagreements, 1)
	require.ElementsMatch(t, []fleet.Side{
		{Text: fleet.Of(a).Policies()[0].String(), Processes: 1, Names: []string{"worker-1/17"}},
		{Text: fleet.Of(b).Policies()[0].String(), Processes: 1, Names: []string{"worker-9/4"}},
	}, s.Disagreements[0].Sides)

	require.NoError(t, fleet.Of(a).SetPolicies(t.Context(), policies.PerSecond(5).Named("peak")))
	require.Eventually(t, func() bool {
		look()
		return s.VersionCount == 1 && len(s.Processes) == 2 && s.Processes[0].Source != "" && s.Processes[0].Source == s.Processes[1].Source
	}, patience, 50*time.Millisecond)
	require.Regexp(t, `^set at \d{4}-`, s.Processes[0].Source)
	require.Empty(t, s.Disagreements)

	key := "pacer:10:{test}/index"
	for field, value := range map[string]string{
		"versions": "zz 5 " + strings.Repeat("ab 99999999999999999 ", 100) + "cd", "policies/" + s.Versions[0].ID: "1 9999999999999999 evil: 5 per 1s",
		"policies/x": "", "policies/": "\x00",
	} {
		require.NoError(t, rdb.HSet(t.Context(), key, field, value).Err())
	}
	backing := must(redisstore.New(rdb))
	n, err := backing.Describe(t.Context(), "test", store.About{ID: "z", Keep: time.Hour, Every: time.Second})
	require.NoError(t, err)
	require.LessOrEqual(t, n, 2, "its own, and that of the others if they came in between: what is far in the future is nobody's")
	index, err := backing.Index(t.Context(), "test")
	require.NoError(t, err)
	for _, p := range index.Processes {
		require.NotContains(t, p.Policies, "evil: 5 per 1s", "texts that are not those of the version")
	}
}

// While fair shares are rolled out, calls of a process that has none queue as those of a tenant, and others get slots beside them.
func TestFairSharesAreRolledOut(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	policy := policies.PerSecond(50).Named("rate")
	old := named(t, rdb, "old", policy)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() {
			for old.Wait(ctx) == nil {
			}
		})
	}
	young := named(t, rdb, "young", policy.Fair("tenant"))
	require.Eventually(t, func() bool {
		s, err := young.Status(t.Context(), pacer.Scope("tenant", "a"))
		return err == nil && s.Policies[0].Queued > 0
	}, patience, time.Millisecond)
	for range 50 {
		require.NoError(t, young.Wait(t.Context(), pacer.Scope("tenant", "a")))
	}
	stop()
	calls.Wait()
}
