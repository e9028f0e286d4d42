package faulty_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/faulty"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A store that fails over does its writes again: with what it was called with then, whatever the caller has done with it since, and for
// nobody. The race detector sees the rest.
func TestAReplayIsNobodysBusiness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const away = 20 * time.Millisecond
		s, ctx := faulty.New(), t.Context()
		s.Suffer(faulty.Faults{Away: away})
		stack := store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: "p", Spec: policies.PerSecond(10).Burst(10).Spec()}}}
		grants := make([]store.Grant, 3)
		require.NoError(t, s.Reserve(ctx, stack, []store.Call{{Cost: 1}, {Cost: 1}, {Cost: 1}}, grants))
		require.NoError(t, s.Cancel(ctx, stack, grants[1:]))
		clear(grants[1].Charges)
		status := func() int64 {
			is, err := s.Status(ctx, stack)
			require.NoError(t, err)
			return is.Limits[0].Remaining
		}
		require.EqualValues(t, 9, status())
		s.FailOver(0)
		require.EqualValues(t, 9, status())

		// While answers are on their way.
		var asking sync.WaitGroup
		asking.Go(func() {
			r, err := s.Redeem(ctx, "api", []store.Booking{{ID: "b", Limits: stack.Limits, Next: "1", Keep: time.Minute}})
			require.NoError(t, err)
			require.Equal(t, store.BookingDone, r[0].Result)
		})
		asking.Go(func() {
			_, err := s.Set(ctx, "api", []store.Setting{{Policy: "p", Text: "10 per 1s, burst 5"}})
			require.NoError(t, err)
		})
		time.Sleep(away * 3 / 4)
		s.FailOver(0)
		asking.Wait()
	})
}
