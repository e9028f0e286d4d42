package store

import (
	"math"
	"time"
)

// An Instant is a point in store time: microseconds since the Unix epoch by the store's clock. Do not mix it with this machine's clock, or
// with instants of another store.
type Instant int64

// NowOf returns the time of a store that knows it without a request, as a [Direct] and a [Member] do; for others, this machine's.
func NowOf(s Store) Instant {
	if clock, ok := s.(interface{ Now() Instant }); ok {
		return clock.Now()
	}
	return Instant(time.Now().UnixMicro())
}

// Sub returns t − u, at most the longest Duration.
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

// Add returns the instant d after t, rounded up to a microsecond, at most the last instant.
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
