package fields_test

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/fields"
)

const (
	longest = time.Duration(math.MaxInt64)
	invalid = time.Duration(-1) // in a table: not ok
)

// newYear is the 1767225600 of the tables.
var newYear = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// waits are the forms that upstreams send, and what resembles them.
var waits = map[string]time.Duration{
	// Seconds from now.
	"0": 0, "12": 12 * time.Second, " 12\t": 12 * time.Second, "007": 7 * time.Second, "2.0": 2 * time.Second,
	"1.5":          1500 * time.Millisecond,
	"0.0000000001": 1, "0.0000000000": 0, "0.999999999999": time.Second, "31536000": 365 * 24 * time.Hour,
	"999999999":                   999999999 * time.Second,
	"000000000000000000000000012": 12 * time.Second, // and rounded up
	// Instants since the epoch.
	"1000000000": 0, "1767225599": 0, "1767225600": 0, "1767225660": time.Minute, "1767225600.5": 500 * time.Millisecond,
	"1767225600.0000000001": 1,
	"100000000001":          0, "1767225660000": time.Minute, "1767225660000000": time.Minute, "1767225660000000000": time.Minute,
	"1767225600000.25": 250 * time.Microsecond, "10990597635": (10990597635 - 1767225600) * time.Second, "10990598700": longest,
	"99999999999999999999": longest, strings.Repeat("9", 97): invalid,
	// Durations.
	"60s": time.Minute, "1m0s": time.Minute, "6m0s": 6 * time.Minute, "20ms": 20 * time.Millisecond,
	"2m59.56s": 2*time.Minute + 59560*time.Millisecond,
	"1h30m":    90 * time.Minute, "0s": 0, "1us": time.Microsecond, "1µs": time.Microsecond, "1.5d": 36 * time.Hour, "2d3h": 51 * time.Hour,
	"60 s": time.Minute, "60 seconds": time.Minute, "1 minute": time.Minute, "1 Minute, 30 Seconds": 90 * time.Second,
	"2 hrs 5 min": 125 * time.Minute, "90 sec": 90 * time.Second,
	"PT1M30S": 90 * time.Second, "PT0.5S": 500 * time.Millisecond, "2562048h": longest, "99999999999999999999s": longest,
	"9999999h9999999h": longest,
	// Instants of ISO 8601.
	"2026-01-02T00:00:00+00:00": 24 * time.Hour, "2026-01-01T00:00:42Z": 42 * time.Second, "2026-01-01T00:01Z": time.Minute,
	"2026-01-01T00:00:00.5Z": 500 * time.Millisecond, "2026-01-01T01:00:42+01:00": 42 * time.Second,
	"2026-01-01T01:00:42.000+0100": 42 * time.Second,
	"2025-12-31T19:00:42-05":       42 * time.Second, "2026-01-01T00:00:42": 42 * time.Second, "2026-01-01t00:00:42z": 42 * time.Second,
	"2026-01-01 00:00:42 UTC": 42 * time.Second, "2026-01-01 00:00:42": 42 * time.Second, "2025-12-31 16:00:42 -0800": 42 * time.Second,
	"2026-01-01 00:00:42.5 +0000 UTC": 42500 * time.Millisecond, "2026-01-01 01:00:42 +0100 CET": 42 * time.Second,
	"2026-01-01 00:01": time.Minute,
	"20260101T000042Z": 42 * time.Second, "2025-10-08T15:00:00Z": 0, "0001-01-01T00:00:00Z": 0, "9999-12-31T23:59:59Z": longest,
	// Other dates.
	"Thu, 01 Jan 2026 00:00:42 GMT": 42 * time.Second, "Thursday, 01-Jan-26 00:00:42 GMT": 42 * time.Second,
	"Thu Jan  1 00:00:42 2026":      42 * time.Second,
	"Thu, 01 Jan 2026 00:00:42 UTC": 42 * time.Second, "Thu, 01 Jan 2026 00:00:42 +0000": 42 * time.Second,
	"Thu, 1 Jan 2026 01:00:42 +0100":                                     42 * time.Second,
	"Thu Jan 01 2026 01:00:42 GMT+0100 (Central European Standard Time)": 42 * time.Second,
	"Thu Jan 01 2026 01:00:42 GMT+0100":                                  42 * time.Second,
	"Thu Jan  1 00:00:42 UTC 2026":                                       42 * time.Second, "Thu Jan 01 00:00:42 +0000 2026": 42 * time.Second, "Fri, 31 Dec 1999 23:59:59 GMT": 0,
	// None of them.
	"": invalid, " ": invalid, ".": invalid, ".5": invalid, "5.": invalid, "1.2.3": invalid, "-1": invalid, "-0": invalid,
	"+1": invalid, "1,5": invalid,
	"1e3": invalid, "0x1": invalid, "1_000": invalid, "1 000": invalid, "NaN": invalid, "Infinity": invalid, "١٢": invalid,
	"12\x00": invalid, "41,": invalid,
	"s": invalid, "-1s": invalid, ".5s": invalid, "1.s": invalid, "1m-1s": invalid, "1 fortnight": invalid, "soon": invalid,
	"PT": invalid, "P1M": invalid,
	"2026-01-01": invalid, "2026-02-29T00:00:00Z": invalid, "2026-13-01T00:00:00Z": invalid, "2026-01-01T24:00:00Z": invalid,
	"99999-01-01T00:00:42Z":   invalid,
	"2026-01-01 00:00:42 CET": invalid, "Thursday, 01-Jan-26 00:00:42 CET": invalid, "Thu, 31 Feb 2026 12:00:41 GMT": invalid, // another time on each machine
	"Tue Feb 16 2021": invalid, "2026-01-01T00:00:42." + strings.Repeat("0", 90) + "Z": invalid,
}

// check compares what a parser returns with what it should.
func check(t *testing.T, input string, want, got time.Duration, ok bool) {
	t.Helper()
	require.Equal(t, want != invalid, ok, "%q", input)
	require.Equal(t, max(0, want), got, "%q", input)
}

func TestWait(t *testing.T) {
	t.Parallel()
	for s, want := range waits {
		got, ok := fields.Wait(s, newYear)
		check(t, s, want, got, ok)
		got, ok = fields.RetryAfter(http.Header{"Retry-After": {s}}, newYear)
		if want != invalid { // a list may have more
			check(t, s, want, got, ok)
		}
	}
	for s, now := range map[string]time.Time{"1767225600": {}, "9223372036": time.Date(1677, 1, 1, 0, 0, 0, 0, time.UTC), "2026-01-01T00:00Z": {}} {
		got, ok := fields.Wait(s, now) // at the ends of what a Time can hold
		check(t, s, longest, got, ok)
	}
}

func TestMilliseconds(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]time.Duration{
		"12": 12 * time.Millisecond, " 1.5 ": 1500 * time.Microsecond, "0.0000001": 1, "600000": 10 * time.Minute, "9223372036853": 9_223_372_036_853 * time.Millisecond, //nolint:gocritic // spaces around a number
		"9223372036854": longest, "": invalid, "-1": invalid, "12ms": invalid, "1.": invalid,
	} {
		got, ok := fields.Milliseconds(s)
		check(t, s, want, got, ok)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]time.Duration{
		"12, 13": 13 * time.Second, "120, 120": 2 * time.Minute, "12, -1": 12 * time.Second, "12, Fri": 12 * time.Second, ",": invalid, "soon": invalid,
	} {
		got, ok := fields.RetryAfter(http.Header{"Retry-After": {v}}, newYear)
		check(t, v, want, got, ok)
	}
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		for v, want := range map[string]time.Duration{"1250": 1250 * time.Millisecond, "0": 2 * time.Second, "-1": 2 * time.Second, "soon": 2 * time.Second} {
			got, ok := fields.RetryAfter(http.Header{name: {v}, "Retry-After": {"2"}}, newYear)
			check(t, name+" "+v, want, got, ok)
		}
	}
	got, ok := fields.RetryAfter(http.Header{"Retry-After": {"3", "garbage", "5", "4"}}, newYear)
	check(t, "the longest of several", 5*time.Second, got, ok)
	_, ok = fields.RetryAfter(nil, newYear)
	require.False(t, ok)

	// An instant is compared with the server's own clock, if the response reports it.
	for date, want := range map[string]time.Duration{
		"Thu, 01 Jan 2026 00:00:40 GMT": 2 * time.Second, "garbage": 42 * time.Second, "Thursday, 01-Jan-26 00:00:40 CET": 42 * time.Second,
	} {
		for _, v := range []string{"Thu, 01 Jan 2026 00:00:42 GMT", "1767225642", "2026-01-01T00:00:42Z"} {
			got, ok := fields.RetryAfter(http.Header{"Retry-After": {v}, "Date": {date}}, newYear)
			check(t, v, want, got, ok)
		}
	}
}

// A field that is longer than any form counts as absent, whether it is one line or many.
func TestLongFieldsAreAbsent(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]bool{1: true, 4095: true, 4096: false, 9 << 20: false} {
		require.Equal(t, want, fields.Get(http.Header{"X": {strings.Repeat("1", length)}}, "x") != "", length)
	}
	require.Len(t, fields.Values(http.Header{"X": make([]string, 4096)}, "x"), 4096)
	require.Empty(t, fields.Values(http.Header{"X": make([]string, 4097)}, "x"))
	require.Equal(t, "1", fields.Get(http.Header{"X": {"1", "2"}}, "x"))
	require.Empty(t, fields.Get(nil, "x"))
	require.False(t, fields.Cached(http.Header{"Age": {strings.Repeat("1,", 4096)}}))
	_, ok := fields.RetryAfter(http.Header{"Retry-After": {"1", strings.Repeat("1,", 4096)}}, newYear)
	require.False(t, ok)
}

func TestCached(t *testing.T) {
	t.Parallel()
	for age, want := range map[string]bool{"": false, "0": false, "1": true, "86400": true, "-1": false, "x": false, "1.5": false, "0, 30": true} {
		require.Equal(t, want, fields.Cached(http.Header{"Age": {age}}), age)
	}
	require.False(t, fields.Cached(nil))
	require.True(t, fields.Cached(http.Header{"Age": {"0", "30"}}), "of two caches")
	require.False(t, fields.Cached(http.Header{"Age": {"0", "0"}}))
	require.True(t, fields.Cached(http.Header{"X-From-Cache": {"1"}}), "of a cache in the client")
}

// Of any input, the wait is not negative, and Go's own formats are read as they were meant.
func FuzzWait(f *testing.F) {
	for s := range waits {
		f.Add(s, newYear.Unix(), int64(len(s)))
	}
	f.Fuzz(func(t *testing.T, s string, sec, n int64) {
		now := time.Unix(sec%(1<<50), 0)
		got, ok := fields.Wait(s, now)
		require.GreaterOrEqual(t, got, time.Duration(0))
		require.True(t, ok || got == 0)

		d := time.Duration(max(0, n))
		got, ok = fields.Wait(d.String(), now)
		check(t, d.String(), d, got, ok)
		at := time.Unix(max(0, n)%253_402_300_800, 0).UTC() // until the year 9999
		want := max(0, at.Sub(now))
		for _, layout := range []string{time.RFC3339, http.TimeFormat, time.ANSIC, time.UnixDate, time.RFC1123Z, time.RubyDate, "2006-01-02 15:04:05 -0700 MST"} {
			got, ok = fields.Wait(at.Format(layout), now)
			check(t, at.Format(layout), want, got, ok)
		}
		if at.Unix() >= 1_000_000_000 {
			got, ok = fields.Wait(strconv.FormatInt(at.Unix(), 10), now)
			if at.Unix() <= 100_000_000_000 {
				check(t, "epoch", want, got, ok)
			}
		}
	})
}
