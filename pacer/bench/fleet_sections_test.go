package bench_test

import (
	"fmt"
	"slices"
	"time"
)

// The report's texts about each scenario, its outcomes, and Headway's targets.

func slidingSection(outcomes []*outcome) section {
	s := section{
		title: "Fleet: 50 calls per sliding second",
		text: "Four processes of 16 goroutines call an upstream in a fifth process as fast as they may. It keeps a log of every call " +
			"and admits no more than 50 in any window of one second. A process that is refused sleeps for as long as Retry-After says, and asks again.\n\n" +
			"- *goodput ÷ allowed*: calls admitted in the steady interval, from 1.2 s after the start to 0.2 s before the end, as " +
			"the mean over all its parts that are whole seconds long\n" +
			"- *429s*: of the whole run, and their part of all calls that reached the upstream\n" +
			"- *fairness*: Jain's index over the four processes: 1 if all get the same, 0.25 if one gets all\n" +
			"- *wait*: from when a call is first asked for to when the upstream has admitted it, of calls asked for in the steady " +
			"interval, but for its last two seconds\n" +
			"- *requests to Redis per call*: commands that clients sent (`INFO commandstats`, a pipeline is one), heartbeats included, for " +
			"each call that was admitted\n" +
			"- *failed*: times that a contender could not decide, and calls that it gave up\n" +
			"- *latest timer*: by how much the latest of 100 bare timers a second in each process fired late meanwhile. What is " +
			"later than the room that a contender leaves may cost any of them a 429.\n\n" +
			"Headway is `policies.AtMost(50, time.Second)`, which spaces calls by (1 s + 10 ms) ÷ 50: 99.0 % is its ceiling. " +
			"redis_rate and throttled are asked in a loop, `for { Allow; sleep RetryAfter }`: \"as it comes\" with " +
			"`redis_rate.PerSecond(50)`, \"lowered\" to 49 per 1.01 s with a burst of 2, which got most of the settings tried that were never refused " +
			"(bursts of 1, 2, 3, 5 and 10, each with the 10 ms of room that AtMost has). The wait-time GCRA is a script of one key that keeps one number for each limit and " +
			"answers how long to sleep: \"as it comes\" one call each 20 ms, \"spaced\" as AtMost. x/time/rate has a limiter of 12.5/s in " +
			"each process. \"Retries only\" is go-retryablehttp with its defaults.",
		head: steadyHead,
		rows: steadyRows(outcomes, 50),
	}
	c := chart{
		file: "fleet-sliding.svg", title: "4 processes, 50 calls per sliding second", y: "%", bars: true, width: 12,
		series: []series{{name: "goodput ÷ allowed"}, {name: "refused ÷ sent"}},
	}
	for _, o := range outcomes {
		_, share := o.refused()
		c.labels = append(c.labels, o.label())
		c.series[0].ys = append(c.series[0].ys, 100*o.goodput(50))
		c.series[1].ys = append(c.series[1].ys, 100*share)
	}
	s.charts = []chart{c}
	ours := outcomes[0]
	sent, arrived := ours.closest(50)
	s.text += fmt.Sprintf("\n\nThe closest 51 calls of Headway were sent within %.1f ms and arrived within %.1f ms.", sent.Seconds()*1e3, arrived.Seconds()*1e3)
	s.targets = []target{keeps("Fleet, 50 per sliding second", ours, ours.goodput(50), 0.985)}
	return s
}

func unevenSection(outcomes []*outcome) section {
	const fairness = 3 // a column without a meaning here
	head, rows := slices.Delete(slices.Clone(steadyHead), fairness, fairness+1), steadyRows(outcomes, 50)
	for i := range rows {
		rows[i] = slices.Delete(rows[i], fairness, fairness+1)
	}
	return section{
		title:   "Fleet: one process has nearly all the load",
		text:    "As above, but one process has 61 goroutines, and each of the others offers one call in two seconds, at random times.",
		head:    head,
		rows:    rows,
		targets: []target{keeps("Fleet, one process has nearly all the load", outcomes[0], outcomes[0].goodput(50), 0.985)},
	}
}

func networkSection(outcomes []*outcome) section {
	s := section{
		title: "Fleet: an uneven network",
		text: "As in the first table, but each request takes 15 ms and exponentially distributed 5 ms more on its way, so that calls arrive closer together than " +
			"they went. It is judged from 10 s after the start, for 30 s. Headway is under the client, with nothing set for the network: it finds its margin.",
		head: []string{"", "goodput ÷ allowed", "429s in a minute", "fairness", "latest timer"},
	}
	for _, o := range outcomes {
		s.rows = append(s.rows, []string{
			o.keeper, percent(o.goodput(50)), fmt.Sprintf("%.0f", o.refusedInAMinute()), fmt.Sprintf("%.3f", o.fairness(fleetSize, processOf)), o.latest(),
		})
	}
	ours := outcomes[0]
	s.targets = []target{target{
		what: "Fleet, an uneven network",
		want: "at most 4 429s in a minute, goodput ≥ 96.0 % of the allowed",
		got:  fmt.Sprintf("%.0f, %s", ours.refusedInAMinute(), percent(ours.goodput(50))),
		met:  ours.refusedInAMinute() <= 4 && ours.goodput(50) >= 0.96,
	}.timed(ours.latestTimer(), room)}
	return s
}

// refusedInAMinute returns how many calls were refused in the steady interval, for a minute of it.
func (o *outcome) refusedInAMinute() float64 {
	n := 0
	for _, a := range o.log {
		if !a.OK && a.At >= o.scenario.from && a.At < o.scenario.to {
			n++
		}
	}
	return float64(n) / (o.scenario.to - o.scenario.from).Minutes()
}

func unforgivingSection(outcomes []*outcome) section {
	return section{
		title:   "Fleet: refused calls count",
		text:    "As above, with 16 goroutines in each process, but the upstream counts calls that it refuses, too.",
		head:    steadyHead,
		rows:    steadyRows(outcomes, 50),
		targets: []target{keeps("Fleet, refused calls count against the limit", outcomes[0], outcomes[0].goodput(50), 0.985)},
	}
}

func bucketSection(outcomes []*outcome) section {
	return section{
		title: "Fleet: a token bucket",
		text: "The upstream has a bucket of 10 tokens, and gets 50 a second. Headway is `policies.PerSecond(50).Burst(9)`: one token " +
			"is left as room for the network, which costs no rate. The script leaves it, too; redis_rate is configured with the limit of the upstream.",
		head: steadyHead,
		rows: steadyRows(outcomes, 50),
	}
}

// lineOfTenant is how often a call of one tenant starts under AtMost(10, time.Second).
const lineOfTenant = 101 * time.Millisecond

func tenantsSection(outcomes []*outcome) section {
	const own = 4 * lineOfTenant
	s := section{
		title: "Fleet: 100 per second, 10 per second and tenant, one of them greedy",
		text: "Both limits are strict, per sliding second. In each process a greedy tenant has 81 goroutines and nine light tenants " +
			"have one each: 90 % of the goroutines are the greedy tenant's. Everybody calls as fast as it may, so the ten tenants together " +
			"want just what is allowed. *Fairness* is Jain's index over the tenants. Waits are those of the light tenants. A tenant alone, " +
			"with its four goroutines in its own line of one call each 101 ms, waits 404 ms.\n\n" +
			"Headway is `AtMost(10, time.Second).Per(\"tenant\")` and `AtMost(100, time.Second)`, in one request. The others ask about the " +
			"tenant's limit, wait, ask about the shared one, and wait again; their limits are spaced as AtMost's, redis_rate's with a burst of two as above.",
		head: []string{"", "goodput ÷ allowed", "429s", "fairness", "light wait p50", "p99", "requests to Redis per call", "latest timer"},
	}
	c := chart{
		file: "fleet-tenants.svg", title: "p99 wait of light tenants beside a greedy one", y: "s", bars: true, width: 9,
		labels: []string{"own line"}, series: []series{{name: "p99 wait", ys: []float64{own.Seconds()}}},
	}
	for _, o := range outcomes {
		waits := o.steadyWaits(isLight)
		p99 := upTo(waits, 0.99)
		s.rows = append(s.rows, []string{
			o.keeper, percent(o.goodput(100)), o.refusals(), fmt.Sprintf("%.3f", o.fairness(10, tenantOf)),
			upTo(waits, 0.5).String(), p99.String(), o.requestsPerCall(), o.latest(),
		})
		c.labels = append(c.labels, o.label())
		c.series[0].ys = append(c.series[0].ys, p99.Seconds())
	}
	s.charts = []chart{c}
	ours := outcomes[0]
	s.targets = []target{
		keeps("Fleet, tenants, one greedy", ours, ours.goodput(100), 0.975),
		lightWait("Light tenants beside a greedy one, p99 wait", upTo(ours.steadyWaits(isLight), 0.99), own).timed(ours.latestTimer(), room),
	}
	return s
}

// lightWait is the target of what light tenants wait.
func lightWait(what string, p99 waiting, own time.Duration) target {
	return target{
		what: what,
		want: fmt.Sprintf("within 20 %% of their own line, %s", short(own)),
		got:  fmt.Sprintf("%s (%+.0f %%)", p99, 100*(float64(p99.Duration)/float64(own)-1)),
		met:  !p99.more && float64(p99.Duration) <= 1.2*float64(own),
	}
}

func randomSection(outcomes []*outcome) section {
	s := section{
		title: "Fleet: light tenants that call at random",
		text: "As above, but each light tenant offers 8 calls a second as a Poisson process, in place of its goroutines. *Served* are the calls of " +
			"light tenants that were admitted in the run, of those offered in the steady interval but for its last two seconds; the greedy tenant is " +
			"allowed 10 a second. *Own line* is what the same calls, offered at the same times, would have waited if each tenant were alone with a " +
			"line of one call each 101 ms.",
		head: []string{"", "light: served", "greedy ÷ allowed", "429s", "light wait p50", "own line p50", "p99", "own line p99", "requests to Redis per call", "latest timer"},
	}
	for i, o := range outcomes {
		from, to := o.scenario.from, o.scenario.to-patience
		waits, own := o.steadyWaits(isLight), o.ownLine(lineOfTenant, from, to, isLight)
		served := 0
		for _, w := range waits {
			if !w.more {
				served++
			}
		}
		light := float64(served) / float64(max(1, len(waits)))
		greedy := perSecond(o.admitted("greedy"), from, o.scenario.to) / 10
		s.rows = append(s.rows, []string{
			o.keeper, percent(light), percent(greedy), o.refusals(), upTo(waits, 0.5).String(), short(upTo(own, 0.5)),
			upTo(waits, 0.99).String(), short(upTo(own, 0.99)), o.requestsPerCall(), o.latest(),
		})
		if i == 0 {
			wanted := 10 * (to - from).Seconds() // of the greedy tenant
			all := (float64(served) + greedy*wanted) / (float64(len(waits)) + wanted)
			s.targets = []target{
				keeps("Fleet, tenants, the light ones at random", o, all, 0.975),
				lightWait("Light tenants that call at random, p99 wait", upTo(waits, 0.99), upTo(own, 0.99)).timed(o.latestTimer(), room),
			}
		}
	}
	return s
}

func batchSection(outcomes []*outcome) section {
	s := section{
		title: "Fleet: a batch of 240 calls",
		text: "Four processes of 16 goroutines drain 60 calls each. The upstream admits 300 in each window of ten seconds of the clock, and " +
			"60 in any second. *Drained* is when it admitted the last one, since the start.\n\n" +
			"Headway is `Fixed(300, 10*time.Second).Skew(50*time.Millisecond)` and `AtMost(60, time.Second)`, which sends one call each " +
			"16.8 ms; \"Sliding\" has `Sliding(60, time.Second).Skew(50*time.Millisecond)` in its place, which lets 60 start at once. redis_rate is configured with " +
			"300 per 10 s and 60 per second as they are; the script has 300 per 10 s with a burst of 300, and 60 per second spaced as AtMost.",
		head: []string{"", "drained", "429s", "wait p50", "p99", "failed", "latest timer"},
	}
	for i, o := range outcomes {
		var drained time.Duration
		for _, at := range o.admitted("") {
			drained = max(drained, at)
		}
		waits := o.waits(0, o.scenario.length, anybody)
		s.rows = append(s.rows, []string{
			o.keeper, short(drained), o.refusals(), upTo(waits, 0.5).String(), upTo(waits, 0.99).String(), o.failed(), o.latest(),
		})
		if i == 0 {
			n, _ := o.refused()
			s.targets = []target{target{
				what: "Fleet, a batch of 240 against 300 per 10 s and 60/s",
				want: "no 429, drained in ≤ 4.2 s",
				got:  fmt.Sprintf("%d, %s", n, short(drained)),
				met:  n == 0 && drained <= 4200*time.Millisecond,
			}.timed(o.latestTimer(), room)}
		}
	}
	return s
}

func windowSection(outcomes []*outcome) section {
	s := section{
		title: "Fleet: a fixed window, across its turn",
		text: "The same upstream and contenders, but the fleet calls as fast as it may, from one second before the turn of a window until eight seconds after it. " +
			"*Used* is what the upstream admitted in that window, of the 300 that it allows; all of them can go in five seconds.",
		head: []string{"", "used", "429s", "fairness", "requests to Redis per call", "latest timer"},
	}
	for _, o := range outcomes {
		used := within(o.admitted(""), o.scenario.lead, o.scenario.length)
		s.rows = append(s.rows, []string{
			o.keeper, percent(float64(used) / 300), o.refusals(), fmt.Sprintf("%.3f", o.fairness(fleetSize, processOf)), o.requestsPerCall(), o.latest(),
		})
	}
	return s
}

func halvedSection(outcomes []*outcome) section {
	s := section{
		title: "Fleet: the upstream halves its limit",
		text: "50 calls per sliding second; from 3 s to 8 s after the start the upstream admits only 25, without notice. Goodput is that " +
			"of what is allowed at the time, from one second after each change. Headway is `AtMost(50, time.Second).Adaptive(policies.Adaptation{})`, " +
			"under the client: it waits five seconds (`Adaptation.Hold`) before it tries a faster rate.",
		head: []string{"", "before", "while it lasts", "after", "429s", "fairness", "requests to Redis per call", "failed", "latest timer"},
	}
	for _, o := range outcomes {
		const second = time.Second
		times, change := o.admitted(""), &o.scenario.rules[0]
		back := change.OtherFrom + change.OtherLength
		s.rows = append(s.rows, []string{
			o.keeper,
			percent(perSecond(times, o.scenario.from, change.OtherFrom) / 50),
			percent(perSecond(times, change.OtherFrom+second, back) / 25),
			percent(perSecond(times, back+second, o.scenario.to) / 50),
			o.refusals(), fmt.Sprintf("%.3f", o.fairness(fleetSize, processOf)), o.requestsPerCall(), o.failed(), o.latest(),
		})
	}
	return s
}

func killedSection(outcomes []*outcome) section {
	s := section{
		title: "Fleet: Redis is killed",
		text: "50 calls per sliding second; Redis is killed 4 s after the start and comes back, empty, at 7 s. Goodput ÷ allowed before, meanwhile and " +
			"after. A caller that gets an error from a limiter asks again after 100 ms, and *failed* counts those; Headway is as in the first table, with nothing set for an outage.",
		head: []string{"", "before", "Redis is away", "after", "429s", "fairness", "longest wait", "failed", "latest timer"},
	}
	for _, o := range outcomes {
		times, sc := o.admitted(""), o.scenario
		s.rows = append(s.rows, []string{
			o.keeper,
			percent(perSecond(times, sc.from, sc.kill) / 50), percent(perSecond(times, sc.kill, sc.back) / 50), percent(perSecond(times, sc.back, sc.to) / 50),
			o.refusals(), fmt.Sprintf("%.3f", o.fairness(fleetSize, processOf)), upTo(o.steadyWaits(anybody), 1).String(), o.failed(), o.latest(),
		})
	}
	return s
}
