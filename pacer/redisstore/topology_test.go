package redisstore_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Servers in production, under the load of a fleet: slots move, masters die or step down, memory runs out, scripts are forgotten, rights
// are taken away.

// onCluster makes clients of a cluster, which know all of its nodes.
func onCluster(cluster *redistest.Cluster) func() redis.UniversalClient {
	addrs := append([]string(nil), cluster.Addrs...)
	for _, r := range cluster.Replicas {
		addrs = append(addrs, r.Addr)
	}
	return func() redis.UniversalClient { return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs}) }
}

// The slot of the upstream moves to another master, back, and again, with many other keys in it, so that it takes a while. Keys that exist
// are at the one master, absent ones would be at the other: a script that needs both is refused with TRYAGAIN. A grant is charged wherever
// the slot is.
func TestClusterSlotMigratesUnderLoad(t *testing.T) {
	t.Parallel()
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
	for _, to := range []*redistest.Server{away, home, away} {
		forgetCounts(t, to)
		require.NoError(t, cluster.Migrate(t.Context(), loadKey, to))
		l.requireInUse(cluster.Client())
		require.Positive(t, served(t, to))
	}
	// A process whose heartbeats do not arrive for 10 s is not counted, and the others have larger shares: how many calls go locally
	// depends on how long a slot moves.
	l.end()
	require.Empty(t, referee(l.shared(), fiftyASecond))
	require.Zero(t, l.failed.of("CROSSSLOT"))
}

// The master that has the accounts dies, and its replica takes over.
func TestClusterMasterFailsOverUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartReplicatedCluster(t)
	client := onCluster(cluster)
	l := startLoad(t, client)
	owner, err := cluster.Owner(t.Context(), loadKey)
	require.NoError(t, err)
	owner.Stop()
	lost := micros()
	require.NoError(t, cluster.AwaitWhole(t.Context()))
	heir, err := cluster.Owner(t.Context(), loadKey)
	require.NoError(t, err)
	require.NotSame(t, owner, heir)
	l.requireInUse(cluster.Client())
	forgetCounts(t, heir)
	require.Eventually(t, func() bool { return served(t, heir) > 0 }, patience, 10*time.Millisecond)
	l.stop(lost)
	require.Positive(t, l.failed.of("dial")+l.failed.of("EOF")+l.failed.of("context"), "it was missed")
}

// failOver lets a sentinel make the replica the master, and returns the load.
func failOver(t *testing.T, meanwhile func(*redistest.Sentinel)) *load {
	t.Helper()
	sentinel := redistest.StartReplicatedSentinel(t)
	l := startLoad(t, func() redis.UniversalClient { return sentinel.NewClient(nil) })
	require.Zero(t, served(t, sentinel.Replica))
	meanwhile(sentinel)
	require.Eventually(t, func() bool { return served(t, sentinel.Replica) > 0 }, patience, 10*time.Millisecond)
	l.requireInUse(sentinel.Replica.Client())
	return l
}

// The master of a sentinel dies, or hands over to its replica.
//
// A sentinel that is ordered to fail over promotes the replica first and notifies clients up to a second later. Until then they go on with
// the old master, and its grants are lost. No client sees an error, and the new master knows the epoch: the loss shows when it grants a
// slot that another process has already, a call or two for each process later.
func TestSentinelFailsOverUnderLoad(t *testing.T) {
	t.Parallel()
	t.Run("the master dies", func(t *testing.T) {
		t.Parallel()
		var died int64
		l := failOver(t, func(s *redistest.Sentinel) {
			s.Master.Stop()
			died = micros()
		})
		l.stop(died)
	})
	t.Run("the master steps down", func(t *testing.T) {
		t.Parallel()
		l := failOver(t, func(s *redistest.Sentinel) {
			require.NoError(t, s.Failover(t.Context()))
			require.NoError(t, s.Master.Replicate(t.Context(), s.Replica))
		})
		// For a while there are two masters, on a busy machine for an unknown time: each of them grants what the policy allows, at most.
		l.end()
		require.Empty(t, referee(l.shared(), rule{name: "twice 50 in any second", kind: anyWindow, n: 2 * loadLimit, period: time.Second}))
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
	went, _ := inside.Slot(first)
	next, _ := inside.Slot(s.Reservation)
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

// unusable spoils a server and repairs it, under the load of a fleet that paces locally meanwhile, and of a process that refuses calls and
// reports why. repair returns the instants at which the server lost its memory.
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
	var before int64
	require.Eventually(t, func() bool { // what was on its way has come to its end
		before = other.went.Load()
		forgetCounts(t, server)
		other.refused(t, reports)
		return served(t, server) == 0 && other.went.Load() == before
	}, patience, time.Millisecond, "no call goes by what the server says")
	losses := repair()
	l.requireInUse(server.Client())
	require.Positive(t, served(t, server))
	other.goes(t, before)
	other.end(t, reports)
	l.stop(losses...)
	require.Positive(t, l.failed.of(reports))
}

// plainly makes clients of one server.
func plainly(server *redistest.Server) func() redis.UniversalClient {
	return func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: server.Addr}) }
}

// Another client fills the server's memory, which must evict nothing, and frees it later.
func TestFullRedis(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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

// A mistake in the configuration is not hidden by pacing locally: every call fails with it, until it is mended.
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

// A server that must forget all scripts, again and again, costs a round trip more each time and nothing else: no call is charged twice, and
// none is made locally, except for a late answer.
func TestScriptFlushUnderLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := startLoad(t, plainly(server))
	for range 20 {
		require.NoError(t, server.Client().ScriptFlush(t.Context()).Err())
		l.requireInUse(server.Client())
	}
	l.stop()
	require.Positive(t, l.failed.of("NOSCRIPT"))
	for word := range l.failed.seen {
		require.Contains(t, []string{"NOSCRIPT", "context"}, word, "nothing else failed, but for what came too late: %s", &l.failed)
	}
}
