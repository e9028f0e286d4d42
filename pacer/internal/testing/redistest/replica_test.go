package redistest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

func TestReplicaFollowsItsMasterUntilPromoted(t *testing.T) {
	t.Parallel()

	master, replica := redistest.Start(t), redistest.Start(t)
	require.NoError(t, master.Client().Set(t.Context(), "k", "v", 0).Err())
	require.NoError(t, replica.Client().Set(t.Context(), "own", "v", 0).Err())

	require.NoError(t, replica.Replicate(t.Context(), master))
	requireRole(t, replica, "slave")

	got, err := replica.Client().Get(t.Context(), "k").Result()
	require.NoError(t, err, "it has the master's data when Replicate returns")
	require.Equal(t, "v", got)
	require.ErrorIs(t, replica.Client().Get(t.Context(), "own").Err(), redis.Nil)
	require.ErrorContains(t, replica.Client().Set(t.Context(), "k", "w", 0).Err(), "READONLY")

	require.NoError(t, replica.Promote(t.Context()))
	requireRole(t, replica, "master")
	require.NoError(t, replica.Client().Set(t.Context(), "k", "w", 0).Err())
	requireValue(t, master.Client(), "k", "v")

	// Now the other way round.
	require.NoError(t, master.Replicate(t.Context(), replica))
	requireValue(t, master.Client(), "k", "w")
	requireRole(t, master, "slave")
}

func TestReplicatingADeadMasterFails(t *testing.T) {
	t.Parallel()

	master, replica := redistest.Start(t), redistest.Start(t)
	master.Stop()

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()

	err := replica.Replicate(ctx, master)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "master_link_status:down")
}

func requireRole(t *testing.T, server *redistest.Server, want string) {
	t.Helper()

	info, err := server.Client().Info(t.Context(), "replication").Result()
	require.NoError(t, err)
	require.Equal(t, want, field(info, "role"))
}

// requireValue waits until a key has that value.
func requireValue(t *testing.T, client *redis.Client, key, want string) {
	t.Helper()

	require.Eventually(t, func() bool {
		got, err := client.Get(t.Context(), key).Result()

		return err == nil && got == want
	}, eventually, poll)
}

// field returns the value of a field of a reply to INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}

	return ""
}
