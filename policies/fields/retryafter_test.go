package fields_test

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/fields"
)

var newYearsEve = time.Date(1999, 12, 31, 23, 59, 50, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const never = -1
	for v, want := range map[string]time.Duration{
		"0":                               0,
		"12":                              12 * time.Second,
		" 12 ":                            12 * time.Second,
		"007":                             7 * time.Second,
		"2.0":                             2 * time.Second,
		"1.5":                             1500 * time.Millisecond,
		"0.0000000001":                    1, // rounded up
		"0.0000000000":                    0,
		"9223372036":                      math.MaxInt64,
		"9223372035":                      9223372035 * time.Second,
		"9223372037":                      math.MaxInt64,
		"99999999999999999999":            math.MaxInt64,
		"Fri, 31 Dec 1999 23:59:59 GMT":   9 * time.Second,
		"Friday, 31-Dec-99 23:59:59 GMT":  9 * time.Second,
		"Fri Dec 31 23:59:59 1999":        9 * time.Second,
		"Fri, 31 Dec 1999 23:59:00 GMT":   0,
		"-1":                              never,
		"+1":                              never,
		"1.":                              never,
		".5":                              never,
		"1.5.2":                           never,
		"1e3":                             never,
		"0x10":                            never,
		"١٢":                              never,
		"2000-01-01T00:00:00Z":            10 * time.Second,
		"soon":                            never,
		"":                                never,
		"12, 13":                          13 * time.Second,
		"120, 120":                        2 * time.Minute,
		"12, -1":                          12 * time.Second,
		"12, Fri":                         12 * time.Second,
		",":                               never,
		"Fri, 31 Dec 1999 23:59:59 UTC":   9 * time.Second,
		"Fri, 31 Dec 1999 23:59:59 +0000": 9 * time.Second,
		"Fri, 31 Dec 1999 23:59:59 +0100": never,
		"Fri, 31 Dec 1999 23:59:59":       never,
		"12s":                             never,
	} {
		got, ok := fields.RetryAfter(http.Header{"Retry-After": {v}}, newYearsEve)
		require.Equal(t, want != never, ok, "%q", v)
		if ok {
			require.Equal(t, want, got, "%q", v)
		}
	}
}

func TestRetryAfterTakesTheLongestOfSeveral(t *testing.T) {
	t.Parallel()
	got, ok := fields.RetryAfter(http.Header{"Retry-After": {"3", "garbage", "5", "4"}}, newYearsEve)
	require.True(t, ok)
	require.Equal(t, 5*time.Second, got)
	_, ok = fields.RetryAfter(nil, newYearsEve)
	require.False(t, ok)
}

// A date is compared with the server's own clock, if the response reports it.
func TestRetryAfterComparesDatesWithTheServersClock(t *testing.T) {
	t.Parallel()
	h := http.Header{"Retry-After": {"Fri, 31 Dec 1999 23:59:59 GMT"}, "Date": {"Fri, 31 Dec 1999 23:59:57 GMT"}}
	got, ok := fields.RetryAfter(h, newYearsEve.AddDate(10, 0, 0))
	require.True(t, ok)
	require.Equal(t, 2*time.Second, got)
	h.Set("Date", "garbage")
	got, ok = fields.RetryAfter(h, newYearsEve)
	require.True(t, ok)
	require.Equal(t, 9*time.Second, got)
}

func FuzzRetryAfter(f *testing.F) {
	for _, v := range []string{"0", "12", "2.0", "-1", "9223372037", "Fri, 31 Dec 1999 23:59:59 GMT", "Friday, 31-Dec-99 23:59:59 GMT", "Fri Dec 31 23:59:59 1999", "2030-01-01T00:00:00Z"} {
		f.Add(v, "")
	}
	f.Fuzz(func(t *testing.T, v, date string) {
		d, ok := fields.RetryAfter(http.Header{"Retry-After": {v}, "Date": {date}}, newYearsEve)
		require.GreaterOrEqual(t, d, time.Duration(0))
		if !ok {
			require.Zero(t, d)
		}
	})
}
