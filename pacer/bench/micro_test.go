package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crowd is how many goroutines share a client in the measurements of a busy process.
const crowd = 64

// redisSection measures decisions over Redis, by one caller and by a crowd.
func redisSection(t *testing.T, full bool) section {
	t.Helper()
	b, begin := newBackend(t), time.Now()
	contenders := overRedis(t, b)
	alone := course{rounds: 17, goroutines: 1, turn: 100 * time.Millisecond, backend: b}.smoke(full).run(t, contenders)
	busy := course{rounds: 17, goroutines: crowd, turn: 100 * time.Millisecond, backend: b}.smoke(full).run(t, contenders)
	require.Zero(t, b.sent.failed.Load(), "requests failed")

	s := section{
		title: "Decisions over Redis",
		text: fmt.Sprintf(`A decision is what lets one call through that need not wait: all limits are a million a second, with a burst of a
billion. Peers keep one limit per call and are asked three times for three limits; a stack of Headway's is one decision (one
of the three is for each tenant). *Redis CPU* is the user and system time of the whole server process (`+"`INFO cpu`"+`), *in scripts* what
it says of EVAL and EVALSHA (`+"`INFO commandstats`"+`). *Requests* are the commands that the client sends, not those that scripts
run. A Pacer also says that it is there every few seconds, which is left out: %.1f of these a second by each Pacer in these measurements.
All go-redis clients are one, with ContextTimeoutEnabled as the README has it, and the 20 connections on two cores that it has by
default; go-redisstore, whose default dials for
each decision, was given a pool of 100 idle ones. throttled gives up when ten others were faster, and is then asked again.
Each figure is the median of %d rounds, each ratio the median of the ratios within a round.`,
			float64(b.sent.heartbeats.Load())/time.Since(begin).Seconds()/3, len(alone.rounds)),
		head: []string{"asked for leave", "limits", "goroutines", "µs per decision", "÷ empty script", "decisions/s", "Redis CPU, µs", "÷ redis_rate", "in scripts, µs", "requests", "allocations"},
	}
	for _, part := range []struct {
		r          *results
		goroutines int
	}{{alone, 1}, {busy, crowd}} {
		r := part.r
		for i, c := range r.contenders {
			limits, overRate := "–", "–"
			if c.limits > 0 {
				limits = fmt.Sprint(c.limits)
				overRate = number(r.ratio(i, r.at(redisRate, c.limits), cpu))
			}
			s.rows = append(s.rows, []string{
				c.name, limits, fmt.Sprint(part.goroutines),
				number(r.median(i, nanos) / 1e3), number(r.ratio(i, r.at(emptyScript, 0), nanos)), number(1e9 / r.median(i, nanos)),
				number(r.median(i, cpu)), overRate, number(r.median(i, scripts)),
				number(r.median(i, requests)), whole(r.median(i, allocs)),
			})
		}
	}
	s.targets = redisTargets(alone, busy)
	s.charts = []chart{overview(alone, busy)}
	return s
}

func redisTargets(alone, busy *results) []target {
	one, three := alone.at(headway, 1), alone.at(headway, 3)
	rate1, rate3 := alone.at(redisRate, 1), alone.at(redisRate, 3)
	faster := 1 / busy.ratio(three, rate3, nanos)
	quiet, full := alone.latest(), busy.latest()
	return []target{
		most("Redis CPU per decision, 1 limit, 1 goroutine, ÷ redis_rate", 1.1, alone.ratio(one, rate1, cpu)).timed(quiet, calm),
		most("Redis CPU per decision, 3 limits, 1 goroutine, ÷ redis_rate asked three times", 0.5, alone.ratio(three, rate3, cpu)).timed(quiet, calm),
		most("Redis CPU per decision, 3 limits, 64 goroutines, ÷ redis_rate asked three times", 0.1, busy.ratio(three, rate3, cpu)).timed(full, calm),
		most("Latency, 3 limits, 1 goroutine, ÷ EVALSHA of an empty script", 1.9, alone.ratio(three, alone.at(emptyScript, 0), nanos)).timed(quiet, calm),
		least("Decisions per second, 3 limits, 64 goroutines, ÷ redis_rate", 8, faster).timed(full, calm),
		exactly("Requests to Redis per decision, 3 limits, 1 goroutine", 1, alone.median(three, requests)),
		most("Requests to Redis per decision, 3 limits, 64 goroutines", 0.1, busy.median(three, requests)).timed(full, calm),
		most("Allocations per Wait over Redis, 3 limits, 1 goroutine", 14, floor(alone.median(three, allocs))),
	}
}

// overview is the chart for the README.
func overview(alone, busy *results) chart {
	c := chart{
		file: "benchmarks.svg", title: "One decision on three limits, over Redis", y: "times an empty script, alone", logY: true, bars: true,
		labels: []string{"latency, 1 goroutine", "Redis CPU, 1 goroutine", "time, 64 goroutines", "Redis CPU, 64 goroutines"},
		width:  9, height: 4.5,
	}
	empty := alone.at(emptyScript, 0)
	for _, name := range []string{headway, waitTimeScript, redisRate, throttledGCRA, redisStore} {
		i := alone.at(name, 3)
		c.series = append(c.series, series{name: strings.TrimPrefix(name, "a "), ys: []float64{
			alone.ratio(i, empty, nanos), alone.ratio(i, empty, cpu),
			busy.median(i, nanos) / alone.median(empty, nanos), busy.median(i, cpu) / alone.median(empty, cpu),
		}})
	}
	return c
}

// memorySection measures decisions in memory.
func memorySection(t *testing.T, full bool) section {
	t.Helper()
	contenders := inMemory(t)
	alone := course{rounds: 41, goroutines: 1, turn: 15 * time.Millisecond}.smoke(full).run(t, contenders)
	busy := course{rounds: 41, goroutines: crowd, turn: 15 * time.Millisecond}.smoke(full).run(t, contenders)
	s := section{
		title: "Decisions in memory",
		text: fmt.Sprintf(`The same in one process, without Redis. uber ratelimit has no context and cannot be cancelled; three limits
of the peers are three limiters, which a refusal of the second or third leaves charged. Medians of %d rounds.`, len(alone.rounds)),
		head: []string{"asked for leave", "limits", "goroutines", "ns per decision", "÷ one Wait of x/time/rate", "÷ as many of them", "allocations"},
	}
	for _, part := range []struct {
		r          *results
		goroutines int
	}{{alone, 1}, {busy, crowd}} {
		r := part.r
		for i, c := range r.contenders {
			s.rows = append(s.rows, []string{
				c.name, fmt.Sprint(c.limits), fmt.Sprint(part.goroutines), number(r.median(i, nanos)),
				number(r.ratio(i, r.at(timeRate, 1), nanos)), number(r.ratio(i, r.at(timeRate, c.limits), nanos)), whole(r.median(i, allocs)),
			})
		}
	}
	one, three, wait := alone.at(headway, 1), alone.at(headway, 3), alone.at(timeRate, 1)
	s.targets = []target{
		most("Wait in memory, 1 limit, ÷ a Wait of x/time/rate", 1.5, alone.ratio(one, wait, nanos)).timed(alone.latest(), calm),
		exactly("Allocations per Wait in memory, 1 limit", 0, floor(alone.median(one, allocs))),
		most("Wait in memory, 3 limits, ÷ one Wait of x/time/rate", 2.5, alone.ratio(three, wait, nanos)).timed(alone.latest(), calm),
		exactly("Allocations per Wait in memory, 3 limits", 0, floor(alone.median(three, allocs))),
	}
	return s
}

// transportSection measures what the transport adds.
func transportSection(t *testing.T, full bool) section {
	t.Helper()
	r := course{rounds: 41, goroutines: 1, turn: 15 * time.Millisecond}.smoke(full).run(t, roundTrips(t))
	s := section{
		title: "The transport",
		text: fmt.Sprintf("A request through the transport, with one limit in memory, and the same request through the bare RoundTripper below it, "+
			"which answers at once. Medians of %d rounds.", len(r.rounds)),
		head: []string{"RoundTripper", "ns per request", "more than bare, ns", "allocations", "more than bare"},
	}
	bare, paced := r.at(bareTrip, 1), r.at(pacedTrip, 1)
	for i, c := range r.contenders {
		s.rows = append(s.rows, []string{
			c.name, number(r.median(i, nanos)), number(r.more(i, bare, nanos)), whole(r.median(i, allocs)), whole(r.more(i, bare, allocs)),
		})
	}
	s.targets = []target{
		most("Allocations that the transport adds to a bare RoundTripper", 3, floor(r.more(paced, bare, allocs))),
		most("Time that the transport adds to a bare RoundTripper, µs", 2, r.more(paced, bare, nanos)/1e3).timed(r.latest(), calm),
	}
	return s
}

func roundTrip(rt http.RoundTripper, req *http.Request) func(context.Context, int) error {
	return func(context.Context, int) error {
		_, err := rt.RoundTrip(req)
		return err
	}
}
