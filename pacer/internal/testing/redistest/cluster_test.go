package redistest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

const (
	eventually = time.Minute
	poll       = 10 * time.Millisecond
)

func TestClusterServesEverySlot(t *testing.T) {
	t.Parallel()

	cluster := redistest.StartCluster(t, "--maxmemory-policy", "allkeys-lru")
	client := cluster.Client()

	require.Len(t, cluster.Addrs, 3)
	require.Empty(t, cluster.Replicas)
	require.Same(t, client, cluster.Client())

	for i := range 100 {
		key := fmt.Sprintf("k%d", i)
		require.NoError(t, client.Set(t.Context(), key, i, 0).Err())

		got, err := client.Get(t.Context(), key).Int()
		require.NoError(t, err)
		require.Equal(t, i, got)
	}

	for _, node := range cluster.Nodes {
		size, err := node.Client().DBSize(t.Context()).Result()
		require.NoError(t, err)
		require.Positive(t, size, "%s holds a share of the keys", node.Addr)

		args, err := node.Client().ConfigGet(t.Context(), "maxmemory-policy").Result()
		require.NoError(t, err)
		require.Equal(t, "allkeys-lru", args["maxmemory-policy"])
	}
}

func TestOwnerIsTheMasterThatHoldsTheKey(t *testing.T) {
	t.Parallel()

	cluster := redistest.StartCluster(t)

	for i := range 20 {
		key := fmt.Sprintf("k%d", i)
		require.NoError(t, cluster.Client().Set(t.Context(), key, i, 0).Err())

		owner, err := cluster.Owner(t.Context(), key)
		require.NoError(t, err)

		got, err := owner.Client().Get(t.Context(), key).Int()
		require.NoError(t, err)
		require.Equal(t, i, got)
	}

	// Without replicas a stopped or paused master has no heir.
	owner, err := cluster.Owner(t.Context(), "k")
	require.NoError(t, err)

	owner.Pause()
	_, err = cluster.Owner(t.Context(), "k")
	require.ErrorContains(t, err, "no living node owns the slot")

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()

	err = cluster.AwaitWhole(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "has no living master")

	owner.Continue()
	require.NoError(t, cluster.AwaitWhole(t.Context()))

	again, err := cluster.Owner(t.Context(), "k")
	require.NoError(t, err)
	require.Same(t, owner, again)

	for _, node := range cluster.Nodes {
		node.Stop()
	}

	_, err = cluster.Owner(t.Context(), "k")
	require.ErrorContains(t, err, "no node of the cluster lives")
}

func TestMigrateMovesASlotUnderWrites(t *testing.T) {
	t.Parallel()

	const (
		old     = 200 // keys that are there before the first move
		keys    = 300 // keys that are written to
		writers = 4
	)

	cluster := redistest.StartCluster(t)
	client := cluster.Client()
	name := func(i int) string { return fmt.Sprintf("{slot}:%d", i) }

	for i := range old {
		require.NoError(t, client.Set(t.Context(), name(i), 0, time.Hour).Err())
	}

	require.NoError(t, client.Set(t.Context(), "elsewhere", "stays", 0).Err())

	stop := make(chan struct{})
	results := make(chan error, writers)

	var written [keys]atomic.Int64

	for range writers {
		go func() {
			for {
				select {
				case <-stop:
					results <- nil

					return
				default:
				}

				i := rand.IntN(keys)
				if err := client.Incr(t.Context(), name(i)).Err(); err != nil {
					results <- err

					return
				}

				written[i].Add(1)
			}
		}()
	}

	first, err := cluster.Owner(t.Context(), name(0))
	require.NoError(t, err)

	at := slices.Index(cluster.Nodes, first)
	for i := 1; i <= 3; i++ { // to the next, to the one after it, and home
		to := cluster.Nodes[(at+i)%3]
		require.NoError(t, cluster.Migrate(t.Context(), name(0), to))

		owner, err := cluster.Owner(t.Context(), name(0))
		require.NoError(t, err)
		require.Same(t, to, owner)
		require.NoError(t, cluster.Migrate(t.Context(), name(0), to), "it is there")
		require.NoError(t, cluster.AwaitWhole(t.Context()))
	}

	close(stop)

	for range writers {
		require.NoError(t, <-results)
	}

	var total int64
	for i := range keys {
		want := written[i].Load()
		if i < old || want > 0 {
			got, err := first.Client().Get(t.Context(), name(i)).Int64()
			require.NoError(t, err)
			require.Equal(t, want, got, name(i))
		}

		total += want
	}

	require.Greater(t, total, int64(keys), "the writers ran meanwhile")

	ttl, err := first.Client().TTL(t.Context(), name(0)).Result()
	require.NoError(t, err)
	require.Positive(t, ttl, "a moved key keeps its time to live")

	got, err := client.Get(t.Context(), "elsewhere").Result()
	require.NoError(t, err)
	require.Equal(t, "stays", got)
}

func TestReplicaTakesOverFromAStoppedMaster(t *testing.T) {
	t.Parallel()

	const keys = 100

	cluster := redistest.StartReplicatedCluster(t)
	client := cluster.Client()

	require.Len(t, cluster.Nodes, 3)
	require.Len(t, cluster.Replicas, 3)

	for i, replica := range cluster.Replicas {
		info, err := replica.Client().Info(t.Context(), "replication").Result()
		require.NoError(t, err)
		require.Contains(t, info, "role:slave\r\n")
		require.Contains(t, info, "master_link_status:up\r\n")
		require.Equal(t, cluster.Nodes[i].Addr, net.JoinHostPort(field(info, "master_host"), field(info, "master_port")))
	}

	name := func(i int) string { return fmt.Sprintf("{slot}:%d", i) }

	// A slot that has moved fails over like any other.
	owner, err := cluster.Owner(t.Context(), name(0))
	require.NoError(t, err)

	for i := range keys {
		require.NoError(t, client.Set(t.Context(), name(i), i, 0).Err())
	}

	at := (slices.Index(cluster.Nodes, owner) + 1) % 3
	owner, heir := cluster.Nodes[at], cluster.Replicas[at]
	require.NoError(t, cluster.Migrate(t.Context(), name(0), owner))
	require.ErrorContains(t, cluster.Migrate(t.Context(), name(0), heir), "not a living master")

	require.Eventually(t, func() bool {
		size, err := heir.Client().DBSize(t.Context()).Result()

		return err == nil && size == keys
	}, eventually, poll)

	owner.Stop()

	require.Eventually(t, func() bool {
		now, err := cluster.Owner(t.Context(), name(0))

		return err == nil && now == heir
	}, eventually, poll)

	require.NoError(t, cluster.AwaitWhole(t.Context()))

	for i := range keys {
		got, err := client.Get(t.Context(), name(i)).Int()
		require.NoError(t, err)
		require.Equal(t, i, got)
		require.NoError(t, client.Set(t.Context(), name(i), -i, 0).Err())
	}

	// The old master comes back as a replica of the new one, and fetches what it missed.
	owner.Restart()
	require.NoError(t, cluster.AwaitWhole(t.Context()))

	now, err := cluster.Owner(t.Context(), name(0))
	require.NoError(t, err)
	require.Same(t, heir, now)

	size, err := owner.Client().DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.EqualValues(t, keys, size)
}

func TestAwaitWholeWaitsForTheHeirOfAPausedMaster(t *testing.T) {
	t.Parallel()

	cluster := redistest.StartReplicatedCluster(t)
	cluster.Nodes[1].Pause()

	// No node has noticed yet, and all of them report cluster_state:ok.
	require.NoError(t, cluster.AwaitWhole(t.Context()))

	info, err := cluster.Replicas[1].Client().Info(t.Context(), "replication").Result()
	require.NoError(t, err)
	require.Contains(t, info, "role:master\r\n")

	// The old master still holds itself to be one; then it learns.
	cluster.Nodes[1].Continue()
	require.NoError(t, cluster.AwaitWhole(t.Context()))

	info, err = cluster.Nodes[1].Client().Info(t.Context(), "replication").Result()
	require.NoError(t, err)
	require.Contains(t, info, "role:slave\r\n")
}
