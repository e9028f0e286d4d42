package pacer_test

import (
	"sync/atomic"
	"testing"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/storetest"
)

func memoryFixture(testing.TB) storetest.Fixture {
	var now atomic.Int64
	return storetest.Fixture{
		Store:   pacer.NewMemoryStore(pacer.MemoryClock(func() pacer.Instant { return pacer.Instant(now.Load()) })),
		SetTime: func(t pacer.Instant) { now.Store(int64(t)) },
	}
}

func TestMemoryStoreConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, memoryFixture)
}

// TestMemoryStoreRepeatsItself plays random histories on two stores: nothing may depend on the order of a map.
func TestMemoryStoreRepeatsItself(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]storetest.Plan{
		"All":  {Ops: 30, Cancels: true, Pauses: true, StepsBack: true, Changes: true, Feedback: true, Memory: true},
		"Late": {Ops: 60, Cancels: true, Pauses: true, StepsBack: true, Changes: true, Feedback: true, Memory: true, Late: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Differential(t, memoryFixture(t), memoryFixture(t), 500, plan, 1)
		})
	}
}
