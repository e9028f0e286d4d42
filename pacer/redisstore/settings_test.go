package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/luascripts/numbers"
	"github.com/headway-go/headway/pacer/internal/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
)

// Settings are bounded, all or none of a change is made, and their key expires with the last of them.
func TestSettingsAreBounded(t *testing.T) {
	t.Parallel()
	require.Equal(t, store.MaxSettings, numbers.MaxSettings)
	rdb := redistest.Start(t).Client()
	s := must(redisstore.New(rdb))
	var many []store.Setting
	for i := range store.MaxSettings {
		many = append(many, store.Setting{Policy: "p", Scope: fmt.Sprint(i), Text: "p: 1 per 1s, per tenant", For: time.Hour})
	}
	all, err := s.Set(t.Context(), "api", many)
	require.NoError(t, err)
	require.Len(t, all.All, store.MaxSettings)
	require.NotZero(t, all.Version)
	_, err = s.Set(t.Context(), "api", []store.Setting{{Policy: "q", Scope: "a", Text: "q: 1 per 1s, per tenant"}, {Text: "q: 1 per 1s"}})
	var full *store.SettingsError
	require.ErrorAs(t, err, &full)
	again, err := s.Settings(t.Context(), "api")
	require.NoError(t, err)
	require.Equal(t, all.All, again.All)
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		require.Positive(t, rdb.PTTL(t.Context(), key).Val(), key)
	}
}

// What is in the hash and is not of the form that it should have is left out.
func TestForeignSettings(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	s := must(redisstore.New(rdb))
	_, err := s.Set(t.Context(), "api", []store.Setting{{Text: "p: 1 per 1s"}})
	require.NoError(t, err)
	key := "pacer:1:{api}/settings"
	for field, value := range map[string]string{
		"": "x", "limit": "9 x", "limit/": "99999999999999999 x", "limit/a b/c": "99999999999999999 x", "limit/a": "99999999999999999 x", "other": "99999999999999999 x",
		"limit/p/x": "soon x", "limit/p/y": "-1 x", "limit/p/z": "1 x", "limit/p/n": "nan x", "limit/p/i": "99999999999999999999999 x", "limit/p/e": "",
	} {
		require.NoError(t, rdb.HSet(t.Context(), key, field, value).Err())
	}
	all, err := s.Settings(t.Context(), "api")
	require.NoError(t, err)
	require.Len(t, all.All, 1)
	require.Equal(t, "p: 1 per 1s", all.All[0].Text)
	_, err = s.Set(t.Context(), "api", []store.Setting{{Policy: "p", Scope: "a", Text: "p: 2 per 1s, per tenant"}})
	require.NoError(t, err, "a change does not mind them")
	require.NoError(t, rdb.Set(t.Context(), "pacer:1:{other}/settings", "a string", 0).Err())
	_, err = s.Settings(t.Context(), "other")
	require.ErrorIs(t, err, redisstore.ErrForeign)
}
