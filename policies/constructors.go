package policies

import (
	"time"

	"github.com/headway-go/headway/policies/specs"
)

// Rate allows n calls per period, evenly spaced: one every period/n, rounded up to a microsecond. With [Policy.Burst] b, up to b may start
// at once after idling, and at most b + W·n/period in any window of length W. The burst of n ≥ 2 may default to 2: see [Stacked].
//
// Rate(90, time.Minute) sends one call every 667 ms (666,667 µs).
func Rate(n int64, period time.Duration) Policy {
	return Policy{shape: shapeRate, limit: n, period: period, skew: notSet}
}

// PerSecond allows n calls per second, evenly spaced: [Rate] with a period of one second.
//
// PerSecond(25) sends one call every 40 ms. PerSecond(25).Burst(10) also lets ten start at once after 400 ms of idling, and so up to 35 in
// some second: if the upstream counts strictly, use AtMost(25, time.Second).
func PerSecond(n int64) Policy { return Rate(n, time.Second) }

// PerMinute allows n calls per minute, evenly spaced: [Rate] with a period of one minute.
//
// PerMinute(120) is the pace of PerSecond(2): one call every 500 ms. It does not mean "120 at once, then none until the minute is over":
// for that, use [Fixed] or [Sliding].
func PerMinute(n int64) Policy { return Rate(n, time.Minute) }

// Every allows one call every d, and never two at once without a [Policy.Burst]: [Rate] with n = 1.
//
// Every(1500 * time.Millisecond) sends 40 calls a minute.
func Every(d time.Duration) Policy { return Rate(1, d) }

// AtMost never sends more than n calls in any window of the period's length, even if the network brings calls up to [Policy.Skew] closer
// together than they were sent. It is a rate: calls are spaced T = (period + skew) / n.
//
// With a [Policy.Burst] above 1 and n up to 256, the store remembers when the last n calls started. A burst then costs nothing in the long
// run, because the n calls after any call still take period + skew. With a burst and a larger n, the store keeps no such log, and the
// spacing is T = (period + skew) / (n − burst + 1): the burst costs (burst − 1)/n of the rate.
//
// AtMost(50, time.Second) sends one call every 20.2 ms (skew 10 ms): 49.5 calls a second, never a 51st within one second. AtMost(50,
// time.Second).Burst(10) sends up to ten at once, and as many in the long run.
func AtMost(n int64, period time.Duration) Policy {
	return Policy{shape: shapeAtMost, limit: n, period: period, skew: notSet}
}

// Fixed allows n calls in each window of this period. Windows are aligned to the Unix epoch by the store's clock: one of 10 s begins at
// :00, :10, :20 … The whole limit may be spent at once, and around the boundary of two windows up to 2n calls may start in one period.
//
// Fixed(300, 10*time.Second).Skew(50*time.Millisecond) sends at most 300 calls in each ten seconds of the clock, and none in the last 50
// ms, so that the upstream counts each call in the same window.
func Fixed(n int64, period time.Duration) Policy {
	return Policy{shape: shapeFixed, limit: n, period: period, skew: notSet}
}

// Hourly allows n calls in each hour of the clock in this time zone. It is the same as in UTC if the zone's offset is a whole number of
// hours.
//
// Hourly(5000, time.UTC) allows 5,000 calls from 13:00:00 to 13:59:59.999999.
func Hourly(n int64, loc *time.Location) Policy { return calendar(n, specs.Hour, loc) }

// Daily allows n calls in each calendar day of this time zone, 23 or 25 hours long when DST begins or ends. All calls may start in the
// first minute: stack a rate on top to spread them.
//
// Daily(100_000, berlin) allows 100,000 calls from midnight to midnight in Berlin, also on the day that has 23 hours.
func Daily(n int64, loc *time.Location) Policy { return calendar(n, specs.Day, loc) }

// Monthly allows n calls in each calendar month of this time zone.
func Monthly(n int64, loc *time.Location) Policy { return calendar(n, specs.Month, loc) }

func calendar(n int64, u specs.Unit, loc *time.Location) Policy {
	return Policy{shape: shapeCalendar, limit: n, period: u.Nominal(), unit: u, loc: loc, skew: notSet}
}

// Sliding never lets more than n calls start in any window of the period's length, and lets all n of them start at once. It counts in m
// buckets, conservatively: a call counts until its whole bucket is older than the period, so a full window is available again after up to
// period·(m+1)/m.
//
// Sliding(120, time.Minute) admits 120 calls at once, and the next ones 60 to 60.6 seconds later. AtMost(120, time.Minute) admits as many
// over time, evenly spread.
func Sliding(n int64, period time.Duration) Policy {
	return Policy{shape: shapeSliding, limit: n, period: period, buckets: defaultBuckets, skew: notSet}
}
