package bench_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/pacer/storetest"
)

// sample are the cases that are run under the race detector, which slows miniredis's Lua down ninefold. There is one at least of
// each kind of limit, note and script.
var sample = []string{
	"gcra/spacing", "gcra/burst", "window/fixed", "window/sliding", "joint/slowest-binds", "joint/batch-is-a-sequence", "cancel/middle",
	"pause/move-behind", "learn/rate", "allowance/until", "slow/decrease", "cost/by-policy", "settle/refund-rate", "claim/window", "reset",
	"shared/alive", "shared/epoch", "shared/holds", "shared/once", "registry/processes", "registry/went", "status/rate", "inflight/queue", "inflight/renew", "inflight/since",
	"lane/burst", "lane/cancel", "fair/queue", "fair/dead",
}

// Users test with miniredis, whose Lua has numbers and libraries of its own: the store must work there, too. miniredis.SetTime sets the
// answer to TIME, so the suite runs on unchanged scripts. Keys expire by miniredis's own clock, which stands still.
func TestTheStoreConformsOnMiniredis(t *testing.T) {
	t.Parallel()
	cases := storetest.Cases()
	if underRace {
		all := len(cases)
		cases = slices.DeleteFunc(cases, func(c storetest.Case) bool { return !slices.Contains(sample, c.Name) })
		require.Len(t, cases, len(sample), "the sample names a case that does not exist")
		t.Logf("the race detector runs %d of %d cases: %s", len(cases), all, strings.Join(sample, ", "))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the rule: %s", c.Rule)
				}
			})
			server := miniredis.RunT(t)
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), DialTimeout: patient, ReadTimeout: patient, WriteTimeout: patient})
			t.Cleanup(func() { _ = rdb.Close() })
			backing, err := redisstore.New(rdb)
			require.NoError(t, err)
			setTime := func(now store.Instant) { server.SetTime(time.UnixMicro(int64(now))) }
			c.Test(t, storetest.NewSession(t, storetest.Fixture{Store: backing, SetTime: setTime}))
		})
	}
}
