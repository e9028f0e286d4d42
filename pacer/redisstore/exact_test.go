package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// The log of a rate with exact windows, and its key, last until the window of the calls is over: written by the fast path, by the slow one,
// and without a log by a limit that has none.
func TestALogLastsAsLongAsItsWindow(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	exact, plain := policies.AtMost(4, time.Minute).Skew(0).Burst(3).Named("p"), policies.AtMost(4, time.Minute).Skew(0).Named("p")
	const account, starts = "pacer:10:{test}:p", "pacer:10:{test}:p/starts"
	lasts := func(key string) time.Duration { return rdb.PTTL(t.Context(), key).Val() }

	p := newPacer(t, rdb, exact)
	require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
	require.Greater(t, lasts(account), 60*time.Second)
	require.Greater(t, lasts(starts), 60*time.Second)
	for range 2 {
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
	}
	r, err := p.Reserve(t.Context()) // 15 seconds later
	require.NoError(t, err)
	require.Greater(t, lasts(account), 70*time.Second)
	require.Greater(t, lasts(starts), 70*time.Second)
	require.LessOrEqual(t, lasts(starts), 4*time.Minute)
	require.Equal(t, int64(4), rdb.ZCard(t.Context(), starts).Val())
	require.NoError(t, r.Cancel(t.Context()))
	require.Equal(t, int64(3), rdb.ZCard(t.Context(), starts).Val())

	_, err = newPacer(t, rdb, plain).Reserve(t.Context())
	require.NoError(t, err)
	require.NotContains(t, rdb.Get(t.Context(), account).Val(), " 60000000 ", "nobody keeps the log any more")
	r, err = p.Reserve(t.Context(), pacer.MaxWait(pacer.Forever))
	require.NoError(t, err)
	require.Equal(t, int64(1), rdb.ZCard(t.Context(), starts).Val(), "another one has begun")

	require.NoError(t, rdb.PExpire(t.Context(), starts, 20*time.Second).Err()) // as if some minutes had passed
	require.NoError(t, r.Settle(t.Context(), policies.Cost{N: 2}))
	require.Greater(t, lasts(starts), 60*time.Second, "what a call cost besides counts as long as a call that goes now")
	require.Equal(t, int64(2), rdb.ZCard(t.Context(), starts).Val())
}

// A value that Headway did not write is reported as an error, and nothing is changed.
func TestForeignLogs(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	const account, starts = "pacer:10:{test}:victim", "pacer:10:{test}:victim/starts"
	for name, plant := range map[string]func(){
		"a word":     func() { rdb.Set(t.Context(), account, "r505000 5 x 1 1", 0) },
		"too many":   func() { rdb.Set(t.Context(), account, "r505000 5 1 1 1 1 1 1 1 1 1 1 1 1 1 1", 0) },
		"too large":  func() { rdb.Set(t.Context(), account, "r505000 99999999999999999999 0 1010000 505000", 0) },
		"half a gap": func() { rdb.Set(t.Context(), account, "r505000 1 0 1010000 505000|x", 0) },
		"a string": func() {
			rdb.Set(t.Context(), account, "r505000 1 0 1010000 505000", 0)
			rdb.Set(t.Context(), starts, "x", 0)
		},
	} {
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		plant()
		before := rdb.Get(t.Context(), account).Val()
		p := newPacer(t, rdb, policies.AtMost(2, time.Second).Burst(2).Named("victim"), policies.Every(time.Hour).Named("other"))
		require.ErrorIs(t, p.Wait(t.Context()), redisstore.ErrForeign, name)
		require.Equal(t, before, rdb.Get(t.Context(), account).Val(), name)
		require.Zero(t, rdb.Exists(t.Context(), "pacer:10:{test}:other").Val(), "%s: no other policy was charged", name)
		require.NoError(t, p.Close()) // it would remember what the next one is to find forgotten
	}
}
