package fields

import (
	"math"
	"strings"
	"time"
	"unicode"
)

// maxText is how many bytes of a number, a duration or an instant are read: no form is longer.
const maxText = 96

// longest is the wait that stands for all waits that are too long for a Duration.
const longest = time.Duration(math.MaxInt64)

// Wait reads a duration or an instant in any form that upstreams send, and returns how long to wait from now on; 0 if the instant is past.
// The form decides:
//
//	below 10^9                     seconds from now, with or without decimals: "12", "2.0"
//	10^9 to 10^11                  seconds since the Unix epoch
//	above 10^11, 10^14, 10^17      milliseconds, microseconds, nanoseconds since the Unix epoch
//	"6m0s", "20ms", "1 minute"     that long from now: numbers, each with its unit, as Go prints them or in words
//	"PT1M30S"                      the same in ISO 8601, without days
//	"2026-01-01T00:00:42Z"         that instant: ISO 8601, with T or a space, with or without seconds, decimals and an offset
//	"Thu, 01 Jan 2026 00:00:42 GMT"    that instant: the HTTP dates of RFC 9110, and dates as mail, Ruby and JavaScript print them
//
// An instant without a zone is in UTC, as in HTTP. The name of any other zone is not ok: it may mean another time on each machine. 10^9 s
// is in 2001, and as a wait, 31 years. Milliseconds from now look like seconds: read them with [Milliseconds].
func Wait(s string, now time.Time) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if s == "" || len(s) > maxText {
		return 0, false
	}
	if d, ok := number(s, now); ok {
		return d, true
	}
	if d, ok := duration(s); ok {
		return d, true
	}
	if at, ok := instant(s); ok {
		return max(0, at.Sub(now)), true // Sub saturates
	}
	return 0, false
}

// Magnitudes of numbers. Each unit of an instant begins where the one before it is in the year 5138, and itself in 1973.
const (
	firstEpoch = 1_000_000_000
	lastEpoch  = 100_000_000_000
)

// number reads seconds from now, or an instant since the Unix epoch.
func number(s string, now time.Time) (time.Duration, bool) {
	n, _, ok := parts(s, time.Second)
	if !ok || n < firstEpoch {
		return decimal(s, time.Second)
	}
	if n == math.MaxInt64 {
		return longest, true
	}
	unit := time.Second
	for last := int64(lastEpoch); n > last && unit > 1; last *= 1000 {
		unit /= 1000
	}
	n, rest, _ := parts(s, unit)
	perSecond := int64(time.Second / unit)
	return max(0, time.Unix(n/perSecond, n%perSecond*int64(unit)).Add(rest).Sub(now)), true
}

// Milliseconds reads a number of milliseconds, with or without decimals.
func Milliseconds(s string) (time.Duration, bool) {
	return decimal(strings.TrimSpace(s), time.Millisecond)
}

// decimal reads digits with an optional decimal part, in a unit.
func decimal(s string, unit time.Duration) (time.Duration, bool) {
	n, rest, ok := parts(s, unit)
	if !ok {
		return 0, false
	}
	if n >= math.MaxInt64/int64(unit) {
		return longest, true
	}
	return time.Duration(n)*unit + rest, true
}

// parts splits digits with an optional decimal part into whole units and the rest, rounded up to the nanosecond. The largest number that
// fits stands for all larger ones.
func parts(s string, unit time.Duration) (n int64, rest time.Duration, ok bool) {
	whole, fraction, dotted := strings.Cut(s, ".")
	if len(s) > maxText || !digits(whole) || dotted && !digits(fraction) {
		return 0, 0, false
	}
	for _, c := range whole {
		if n > (math.MaxInt64-9)/10 {
			n = math.MaxInt64
			break
		}
		n = n*10 + int64(c-'0')
	}
	for i, c := range fraction {
		if unit /= 10; unit == 0 { // past the nanosecond: round up
			if strings.Trim(fraction[i:], "0") != "" {
				rest++
			}
			break
		}
		rest += time.Duration(c-'0') * unit
	}
	return n, rest, true
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// units are those of durations: of Go, and in words.
var units = map[string]time.Duration{ //nolint:gochecknoglobals // a constant table
	"ns": 1, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, // which are two letters
	"ms": time.Millisecond, "millisecond": time.Millisecond, "milliseconds": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
}

// duration reads numbers, each with its unit.
func duration(s string) (sum time.Duration, ok bool) {
	s = strings.TrimPrefix(strings.ToLower(s), "pt")
	for s != "" {
		rest := strings.TrimLeft(s, "0123456789.")
		count := s[:len(s)-len(rest)]
		rest = strings.TrimLeft(rest, " ")
		s = strings.TrimLeftFunc(rest, unicode.IsLetter)
		unit := units[rest[:len(rest)-len(s)]]
		if unit == 0 {
			return 0, false
		}
		d, valid := decimal(count, unit)
		if !valid {
			return 0, false
		}
		sum, ok = sum+min(d, longest-sum), true
		s = strings.TrimLeft(s, " ,")
	}
	return sum, ok
}

// layouts are those of instants. Layouts without a zone stand for UTC, GMT and Z, too. Go accepts a decimal part after the seconds.
//
// Sources: RFC 9110 section 5.6.7 (the first three), RFC 5322 section 3.3 (the fourth) and
// https://developer.lemlist.com/api-reference/getting-started/rate-limits (JavaScript)
var layouts = []string{ //nolint:gochecknoglobals // a constant table
	"Mon, 2 Jan 2006 15:04:05", "Monday, 02-Jan-06 15:04:05", time.ANSIC, "Mon, 2 Jan 2006 15:04:05 -0700",
	"Mon Jan 2 2006 15:04:05 GMT-0700", "Mon Jan _2 15:04:05 UTC 2006", "Mon Jan _2 15:04:05 GMT 2006", "Mon Jan _2 15:04:05 -0700 2006",
}

// iso are the layouts of ISO 8601, without spaces, which Ruby and Go print.
//
// Source: https://docs.gusto.com/embedded-payroll/changelog/added-rate-limit-headers (Ruby).
var iso = []string{ //nolint:gochecknoglobals // a constant table
	"2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05-07", "2006-01-02T15:04:05Z0700MST",
	"2006-01-02T15:04", "2006-01-02T15:04Z07:00", "2006-01-02T15:04Z0700", "20060102T150405",
}

// instant reads an instant.
func instant(s string) (time.Time, bool) {
	if len(s) < len("20060102T150405") || len(s) > maxText {
		return time.Time{}, false
	}
	s, _, _ = strings.Cut(s, " (") // what follows is the name of a zone, as JavaScript prints it
	for _, zone := range []string{" GMT", " UTC", "Z", "z"} {
		if at, found := strings.CutSuffix(s, zone); found {
			s = at
			break
		}
	}
	known := layouts
	if '0' <= s[0] && s[0] <= '9' {
		known = iso
		if len(s) > 10 && s[10] == ' ' {
			s = s[:10] + "T" + strings.ReplaceAll(s[11:], " ", "")
		}
		s = strings.ToUpper(s)
	}
	for _, layout := range known {
		if at, err := time.Parse(layout, s); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
