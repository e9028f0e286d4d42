package fields_test

import (
	"math"
	"math/big"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/fields"
)

var decimal = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

// nanoseconds returns how many nanoseconds a decimal number of units is, rounded up; nil if it is none.
func nanoseconds(s string, unit time.Duration) *big.Int {
	s = strings.TrimSpace(s)
	r, isNumber := new(big.Rat).SetString(s)
	if len(s) > 64 || !decimal.MatchString(s) || !isNumber {
		return nil
	}
	r.Mul(r, new(big.Rat).SetInt64(int64(unit)))
	n, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	return n
}

// saturated returns what a number of nanoseconds is as a wait.
func saturated(n *big.Int) time.Duration {
	switch {
	case n.Sign() < 0:
		return 0
	case !n.IsInt64():
		return longest
	}
	return time.Duration(n.Int64())
}

func fuzzDecimal(f *testing.F, unit time.Duration, parse func(string) (time.Duration, bool)) {
	f.Helper()
	for _, s := range []string{"0", "12", "2.0", "0.0000000001", "9223372036", "9223372036854", "18446744073709551617", "-1", "1e3", "1.999999999999"} {
		f.Add(s)
	}
	// From this many whole units on the wait is the longest: less than one unit more would not fit.
	end := new(big.Int).Mul(big.NewInt(math.MaxInt64/int64(unit)), big.NewInt(int64(unit)))
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parse(s)
		want := nanoseconds(s, unit)
		switch {
		case want == nil:
			check(t, s, invalid, got, ok)
		case want.Cmp(end) > 0:
			check(t, s, longest, got, ok)
		case want.Cmp(end) == 0: // rounded up to it, or written so
			require.True(t, ok)
			require.Contains(t, []time.Duration{longest, saturated(want)}, got, s)
		default:
			check(t, s, saturated(want), got, ok)
		}
	})
}

func FuzzSeconds(f *testing.F)      { fuzzDecimal(f, time.Second, fields.Seconds) }
func FuzzMilliseconds(f *testing.F) { fuzzDecimal(f, time.Millisecond, fields.Milliseconds) }

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"6m0s", "20ms", "1.5s", "2562047h47m16.854775808s", "-1s", "1µs", "0", "1h1h1h", "0.5ns"} {
		f.Add(s, int64(len(s)))
	}
	number := regexp.MustCompile(`([0-9.]+)([a-zµ]+)`)
	units := map[string]int64{"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
	f.Fuzz(func(t *testing.T, s string, n int64) {
		// What Go prints is read.
		d := time.Duration(max(0, n))
		got, ok := fields.Duration(d.String())
		check(t, d.String(), d, got, ok)

		got, ok = fields.Duration(s)
		if !ok {
			require.Zero(t, got)
			return
		}
		exact, parsed := new(big.Rat), 0
		for _, m := range number.FindAllStringSubmatch(s, -1) {
			r, isNumber := new(big.Rat).SetString(m[1])
			require.True(t, isNumber, s)
			exact.Add(exact, r.Mul(r, new(big.Rat).SetInt64(units[m[2]])))
			parsed += len(m[0])
		}
		require.Len(t, strings.TrimSpace(s), parsed, "nothing stands between the numbers")
		// A fraction may lose up to a nanosecond for each number.
		off := new(big.Rat).Sub(exact, new(big.Rat).SetInt64(int64(got)))
		if got == longest {
			require.GreaterOrEqual(t, off.Cmp(new(big.Rat).SetInt64(-1)), 0, s)
			return
		}
		require.Negative(t, off.Abs(off).Cmp(new(big.Rat).SetInt64(33)), s)
	})
}

func fuzzEpoch(f *testing.F, unit time.Duration, parse func(string, time.Time) (time.Duration, bool)) {
	f.Helper()
	for _, s := range []string{"0", "41", "1794312041", "1794312041000", "9223372036.9999999999", "99999999999999999999", "-1", "1.5"} {
		for _, now := range nows {
			f.Add(s, now.Unix(), int64(now.Nanosecond()))
		}
	}
	f.Fuzz(func(t *testing.T, s string, sec, nsec int64) {
		sec %= 1 << 50 // 35 million years
		nsec = max(0, nsec%1_000_000_000)
		got, ok := parse(s, time.Unix(sec, nsec))
		want := nanoseconds(s, unit)
		if want == nil {
			check(t, s, invalid, got, ok)
			return
		}
		now := new(big.Int).Mul(big.NewInt(sec), big.NewInt(int64(time.Second)))
		now.Add(now, big.NewInt(nsec))
		whole := new(big.Int).Div(want, big.NewInt(int64(unit)))
		if whole.Cmp(big.NewInt(1_000_000_000_000_000)) >= 0 { // read as this many: beyond any wait from today
			return
		}
		check(t, s, saturated(want.Sub(want, now)), got, ok)
	})
}

func FuzzEpochSeconds(f *testing.F)      { fuzzEpoch(f, time.Second, fields.EpochSeconds) }
func FuzzEpochMilliseconds(f *testing.F) { fuzzEpoch(f, time.Millisecond, fields.EpochMilliseconds) }

var strictISO = regexp.MustCompile(`^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(\.\d{1,9})?)?(Z|([+-])(\d\d):(\d\d))$`)

// iso8601 reads an instant without package time's parser; ok if the form is strictly right.
func iso8601(s string) (at time.Time, ok bool) {
	m := strictISO.FindStringSubmatch(s)
	if m == nil {
		return time.Time{}, false
	}
	num := func(i int) int {
		n, _ := strconv.Atoi(m[i])
		return n
	}
	nanos := 0
	if m[7] != "" {
		nanos, _ = strconv.Atoi((m[7] + "000000000")[1:10])
	}
	at = time.Date(num(1), time.Month(num(2)), num(3), num(4), num(5), num(6), nanos, time.UTC)
	valid := at.Month() == time.Month(num(2)) && at.Day() == num(3) && at.Hour() == num(4) && at.Minute() == num(5) && at.Second() == num(6)
	if num(10) > 23 || num(11) > 59 {
		valid = false
	}
	offset := time.Duration(num(10))*time.Hour + time.Duration(num(11))*time.Minute
	if m[9] == "+" {
		offset = -offset
	}
	return at.Add(offset), valid
}

func FuzzISO8601(f *testing.F) {
	for _, s := range []string{"2026-11-10T12:00:41Z", "2026-03-26T16:00Z", "2026-11-10T12:00:00.5+01:00", "2026-02-29T00:00:00Z", "9999-12-31T23:59:59-23:59"} {
		for _, now := range nows {
			f.Add(s, now.Unix())
		}
	}
	f.Fuzz(func(t *testing.T, s string, sec int64) {
		now := time.Unix(sec%(1<<50), 0)
		got, ok := fields.ISO8601(s, now)
		require.GreaterOrEqual(t, got, time.Duration(0))
		if !ok {
			require.Zero(t, got)
		}
		if at, strict := iso8601(strings.TrimSpace(s)); strict {
			check(t, s, max(0, at.Sub(now)), got, ok)
		}
	})
}

func FuzzHTTPDate(f *testing.F) {
	for _, s := range []string{"Tue, 10 Nov 2026 12:00:41 GMT", "Tuesday, 10-Nov-26 12:00:41 GMT", "Tue Nov 10 12:00:41 2026", "Tuesday, 10-Nov-26 12:00:41 CET"} {
		for _, now := range nows {
			f.Add(s, now.Unix(), int64(1794312041))
		}
	}
	f.Fuzz(func(t *testing.T, s string, sec, at int64) {
		now := time.Unix(sec%(1<<50), 0)
		got, ok := fields.HTTPDate(s, now)
		require.GreaterOrEqual(t, got, time.Duration(0))
		if !ok {
			require.Zero(t, got)
		}

		// What a server prints is read: each form for the years that it has.
		date := time.Unix(at%253_402_300_800, 0).UTC() // until the year 9999
		want := max(0, date.Sub(now))
		if date.Year() >= 0 {
			got, ok = fields.HTTPDate(date.Format(http.TimeFormat), now)
			check(t, s, want, got, ok)
			got, ok = fields.HTTPDate(date.Format(time.ANSIC), now)
			check(t, s, want, got, ok)
		}
		if date.Year() >= 1969 && date.Year() <= 2068 {
			got, ok = fields.HTTPDate(date.Format("Monday, 02-Jan-06 15:04:05 GMT"), now)
			check(t, s, want, got, ok)
		}
	})
}
