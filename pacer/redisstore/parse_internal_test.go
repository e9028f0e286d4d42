package redisstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/store"
)

// Any answer of a server is an index or an error, never a panic.
func FuzzParseIndex(f *testing.F) {
	f.Add(int64(1), int64(2), "a", "a", "1e15", "process/a", `{"n":"x","k":[{"p":"q","s":"t","c":5}]}`, "went/3/peak", "1 2 3 4")
	f.Add(int64(-1), int64(1)<<40, "", "", "-inf", "policy/x", "1 2 x: 1 per 1s", "policy/", "5")
	f.Fuzz(func(t *testing.T, now, alive int64, id, came, score, f1, v1, f2, v2 string) {
		lists := []any{now, alive, []any{id}, []any{came, score, "odd"}, []any{f1, v1, f2, v2}}
		for n := range 2 {
			x, err := parseIndex(lists[:5-n])
			if (err == nil) != (x != nil) {
				t.Fatal(x, err)
			}
			if err != nil {
				continue
			}
			for _, w := range x.Went {
				if w.What.Cost < 0 || w.What.Waits < 0 || w.What.Waited < 0 {
					t.Fatalf("%+v", w)
				}
			}
		}
	})
}

// The release before wrote the times of a statement in microseconds, as "w" and "r". They are not read as nanoseconds.
func TestAboutOfTheReleaseBefore(t *testing.T) {
	t.Parallel()
	about, version := parseAbout(`{"n":"one","v":"x","s":[{"p":"daily","n":100,"w":60000000,"r":1000000,"c":3,"u":7}]}`)
	require.Equal(t, "x", version)
	require.Equal(t, []store.Statement{{Policy: "daily", Limit: 100, Readings: 3, Until: 7}}, about.Stated)
}
