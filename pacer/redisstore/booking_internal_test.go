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
	for _, bad := range [][]any{
		nil, {}, {int64(1)}, {int64(-1), int64(1)}, {int64(1), int64(0)}, {int64(1), int64(8)}, {int64(1), "1"}, {"1", int64(1)},
		{int64(1), int64(1), int64(1)}, {int64(1), int64(store.BookingPaused)}, {int64(1), int64(store.BookingPaused), int64(-1)},
		{int64(1), int64(1), nil}, {int64(1), int64(3), "x", "y"}, {int64(1), int64(3), strings.Repeat("x", store.MaxRecord+1)},
		{int64(1), int64(store.BookingPaused), int64(2), int64(3)},
	} {
		r, err := parseRedemption(bad)
		require.Error(t, err, "%v", bad)
		require.Zero(t, r, "%v", bad)
	}
	r, err := parseRedemption([]any{int64(5), int64(store.BookingChanged), "x"})
	require.NoError(t, err)
	require.Equal(t, store.Redemption{Result: store.BookingChanged, Now: 5, Record: "x"}, r)
	r, err = parseRedemption([]any{int64(5), int64(store.BookingPaused), int64(9)})
	require.NoError(t, err)
	require.Equal(t, store.Redemption{Result: store.BookingPaused, Now: 5, Until: 9}, r)
}
