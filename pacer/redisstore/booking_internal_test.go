package redisstore

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/store"
)

// A reply that is not one of redeem.lua's lets no job go.
func TestRepliesAboutBookingsAreHostile(t *testing.T) {
	t.Parallel()
	done, paused, changed := int64(store.BookingDone), int64(store.BookingPaused), int64(store.BookingChanged)
	for _, bad := range [][]any{
		nil, {}, {int64(1)}, {int64(1), done}, {int64(-1), done, int64(0)}, {int64(1), int64(0), int64(0)}, {int64(1), int64(8), int64(0)},
		{int64(1), "1", int64(0)}, {"1", done, int64(0)}, {int64(1), done, int64(1)}, {int64(1), done, "x"}, {int64(1), done, nil},
		{int64(1), paused, "x"}, {int64(1), paused, int64(-1)}, {int64(1), changed, int64(0)}, {int64(1), changed, strings.Repeat("x", store.MaxRecord+1)},
		{int64(1), done, int64(0), done, int64(0)},
	} {
		all, err := parseRedemptions(bad, 1)
		require.Error(t, err, "%v", bad)
		require.Nil(t, all, "%v", bad)
	}
	all, err := parseRedemptions([]any{int64(5), changed, "x", done, int64(0), paused, int64(9), changed, ""}, 4)
	require.NoError(t, err)
	require.Equal(t, []store.Redemption{
		{Result: store.BookingChanged, Now: 5, Record: "x"}, {Result: store.BookingDone, Now: 5}, {Result: store.BookingPaused, Now: 5, Until: 9},
		{Result: store.BookingChanged, Now: 5},
	}, all)
}
