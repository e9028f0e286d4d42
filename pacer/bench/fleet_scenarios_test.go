package bench_test

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/headway-go/headway/policies"
)

// The upstreams of the scenarios.
var (
	fiftyPerSecond = rule{Kind: slidingLog, N: 50, Period: time.Second}
	sixtyPerSecond = rule{Kind: slidingLog, N: 60, Period: time.Second}
	stacked        = []rule{{Kind: slidingLog, N: 10, Period: time.Second, PerTenant: true}, {Kind: slidingLog, N: 100, Period: time.Second}}
	threeHundred   = rule{Kind: fixedWindow, N: 300, Period: 10 * time.Second}
)

// The peers' means to keep the limits. A strict upstream leaves no room for chance, so they get the room that AtMost has by default, except
// those named "as it comes".
var (
	asReported = pace{n: 50, period: time.Second, burst: 50}
	evenly     = pace{n: 50, period: time.Second, burst: 1}
	spaced     = pace{n: 50, period: 1010 * time.Millisecond, burst: 1}
	lowered    = pace{n: 49, period: 1010 * time.Millisecond, burst: 2} // what serves polling best and is not refused
	perTen     = pace{n: 300, period: 10 * time.Second, burst: 300}
	perTenant  = pace{n: 10, period: 1010 * time.Millisecond, burst: 1, perTenant: true}
	ofAll      = pace{n: 100, period: 1010 * time.Millisecond, burst: 1}

	loweredPerTenant = pace{n: 9, period: 1010 * time.Millisecond, burst: 2, perTenant: true}
	loweredOfAll     = pace{n: 99, period: 1010 * time.Millisecond, burst: 2}
)

// spread lets so many goroutines call in each process.
func spread(goroutines int) func(int) []crew {
	return func(int) []crew { return []crew{{Tenant: "x", Goroutines: goroutines}} }
}

var (
	throttledSends = []string{"time", "set", "setnx", "expire"} // TIME and GET go in one pipeline

	scenarios = []*scenario{
		{
			name:   "sliding",
			rules:  []rule{fiftyPerSecond},
			crews:  spread(16),
			length: 7 * time.Second, from: 1200 * time.Millisecond, to: 6800 * time.Millisecond,
			keepers: []keeper{
				{name: "Headway", open: byHeadway(policies.AtMost(50, time.Second))},
				{name: "redis_rate, as it comes", open: byRedisRate(asReported)},
				{name: "redis_rate, lowered", open: byRedisRate(lowered)},
				{name: "throttled, lowered", open: byThrottled(lowered), sends: throttledSends},
				{name: "wait-time GCRA, as it comes", open: byWaitTime(evenly)},
				{name: "wait-time GCRA, spaced", open: byWaitTime(spaced)},
				{name: "x/time/rate, a fourth each", open: byDivision(evenly)},
				{name: "retries only", open: byRetries},
			},
		},
		{
			name:  "uneven",
			rules: []rule{fiftyPerSecond},
			crews: func(process int) []crew {
				if process == 0 {
					return []crew{{Tenant: "x", Goroutines: 61}}
				}
				return []crew{{Tenant: "x", PerSecond: 0.5}}
			},
			length: 7 * time.Second, from: 1200 * time.Millisecond, to: 6800 * time.Millisecond,
			keepers: []keeper{
				{name: "Headway", open: byHeadway(policies.AtMost(50, time.Second))},
				{name: "redis_rate, lowered", open: byRedisRate(lowered)},
				{name: "x/time/rate, a fourth each", open: byDivision(evenly)},
			},
		},
		{
			name:  "network",
			rules: []rule{fiftyPerSecond},
			crews: spread(16),
			delay: func() time.Duration {
				return 15*time.Millisecond + time.Duration(rand.ExpFloat64()*float64(5*time.Millisecond))
			},
			length: 40 * time.Second, from: 10 * time.Second, to: 39800 * time.Millisecond,
			keepers: []keeper{
				{name: "Headway, AtMost", open: byTransport(policies.AtMost(50, time.Second))},
				{name: "Headway, Sliding", open: byTransport(policies.Sliding(50, time.Second))},
				{name: "redis_rate, lowered", open: byRedisRate(lowered)},
				{name: "wait-time GCRA, spaced", open: byWaitTime(spaced)},
				{name: "x/time/rate, a fourth each", open: byDivision(evenly)},
				{name: "retries only", open: byRetries},
			},
		},
		{
			name:   "unforgiving",
			rules:  []rule{{Kind: slidingLog, N: 50, Period: time.Second, CountRefused: true}},
			crews:  spread(16),
			length: 7 * time.Second, from: 1200 * time.Millisecond, to: 6800 * time.Millisecond,
			keepers: []keeper{
				{name: "Headway", open: byHeadway(policies.AtMost(50, time.Second))},
				{name: "redis_rate, as it comes", open: byRedisRate(asReported)},
				{name: "wait-time GCRA, as it comes", open: byWaitTime(evenly)},
				{name: "retries only", open: byRetries},
			},
		},
		{
			name:   "bucket",
			rules:  []rule{{Kind: tokenBucket, N: 50, Period: time.Second, Burst: 10}},
			crews:  spread(16),
			length: 7 * time.Second, from: 1200 * time.Millisecond, to: 6800 * time.Millisecond,
			keepers: []keeper{
				{name: "Headway", open: byHeadway(policies.PerSecond(50).Burst(9))},
				{name: "redis_rate, as it comes", open: byRedisRate(pace{n: 50, period: time.Second, burst: 10})},
				{name: "wait-time GCRA", open: byWaitTime(pace{n: 50, period: time.Second, burst: 9})},
			},
		},
		{
			name:   "tenants",
			rules:  stacked,
			crews:  besideGreedy(crew{Goroutines: 1}),
			length: 8 * time.Second, from: 1200 * time.Millisecond, to: 7800 * time.Millisecond,
			keepers: []keeper{
				{name: "Headway", open: byHeadway(policies.AtMost(10, time.Second).Per("tenant"), policies.AtMost(100, time.Second))},
				{name: "redis_rate, lowered", open: byRedisRate(loweredPerTenant, loweredOfAll)},
				{name: "wait-time GCRA, spaced", open: byWaitTime(perTenant, ofAll)},
				{name: "x/time/rate, a fourth each", open: byDivision(perTenant, ofAll)},
			},
		},
		{
			name:   "tenants at random",
			rules:  stacked,
			crews:  besideGreedy(crew{PerSecond: 2}),
			length: 8 * time.Second, from: 1200 * time.Millisecond, to: 7800 * time.Millisecond,
			keepers: []keeper{
				{name: "Headway", open: byHeadway(policies.AtMost(10, time.Second).Per("tenant"), policies.AtMost(100, time.Second))},
				{name: "wait-time GCRA, spaced", open: byWaitTime(perTenant, ofAll)},
			},
		},
		{
			name:  "batch",
			rules: []rule{threeHundred, sixtyPerSecond},
			crews: func(int) []crew { return []crew{{Tenant: "x", Goroutines: 16, Calls: 60}} },
			from:  0, to: 3 * time.Second, length: 12 * time.Second,
			keepers: []keeper{
				{name: "Headway", open: byHeadway(policies.Fixed(300, 10*time.Second).Skew(50*time.Millisecond), policies.AtMost(60, time.Second))},
				{name: "Headway, Sliding", open: byHeadway(policies.Fixed(300, 10*time.Second).Skew(50*time.Millisecond), policies.Sliding(60, time.Second).Skew(50*time.Millisecond))},
				{name: "redis_rate, as it comes", open: byRedisRate(perTen, pace{n: 60, period: time.Second, burst: 60})},
				{name: "wait-time GCRA, spaced", open: byWaitTime(perTen, pace{n: 60, period: 1010 * time.Millisecond, burst: 1})},
				{name: "retries only", open: byRetries},
			},
		},
		{
			name:  "window",
			rules: []rule{threeHundred, sixtyPerSecond},
			crews: spread(16),
			turn:  10 * time.Second, lead: time.Second,
			length: 9 * time.Second, from: 1 * time.Second, to: 8800 * time.Millisecond,
			keepers: []keeper{
				{name: "Headway", open: byHeadway(policies.Fixed(300, 10*time.Second).Skew(50*time.Millisecond), policies.AtMost(60, time.Second))},
				{name: "redis_rate, as it comes", open: byRedisRate(perTen, pace{n: 60, period: time.Second, burst: 60})},
				{name: "wait-time GCRA, spaced", open: byWaitTime(perTen, pace{n: 60, period: 1010 * time.Millisecond, burst: 1})},
			},
		},
		{
			name:   "halved",
			rules:  []rule{{Kind: slidingLog, N: 50, Period: time.Second, OtherN: 25, OtherFrom: 3 * time.Second, OtherLength: 5 * time.Second}},
			crews:  spread(16),
			length: 11 * time.Second, from: 1200 * time.Millisecond, to: 10800 * time.Millisecond,
			keepers: []keeper{
				{name: "Headway, Adaptive", open: byTransport(policies.AtMost(50, time.Second).Adaptive(policies.Adaptation{}))},
				{name: "redis_rate, lowered", open: byRedisRate(lowered)},
				{name: "retries only", open: byRetries},
			},
		},
		{
			name:   "killed",
			rules:  []rule{fiftyPerSecond},
			crews:  spread(16),
			length: 11 * time.Second, from: 1200 * time.Millisecond, to: 10800 * time.Millisecond,
			kill: 4 * time.Second, back: 7 * time.Second,
			keepers: []keeper{
				{name: "Headway", open: byHeadway(policies.AtMost(50, time.Second))},
				{name: "redis_rate, lowered", open: byRedisRate(lowered)},
				{name: "wait-time GCRA, spaced", open: byWaitTime(spaced)},
			},
		},
	}
)

func scenarioNamed(name string) *scenario {
	for _, s := range scenarios {
		if s.name == name {
			return s
		}
	}
	return nil
}

// besideGreedy returns the crews of each process: a greedy tenant with nine tenths of the goroutines, and nine light ones.
func besideGreedy(light crew) func(int) []crew {
	return func(int) []crew {
		crews := []crew{{Tenant: "greedy", Goroutines: 81}}
		for i := range 9 {
			light.Tenant = "light" + strconv.Itoa(i)
			crews = append(crews, light)
		}
		return crews
	}
}
