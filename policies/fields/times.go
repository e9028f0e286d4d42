package fields

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// maxField bounds what is looked at: no valid form is longer.
const maxField = 64

// longest is the wait that stands for all that are too long for a Duration.
const longest = time.Duration(math.MaxInt64)

// Seconds reads a number of seconds, with or without decimals: "12", "2.0".
func Seconds(s string) (time.Duration, bool) { return decimal(s, time.Second) }

// Milliseconds reads a number of milliseconds, with or without decimals.
func Milliseconds(s string) (time.Duration, bool) { return decimal(s, time.Millisecond) }

// decimal reads digits with an optional decimal part, in a unit.
func decimal(s string, unit time.Duration) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	whole, fraction, dotted := strings.Cut(s, ".")
	if len(s) > maxField || !digits(whole) || dotted && !digits(fraction) {
		return 0, false
	}
	limit := math.MaxInt64 / int64(unit)
	var n int64
	for _, c := range whole {
		if n = n*10 + int64(c-'0'); n >= limit {
			return longest, true
		}
	}
	d := time.Duration(n) * unit
	for i, c := range fraction {
		if unit /= 10; unit == 0 { // past the nanosecond: round up
			if strings.Trim(fraction[i:], "0") != "" {
				d++
			}
			break
		}
		d += time.Duration(c-'0') * unit
	}
	return d, true
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// Duration reads a duration as Go prints it: "6m0s", "20ms", "1.5s".
func Duration(s string) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if len(s) > maxField {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, false
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
	d, ok := decimal(s, unit)
	if !ok {
		return 0, false
	}
	since := now.UnixNano() // of this and the next two centuries
	if d == longest {
		return longest, true
	}
	return max(0, d-time.Duration(since)), true
}

// iso8601 are the forms of ISO 8601 that vendors send: RFC 3339, and Atlassian's without seconds.
var iso8601 = []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00"} //nolint:gochecknoglobals // a constant table

// ISO8601 reads an instant such as 2025-10-08T15:00:00Z, with or without seconds, and with a time zone, and returns how
// long that is from now; 0 if it is past.
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

// HTTPDate reads one of the three dates of RFC 9110 section 5.6.7 and returns how long that is from now; 0 if it is past.
func HTTPDate(s string, now time.Time) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if len(s) > maxField {
		return 0, false
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0, false
	}
	return max(0, at.Sub(now)), true
}
