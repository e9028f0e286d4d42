package redisstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/store"
)

// Resets are read as the scripts write them. A line of no form stands for all accounts: rather too much is forgotten than too little.
func TestParseReset(t *testing.T) {
	t.Parallel()
	const up = "pacer:10:{test}"
	epoch := store.Epoch{Began: 7, Resets: 3}
	for text, want := range map[string]store.Reset{
		"7.3 9\n":                  {Epoch: epoch, Now: 9},
		"7.3 9":                    {Epoch: epoch, Now: 9},
		"7.3 9\n=" + up + ":daily": {Epoch: epoch, Now: 9, Keys: []store.Key{{Policy: "daily"}}},
		"7.3 9\n=" + up + ":rate:a:b\n-" + up + ":p": {Epoch: epoch, Now: 9, Keys: []store.Key{{Policy: "rate", Scope: "a:b"}}, Resumed: []store.Key{{Policy: "p"}}},
		"7.3 9\n-" + up:                                {Epoch: epoch, Now: 9, Resumed: []store.Key{{}}},
		"7.3 9\n*":                                     {Epoch: epoch, Now: 9, All: true},
		"7.3 9\n=pacer:10:{other}:daily":               {Epoch: epoch, Now: 9, All: true},
		"7.3 9\n=" + up + "daily":                      {Epoch: epoch, Now: 9, All: true},
		"7.3 9\n=" + up + ":daily\n":                   {Epoch: epoch, Now: 9, Keys: []store.Key{{Policy: "daily"}}, All: true},
		"7.3 9\n+" + up + ":daily\n=" + up + ":weekly": {Epoch: epoch, Now: 9, Keys: []store.Key{{Policy: "weekly"}}, All: true},
	} {
		got, ok := parseReset(up, text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "\n", "7.3", "7 9\n*", "7.3 x\n*", "x.3 9", "7.x 9", "0.3 9", "7.0 9", "-7.3 9", "7.3 1e300", "7.3.1e300 9"} {
		_, ok := parseReset(up, text)
		require.False(t, ok, text)
	}
}
