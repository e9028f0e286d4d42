package link_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/link"
	"github.com/headway-go/headway/pacer/store"
)

// fake is a store that answers no request.
type fake struct {
	store.Shared

	requests atomic.Int32
}

func (*fake) Fault(error) store.Fault { return store.Unreachable }

func (f *fake) wait(ctx context.Context) error {
	f.requests.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

// When the store is lost, thousands of requests of callers end at once, and those that waited for their turn are not sent.
func TestWaitingRequestsEndWhenTheStoreIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		k := link.New(f, time.Minute, func(string, int, time.Duration, error) {})
		const sent, all = 16, 1000
		var resting atomic.Int32
		answers := make(chan error, all)
		for range all {
			go func() {
				_, err := link.Ask(t.Context(), k, link.Request{InTurn: true}, func(ctx context.Context, _ store.Shared) (int, error) { return 0, f.wait(ctx) })
				if errors.Is(err, link.ErrResting) {
					resting.Add(1)
				}
				answers <- err
			}()
		}
		synctest.Wait()
		require.Equal(t, sent, k.Pending())
		began := time.Now()
		k.Abandon()
		for range all {
			require.ErrorIs(t, <-answers, store.ErrUnreachable)
		}
		require.Zero(t, time.Since(began))
		require.Equal(t, int32(all-sent), resting.Load(), "the operations of the others may have been done")
		require.Equal(t, int32(sent), f.requests.Load())
		k.Close()
		require.Zero(t, k.Pending())
	})
}
