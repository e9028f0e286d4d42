package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/store"
)

// A call costs each limit the same by default.
func TestWhatACallCosts(t *testing.T) {
	t.Parallel()
	one, own := store.Call{Cost: 3}, store.Call{Cost: 3, Costs: []int64{1, 7}}
	require.EqualValues(t, 3, one.CostOf(1))
	require.EqualValues(t, 1, own.CostOf(0))
	require.EqualValues(t, 7, own.CostOf(1))
}
