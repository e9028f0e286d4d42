package waiters_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/waiters"
)

// As many stand in the store's line as are served within the reach, twice over.
func TestALineIsAsLongAsTheReach(t *testing.T) {
	t.Parallel()
	var l waiters.Line
	require.Equal(t, waiters.MinLine, l.Most(40*ms))
	require.Zero(t, l.Estimate(10))
	served := func(from, gap, reach time.Duration, n, waiting int) {
		for i := range n {
			l.Served(from+time.Duration(i)*gap, reach, waiting)
		}
	}
	served(time.Second, 10*ms, 40*ms, 20, 500)
	require.Equal(t, waiters.MinLine, l.Most(40*ms), "8 would do")
	require.Equal(t, 90, l.Most(450*ms), "45 are served within the reach")
	require.Equal(t, time.Second, l.Estimate(99))
	served(2*time.Second, ms/10, 450*ms, 10_000, 500)
	require.Equal(t, waiters.MaxLine, l.Most(450*ms))

	// What is served while nobody waits says nothing of the pace, nor does the time until somebody waits again.
	before := l
	served(10*time.Second, time.Second, 40*ms, 20, 0)
	l.Served(40*time.Second, 40*ms, 1)
	require.Equal(t, before.Most(40*ms), l.Most(40*ms))
	require.Equal(t, before.Estimate(10), l.Estimate(10))
}
