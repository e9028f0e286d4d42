package redisstore_test

import (
	"testing"

	"github.com/headway-go/headway/pacer/store"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

// The numbers of the wire format are those of package store.
func TestNumbersAreThoseOfTheStore(t *testing.T) {
	t.Parallel()
	for number, kind := range map[int]store.NoteKind{
		numbers.NoteResume: store.NoteResume, numbers.NoteSlow: store.NoteSlow,
		numbers.NoteLearn: store.NoteLearn, numbers.NoteAnswer: store.NoteAnswer, numbers.NoteSettle: store.NoteSettle,
		numbers.NoteClaim: store.NoteClaim, numbers.NoteReset: store.NoteReset, numbers.NoteRenew: store.NoteRenew,
		numbers.NoteRelease: store.NoteRelease,
	} {
		require.Equal(t, number, int(kind), kind)
	}
	for number, result := range map[int]store.BookingResult{
		numbers.BookingDone: store.BookingDone, numbers.BookingLost: store.BookingLost, numbers.BookingChanged: store.BookingChanged,
		numbers.BookingExpired: store.BookingExpired, numbers.BookingPaused: store.BookingPaused, numbers.BookingEarly: store.BookingEarly,
		numbers.BookingLate: store.BookingLate,
	} {
		require.Equal(t, number, int(result), result)
	}
	require.Equal(t, store.OnceTTL.Microseconds(), int64(numbers.OnceTTL))
}

// A script refuses unknown numbers before it writes: it takes nothing for something else.
func TestTheUnknownIsRefused(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	s := scripts.New()
	keys := []string{"pacer:9:{test}", "a", "b", "c", "d", "e", "f"}
	queued := []any{0, 1, 1, 0, 0, numbers.MayQueue, 7, 0, 0, 1, 0, 0, 0, 0}
	for name, c := range map[string]struct {
		script  string
		args    []any
		reports string
	}{
		"an algorithm":            {s.Reserve, []any{0, 0, 1, 10, 1, 10, 0}, "unknown algorithm 10"},
		"no algorithm":            {s.Reserve, []any{0, 0, 1}, "unknown algorithm (none)"},
		"concurrency, unqueued":   {s.Reserve, []any{0, 0, 1, numbers.Concurrency, 1, 10, 0, 0, 0}, "unknown algorithm 4"},
		"a queue":                 {s.Queued, []any{0, 0, 1, numbers.AnyRate, 1, 10, 0, 0, 0, 0, 0, 0, 3, 0}, "unknown queue 3"},
		"a queue of concurrency":  {s.Queued, []any{0, 0, 1, numbers.Concurrency, 1, 10, 0, 2, 0}, "unknown queue 2"},
		"a lane without its rate": {s.Queued, append([]any{0, 0, 1, numbers.AnyRate, 1, 10, 0, 0, 0, 0, 0, 0, numbers.LaneQueue}, queued...), "unknown rate of the lane at 1"},
		"a lane of a window":      {s.Queued, append([]any{0, 0, 2, numbers.Window, 5, 1000, 1, 0, 0, numbers.AnyRate, 1, 10, 0, 0, 0, 0, 0, 0, numbers.LaneQueue}, queued...), "unknown rate of the lane at 2"},
		"flags":                   {s.Reserve, []any{0, 0, 1, numbers.GCRA, 1, 10, 0, 1, 1, 0, 0, 16}, "unknown flags 16"},
		"flags, no flags":         {s.Reserve, []any{0, 0, 1, numbers.GCRA, 1, 10, 0, 1, 1, 0, 0, -1}, "unknown flags -1"},
		"a note":                  {s.Report, []any{0, 0, 1, numbers.GCRA, 1, 10, 1, 12, 1, 1, 2, 3, 4, 5}, "unknown note 12"},
		"a note behind another":   {s.Report, []any{0, 0, 1, numbers.GCRA, 1, 10, 2, numbers.NoteSlow, 1, 5, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}, "unknown note 0"},
		"a note behind a permit":  {s.Report, []any{0, 0, 1, numbers.Concurrency, 1, 1000, 0, 0, 2, numbers.NoteRenew, 1, 7, 0, 0, 0, 0, 12, 1, 0, 0, 0, 0, 0}, "unknown note 12"},
		"a note of no limit":      {s.Report, []any{0, 0, 0, 1, numbers.NoteSlow, 0, 0, 0, 0, 0, 0}, "unknown limit 0"},
		"an algorithm to look at": {s.Status, []any{1, 10, 1, 10}, "unknown algorithm 10"},
		"an answer of a rate":     {s.Report, []any{0, 0, 1, numbers.GCRA, 1, 10, 1, numbers.NoteAnswer, 1, 1, 2, 3, 4, 0}, "unknown allowance 1"},
	} {
		err := rdb.Eval(t.Context(), c.script, keys, c.args...).Err()
		require.ErrorContains(t, err, c.reports, name)
		require.Empty(t, rdb.Keys(t.Context(), "*").Val(), name)
	}
}
