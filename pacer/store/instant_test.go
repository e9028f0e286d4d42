package store_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/store"
)

// A call is never early by a fraction of a microsecond, and nothing overflows.
func TestAnInstantAndADuration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at   store.Instant
		add  time.Duration
		want store.Instant
	}{
		{10, 0, 10},
		{10, time.Microsecond, 11},
		{10, 1, 11},
		{10, time.Microsecond + 1, 12},
		{10, -1, 10},
		{10, -time.Microsecond, 9},
		{10, -time.Microsecond - 1, 9},
		{math.MaxInt64 - 1, time.Second, math.MaxInt64},
	} {
		require.Equal(t, c.want, c.at.Add(c.add), c)
	}
	require.Equal(t, 3*time.Microsecond, store.Instant(5).Sub(2))
	require.Equal(t, time.Duration(math.MaxInt64).Truncate(time.Microsecond), store.Instant(math.MaxInt64).Sub(-5))
}

// Stacks are the same if their limits are, whatever their numbers; a clone shares no memory that changes.
func TestStacksCompareByTheirKeys(t *testing.T) {
	t.Parallel()
	a := store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: "p", Scope: "x"}, {Policy: "q"}}}
	b := a.Clone()
	require.True(t, a.Same(&b))
	b.Limits[0].Spec.Limit = 7
	require.True(t, a.Same(&b))
	require.Zero(t, a.Limits[0].Spec.Limit)
	b.Limits[0].Scope = "y"
	require.False(t, a.Same(&b))
	require.Equal(t, store.Key{Policy: "p", Scope: "x"}, a.Limits[0].Key())
}

// Names that cannot be stored are refused.
func TestUpstreamsAreNamed(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"api": true, "a.b_c-1": true, "": false, "-a": false, "ä": false, "a b": false, "a\n": false} {
		require.Equal(t, ok, store.ValidUpstream(name), name)
	}
}
