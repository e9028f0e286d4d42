package failover

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/store"
)

// A store may forget every number below the first that could be sent again, and no other.
func TestWhatMayBeRequestedAgainStaysKnown(t *testing.T) {
	t.Parallel()
	o := numbers{by: "me", open: make(map[int64]struct{})}
	first, second := o.begin(), o.begin()
	require.Equal(t, &store.Once{By: "me", Number: 2, Known: 1}, second)
	o.end(second)
	third := o.begin()
	require.Equal(t, int64(1), third.Known, "the first is still open")
	o.end(first)
	require.Equal(t, int64(3), o.begin().Known)
}
