package redisstore_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/pacer/storetest"
)

func fixture(rdb redisstore.Client) storetest.Fixture {
	var now atomic.Int64
	f := storetest.Fixture{
		Store:   redisstore.NewAt(rdb, func() store.Instant { return store.Instant(now.Load()) }),
		SetTime: func(t store.Instant) { now.Store(int64(t)) },
	}
	if one, ok := rdb.(*redis.Client); ok {
		f.State = func(upstream string) string { return stateOf(one, upstream) }
	}
	return f
}

// stateOf returns the names and values of all keys of an upstream.
func stateOf(rdb *redis.Client, upstream string) string {
	ctx := context.Background()
	keys := rdb.Keys(ctx, "pacer:*{"+upstream+"}*").Val()
	slices.Sort(keys)
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%s = %q", k, rdb.Dump(ctx, k).Val())
	}
	return strings.Join(keys, "\n")
}

func memory() storetest.Fixture {
	var now atomic.Int64
	return storetest.Fixture{
		Store:   memstore.New(memstore.WithClock(func() store.Instant { return store.Instant(now.Load()) })),
		SetTime: func(t store.Instant) { now.Store(int64(t)) },
	}
}

// extent is how many random histories a test plays: few, or with HEADWAY_LONG=1 all.
func extent(few, all int) int {
	if os.Getenv("HEADWAY_LONG") != "" {
		return all
	}
	return few
}

// thorough are the cases that play thousands of calls one after the other. The memory store plays them, and the random histories of
// TestStoresAnswerAlike compare it with this one. decided are those that the server's scripts decide, however the server was found.
var (
	thorough = regexp.MustCompile("^(fair/(rate|inflight)/(weights|more-callers|comes-and-goes|nobody-starves|many|alone)|fair/(keeps-slot|beside-permits|newcomer|cost)|lane/(paces|lent|own-rate|part|part-is-kept)|registry/bounded|cancel/thousand|floor/(day|lasts|fails/.*))$")
	decided  = regexp.MustCompile("^(property|exact|stated|changed|gcra|floor|gaps|fair/(rate|inflight|mixed)|(fair|lane|joint|window)/(far|newcomer|part|part-is-kept|paused|cost|usable-gaps|hundred-buckets|long-line)$)")
)

// conforms runs the conformance suite, the cases side by side: each has a clock and an upstream of its own. Unless HEADWAY_LONG=1, it
// leaves some out.
func conforms(t *testing.T, rdb redisstore.Client, seeds int, without ...*regexp.Regexp) {
	t.Helper()
	for _, c := range storetest.Cases() {
		if extent(0, 1) == 0 && slices.ContainsFunc(without, func(re *regexp.Regexp) bool { return re.MatchString(c.Name) }) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the rule: %s", c.Rule)
				}
			})
			f := fixture(rdb)
			f.Seeds = seeds
			c.Test(t, storetest.NewSession(t, f))
		})
	}
}

func TestStoreConforms(t *testing.T) {
	t.Parallel()
	conforms(t, redistest.Shared(t).Client(), extent(5, 0), thorough)
}

func TestStoreConformsOnACluster(t *testing.T) {
	t.Parallel()
	conforms(t, redistest.StartCluster(t).Client(), extent(1, 0), thorough, decided)
}

// plans are what random histories are made of.
var plans = map[string]storetest.Plan{
	"Plain":         {Ops: 12},
	"Cancels":       {Ops: 14, Cancels: true},
	"Paced":         {Ops: 30, Paced: true},
	"Pauses":        {Ops: 14, Cancels: true, Pauses: true},
	"StepsBack":     {Ops: 14, Cancels: true, Pauses: true, StepsBack: true},
	"Changes":       {Ops: 30, Cancels: true, Pauses: true, StepsBack: true, Changes: true},
	"Feedback":      {Ops: 30, Cancels: true, Pauses: true, StepsBack: true, Feedback: true},
	"Memory":        {Ops: 30, Cancels: true, Pauses: true, StepsBack: true, Feedback: true, Memory: true},
	"Exact":         {Ops: 40, Cancels: true, StepsBack: true, Changes: true, Exact: true},
	"ExactAll":      {Ops: 40, Cancels: true, Pauses: true, StepsBack: true, Feedback: true, Memory: true, Exact: true},
	"ExactDeep":     {Ops: 200, Cancels: true, Feedback: true, Exact: true},
	"Choices":       {Ops: 30, Cancels: true, Pauses: true, StepsBack: true, Changes: true, Feedback: true, Memory: true, Choices: true},
	"ChoicesQueues": {Ops: 40, Cancels: true, Pauses: true, StepsBack: true, Changes: true, Feedback: true, Memory: true, Choices: true, Queues: true},
	"Queues":        {Ops: 24, Cancels: true, Queues: true},
	"QueuesAll":     {Ops: 24, Cancels: true, Pauses: true, StepsBack: true, Changes: true, Feedback: true, Memory: true, Queues: true},
}

// differed are the seeds of histories in which the stores once answered differently.
var differed = map[string][]uint64{
	"Feedback":      {1217},           // nothing was given back to a window, which then forgot that it was full
	"Memory":        {1355},           // a call that costs more than the burst was given time back
	"Choices":       {367, 541, 1488}, // as in Memory; a learned limit; as in Memory
	"ChoicesQueues": {243},            // a refusal beyond what is known of a calendar named another choice
	"Queues":        {583},            // a refusal named a slot before the call's NotBefore
}

// TestStoresAnswerAlike compares every reply of the Redis store and the memory store over random histories, with HEADWAY_LONG=1
// over very many.
func TestStoresAnswerAlike(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for name, plan := range plans {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			histories := min(20, 1_000/plan.Ops)
			if plan.Paced {
				histories = 140
			}
			storetest.Differential(t, memory(), fixture(rdb), extent(histories, 2100), plan, 1)
			for _, seed := range differed[name] {
				storetest.Differential(t, memory(), fixture(rdb), 1, plan, seed)
			}
		})
	}
}

// Random histories do not reach the bound of the search for a slot.
func TestStoresGiveUpAlike(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	one, two := storetest.Zipper(storetest.NewSession(t, memory())), storetest.Zipper(storetest.NewSession(t, fixture(rdb)))
	require.Equal(t, one, two)
	one, two = storetest.Crowd(storetest.NewSession(t, memory())), storetest.Crowd(storetest.NewSession(t, fixture(rdb)))
	require.Equal(t, one, two)
}
