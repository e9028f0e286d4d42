package redisstore_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/measure"
	"github.com/headway-go/headway/pacer/internal/redistest"
	"github.com/headway-go/headway/pacer/store"
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
// refused with TRYAGAIN. What was granted is charged wherever the slot is.
func TestClusterSlotMigratesUnderLoad(t *testing.T) {
	together(t)
	const others = 2000
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
	took := time.Duration(0)
	for _, to := range []*redistest.Server{away, home, away} {
		forgetCounts(t, to)
		start := time.Now()
		require.NoError(t, cluster.Migrate(t.Context(), loadKey, to))
		took = max(took, time.Since(start))
		t.Logf("the slot has moved after %v", time.Since(start).Round(time.Millisecond))
		l.requireInUse(cluster.Client())
		l.play(2 * time.Second)
		require.Positive(t, served(t, to))
	}
	end := func() seen { return l.stop() }
	if took > 8*time.Second { // a process whose heartbeats do not arrive for 10 s is not counted: the others have larger shares
		t.Logf("not judged, how many calls went: the slot moved for %v", took.Round(time.Second))
		end = l.end
	}
	s := end()
	require.Zero(t, l.failed.of("CROSSSLOT"))
	s.judge(t, 0.9, 0)
}

// The master that has the accounts dies, and its replica takes over.
func TestClusterMasterFailsOverUnderLoad(t *testing.T) {
	together(t)
	afterDials(t)
	cluster := redistest.StartReplicatedCluster(t)
	client := onCluster(cluster)
	l := startLoad(t, client)
	l.play(1500 * time.Millisecond)
	owner, err := cluster.Owner(t.Context(), loadKey)
	require.NoError(t, err)
	start := time.Now()
	owner.Stop()
	lost := micros()
	require.NoError(t, cluster.AwaitWhole(t.Context()))
	t.Logf("there is a new master after %v", time.Since(start).Round(time.Millisecond))
	heir, err := cluster.Owner(t.Context(), loadKey)
	require.NoError(t, err)
	require.NotSame(t, owner, heir)
	l.requireInUse(cluster.Client())
	forgetCounts(t, heir)
	l.play(time.Until(start.Add(12 * time.Second)))
	require.Eventually(t, func() bool { return served(t, heir) > 0 }, patience, 10*time.Millisecond)
	s := l.stop(lost)
	require.Positive(t, l.failed.of("dial")+l.failed.of("EOF")+l.failed.of("context"), "it was missed")
	s.judge(t, 0.85, 0)
}

// failOver lets a sentinel make the replica the master, and returns the load.
func failOver(t *testing.T, meanwhile func(*redistest.Sentinel)) *load {
	t.Helper()
	afterDials(t)
	sentinel := redistest.StartReplicatedSentinel(t)
	l := startLoad(t, func() redis.UniversalClient { return sentinel.NewClient(nil) })
	require.Zero(t, served(t, sentinel.Replica))
	start := time.Now()
	meanwhile(sentinel)
	require.Eventually(t, func() bool { return served(t, sentinel.Replica) > 0 }, patience, 10*time.Millisecond)
	l.requireInUse(sentinel.Replica.Client())
	t.Logf("the new master is in use after %v", time.Since(start).Round(time.Millisecond))
	l.play(time.Until(start.Add(8 * time.Second)))
	forgetCounts(t, sentinel.Replica)
	require.Eventually(t, func() bool { return served(t, sentinel.Replica) > 0 }, patience, 10*time.Millisecond)
	return l
}

// The master that a sentinel watches dies, or hands over to its replica.
//
// A sentinel that is ordered to fail over promotes the replica first and tells clients up to a second later. Until then they go on with the
// old master, and what it granted is lost. No client sees an error, and the new master knows the epoch: that is found out when it grants to
// somebody what that process has already, a call or two for each process later.
func TestSentinelFailsOverUnderLoad(t *testing.T) { //nolint:paralleltest,tparallel // when it measures, it is alone
	const lost = 4
	t.Run("the master dies", func(t *testing.T) {
		together(t)
		var died int64
		l := failOver(t, func(s *redistest.Sentinel) {
			s.Master.Stop()
			died = micros()
		})
		s := l.stop(died)
		s.judge(t, 0.85, 0)
	})
	t.Run("the master steps down", func(t *testing.T) {
		together(t)
		l := failOver(t, func(s *redistest.Sentinel) {
			require.NoError(t, s.Failover(t.Context()))
			require.NoError(t, s.Master.Replicate(t.Context(), s.Replica))
		})
		// For a while there are two masters, and a busy machine tells nobody for how long: each of them grants what the policy
		// allows, at most.
		s := l.end()
		require.LessOrEqual(t, l.granted(), 2*loadLimit, "in the fullest second")
		s.judge(t, 0.85, lost)
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
	}, policies.Every(20*time.Minute).Named("every"))
	first, err := one.Acquire(t.Context())
	require.NoError(t, err)
	s := asleep(t, other)
	went, _ := first.Slot()
	next, _ := s.Slot()
	require.Equal(t, 20*time.Minute, next.Sub(went), "they share the limit")
	listening(t, server.Client(), 1)
	s.movesBehind(t, 20*time.Minute, func() {
		require.NoError(t, one.Report(t.Context(), policies.Feedback{Wait: 50 * time.Minute}))
	})
	status, err := other.Status(t.Context())
	require.NoError(t, err)
	require.Positive(t, status.PausedFor)
	require.Positive(t, served(t, server))
}

// unusable spoils a server and repairs it, under the load of a fleet that paces locally meanwhile, and of a process
// that refuses calls and says why. repair returns the instants at which the server lost its memory.
func unusable(t *testing.T, server *redistest.Server, client func() redis.UniversalClient, reports string, spoil func(), repair func() []int64) {
	t.Helper()
	l := startLoad(t, client)
	rdb := client()
	defer rdb.Close()
	other := startRefuser(t, rdb)
	defer other.stop()
	other.goes(t, 0)
	spoil()
	other.refused(t, reports)
	require.Eventually(t, func() bool { // what was on its way has come to its end
		forgetCounts(t, server)
		time.Sleep(500 * time.Millisecond)
		return served(t, server) == 0
	}, patience, time.Millisecond)
	before := other.went.Load()
	time.Sleep(measure.Length(time.Second, 3*time.Second)) // nothing is to happen
	went, n := other.went.Load(), served(t, server)
	if reports != "OOM" { // a full server has room for a script whenever the buffer of some client is freed
		require.Zero(t, n)
	}
	if n == 0 {
		require.Equal(t, before, went)
	}
	losses := repair()
	l.requireInUse(server.Client())
	require.Positive(t, served(t, server))
	other.goes(t, before)
	l.play(2500 * time.Millisecond)
	other.end(t, reports)
	s := l.stop(losses...)
	require.Positive(t, l.failed.of(reports))
	s.judge(t, 0.9, 0)
}

// plainly makes clients of one server.
func plainly(server *redistest.Server) func() redis.UniversalClient {
	return func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: server.Addr}) }
}

// Somebody fills the server's memory, which must evict nothing, and clears it up later.
func TestFullRedis(t *testing.T) {
	together(t)
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
	}, func() []int64 {
		require.NoError(t, rdb.Del(t.Context(), others...).Err())
		return nil
	})
}

// The server becomes a replica of another one, whose data replace its own, and a master again: it comes back without
// accounts.
func TestReadOnlyReplica(t *testing.T) {
	together(t)
	server, other := redistest.Start(t), redistest.Start(t)
	unusable(t, server, plainly(server), "READONLY", func() {
		require.NoError(t, server.Replicate(t.Context(), other))
	}, func() []int64 {
		lost := micros()
		require.NoError(t, server.Promote(t.Context()))
		return []int64{lost}
	})
}

// A fleet's user loses the right to run scripts, and gets it back.
func TestDeniedLater(t *testing.T) {
	together(t)
	server := redistest.Start(t)
	allow(t, server, "+@all")
	unusable(t, server, func() redis.UniversalClient { return redis.NewClient(asUser(server, "secret")) }, "NOPERM",
		func() { allow(t, server, "-evalsha") },
		func() []int64 { allow(t, server, "+evalsha"); return nil })
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

// A mistake in the configuration is not hidden by pacing locally: every call says so, until it is mended.
func TestDenied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, password, right, reports string }{
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
				err := p.Wait(t.Context())
				var failed *pacer.StoreError
				require.ErrorAs(t, err, &failed)
				require.ErrorContains(t, err, c.reports)
				require.NotErrorIs(t, err, store.ErrUnreachable, "it can be reached")
			}
			_, err := p.Status(t.Context())
			require.ErrorContains(t, err, c.reports)
			allow(t, server, "+@all", ">"+c.password)
			require.NoError(t, p.Wait(t.Context()), "with EVAL: the server does not know the script")
			require.NoError(t, p.Wait(t.Context()))
			require.Positive(t, served(t, server))
		})
	}
}

// A server that is made to forget all scripts, again and again, costs a round trip more each time and nothing else: no call is charged
// twice, and none is made locally but for a late answer.
func TestScriptFlushUnderLoad(t *testing.T) {
	together(t)
	server := redistest.Start(t)
	l := startLoad(t, plainly(server))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	flushes := 0
	for start := time.Now(); time.Since(start) < measure.Length(2*time.Second, 6*time.Second); flushes++ {
		<-tick.C
		require.NoError(t, server.Client().ScriptFlush(t.Context()).Err())
	}
	l.requireInUse(server.Client())
	s := l.stop()
	require.Positive(t, l.failed.of("NOSCRIPT"))
	for word := range l.failed.seen {
		require.Contains(t, []string{"NOSCRIPT", "context"}, word, "nothing else failed, but for what came too late: %s", s.failed)
	}
	s.judge(t, 0.95, 0)
}
