package pacer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/store"
)

// What is told late belongs to its own second, and to none that has the same place.
func TestATallyKeepsSecondsApart(t *testing.T) {
	t.Parallel()
	var all tally
	all.add(1000, store.Second{Cost: 1, Waits: 2, Waited: time.Second})
	all.add(1000, store.Second{Cost: 4, Waits: 1, Waited: time.Second})
	all.add(1000-tallySeconds, store.Second{Cost: 99})
	all.add(1003, store.Second{Cost: 7})
	h := all.history(1004)
	require.Equal(t, []store.Second{{Cost: 5, Waits: 3, Waited: 2 * time.Second}, {}, {}, {Cost: 7}}, h[HistorySeconds-4:])
	all.add(1000+tallySeconds, store.Second{Cost: 8})
	require.Equal(t, store.Second{}, all.history(1004)[HistorySeconds-4], "it has taken the place")
	var c count
	c.add(1000*1e6, 3)
	c.add((1000+tallySeconds)*1e6, 5)
	var both tally
	both.addCount(&c)
	require.Equal(t, int64(5), both.history(1001 + tallySeconds)[HistorySeconds-1].Cost)
}
