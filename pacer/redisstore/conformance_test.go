package redisstore_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/storetest"
)

func fixture(rdb redisstore.Client) storetest.Fixture {
	var now atomic.Int64
	return storetest.Fixture{
		Store:   redisstore.NewAt(rdb, func() pacer.Instant { return pacer.Instant(now.Load()) }),
		SetTime: func(t pacer.Instant) { now.Store(int64(t)) },
	}
}

func memory() storetest.Fixture {
	var now atomic.Int64
	return storetest.Fixture{
		Store:   pacer.NewMemoryStore(pacer.MemoryClock(func() pacer.Instant { return pacer.Instant(now.Load()) })),
		SetTime: func(t pacer.Instant) { now.Store(int64(t)) },
	}
}

func TestStoreConforms(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	storetest.Run(t, func(testing.TB) storetest.Fixture { return fixture(rdb) })
}

func TestStoreConformsOnACluster(t *testing.T) {
	t.Parallel()
	rdb := redistest.StartCluster(t).Client()
	storetest.Run(t, func(testing.TB) storetest.Fixture { return fixture(rdb) })
}

func TestStoreConformsBehindASentinel(t *testing.T) {
	t.Parallel()
	rdb := redistest.StartSentinel(t)
	storetest.Run(t, func(testing.TB) storetest.Fixture { return fixture(rdb) })
}

// TestStoresAnswerAlike compares every reply of the Redis store and the memory store over random histories.
func TestStoresAnswerAlike(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	for name, plan := range map[string]storetest.Plan{
		"Plain":     {Ops: 12},
		"Cancels":   {Ops: 14, Cancels: true},
		"Pauses":    {Ops: 14, Cancels: true, Pauses: true},
		"StepsBack": {Ops: 14, Cancels: true, Pauses: true, StepsBack: true},
		"Changes":   {Ops: 30, Cancels: true, Pauses: true, StepsBack: true, Changes: true},
		"Feedback":  {Ops: 30, Cancels: true, Pauses: true, StepsBack: true, Feedback: true},
		"Memory":    {Ops: 30, Cancels: true, Pauses: true, StepsBack: true, Feedback: true, Memory: true},
		"Late":      {Ops: 24, Cancels: true, Late: true},
		"LateAll":   {Ops: 24, Cancels: true, Pauses: true, StepsBack: true, Changes: true, Feedback: true, Memory: true, Late: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Differential(t, memory(), fixture(rdb), 2100, plan, 1)
		})
	}
}

// Random histories do not reach the bound of the search for a slot.
func TestStoresGiveUpAlike(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	one, two := storetest.Zipper(storetest.NewSession(t, memory())), storetest.Zipper(storetest.NewSession(t, fixture(rdb)))
	require.Equal(t, one, two)
}
