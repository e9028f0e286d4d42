package bench_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/storetest"
)

// Users test with miniredis, whose Lua has numbers and libraries of its own: the store must work there, too.
// miniredis.SetTime sets what TIME answers, so the suite runs on the scripts as they are. Keys expire by
// miniredis's own clock, which stands still.
func TestTheStoreConformsOnMiniredis(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	storetest.Run(t, func(t testing.TB) storetest.Fixture {
		t.Helper()
		store, err := redisstore.New(rdb)
		require.NoError(t, err)
		return storetest.Fixture{Store: store, SetTime: func(now pacer.Instant) { server.SetTime(time.UnixMicro(int64(now))) }}
	})
}
