package usage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/store"
)

// Late reports count in their own second, and in no other that has the same index.
func TestATallyKeepsSecondsApart(t *testing.T) {
	t.Parallel()
	var all Tally
	all.Add(1000, store.Second{Cost: 1, Waits: 2, Waited: time.Second})
	all.Add(1000, store.Second{Cost: 4, Waits: 1, Waited: time.Second})
	all.Add(1000-Seconds, store.Second{Cost: 99})
	all.Add(1003, store.Second{Cost: 7})
	h := all.History(1004, 60)
	require.Equal(t, []store.Second{{Cost: 5, Waits: 3, Waited: 2 * time.Second}, {}, {}, {Cost: 7}}, h[60-4:])
	all.Add(1000+Seconds, store.Second{Cost: 8})
	require.Equal(t, store.Second{}, all.History(1004, 60)[60-4], "it has taken the place")
}
