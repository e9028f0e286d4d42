package redisstore_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/policies"
)

// Tenants without end, each seen once: their data is bounded here, and gone from the server after their TTLs. With HEADWAY_LONG=1 there are
// more, and HEADWAY_TENANTS sets their number.
func TestTenantsWithoutEnd(t *testing.T) { //nolint:paralleltest // others would be measured, too
	tenants := extent(2_000, 30_000)
	if n, err := strconv.Atoi(os.Getenv("HEADWAY_TENANTS")); err == nil {
		tenants = n
	}
	rdb := redistest.Start(t).Client()
	p := newPacer(t, rdb, policies.PerSecond(1).Per("tenant"), policies.Fixed(10, time.Second).Per("tenant"))
	before, server := heap(), usedMemory(t, rdb)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(tenants); i = next.Add(1) {
				require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "tenant-"+strconv.FormatInt(i, 10)), pacer.MaxWait(0)))
			}
		})
	}
	wg.Wait()
	peak := usedMemory(t, rdb)
	kept := heap() - before
	require.Eventually(t, func() bool { return len(accountsOf(t, rdb)) == 0 }, patience, 200*time.Millisecond)
	after := usedMemory(t, rdb)
	t.Logf("%d tenants: %d KiB kept in the process; the server had %d KiB at the end, %d KiB more than before when they had expired",
		tenants, kept/1024, (peak-server)/1024, (after-server)/1024)
	// A process remembers up to 2^16 keys, for a server that forgets.
	require.Less(t, kept, int64(1<<16)*1024)
	require.Less(t, after-server, int64(16<<20), "some of it is the tables' own room, which the server gives back by and by")
}

// accountsOf is accounts, of a server with very many keys: at most a few of them.
func accountsOf(t *testing.T, rdb *redis.Client) []string {
	t.Helper()
	if rdb.DBSize(t.Context()).Val() > 10 {
		return []string{"many"}
	}
	return accounts(t, rdb)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func usedMemory(t *testing.T, rdb *redis.Client) int64 {
	t.Helper()
	info, err := rdb.Info(t.Context(), "memory").Result()
	require.NoError(t, err)
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			n, err := strconv.ParseInt(v, 10, 64)
			require.NoError(t, err)
			return n
		}
	}
	t.Fatal("the server does not say")
	return 0
}
