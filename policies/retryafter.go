package policies

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// RetryAfter reads the Retry-After field of a response and returns how long to wait from now on. It accepts
// delay-seconds and the three HTTP dates of RFC 9110 section 10.2.3 and 5.6.7, and seconds with decimals, as
// Shopify sends them ("2.0"). A date is compared with the response's own Date if there is one, so that a
// clock that differs from the server's does no harm; otherwise with now. A time that is past is a wait of 0.
// Of several fields the longest wait counts.
//
// The result is rounded up, is never negative and never overflows; a number too large for a Duration becomes
// the largest. Capping it is up to the caller. A field that is none of these forms (negative, ISO 8601,
// garbage) is ignored: if nothing valid is left, ok is false.
func RetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	for _, v := range h.Values("Retry-After") {
		v = strings.TrimSpace(v)
		d, valid := seconds(v)
		if !valid {
			d, valid = httpDate(v, h, now)
		}
		if valid {
			wait, ok = max(wait, d), true
		}
	}
	return wait, ok
}

// maxField bounds what is looked at: no valid form is longer.
const maxField = 64

// seconds reads digits with an optional decimal part.
func seconds(v string) (time.Duration, bool) {
	whole, fraction, dotted := strings.Cut(v, ".")
	if len(v) > maxField || !digits(whole) || dotted && !digits(fraction) {
		return 0, false
	}
	const limit = math.MaxInt64 / int64(time.Second)
	var n int64
	for _, c := range whole {
		if n = n*10 + int64(c-'0'); n >= limit {
			return math.MaxInt64, true
		}
	}
	d := time.Duration(n) * time.Second
	unit := time.Second
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

func httpDate(v string, h http.Header, now time.Time) (time.Duration, bool) {
	if len(v) > maxField {
		return 0, false
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now)), true // Sub saturates
}
