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
