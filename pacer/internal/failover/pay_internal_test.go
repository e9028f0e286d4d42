package failover

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/store"
)

// A store may forget every number below the first that could be sent again, and no other.
func TestWhatMayBeRequestedAgainStaysKnown(t *testing.T) {
	t.Parallel()
	o := operations{by: "me", open: make(map[int64]struct{})}
	first, second, third := o.begin(), o.begin(), o.begin()
	require.Equal(t, &store.Once{By: "me", Number: second, Known: first}, o.of(second))
	o.end(second)
	require.Equal(t, first, o.of(third).Known, "the first is still open")
	o.end(first)
	require.Equal(t, third, o.of(third).Known)
	o.end(third)
	require.Equal(t, int64(4), o.of(o.begin()).Known)
}
