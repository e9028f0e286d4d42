package dispatch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/dispatch"
)

// As many calls are in the store's queue as are served within the reach, twice over.
func TestAStoreQueueIsAsLongAsTheReach(t *testing.T) {
	t.Parallel()
	var q dispatch.StoreQueue
	require.Equal(t, dispatch.MinQueued, q.Most(40*ms))
	require.Zero(t, q.Estimate(10))
	served := func(from, gap, reach time.Duration, n, waiting int) {
		for i := range n {
			q.Served(from+time.Duration(i)*gap, reach, waiting)
		}
	}
	served(time.Second, 10*ms, 40*ms, 20, 500)
	require.Equal(t, dispatch.MinQueued, q.Most(40*ms), "8 would do")
	require.Equal(t, 90, q.Most(450*ms), "45 are served within the reach")
	require.Equal(t, time.Second, q.Estimate(99))
	served(2*time.Second, ms/10, 450*ms, 10_000, 500)
	require.Equal(t, dispatch.MaxQueued, q.Most(450*ms))

	// Calls served while none waits do not show the pace, nor does the time until one waits again.
	before := q
	served(10*time.Second, time.Second, 40*ms, 20, 0)
	q.Served(40*time.Second, 40*ms, 1)
	require.Equal(t, before.Most(40*ms), q.Most(40*ms))
	require.Equal(t, before.Estimate(10), q.Estimate(10))
}
