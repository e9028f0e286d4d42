package store

import (
	"math"
	"time"
)

// An Instant is a point in store time: microseconds since the Unix epoch by the store's clock. Instants of
// one store compare; they must not be mixed with this machine's clock.
type Instant int64

// NowOf returns the time of a store that has it at hand, as a [Direct] and a [Member] do, and this machine's for any other.
func NowOf(s Store) Instant {
	if clock, ok := s.(interface{ Now() Instant }); ok {
		return clock.Now()
	}
	return Instant(time.Now().UnixMicro())
}

// Sub returns the duration t − u; one that is too long for a Duration becomes the longest.
func (t Instant) Sub(u Instant) time.Duration {
	const most = Instant(math.MaxInt64 / time.Microsecond)
	d := t - u
	if (d > 0) != (t > u) { // it overflows
		d = most
		if t < u {
			d = -most
		}
	}
	return time.Duration(max(-most, min(most, d))) * time.Microsecond
}

// Add returns the instant d after t, rounded up to a microsecond; one that is too far away becomes the last.
func (t Instant) Add(d time.Duration) Instant {
	us := Instant(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	if us > 0 && t > math.MaxInt64-us {
		return math.MaxInt64
	}
	return t + us
}
