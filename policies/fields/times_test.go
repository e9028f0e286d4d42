package fields_test

import (
	"math"
	"net/http"
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

// nows are clocks that a form must be right on: that of today, before 1970, and at the ends of what a Time can hold.
var nows = map[string]time.Time{
	"2026":   time.Date(2026, time.November, 10, 12, 0, 0, 0, time.UTC),
	"zone":   time.Date(2026, time.November, 10, 13, 0, 0, 1, time.FixedZone("CET", 3600)),
	"1970":   time.Unix(0, 0),
	"1969":   time.Date(1969, time.December, 31, 23, 59, 59, 999_999_999, time.UTC),
	"1677":   time.Date(1677, time.January, 1, 0, 0, 0, 0, time.UTC), // UnixNano begins in 1678
	"1690":   time.Date(1690, time.January, 1, 0, 0, 0, 0, time.UTC),
	"zero":   {},
	"2263":   time.Date(2263, time.January, 1, 0, 0, 0, 0, time.UTC), // UnixNano ends in 2262
	"9999":   time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC),
	"real":   time.Now(), // has a monotonic part
	"before": time.Date(-5000, time.January, 1, 0, 0, 0, 0, time.UTC),
}

// check compares what a parser returns with what it should.
func check(t *testing.T, input string, want, got time.Duration, ok bool) {
	t.Helper()
	if want == invalid {
		require.False(t, ok, "%q", input)
		require.Zero(t, got, "%q", input)
		return
	}
	require.True(t, ok, "%q", input)
	require.Equal(t, want, got, "%q", input)
}

func TestSecondsAndMilliseconds(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]struct{ seconds, milliseconds time.Duration }{
		"0":                            {0, 0},
		"12":                           {12 * time.Second, 12 * time.Millisecond},
		" 12\t":                        {12 * time.Second, 12 * time.Millisecond},
		"2.0":                          {2 * time.Second, 2 * time.Millisecond},
		"1.5":                          {1500 * time.Millisecond, 1500 * time.Microsecond},
		"0.000000001":                  {1, 1}, // a picosecond is rounded up
		"0.0000000001":                 {1, 1},
		"0.999999999999":               {time.Second, time.Millisecond},
		"0.9999999990":                 {999_999_999, time.Millisecond},
		"0.999999":                     {999_999_000, 999_999},
		"000000000000000000000000012":  {12 * time.Second, 12 * time.Millisecond},
		"9223372035.999999999":         {9_223_372_035_999_999_999, 9_223_372_036_000_000},
		"9223372036":                   {longest, 9_223_372_036 * time.Millisecond},
		"9223372036853":                {longest, 9_223_372_036_853 * time.Millisecond},
		"9223372036854":                {longest, longest},
		"9223372036854775807":          {longest, longest},
		"9223372036854775808":          {longest, longest},
		"18446744073709551617":         {longest, longest}, // 2^64 + 1
		strings.Repeat("9", 64):        {longest, longest},
		strings.Repeat("9", 65):        {invalid, invalid},
		"0." + strings.Repeat("0", 62): {0, 0},
		"0." + strings.Repeat("0", 63): {invalid, invalid},
		"":                             {invalid, invalid},
		" ":                            {invalid, invalid},
		".":                            {invalid, invalid},
		".5":                           {invalid, invalid},
		"5.":                           {invalid, invalid},
		"1.2.3":                        {invalid, invalid},
		"-1":                           {invalid, invalid},
		"-0":                           {invalid, invalid},
		"+1":                           {invalid, invalid},
		"1,5":                          {invalid, invalid},
		"1e3":                          {invalid, invalid},
		"0x1":                          {invalid, invalid},
		"1_000":                        {invalid, invalid},
		"1 000":                        {invalid, invalid},
		"12s":                          {invalid, invalid},
		"NaN":                          {invalid, invalid},
		"Infinity":                     {invalid, invalid},
		"١٢":                           {invalid, invalid},
		"12\x00":                       {invalid, invalid},
	} {
		got, ok := fields.Seconds(s)
		check(t, s, want.seconds, got, ok)
		got, ok = fields.Milliseconds(s)
		check(t, s, want.milliseconds, got, ok)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]time.Duration{
		"6m0s":                     6 * time.Minute,
		"20ms":                     20 * time.Millisecond,
		"1.5s":                     1500 * time.Millisecond,
		"2m59.56s":                 2*time.Minute + 59560*time.Millisecond,
		"1h0m0s":                   time.Hour,
		"0s":                       0,
		"1us":                      time.Microsecond,
		"1µs":                      time.Microsecond,
		" 1s ":                     time.Second,
		"2562047h47m16.854775807s": longest,
		"2562047h47m16.854775808s": longest,
		"2562048h":                 longest,
		"99999999999999999999s":    longest,
		"0":                        invalid,
		"12":                       invalid,
		"":                         invalid,
		"s":                        invalid,
		"-1s":                      invalid,
		"-0s":                      invalid,
		"+1s":                      invalid,
		".5s":                      invalid,
		"1.s":                      invalid,
		"1m 0s":                    invalid,
		"1m-1s":                    invalid,
		"1d":                       invalid,
		"1S":                       invalid,
		"1e3s":                     invalid,
		"PT6M":                     invalid,
		strings.Repeat("1s", 33):   invalid,
	} {
		got, ok := fields.Duration(s)
		check(t, s, want, got, ok)
	}
}

func TestEpochs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s, now                string
		seconds, milliseconds time.Duration
	}{
		{"1794312041", "2026", 41 * time.Second, 0},
		{"1794312041000", "2026", longest, 41 * time.Second},
		{"1794312041.5", "2026", 41500 * time.Millisecond, 0},
		{"1794312041", "zone", 41*time.Second - 1, 0},
		{"1794312000", "2026", 0, 0},
		{"1794311999.999999999", "2026", 0, 0},
		{"1794312000.0000000001", "2026", 1, 0},
		{"0", "2026", 0, 0},
		{"0", "1970", 0, 0},
		{"0", "1969", 1, 1},
		{"1", "1969", time.Second + 1, time.Millisecond + 1},
		{"0", "1677", longest, longest}, // 293 years
		{"0", "1690", 8_835_868_800 * time.Second, 8_835_868_800 * time.Second},
		{"0", "zero", longest, longest},
		{"9223372035", "1969", 9_223_372_035*time.Second + 1, 9_223_372_035*time.Millisecond + 1},
		{"9223372036", "2026", 7_429_060_036 * time.Second, 0},
		{"11017684036", "2026", 9_223_372_036 * time.Second, 0}, // the last that a Duration holds
		{"11017684037", "2026", longest, 0},
		{"99999999999999999999", "2026", longest, longest},
		{strings.Repeat("9", 64), "9999", longest, longest},
		{"9246182400", "2263", 0, 0},
		{"9246182401", "2263", time.Second, 0},
		{"-1", "1969", invalid, invalid},
		{"", "2026", invalid, invalid},
		{"soon", "2026", invalid, invalid},
		{"1794312041Z", "2026", invalid, invalid},
	} {
		got, ok := fields.EpochSeconds(c.s, nows[c.now])
		check(t, c.s+" in "+c.now, c.seconds, got, ok)
		got, ok = fields.EpochMilliseconds(c.s, nows[c.now])
		check(t, c.s+" ms in "+c.now, c.milliseconds, got, ok)
	}
}

func TestISO8601(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]time.Duration{
		"2026-11-10T12:00:41Z":           41 * time.Second,
		"2026-11-10T12:01Z":              time.Minute,
		"2026-11-10T12:00:00.5Z":         500 * time.Millisecond,
		"2026-11-10T12:00:00.000000001Z": 1,
		"2026-11-10T13:00:41+01:00":      41 * time.Second,
		"2026-11-10T13:01+01:00":         time.Minute,
		"2026-11-10T07:00:41-05:00":      41 * time.Second,
		"2025-10-08T15:00:00Z":           0,
		"2026-03-26T16:00Z":              0,
		"0001-01-01T00:00:00Z":           0,
		"2319-02-21T11:47:16Z":           longest, // MaxInt64 is 854775807 ns later
		"9999-12-31T23:59:59Z":           longest,
		"2026-02-29T00:00:00Z":           invalid, // no leap year
		"2026-13-01T00:00:00Z":           invalid,
		"2026-11-10T24:00:00Z":           invalid,
		"2026-11-10T12:00:41":            invalid, // no zone
		"2026-11-10 12:00:41Z":           invalid,
		"2026-11-10":                     invalid,
		"20261110T120041Z":               invalid,
		"99999-11-10T12:00:41Z":          invalid,
		"-001-11-10T12:00:41Z":           invalid,
		"2026-11-10T12:00:41Z, ":         invalid,
		"1794312041":                     invalid,
		"":                               invalid,
		"2026-11-10T12:00:41." + strings.Repeat("0", 60) + "Z": invalid,
	} {
		got, ok := fields.ISO8601(s, nows["2026"])
		if want == longest {
			require.True(t, ok, "%q", s)
			require.GreaterOrEqual(t, got, longest-time.Second, "%q", s)
			continue
		}
		check(t, s, want, got, ok)
	}
	got, ok := fields.ISO8601("2026-11-10T12:00:00Z", nows["zero"])
	check(t, "from the zero Time", longest, got, ok)
	got, ok = fields.ISO8601("0001-01-01T00:00:00Z", nows["9999"])
	check(t, "from far ahead", 0, got, ok)
	got, ok = fields.ISO8601("1970-01-01T00:00:00Z", nows["1969"])
	check(t, "before 1970", 1, got, ok)
}

func TestHTTPDate(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]time.Duration{
		"Tue, 10 Nov 2026 12:00:41 GMT":           41 * time.Second,
		"Tuesday, 10-Nov-26 12:00:41 GMT":         41 * time.Second,
		"Tue Nov 10 12:00:41 2026":                41 * time.Second,
		"Sun Nov  1 12:00:41 2026":                0,
		" Tue, 10 Nov 2026 12:00:41 GMT ":         41 * time.Second,
		"Fri, 31 Dec 1999 23:59:59 GMT":           0,
		"Friday, 31-Dec-99 23:59:59 GMT":          0,
		"Fri Dec 31 23:59:59 1999":                0,
		"Fri, 31 Dec 9999 23:59:59 GMT":           longest,
		"Tue, 10 Nov 2026 12:00:41":               invalid,
		"Tue, 10 Nov 2026 12:00:41 UTC":           41 * time.Second,
		"Tue, 10 Nov 2026 12:00:41 +0000":         41 * time.Second,
		"Tuesday, 10-Nov-26 12:00:41 UTC":         41 * time.Second,
		"Tue, 10 Nov 2026 12:00:41 +0100":         invalid,
		"Tue, 10 Nov 2026 12:00:41 GMT UTC":       invalid,
		"Tue Nov 10 12:00:41 2026 UTC":            invalid,
		"Tuesday, 10-Nov-26 12:00:41 CET":         invalid, // would be another time on each machine
		"Tuesday, 10-Nov-26 12:00:41 GMT+3":       invalid,
		"Tuesday, 10-Nov-2026 12:00:41 GMT":       invalid,
		"Tue Nov 10 12:00:41 2026 GMT":            invalid,
		"Tue, 31 Feb 2026 12:00:41 GMT":           invalid,
		"Tue Feb 16 2021 09:02:42 GMT+0100 (CET)": invalid,
		"":                      invalid,
		"41":                    invalid,
		strings.Repeat("x", 99): invalid,
	} {
		got, ok := fields.HTTPDate(s, nows["2026"])
		check(t, s, want, got, ok)
	}
	got, ok := fields.HTTPDate("Thu, 01 Jan 1970 00:00:00 GMT", nows["1969"])
	check(t, "before 1970", 1, got, ok)
	got, ok = fields.HTTPDate("Tue, 10 Nov 2026 12:00:00 GMT", nows["zero"])
	check(t, "from the zero Time", longest, got, ok)
}

// The server's Date stands in for the clock only if it is one of the forms that HTTP has, in GMT.
func TestNowIgnoresADateInAnotherZone(t *testing.T) {
	t.Parallel()
	now := nows["2026"]
	for date, want := range map[string]time.Time{
		"Fri, 31 Dec 1999 23:59:59 GMT":  time.Date(1999, time.December, 31, 23, 59, 59, 0, time.UTC),
		"Friday, 31-Dec-99 23:59:59 CET": now,
		"2026-01-01T00:00:00Z":           now,
		"":                               now,
	} {
		require.True(t, want.Equal(fields.Now(http.Header{"Date": {date}}, now)), date)
	}
}

func TestCached(t *testing.T) {
	t.Parallel()
	for age, want := range map[string]bool{"": false, "0": false, "1": true, "86400": true, "-1": false, "x": false, "1.5": false} {
		require.Equal(t, want, fields.Cached(http.Header{"Age": {age}}), age)
	}
	require.False(t, fields.Cached(nil))
	require.True(t, fields.Cached(http.Header{"Age": {"0", "30"}}), "of two caches")
	require.True(t, fields.Cached(http.Header{"Age": {"0, 30"}}))
	require.False(t, fields.Cached(http.Header{"Age": {"0", "0"}}))
}
