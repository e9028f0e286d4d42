package failover

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A store may forget every number below the first that could be sent again, and no other.
func TestWhatMayBeRequestedAgainStaysKnown(t *testing.T) {
	t.Parallel()
	o := operations{by: "me"}
	first, second, third := o.begin(), o.begin(), o.begin()
	require.Equal(t, []int64{1, 1, 1}, []int64{first.Known, second.Known, third.Known})
	o.end(second.Number)
	require.Equal(t, first.Number, o.again(third.Number).Known, "the first is still open")
	o.end(first.Number)
	require.Equal(t, third.Number, o.again(third.Number).Known)
	o.end(third.Number)
	require.Equal(t, int64(4), o.begin().Known)
}
