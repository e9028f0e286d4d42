package failover

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process that loses the store again while it returns is local with an absence, or not at all: calls without a share wait for its end.
func TestWhoIsLocalIsAbsent(t *testing.T) {
	t.Parallel()
	w := New(nil, &Config{Upstream: "api", Mode: Local})
	returned := make(chan struct{})
	var fails sync.WaitGroup
	fails.Go(func() {
		for lost := errors.New("lost"); ; {
			select {
			case <-returned:
				return
			default:
				w.fallBack(lost, 1)
			}
		}
	})
	defer fails.Wait()
	defer close(returned)
	for range 50_000 {
		w.barrier.Store(1) // it is past
		_, err := w.join(t.Context())
		require.NoError(t, err)
		w.mu.Lock()
		is, away := w.state.Load(), w.away.Load()
		w.mu.Unlock()
		if !assert.False(t, is == local && away == nil) {
			return
		}
	}
}
