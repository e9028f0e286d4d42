package redistest_test

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

func TestSentinelPromotesTheReplicaOfAStoppedMaster(t *testing.T) {
	t.Parallel()

	sentinel := redistest.StartReplicatedSentinel(t)
	client := sentinel.Client()
	require.Same(t, client, sentinel.Client())

	require.NoError(t, client.Set(t.Context(), "k", "before", 0).Err())
	requireValue(t, sentinel.Master.Client(), "k", "before")
	requireValue(t, sentinel.Replica.Client(), "k", "before")

	sentinel.Master.Stop()

	require.Eventually(t, func() bool {
		return client.Set(t.Context(), "k", "after", 0).Err() == nil
	}, eventually, poll)

	requireRole(t, sentinel.Replica, "master")
	requireValue(t, sentinel.Replica.Client(), "k", "after")
}

func TestSentinelFailsOverOnDemand(t *testing.T) {
	t.Parallel()

	sentinel := redistest.StartReplicatedSentinel(t)
	client := sentinel.NewClient(func(options *redis.FailoverOptions) { options.DB = 3 })

	require.NoError(t, client.Set(t.Context(), "k", "before", 0).Err())
	require.Equal(t, 3, client.Options().DB)
	requireValue(t, databaseThree(t, sentinel.Replica), "k", "before")

	require.NoError(t, sentinel.Failover(t.Context()))
	requireRole(t, sentinel.Replica, "master")

	// The client may write to the old master until it knows the new one.
	replica := databaseThree(t, sentinel.Replica)

	tries := 0

	require.Eventually(t, func() bool {
		tries++
		want := strconv.Itoa(tries)
		if client.Set(t.Context(), "k", want, 0).Err() != nil {
			return false
		}

		got, err := replica.Get(t.Context(), "k").Result()

		return err == nil && got == want
	}, eventually, poll)

	// The old master does not know yet.
	requireRole(t, sentinel.Master, "master")
	require.NoError(t, sentinel.Master.Replicate(t.Context(), sentinel.Replica))

	want, err := replica.Get(t.Context(), "k").Result()
	require.NoError(t, err)
	requireValue(t, databaseThree(t, sentinel.Master), "k", want)

	// As soon as the sentinel has seen that, it can go back.
	require.Eventually(t, func() bool { return sentinel.Failover(t.Context()) == nil }, eventually, poll)
	requireRole(t, sentinel.Master, "master")
	requireValue(t, databaseThree(t, sentinel.Master), "k", want)
}

// databaseThree returns a client of another database of the server than Client does.
func databaseThree(t *testing.T, server *redistest.Server) *redis.Client {
	t.Helper()

	client := redis.NewClient(&redis.Options{Addr: server.Addr, DB: 3})
	t.Cleanup(func() { require.NoError(t, client.Close()) })

	return client
}
