package fields

import (
	"math"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// maxField is how many bytes of a field are read: no valid form is longer.
const maxField = 64

// longest is the wait that stands for all waits that are too long for a Duration.
const longest = time.Duration(math.MaxInt64)

// Seconds reads a number of seconds, with or without decimals: "12", "2.0".
func Seconds(s string) (time.Duration, bool) { return decimal(s, time.Second) }

// Milliseconds reads a number of milliseconds, with or without decimals.
func Milliseconds(s string) (time.Duration, bool) { return decimal(s, time.Millisecond) }

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

// maxWhole stands for all larger numbers: that many seconds are 31 million years.
const maxWhole = 1_000_000_000_000_000

// parts splits digits with an optional decimal part into whole units, at most maxWhole, and the rest, rounded up to the nanosecond.
func parts(s string, unit time.Duration) (n int64, rest time.Duration, ok bool) {
	s = strings.TrimSpace(s)
	whole, fraction, dotted := strings.Cut(s, ".")
	if len(s) > maxField || !digits(whole) || dotted && !digits(fraction) {
		return 0, 0, false
	}
	for _, c := range whole {
		n = min(maxWhole, n*10+int64(c-'0'))
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

// goDuration matches a duration: no sign, and a unit after each number.
var goDuration = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`)

// Duration reads a duration as Go prints it: "6m0s", "20ms", "1.5s". Fractions of a nanosecond are dropped.
func Duration(s string) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if len(s) > maxField || !goDuration.MatchString(s) {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	if err != nil { // in this form, it can only be too large
		return longest, true
	}
	return d, true
}

// EpochSeconds reads an instant in seconds since the Unix epoch and returns how long that is from now; 0 if it is past.
func EpochSeconds(s string, now time.Time) (time.Duration, bool) {
	return epoch(s, now, time.Second)
}

// EpochMilliseconds reads an instant in milliseconds since the Unix epoch and returns how long that is from now; 0 if
// it is past.
func EpochMilliseconds(s string, now time.Time) (time.Duration, bool) {
	return epoch(s, now, time.Millisecond)
}

func epoch(s string, now time.Time, unit time.Duration) (time.Duration, bool) {
	n, rest, ok := parts(s, unit)
	if !ok {
		return 0, false
	}
	perSecond := int64(time.Second / unit)
	at := time.Unix(n/perSecond, n%perSecond*int64(unit)).Add(rest)
	return max(0, at.Sub(now)), true // Sub saturates, whatever now is
}

// iso8601 are the forms of ISO 8601 that vendors send: RFC 3339, and Atlassian's without seconds.
var iso8601 = []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00"} //nolint:gochecknoglobals // a constant table

// ISO8601 reads an instant with a time zone, with or without seconds, such as 2025-10-08T15:00:00Z, and returns how long that is from now;
// 0 if it is past.
func ISO8601(s string, now time.Time) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if len(s) > maxField {
		return 0, false
	}
	for _, form := range iso8601 {
		if at, err := time.Parse(form, s); err == nil {
			return max(0, at.Sub(now)), true // Sub saturates
		}
	}
	return 0, false
}

// HTTPDate reads one of the three dates of RFC 9110 section 5.6.7 and returns how long that is from now; 0 if it is past. In the first two,
// the time zone may also be UTC or +0000 in place of GMT, as formatters of dates for mail write it.
func HTTPDate(s string, now time.Time) (time.Duration, bool) {
	at, ok := httpDate(s)
	if !ok {
		return 0, false
	}
	return max(0, at.Sub(now)), true
}

func httpDate(s string) (time.Time, bool) {
	s = strings.TrimSpace(s)
	if len(s) > maxField {
		return time.Time{}, false
	}
	for _, zone := range []string{" UTC", " +0000"} {
		if date, found := strings.CutSuffix(s, zone); found {
			s = date + " GMT"
		}
	}
	// All three are in GMT. ParseTime accepts any zone in the second, which may mean another time on each machine.
	if strings.Contains(s, ",") && !strings.HasSuffix(s, " GMT") {
		return time.Time{}, false
	}
	at, err := http.ParseTime(s)
	return at, err == nil
}
