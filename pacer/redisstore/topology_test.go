package redisstore_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/redistest"
	"github.com/headway-go/headway/policies"
)

// What happens to servers in production, under the load of a fleet: slots move, masters die or step down, memory runs out,
// scripts are forgotten, rights are taken away.

// onCluster makes clients of a cluster, which know all of its nodes.
func onCluster(cluster *redistest.Cluster) func() redis.UniversalClient {
	addrs := append([]string(nil), cluster.Addrs...)
	for _, r := range cluster.Replicas {
		addrs = append(addrs, r.Addr)
	}
	return func() redis.UniversalClient { return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs}) }
}

// afterDials waits at the end of a test in which a server dies, until all of go-redis has ended that dials it: a
// goroutine of
// a closed pool sleeps for a second.
func afterDials(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { time.Sleep(1200 * time.Millisecond) })
}

// The slot of the upstream moves to another master, back, and again, with many other keys in it, so that it takes a while.
// Those of its keys that exist are at the one master, those that do not would be at the other: a script that needs both is
// refused with TRYAGAIN.
func TestClusterSlotMigratesUnderLoad(t *testing.T) { //nolint:paralleltest // it measures
	const others = 2000
	atBest(t, func() (string, bool) {
		cluster := redistest.StartCluster(t)
		fill := cluster.Client().Pipeline()
		for i := range others {
			fill.Set(t.Context(), fmt.Sprintf("{%s}:other:%d", loadUpstream, i), i, time.Hour)
		}
		_, err := fill.Exec(t.Context())
		require.NoError(t, err)
		home, err := cluster.Owner(t.Context(), loadKey)
		require.NoError(t, err)
		away := cluster.Nodes[0]
		if away == home {
			away = cluster.Nodes[1]
		}
		l := startLoad(t, onCluster(cluster))
		time.Sleep(2500 * time.Millisecond)
		for _, to := range []*redistest.Server{away, home, away} {
			forgetCounts(t, to)
			start := time.Now()
			require.NoError(t, cluster.Migrate(t.Context(), loadKey, to))
			t.Logf("the slot has moved after %v", time.Since(start).Round(time.Millisecond))
			requireInUse(t, cluster.Client(), 3*time.Second)
			time.Sleep(2 * time.Second)
			require.Positive(t, served(t, to))
		}
		s := l.stop()
		require.Zero(t, l.failed.of("CROSSSLOT"))
		return s.String(), s.good(0.9, 0)
	})
}

// The master that has the accounts dies, and its replica takes over.
func TestClusterMasterFailsOverUnderLoad(t *testing.T) { //nolint:paralleltest // it measures
	afterDials(t)
	atBest(t, func() (string, bool) {
		cluster := redistest.StartReplicatedCluster(t)
		client := onCluster(cluster)
		l := startLoad(t, client)
		time.Sleep(4 * time.Second)
		owner, err := cluster.Owner(t.Context(), loadKey)
		require.NoError(t, err)
		start := time.Now()
		owner.Stop()
		require.NoError(t, cluster.AwaitWhole(t.Context()))
		t.Logf("there is a new master after %v", time.Since(start).Round(time.Millisecond))
		heir, err := cluster.Owner(t.Context(), loadKey)
		require.NoError(t, err)
		require.NotSame(t, owner, heir)
		requireInUse(t, cluster.Client(), 5*time.Second)
		forgetCounts(t, heir)
		time.Sleep(time.Until(start.Add(12 * time.Second)))
		require.Positive(t, served(t, heir))
		s := l.stop()
		require.Positive(t, l.failed.of("dial")+l.failed.of("EOF")+l.failed.of("context"), "it was missed")
		return s.String(), s.good(0.85, 0)
	})
}

// failOver lets a sentinel make the replica the master.
func failOver(t *testing.T, more int, meanwhile func(*redistest.Sentinel)) {
	t.Helper()
	afterDials(t)
	atBest(t, func() (string, bool) {
		sentinel := redistest.StartReplicatedSentinel(t)
		l := startLoad(t, func() redis.UniversalClient { return sentinel.NewClient(nil) })
		time.Sleep(3 * time.Second)
		require.Zero(t, served(t, sentinel.Replica))
		start := time.Now()
		meanwhile(sentinel)
		require.Eventually(t, func() bool { return served(t, sentinel.Replica) > 0 }, 10*time.Second, 10*time.Millisecond)
		requireInUse(t, sentinel.Replica.Client(), 3*time.Second)
		t.Logf("the new master is in use after %v", time.Since(start).Round(time.Millisecond))
		time.Sleep(time.Until(start.Add(8 * time.Second)))
		forgetCounts(t, sentinel.Replica)
		time.Sleep(250 * time.Millisecond)
		require.Positive(t, served(t, sentinel.Replica))
		s := l.stop()
		return s.String(), s.good(0.85, more)
	})
}

// The master that a sentinel watches dies, or hands over to its replica.
//
// A sentinel that is told to fail over promotes the replica first and tells clients up to a second later. Until then
// they go
// on with the old master, and what it granted is lost. No client sees an error, and the new master knows the era: it
// is found
// out when it grants to somebody what that process has already, a call or two for each process later.
func TestSentinelFailsOverUnderLoad(t *testing.T) { //nolint:paralleltest // it measures
	const lost = 4
	t.Run("the master dies", func(t *testing.T) { //nolint:paralleltest // it measures
		failOver(t, 0, func(s *redistest.Sentinel) { s.Master.Stop() })
	})
	t.Run("the master steps down", func(t *testing.T) { //nolint:paralleltest // it measures
		failOver(t, lost, func(s *redistest.Sentinel) {
			require.NoError(t, s.Failover(t.Context()))
			require.NoError(t, s.Master.Replicate(t.Context(), s.Replica))
		})
	})
}

// Over TLS all is as without it: calls wait, a pause reaches who sleeps in another process, and Status shows it.
func TestTLS(t *testing.T) {
	t.Parallel()
	server, config := redistest.StartTLS(t)
	one, other := two(t, func() redis.UniversalClient {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr, TLSConfig: config})
		t.Cleanup(func() { require.NoError(t, rdb.Close()) })
		return rdb
	}, policies.Every(300*time.Millisecond).Named("every"))
	require.NoError(t, one.Wait(t.Context()))
	start := time.Now()
	require.NoError(t, other.Wait(t.Context()))
	require.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond, "they share the limit")
	sleeper := asleep(t, other)
	listening(t, server.Client(), 1)
	require.NoError(t, one.Report(t.Context(), policies.Feedback{Wait: time.Second}))
	s, err := other.Status(t.Context())
	require.NoError(t, err)
	require.Positive(t, s.PausedFor)
	took, ok := <-sleeper
	require.True(t, ok)
	require.GreaterOrEqual(t, took, 900*time.Millisecond, "its slot was 300 ms away")
	require.Positive(t, served(t, server))
}

// unusable spoils a server and repairs it, under the load of a fleet that paces alone meanwhile, and of a process
// that refuses
// calls and says why.
func unusable(t *testing.T, server *redistest.Server, client func() redis.UniversalClient, says string, spoil, repair func()) {
	t.Helper()
	atBest(t, func() (string, bool) {
		l := startLoad(t, client)
		rdb := client()
		defer rdb.Close()
		went, stop := startRefuser(t, rdb)
		time.Sleep(2500 * time.Millisecond)
		require.Positive(t, went.Load())
		spoil()
		time.Sleep(500 * time.Millisecond)
		forgetCounts(t, server)
		before := went.Load()
		time.Sleep(3 * time.Second)
		require.Zero(t, served(t, server))
		require.Equal(t, before, went.Load())
		repair()
		requireInUse(t, server.Client(), 2*time.Second)
		require.Positive(t, served(t, server))
		require.Eventually(t, func() bool { return went.Load() > before }, 2*time.Second, 10*time.Millisecond)
		time.Sleep(2500 * time.Millisecond)
		requireRefusals(t, stop(), says)
		s := l.stop()
		require.Positive(t, l.failed.of(says))
		return s.String(), s.good(0.9, 0)
	})
}

// plainly makes clients of one server.
func plainly(server *redistest.Server) func() redis.UniversalClient {
	return func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: server.Addr}) }
}

// Somebody fills the server's memory, which must evict nothing, and clears it up later.
func TestFullRedis(t *testing.T) { //nolint:paralleltest // it measures
	const most = 8 << 20
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	rdb := server.Client()
	var others []string
	unusable(t, server, plainly(server), "OOM", func() {
		require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", strconv.Itoa(most)).Err())
		for _, size := range []int{64 << 10, 1 << 10} {
			for err := error(nil); err == nil; {
				key := "other:" + strconv.Itoa(len(others))
				if err = rdb.Set(t.Context(), key, make([]byte, size), 0).Err(); err == nil {
					others = append(others, key)
				} else {
					require.ErrorContains(t, err, "OOM")
				}
			}
		}
		require.NotEmpty(t, others)
		// The buffers of connections come and go: more than full.
		require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", strconv.Itoa(most/2)).Err())
	}, func() {
		require.NoError(t, rdb.Del(t.Context(), others...).Err())
		others = nil
	})
}

// The server becomes a replica of another one, whose data replace its own, and a master again: it comes back without
// accounts.
func TestReadOnlyReplica(t *testing.T) { //nolint:paralleltest // it measures
	server, other := redistest.Start(t), redistest.Start(t)
	unusable(t, server, plainly(server), "READONLY", func() {
		require.NoError(t, server.Replicate(t.Context(), other))
	}, func() {
		require.NoError(t, server.Promote(t.Context()))
	})
}

// A fleet's user loses the right to run scripts, and gets it back.
func TestDeniedLater(t *testing.T) { //nolint:paralleltest // it measures
	server := redistest.Start(t)
	allow(t, server, "+@all")
	unusable(t, server, func() redis.UniversalClient { return redis.NewClient(asUser(server, "secret")) }, "NOPERM",
		func() { allow(t, server, "-evalsha") },
		func() { allow(t, server, "+evalsha") })
}

// allow changes what the server's user may do.
func allow(t *testing.T, server *redistest.Server, rules ...any) {
	t.Helper()
	args := append([]any{"ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*"}, rules...)
	require.NoError(t, server.Client().Do(t.Context(), args...).Err())
}

func asUser(server *redistest.Server, password string) *redis.Options {
	return &redis.Options{Addr: server.Addr, Username: "worker", Password: password}
}

// A mistake in the configuration is not hidden by pacing alone: every call says so, until it is mended.
func TestDenied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, password, right, says string }{
		{"no right to run scripts", "secret", "-evalsha", "NOPERM"},
		{"a wrong password", "guessed", "+@all", "WRONGPASS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			allow(t, server, "+@all", c.right)
			rdb := redis.NewClient(asUser(server, c.password))
			t.Cleanup(func() { require.NoError(t, rdb.Close()) })
			p := newPacer(t, rdb, policies.PerSecond(100))
			for range 3 {
				start := time.Now()
				err := p.Wait(t.Context())
				require.Less(t, time.Since(start), time.Second)
				var failed *pacer.StoreError
				require.ErrorAs(t, err, &failed)
				require.ErrorContains(t, err, c.says)
				require.NotErrorIs(t, err, pacer.ErrUnreachable, "it can be reached")
			}
			_, err := p.Status(t.Context())
			require.ErrorContains(t, err, c.says)
			allow(t, server, "+@all", ">"+c.password)
			require.NoError(t, p.Wait(t.Context()), "with EVAL: the server does not know the script")
			require.NoError(t, p.Wait(t.Context()))
			require.Positive(t, served(t, server))
		})
	}
}

// A server that is told to forget all scripts, again and again, costs a round trip more each time and nothing else.
func TestScriptFlushUnderLoad(t *testing.T) { //nolint:paralleltest // it measures
	atBest(t, func() (string, bool) {
		server := redistest.Start(t)
		l := startLoad(t, plainly(server))
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		flushes := 0
		for start := time.Now(); time.Since(start) < 6*time.Second; flushes++ {
			<-tick.C
			require.NoError(t, server.Client().ScriptFlush(t.Context()).Err())
		}
		requireInUse(t, server.Client(), time.Second)
		s := l.stop()
		require.Greater(t, l.failed.of("NOSCRIPT"), flushes/4)
		require.Equal(t, fmt.Sprintf("NOSCRIPT %d", l.failed.of("NOSCRIPT")), s.failed, "nothing else failed")
		return s.String(), s.good(0.95, 0)
	})
}
