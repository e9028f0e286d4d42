package ietf_test

import (
	"fmt"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// requireNothingInvented checks that each number that was read is in the text, and is in the accepted range.
func requireNothingInvented(t *testing.T, reading policies.Reading, text string) {
	t.Helper()
	const year = 365 * 24 * time.Hour
	for i := range reading.Feedback {
		f := &reading.Feedback[i]
		for _, c := range []policies.Count{f.Limit, f.Remaining, f.Used} {
			if n, reported := c.Value(); reported {
				require.Contains(t, text, strconv.FormatInt(n, 10))
			}
		}
		for _, d := range []time.Duration{f.Wait, f.Window, f.Reset} {
			require.GreaterOrEqual(t, d, time.Duration(0))
			if d > 0 {
				require.Contains(t, text, strconv.FormatInt(int64(d/time.Second), 10))
			}
		}
		require.LessOrEqual(t, f.Reset, year)
		require.LessOrEqual(t, f.Window, specs.MaxPeriod)
		for _, name := range f.Policies {
			require.Contains(t, text, name)
		}
	}
}

// requireBelievable checks that times are in the accepted range.
func requireBelievable(t *testing.T, reading policies.Reading) {
	t.Helper()
	const year = 365 * 24 * time.Hour
	for i := range reading.Feedback {
		f := &reading.Feedback[i]
		for _, d := range []time.Duration{f.Wait, f.Window, f.Reset} {
			require.GreaterOrEqual(t, d, time.Duration(0))
			require.LessOrEqual(t, d, year)
		}
	}
}

func FuzzStructuredFields(f *testing.F) {
	for _, v := range []string{
		`"a";r=1;t=2, "b";r=3;t=4`, `"g";t=3200`, `limit=100, remaining=50, reset=30`, `default;r=50;t=30`, `"a";r=-1`, `"a";r=1.5`,
		`"a";r=9999999999999999`, `("a" "b");r=1`, `"bad`, `"a";r=0;t=999999999999999`, `"a";r=1;pk=:dHJpYWw=:`, `"";r=0;t=1`, `"a\"b";r=1`,
	} {
		for _, p := range []string{
			"", `"a";q=10;w=1, "b";q=20;w=60`, `100;w=10`, `"a";q=10;qu="content-bytes"`, `"a";q=1, "a";q=2`, `"a";q=1;w=999999999999999`, `"a";q=1, 1`,
		} {
			f.Add(v, p)
		}
	}
	f.Fuzz(func(t *testing.T, v, policy string) {
		h := fields("RateLimit", v, "RateLimit-Policy", policy)
		for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
			got := read(status, newYear, h)
			requireNothingInvented(t, got, v+policy)

			// The same list is read the same way, however it is written and split.
			list, err := httpsfv.UnmarshalList([]string{v})
			if err != nil || len(list) == 0 {
				continue
			}
			again := http.Header{"Ratelimit-Policy": h["Ratelimit-Policy"]}
			for _, member := range list {
				line, err := httpsfv.Marshal(httpsfv.List{member})
				require.NoError(t, err)
				again.Add("Ratelimit", line)
			}
			require.Equal(t, got, read(status, newYear, again))
		}
	})
}

func FuzzDictionary(f *testing.F) {
	f.Add(int64(100), int64(50), int64(30), "")
	f.Add(int64(0), int64(0), int64(0), "")
	f.Add(int64(-1), int64(50), int64(30), "")
	f.Add(int64(999_999_999_999_999), int64(1_000_000_000_000_000), int64(31_536_001), "")
	f.Add(int64(1), int64(1), int64(31_536_000), ";x, y=(1 2);z, remaining=?1")
	f.Add(int64(1), int64(1), int64(1), ", limit=7, reset=8")
	f.Fuzz(func(t *testing.T, limit, remaining, reset int64, rest string) {
		members := []string{fmt.Sprintf("limit=%d", limit), fmt.Sprintf("remaining=%d", remaining), fmt.Sprintf("reset=%d", reset)}
		v := strings.Join(members, ", ") + rest
		got := read(http.StatusOK, newYear, fields("RateLimit", v, "RateLimit-Policy", "7;w=8"))
		requireNothingInvented(t, got, v+"7;w=8")
		if rest != "" {
			return
		}
		var want policies.Feedback
		const most = 999_999_999_999_999 // RFC 9651 section 3.3.1
		if min(limit, remaining, reset) >= 0 && max(limit, remaining, reset) <= most {
			want = policies.Feedback{Source: "RateLimit", Limit: policies.Reported(limit), Remaining: policies.Reported(remaining)}
			if reset <= 31_536_000 {
				want.Reset = time.Duration(reset) * time.Second
			}
			if limit == 7 {
				want.Window = 8 * time.Second
			}
			require.Equal(t, want, got.Feedback[0])
		} else {
			require.Len(t, got.Feedback, 1, "the quota alone")
		}
		slices.Reverse(members)
		again := http.Header{"Ratelimit": members, "Ratelimit-Policy": {"7;w=8"}}
		require.Equal(t, got, read(http.StatusOK, newYear, again), "neither order nor lines matter")
	})
}

func FuzzTriple(f *testing.F) {
	for _, reset := range []string{
		"41", "1609459241", "1609459241000", "600000", "6m0s", "20ms", "2021-01-01T00:00:41Z", "2021-01-01T01:01Z",
		"Tue Feb 16 2021 09:02:42 GMT+0100 (CET)", "-1", "0", "41.5", "Fri, 01 Jan 2021 00:00:41 GMT",
	} {
		f.Add("100", "0", reset)
		f.Add("100, 100;w=10", "50", reset)
	}
	f.Add("0", "0", "0")
	f.Add("10, 10;w=1, 50;w=60", "9999999999999999", "1")
	f.Add(`"x"`, "-1", "")
	f.Add("0,0", "0", "0")
	f.Add("0.5", "0", "1")
	f.Add("100", "0.5", "2020-12-31 16:00:41 -0800")
	f.Add("100, 100;window=60", "583.0", "Fri Jan 01 2021 01:00:41 GMT+0100 (CET)")
	f.Add("100;w=21600", "76;w=21600", "42s")
	none := regexp.MustCompile(`^ *-?0+($|[^0-9.])`) // a limit of 0
	f.Fuzz(func(t *testing.T, limit, remaining, reset string) {
		for prefix, draft := range map[string]bool{"RateLimit-": true, "X-RateLimit-": false, "X-Rate-Limit-": false} {
			got := read(http.StatusOK, newYear, fields(prefix+"Limit", limit, prefix+"Remaining", remaining, prefix+"Reset", reset))
			requireBelievable(t, got)
			n, isNumber := new(big.Int).SetString(remaining, 10)
			plain := isNumber && len(remaining) <= 15 && strings.Trim(remaining, "0123456789") == ""
			if !plain || !draft && none.MatchString(limit) {
				continue
			}
			require.NotEmpty(t, got.Feedback)
			require.Equal(t, policies.Reported(n.Int64()), got.Feedback[0].Remaining)
			if at, err := time.Parse(time.RFC3339, reset); err == nil && at.Sub(newYear) > 0 && at.Sub(newYear) <= 365*24*time.Hour {
				require.Equal(t, at.Sub(newYear), got.Feedback[0].Reset)
			}
			requireReset(t, reset, got.Feedback[0].Reset)
		}
	})
}

// requireReset compares a reset of digits with their meaning.
func requireReset(t *testing.T, reset string, got time.Duration) {
	t.Helper()
	if reset == "" || len(reset) > 15 || strings.Trim(reset, "0123456789") != "" {
		return
	}
	n, err := strconv.ParseInt(reset, 10, 64)
	require.NoError(t, err)
	var want time.Duration
	switch {
	case n <= 31_536_000:
		want = time.Duration(n) * time.Second
	case n < 1_000_000_000:
	case n <= 100_000_000_000:
		want = time.Unix(n, 0).Sub(newYear)
	case n <= 100_000_000_000_000:
		want = time.UnixMilli(n).Sub(newYear)
	default:
		want = time.UnixMicro(n).Sub(newYear)
	}
	if want < 0 || want > 365*24*time.Hour {
		want = 0
	}
	require.Equal(t, want, got, reset)
}
