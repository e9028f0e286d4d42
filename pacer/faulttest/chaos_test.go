package faulttest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// chaosRuns is how many runs the chaos test makes. Seeds begin at 1, and those that are odd spare the data.
func chaosRuns() uint64 {
	if long() {
		return 8
	}
	return 2
}

// long reports whether HEADWAY_LONG requests more than a run in CI can afford.
func long() bool { return os.Getenv("HEADWAY_LONG") != "" }

// The size of a run.
const (
	callers  = 8 // goroutines of each process
	longest  = 400 * time.Millisecond
	patience = 60 * time.Second // how long to wait for what must come, however slow the machine is

	// answerLate is how late the store's answer is when the process may pace locally, fault or not: by its own clock it may have
	// waited longer than was seen.
	answerLate = 250*time.Millisecond - 50*time.Millisecond
)

// troubles is how many faults a run has.
func troubles() int {
	if long() {
		return 6
	}
	return 3
}

// TestPolicyHoldsUnderFaults is described in the package's documentation.
func TestPolicyHoldsUnderFaults(t *testing.T) {
	t.Parallel()
	first, same := number(t, "HEADWAY_SEED", 1)
	last := first
	if !same {
		last = chaosRuns()
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			o := play(t, standalone(t), seed, 1)
			t.Log(o)
			if len(o.broken) > 0 {
				t.Fatalf("HEADWAY_SEED=%d repeats the policies and the faults, not how the calls interleave.\n%s", seed, o.complaint())
			}
			if o.exactly == 0 {
				t.Log("this machine was too slow for any window to be far from faults")
			}
		})
	}
}

// await polls until something is so, and reports whether it is.
func await(done func() bool) bool {
	for end := time.Now().Add(patience); !done(); lasts(10 * ms) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// lasts waits while a fault lasts, or between two of them.
func lasts(d time.Duration) {
	time.Sleep(d) //realtime: the server and the proxies are real
}

// A member is a process of the fleet.
type member struct {
	route   *route
	rdb     redis.UniversalClient
	pacer   *pacer.Pacer
	granted grants

	mu        sync.Mutex
	heartbeat time.Time // when the last heartbeat began that the store answered
	joined    bool      // one of them counted the whole fleet
}

// A run is one fleet on one upstream that nobody used before, and what happens to it.
type run struct {
	t        testing.TB
	site     *site
	seed     uint64
	upstream string
	rules    []rule
	rate     float64
	fleet    []*member
	scale    int64
	begin    time.Time

	ops     operationCounts
	faults  map[string]int
	emptied bool // what the store knew was lost, at least in part

	mu       sync.Mutex
	troubles []trouble
	went     []gone
	pauses   []paused
	resumed  []span
	resets   []span    // of the tightest policy
	silences []trouble // the store did not answer, or late, or a process paced locally
	absences []absence
	budgeted int64     // calls of the budget that went
	known    time.Time // when all knew that it was spent
	unsure   []span    // reservations that did not go: were they charged?
	broken   []string
	latest   time.Duration
}

// paused is a pause of the whole upstream that was reported: no call that is made after reported starts before until.
type paused struct{ began, reported, until time.Time }

// A span is a time in which something happened, such as a call that was under way and did not go, and its cost.
type span struct {
	from, to time.Time
	cost     int64
}

// plan is what a seed decides before the run.
func plan(s *site, seed uint64, scale int64) (steps []step, all []rule, rate float64, processes int) {
	rng := rand.New(rand.NewPCG(seed, 0))
	all, rate = rules(rng, scale)
	processes = 3 + rng.IntN(2)
	// Every other run spares the data, so that one can see whether every call was charged.
	var may []fault
	for _, f := range s.faults {
		if !f.empties || seed%2 == 0 {
			may = append(may, f)
		}
	}
	var weights int
	for _, f := range may {
		weights += f.weight
	}
	n := troubles()
	if s.troubles > 0 {
		n = s.troubles
	}
	for i := range n {
		w := rng.IntN(weights)
		at := slices.IndexFunc(may, func(f fault) bool {
			w -= f.weight
			return w < 0
		})
		st := step{fault: may[at], seed: rng.Uint64(), rest: 200*time.Millisecond + time.Duration(rng.Int64N(int64(time.Second)))}
		if i%3 == 2 {
			st.rest = calm + 2*time.Second
		}
		steps = append(steps, st)
	}
	return steps, all, rate, processes
}

// A step is a fault and the time until the next one.
type step struct {
	fault fault
	seed  uint64
	rest  time.Duration
}

// play plays one run. The limits, and the callers, are so many times as many as a short test has.
func play(t testing.TB, s *site, seed uint64, scale int64) *outcome {
	t.Helper()
	steps, all, rate, processes := plan(s, seed, scale)
	r := &run{t: t, site: s, seed: seed, rules: all, rate: rate, scale: scale, faults: make(map[string]int)}
	r.upstream = fmt.Sprintf("chaos-%d", upstreams.Add(1))
	r.recruit(processes)
	r.begin = time.Now()
	crew := r.start(r.work)
	r.acquaint()
	r.spendBudget()
	for _, st := range steps {
		r.faults[st.fault.name]++
		r.emptied = r.emptied || st.fault.empties
		from := time.Now()
		err := st.fault.do(r, rand.New(rand.NewPCG(st.seed, 0)))
		r.troubles = append(r.troubles, trouble{st.fault.name, from, time.Now()})
		require.NoError(t, err, "%s: the test could not do what it wanted", st.fault.name)
		before := min(calm, st.rest*3/5)
		lasts(before)
		r.reset()
		lasts(st.rest - before)
	}
	r.end(crew)
	lasts(max(0, calm-steps[len(steps)-1].rest))
	goodput := r.last()
	charged, least := r.account()
	r.refund()
	r.renew()
	r.leave()
	stalls := r.unplanned()
	r.troubles = append(r.troubles, stalls...)
	for _, m := range r.fleet {
		m.route.close()
	}

	o := &outcome{
		stalls: len(stalls), runs: 1, went: len(r.went), faults: r.faults, latest: r.latest,
		goodput: goodput, sum: goodput, charged: charged, least: least,
	}
	o.ops.add(&r.ops)
	var unheeded []string
	o.pauses, unheeded = r.inPause()
	o.broken = slices.Concat(r.broken, unheeded, r.early(), r.overBudget())
	ref := referee{troubles: r.troubles, masters: int64(max(1, s.masters)), absences: r.absences, processes: int64(processes)}
	for i := range r.rules {
		for _, calls := range r.epochs(&r.rules[i], r.went) {
			o.findings.add(ref.judge(&r.rules[i], calls))
		}
	}
	o.about = r.describe()
	return o
}

// recruit makes the processes of the fleet.
func (r *run) recruit(processes int) {
	config := pacer.Config{Upstream: r.upstream, Processes: processes, Policies: r.policies()}
	for i := range processes {
		m := &member{route: newRoute()}
		config.Hooks = []*hooks.Set{{Failover: r.fellBack(i)}}
		m.rdb = r.site.connect(m.route)
		store, err := redisstore.New(m.rdb)
		require.NoError(r.t, err)
		config.Store = observedStore{store, r, m}
		m.pacer, err = pacer.New(config)
		require.NoError(r.t, err)
		r.fleet = append(r.fleet, m)
	}
}

// policies are those of every process of the fleet.
func (r *run) policies() []policies.Policy {
	all := []policies.Policy{policies.Daily(quotas, time.UTC).Named(quota), budgetPolicy()}
	for _, x := range r.rules {
		all = append(all, x.policy)
	}
	return all
}

// unplanned returns the troubles that nobody planned, and those that lasted much longer than what was planned: this machine was
// too slow for a store to answer in time. That its timers are late is no trouble: the referee looks at slots.
func (r *run) unplanned() (all []trouble) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.silences {
		if !slices.ContainsFunc(r.troubles, func(p trouble) bool { return !x.from.Before(p.from) && !x.to.After(p.to.Add(calm/2)) }) {
			all = append(all, x)
		}
	}
	return all
}

// complaint describes what is broken, and what the run was about.
func (o *outcome) complaint() string {
	const most = 20
	all := slices.Clone(o.broken[:min(most, len(o.broken))])
	if n := len(o.broken) - len(all); n > 0 {
		all = append(all, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(append(all, o.about...), "\n")
}

// describe returns what the run was about.
func (r *run) describe() []string {
	all := []string{fmt.Sprintf("%s, seed %d: %d processes, the tightest rate is %.1f/s", r.site.name, r.seed, len(r.fleet), r.rate)}
	for _, x := range r.rules {
		all = append(all, fmt.Sprintf("%s: %d in %v, clock=%t, per tenant=%t: %+v", x.policy.Name(), x.limit, x.period, x.fixed, x.scoped, x.policy.Spec()))
	}
	for _, x := range r.troubles {
		all = append(all, fmt.Sprintf("%s from %s (%v) to %v", x.what, x.from.Format("05.000"), x.from.Sub(r.begin).Round(time.Millisecond), x.to.Sub(r.begin).Round(time.Millisecond)))
	}
	return all
}

// complainf notes that something is not as it should be.
func (r *run) complainf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = append(r.broken, time.Now().Format("05.000: ")+fmt.Sprintf(format, args...))
}
