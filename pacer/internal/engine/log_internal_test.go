package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A call goes at the very first instant at which no window holds too many, whether among calls that went, that are to go, or
// that broke the window before: the same that trying one instant after the other finds.
func TestCrowdedFindsTheFirstInstant(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	moved := 0
	for range 20_000 {
		most, within := 1+r.Int64N(5), 1+r.Int64N(12)
		var all []start
		var times []int64
		for range r.IntN(12) {
			all = append(all, start{at: 100 + r.Int64N(40)})
		}
		slices.SortFunc(all, func(a, b start) int { return int(a.at - b.at) })
		for _, s := range all {
			times = append(times, s.at)
		}
		n, from := 1+r.Int64N(most), 95+r.Int64N(50)
		want := from
		for !admitted(times, want, n, most, within) {
			want++
		}
		got := from
		for {
			next, _ := crowded(all, got, n, most, within)
			require.GreaterOrEqual(t, next, got)
			if next == got {
				break
			}
			got = next
		}
		require.Equal(t, want, got, "%d more, at most %d in %d, from %d on, among %v", n, most, within, from, times)
		if got > from {
			moved++
		}
	}
	require.Greater(t, moved, 5000)
}

// admitted reports whether no window of a length that holds the instant has more than so many calls, with n more then.
func admitted(times []int64, at, n, most, within int64) bool {
	for begin := at - within + 1; begin <= at; begin++ {
		inside := n
		for _, other := range times {
			if begin <= other && other < begin+within {
				inside++
			}
		}
		if inside > most {
			return false
		}
	}
	return true
}

// Settling a charge twice gives back what others hold by then. Their starts count from the last cell backwards,
// whichever of them goes first: as the Lua does, so that the stores answer alike.
func TestTheLastCellsOfAChargeAreThoseThatBeginLast(t *testing.T) {
	t.Parallel()
	log := &startLog{tau: 10, within: 100, all: []start{{at: 10, cell: 30}, {at: 20, cell: 25}}}
	for n, want := range map[int64]int64{1: 30, 2: 25} {
		cell, ok := log.last(gap{20, 40}, n)
		require.True(t, ok)
		require.Equal(t, want, cell, "of %d", n)
	}
	for _, n := range []int64{0, 3} {
		_, ok := log.last(gap{20, 40}, n)
		require.False(t, ok, "it has not %d", n)
	}
}
