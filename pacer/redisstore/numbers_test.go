package redisstore_test

import (
	"testing"

	"github.com/headway-go/headway/pacer/store"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

// A script refuses unknown numbers before it writes: it takes nothing for something else.
func TestTheUnknownIsRefused(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	s := scripts.New()
	keys := []string{"pacer:10:{test}", "a", "b", "c", "d", "e", "f"}
	queued := []any{0, 1, 1, 0, 0, numbers.MayQueue, 7, 0, 0, 1, 0, 0, 0, 0}
	for name, c := range map[string]struct {
		script  string
		args    []any
		reports string
	}{
		"an algorithm":            {s[scripts.Reserve], []any{0, 0, 1, 10, 1, 10, 0}, "unknown algorithm 10"},
		"no algorithm":            {s[scripts.Reserve], []any{0, 0, 1}, "unknown algorithm (none)"},
		"a queue":                 {s[scripts.Reserve], []any{0, 0, 1, numbers.AnyRate, 1, 10, 0, 0, 0, 0, 0, 0, 3, 0}, "unknown queue 3"},
		"a queue of concurrency":  {s[scripts.Reserve], []any{0, 0, 1, numbers.Concurrency, 1, 10, 0, 2, 0}, "unknown queue 2"},
		"a lane without its rate": {s[scripts.Reserve], append([]any{0, 0, 1, numbers.AnyRate, 1, 10, 0, 0, 0, 0, 0, 0, numbers.LaneQueue}, queued...), "unknown rate of the lane at 1"},
		"a lane of a window":      {s[scripts.Reserve], append([]any{0, 0, 2, numbers.Window, 5, 1000, 1, 0, 0, numbers.AnyRate, 1, 10, 0, 0, 0, 0, 0, 0, numbers.LaneQueue}, queued...), "unknown rate of the lane at 2"},
		"flags":                   {s[scripts.Reserve], []any{0, 0, 1, numbers.GCRA, 1, 10, 0, 1, 1, 0, 0, 16}, "unknown flags 16"},
		"flags, no flags":         {s[scripts.Reserve], []any{0, 0, 1, numbers.GCRA, 1, 10, 0, 1, 1, 0, 0, -1}, "unknown flags -1"},
		"a note":                  {s[scripts.Report], []any{0, 0, 1, numbers.GCRA, 1, 10, 1, 12, 1, 1, 2, 3, 4, 5}, "unknown note 12"},
		"a note behind another":   {s[scripts.Report], []any{0, 0, 1, numbers.GCRA, 1, 10, 2, int(store.NoteSlow), 1, 5, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}, "unknown note 0"},
		"a note behind a permit":  {s[scripts.Report], []any{0, 0, 1, numbers.Concurrency, 1, 1000, 0, 0, 2, int(store.NoteRenew), 1, 7, 0, 0, 0, 0, 12, 1, 0, 0, 0, 0, 0}, "unknown note 12"},
		"a note of no limit":      {s[scripts.Report], []any{0, 0, 0, 1, int(store.NoteSlow), 0, 0, 0, 0, 0, 0}, "unknown limit 0"},
		"an algorithm to look at": {s[scripts.Status], []any{1, 10, 1, 10}, "unknown algorithm 10"},
		"an answer of a rate":     {s[scripts.Report], []any{0, 0, 1, numbers.GCRA, 1, 10, 1, int(store.NoteAnswer), 1, 1, 2, 3, 4, 0}, "unknown allowance 1"},
	} {
		err := rdb.Eval(t.Context(), c.script, keys, c.args...).Err()
		require.ErrorContains(t, err, c.reports, name)
		require.Empty(t, rdb.Keys(t.Context(), "*").Val(), name)
	}
}
