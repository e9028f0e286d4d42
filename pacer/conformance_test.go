package pacer_test

import (
	"sync/atomic"
	"testing"

	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/pacer/storetest"
)

func memoryFixture(testing.TB) storetest.Fixture {
	var now atomic.Int64
	return storetest.Fixture{
		Store:   memstore.New(memstore.WithClock(func() store.Instant { return store.Instant(now.Load()) })),
		SetTime: func(t store.Instant) { now.Store(int64(t)) },
	}
}

func TestMemoryStoreConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Fixture {
		t.Helper()
		f := memoryFixture(t)
		f.Seeds = seeds(300)
		return f
	})
}

// TestMemoryStoreRepeatsItself plays random histories on two stores: nothing may depend on the order of a map.
func TestMemoryStoreRepeatsItself(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]storetest.Plan{
		"All":           {Ops: 30, Cancels: true, Pauses: true, StepsBack: true, Changes: true, Feedback: true, Memory: true},
		"Choices":       {Ops: 30, Cancels: true, Pauses: true, StepsBack: true, Changes: true, Feedback: true, Memory: true, Choices: true},
		"ChoicesQueues": {Ops: 60, Cancels: true, Pauses: true, StepsBack: true, Changes: true, Feedback: true, Memory: true, Choices: true, Queues: true},
		"Queues":        {Ops: 60, Cancels: true, Pauses: true, StepsBack: true, Changes: true, Feedback: true, Memory: true, Queues: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Differential(t, memoryFixture(t), memoryFixture(t), seeds(500), plan, 1)
		})
	}
}

// seeds returns how many of some random histories to play: under the race detector, which makes them some ten times as slow, a third.
func seeds(n int) int {
	if underRace {
		return n / 3
	}
	return n
}
