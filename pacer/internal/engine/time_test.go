package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
)

// A duration that is no whole number of microseconds is rounded against the caller: down if it allows, up if it forbids.
func TestMicros(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d        time.Duration
		down, up int64
	}{
		{0, 0, 0},
		{1, 0, 1},
		{999, 0, 1},
		{time.Microsecond, 1, 1},
		{time.Microsecond + 1, 1, 2},
		{time.Second - 1, 999_999, 1_000_000},
		{-1, 0, 0},
		{-1001, -1, -1},
		{1<<63 - 1, 9_223_372_036_854_775, 9_223_372_036_854_776},
		{-1 << 63, -9_223_372_036_854_775, -9_223_372_036_854_775},
	} {
		require.Equal(t, c.down, engine.Micros(c.d), "%d ns, down", int64(c.d))
		require.Equal(t, c.up, engine.MicrosUp(c.d), "%d ns, up", int64(c.d))
	}
}
