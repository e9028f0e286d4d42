package redisstore

import (
	"testing"
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
