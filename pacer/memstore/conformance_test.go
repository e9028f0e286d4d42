package memstore_test

import (
	"os"
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
		f.Seeds = extent(10, 300)
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
			storetest.Differential(t, memoryFixture(t), memoryFixture(t), extent(15, 500), plan, 1)
		})
	}
}

// extent returns its first value, or the second if HEADWAY_LONG is set. Tests choose the number of their random histories by it.
func extent[T any](short, long T) T {
	if os.Getenv("HEADWAY_LONG") != "" {
		return long
	}
	return short
}
