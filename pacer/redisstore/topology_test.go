package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/redistest"
)

// onCluster makes clients of a cluster, which know all of its nodes.
func onCluster(cluster *redistest.Cluster) func() redis.UniversalClient {
	addrs := append([]string(nil), cluster.Addrs...)
	for _, r := range cluster.Replicas {
		addrs = append(addrs, r.Addr)
	}
	return func() redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ClusterStateReloadInterval: time.Second})
	}
}

// The slot of the upstream moves to another master and back, with many other keys in it, so that it takes a while. Those of
// its keys that are there are at the one master, those that are not would be at the other: a script that needs both is
// refused with TRYAGAIN, or sent on.
func TestClusterSlotMigratesUnderLoad(t *testing.T) { //nolint:paralleltest // it measures
	atBest(t, func() (string, bool) {
		cluster := redistest.StartCluster(t)
		fill := cluster.Client().Pipeline()
		for i := range 2000 {
			fill.Set(t.Context(), fmt.Sprintf("{%s}:foreign:%d", loadUpstream, i), i, time.Hour)
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
			t.Logf("the slot has moved in %v", time.Since(start))
			time.Sleep(2 * time.Second)
			require.Positive(t, served(t, to))
			requireInUse(t, cluster.Client(), 2*time.Second)
		}
		s := l.stop()
		require.Zero(t, l.failed.of("CROSSSLOT"))
		return s.String(), s.good(0.9, loadLimit)
	})
}

// The master that has the accounts dies, and its replica takes over.
func TestClusterMasterFailsOverUnderLoad(t *testing.T) { //nolint:paralleltest // it measures
	atBest(t, func() (string, bool) {
		cluster := redistest.StartReplicatedCluster(t)
		l := startLoad(t, onCluster(cluster))
		time.Sleep(5 * time.Second)
		owner, err := cluster.Owner(t.Context(), loadKey)
		require.NoError(t, err)
		start := time.Now()
		owner.Stop()
		require.NoError(t, cluster.AwaitWhole(t.Context()))
		t.Logf("a new master after %v", time.Since(start))
		heir, err := cluster.Owner(t.Context(), loadKey)
		require.NoError(t, err)
		forgetCounts(t, heir)
		requireInUse(t, cluster.Client(), 5*time.Second)
		time.Sleep(time.Until(start.Add(11 * time.Second)))
		require.Positive(t, served(t, heir))
		s := l.stop()
		return s.String(), s.good(0.85, loadLimit)
	})
}

func failOver(t *testing.T, meanwhile func(*redistest.Sentinel)) {
	t.Helper()
	atBest(t, func() (string, bool) {
		sentinel := redistest.StartReplicatedSentinel(t)
		l := startLoad(t, func() redis.UniversalClient { return sentinel.NewClient(nil) })
		time.Sleep(4 * time.Second)
		forgetCounts(t, sentinel.Replica)
		start := time.Now()
		meanwhile(sentinel)
		t.Logf("done after %v", time.Since(start))
		requireInUse(t, sentinel.Replica.Client(), 10*time.Second)
		time.Sleep(time.Until(start.Add(8 * time.Second)))
		require.Positive(t, served(t, sentinel.Replica))
		s := l.stop()
		return s.String(), s.good(0.85, loadLimit)
	})
}

func TestSentinelFailsOverUnderLoad(t *testing.T) { //nolint:paralleltest // it measures
	t.Run("the master dies", func(t *testing.T) { //nolint:paralleltest // it measures
		failOver(t, func(s *redistest.Sentinel) { s.Master.Stop() })
	})
	t.Run("the master steps down", func(t *testing.T) { //nolint:paralleltest // it measures
		failOver(t, func(s *redistest.Sentinel) {
			go func() {
				for s.Replica.Client().Do(t.Context(), "ROLE").Val().([]any)[0] != "master" {
					time.Sleep(time.Millisecond)
				}
				n, at := served(t, s.Master), time.Now()
				time.Sleep(20 * time.Millisecond)
				for served(t, s.Replica) == 0 {
					time.Sleep(time.Millisecond)
				}
				t.Logf("after the promotion the old master went on for %v and %d calls", time.Since(at), served(t, s.Master)-n)
			}()
			require.NoError(t, s.Failover(t.Context()))
			require.NoError(t, s.Master.Replicate(t.Context(), s.Replica))
		})
	})
}
