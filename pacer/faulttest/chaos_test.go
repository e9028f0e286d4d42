package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// defaultChaosOps is how many operations the chaos test does at least, unless HEADWAY_CHAOS_OPS says otherwise.
const defaultChaosOps = 20_000

// The size of a run.
const (
	callers  = 8 // goroutines of each process
	troubles = 6 // faults
	longest  = 400 * time.Millisecond
	overtime = time.Second // by how much an operation may outlast its deadline

	// answerLate is how late the store's answer is when the process may be alone, fault or not.
	answerLate = pacer.DefaultStoreTimeout - stalled
)

// TestPolicyHoldsUnderFaults is described in the package's documentation.
func TestPolicyHoldsUnderFaults(t *testing.T) { //nolint:paralleltest // it measures, and looks for goroutines
	least, _ := number(t, "HEADWAY_CHAOS_OPS", defaultChaosOps)
	seed, same := number(t, "HEADWAY_SEED", 1)
	s := standalone(t)
	var sum outcome
	for runs := uint64(0); uint64(sum.ops.all()) < least; runs++ {
		if !same {
			seed = 1 + runs
		}
		o := play(t, s, seed)
		t.Logf("seed %d: %s", seed, o)
		sum.add(o)
		if len(o.broken) > 0 {
			t.Fatalf("HEADWAY_SEED=%d repeats the policies and the faults, not how the calls interleave.\n%s", seed, o.complaint())
		}
	}
	t.Logf("in all: %s", &sum)
}

// operations counts what the processes did.
type operationCounts struct{ wait, reserve, allow, cancel, report, status atomic.Int64 }

func (c *operationCounts) all() int64 {
	return c.wait.Load() + c.reserve.Load() + c.allow.Load() + c.cancel.Load() + c.report.Load() + c.status.Load()
}

func (c *operationCounts) add(other *operationCounts) {
	c.wait.Add(other.wait.Load())
	c.reserve.Add(other.reserve.Load())
	c.allow.Add(other.allow.Load())
	c.cancel.Add(other.cancel.Load())
	c.report.Add(other.report.Load())
	c.status.Add(other.status.Load())
}

// An outcome is what became of a run, or of several.
type outcome struct {
	findings

	about    []string // the policies and the faults
	ops      operationCounts
	runs     int
	went     int
	faults   map[string]int
	slowest  time.Duration // the longest that an operation outlasted its deadline; negative if none did
	slowWhat string
	latest   time.Duration // the most that a call went later than the store, or the process alone, had said
	goodput  float64       // of the last phase, as a part of the tightest rate; of several runs, the lowest
	sum      float64       // of the goodputs
	charged  float64       // what was charged, as a part of what went; the largest, and of runs without a loss the smallest
	least    float64
	pauses   int // pauses far from faults
	stalls   int // times when this machine was too slow
}

func (o *outcome) add(other *outcome) {
	if o.runs == 0 {
		o.goodput = other.goodput
	}
	if o.runs == 0 || other.slowest > o.slowest {
		o.slowest, o.slowWhat = other.slowest, other.slowWhat
	}
	o.findings.add(other.findings)
	o.ops.add(&other.ops)
	o.runs += other.runs
	o.went += other.went
	o.latest = max(o.latest, other.latest)
	o.goodput, o.sum = min(o.goodput, other.goodput), o.sum+other.sum
	o.charged, o.pauses, o.stalls = max(o.charged, other.charged), o.pauses+other.pauses, o.stalls+other.stalls
	if other.least > 0 && (o.least == 0 || other.least < o.least) {
		o.least = other.least
	}
	if o.faults == nil {
		o.faults = make(map[string]int)
	}
	for name, n := range other.faults {
		o.faults[name] += n
	}
}

func (o *outcome) String() string {
	var faults []string
	for name, n := range o.faults {
		faults = append(faults, fmt.Sprintf("%d × %s (%.0f %%)", n, name, 100*o.overshoot[name]))
	}
	slices.Sort(faults)
	charged := fmt.Sprintf("charged at most %.3f of what went", o.charged)
	if o.least > 0 {
		charged += fmt.Sprintf(", at least %.3f where no data were lost", o.least)
	}
	return fmt.Sprintf("%d runs, %d operations (%d Wait, %d Reserve, %d Allow, %d Cancel, %d Report, %d Status), %d calls went; faults, with the largest overshoot near each: %s; %d violations; "+
		"%d windows, %d of them far from faults, where %d would have too many without allowance for late timers; largest overshoot %.1f %% (%s); "+
		"slowest operation %v beyond its deadline (%s); latest call %v beyond its slot; goodput after the faults at least %.1f %%, %.1f %% on average; %s; %d pauses checked; %d stalls of this machine",
		o.runs, o.ops.all(), o.ops.wait.Load(), o.ops.reserve.Load(), o.ops.allow.Load(), o.ops.cancel.Load(), o.ops.report.Load(), o.ops.status.Load(), o.went,
		strings.Join(faults, ", "), len(o.broken), o.judged, o.exactly, o.forgiving, 100*o.worst, o.worstAt,
		o.slowest.Round(time.Millisecond), o.slowWhat, o.latest.Round(time.Millisecond), 100*o.goodput, 100*o.sum/float64(max(1, o.runs)), charged, o.pauses, o.stalls)
}

// A member is a process of the fleet.
type member struct {
	route *route
	rdb   redis.UniversalClient
	pacer *pacer.Pacer
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
	begin    time.Time

	ops      operationCounts
	lateness lateness
	faults   map[string]int
	emptied  bool // what the store knew was lost, at least in part

	mu       sync.Mutex
	troubles []trouble
	went     []gone
	pauses   []paused
	stalls   []trouble
	unsure   []span // reservations that did not go: were they charged?
	broken   []string
	slow     []slow
	slowest  time.Duration
	slowWhat string
	latest   time.Duration
}

// paused is a pause of the whole upstream that was reported: no call that is begun after told goes before until.
type paused struct{ told, until time.Time }

// A span is a call that was under way and did not go, and its cost.
type span struct {
	from, to time.Time
	cost     int64
	granted  bool // and given back
}

// plan is what a seed decides before the run.
func plan(s *site, seed uint64) (steps []step, all []rule, rate float64, processes int) {
	rng := rand.New(rand.NewPCG(seed, 0))
	all, rate = rules(rng)
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
	n := troubles
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
			st.rest = calm + 2500*time.Millisecond
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

// play plays one run.
func play(t testing.TB, s *site, seed uint64) *outcome {
	t.Helper()
	before := goleak.IgnoreCurrent()
	steps, all, rate, processes := plan(s, seed)
	r := &run{t: t, site: s, seed: seed, rules: all, rate: rate, faults: make(map[string]int)}
	r.upstream = fmt.Sprintf("chaos-%d", upstreams.Add(1))
	config := pacer.Config{Upstream: r.upstream, Processes: processes}
	for _, x := range all {
		config.Policies = append(config.Policies, x.policy)
	}
	config.Policies = append(config.Policies, policies.Daily(quotas, time.UTC).Named(quota))
	for range processes {
		m := &member{route: newRoute()}
		m.rdb = s.connect(m.route)
		store, err := redisstore.New(m.rdb)
		require.NoError(t, err)
		config.Store = store
		m.pacer, err = pacer.New(config)
		require.NoError(t, err)
		r.fleet = append(r.fleet, m)
	}
	r.begin = time.Now()
	stop := make(chan struct{})
	var watching sync.WaitGroup
	for range watchers {
		watching.Go(func() { r.lateness.watch(stop) })
	}

	crew := r.start(r.work)
	time.Sleep(2500 * time.Millisecond) // the processes come to know each other
	for _, st := range steps {
		r.faults[st.fault.name]++
		r.emptied = r.emptied || st.fault.empties
		from := time.Now()
		err := st.fault.do(r, rand.New(rand.NewPCG(st.seed, 0)))
		r.troubles = append(r.troubles, trouble{st.fault.name, from, time.Now()})
		require.NoError(t, err, "%s: the test could not do what it wanted", st.fault.name)
		time.Sleep(st.rest)
	}
	r.end(crew)
	time.Sleep(time.Until(r.troubles[len(r.troubles)-1].to.Add(calm)))
	goodput := r.last()
	var stalls []trouble
	planned := referee{troubles: r.troubles}
	for _, x := range append(r.stalls, r.lateness.stalls()...) {
		if planned.troubled(x.from, x.to) == nil {
			stalls = append(stalls, x)
		}
	}
	r.troubles = append(r.troubles, stalls...)
	charged, least := r.account()
	r.leave()
	close(stop)
	watching.Wait()
	for _, m := range r.fleet {
		m.route.close()
	}
	r.leaks(before)

	o := &outcome{
		stalls: len(stalls), runs: 1, went: len(r.went), faults: r.faults, slowest: r.slowest, slowWhat: r.slowWhat, latest: r.latest,
		goodput: goodput, sum: goodput, charged: charged, least: least,
	}
	o.ops.add(&r.ops)
	var unheeded []string
	o.pauses, unheeded = r.inPause()
	o.broken = slices.Concat(r.broken, r.hung(), unheeded)
	ref := referee{troubles: r.troubles, masters: int64(max(1, s.masters)), lateness: &r.lateness}
	for i := range r.rules {
		o.findings.add(ref.judge(&r.rules[i], r.went))
	}
	o.about = r.describe()
	return o
}

// complaint says what is broken, and what the run was about.
func (o *outcome) complaint() string {
	const most = 20
	all := slices.Clone(o.broken[:min(most, len(o.broken))])
	if n := len(o.broken) - len(all); n > 0 {
		all = append(all, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(append(all, o.about...), "\n")
}

// describe says what the run was about.
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
	r.broken = append(r.broken, fmt.Sprintf("after %v: ", time.Since(r.begin).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// A crew is goroutines that make calls until they are stopped.
type crew struct {
	stop context.CancelFunc
	all  *sync.WaitGroup
}

// start lets goroutines of every process do something again and again.
func (r *run) start(do func(*member, *rand.Rand)) crew {
	ctx, cancel := context.WithCancel(context.Background())
	c := crew{cancel, &sync.WaitGroup{}}
	for i, m := range r.fleet {
		for j := range callers {
			rng := rand.New(rand.NewPCG(r.seed, uint64(1+i*callers+j)))
			c.all.Go(func() {
				for ctx.Err() == nil {
					do(m, rng)
				}
			})
		}
	}
	return c
}

// end stops a crew. All operations have deadlines: one that hangs is a finding, and the end of the test.
func (r *run) end(c crew) {
	c.stop()
	done := make(chan struct{})
	go func() {
		c.all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		all := make([]byte, 1<<20)
		r.t.Fatalf("%s, HEADWAY_SEED=%d: an operation hangs:\n%s\n%s", r.site.name, r.seed, strings.Join(r.describe(), "\n"), all[:runtime.Stack(all, true)])
	}
}

// A slow operation was over so long after its deadline.
type slow struct {
	what     string
	deadline time.Time
	beyond   time.Duration
}

// hung finds operations that were not over in time. Timers of a busy machine are allowed for. Whoever watches them may wake
// after the operation that they held up, so this is for the end of a run.
func (r *run) hung() (broken []string) {
	for _, s := range r.slow {
		if late := r.lateness.during(s.deadline.Add(-longest), s.deadline.Add(s.beyond)); s.beyond > overtime+late {
			broken = append(broken, fmt.Sprintf("%s took %v beyond its deadline at %s; timers were late by %v", s.what, s.beyond, s.deadline.Format("05.000"), late))
		}
	}
	return broken
}

// took notes when an operation was over.
func (r *run) took(what string, deadline time.Time) {
	beyond := time.Since(deadline)
	r.mu.Lock()
	defer r.mu.Unlock()
	if beyond > r.slowest || r.slowWhat == "" {
		r.slowest, r.slowWhat = beyond, what
	}
	if beyond > overtime {
		r.slow = append(r.slow, slow{what, deadline, beyond})
	}
}

// check reports whether an error is one that calls may have.
func (r *run) check(what string, err error) {
	limited, ok := errors.AsType[*pacer.LimitError](err)
	switch {
	case err == nil:
	case ok && !limited.Never:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
	default:
		r.complainf("%s: %v", what, err)
	}
}

// work does one operation, or a reservation and what comes after it.
func (r *run) work(m *member, rng *rand.Rand) {
	cost, tenant := int64(1), rng.IntN(tenants+1)
	if rng.IntN(4) == 0 {
		cost += rng.Int64N(highestCost)
	}
	opts := []pacer.Option{pacer.Cost(cost)}
	if tenant > 0 {
		opts = append(opts, pacer.Scope("tenant", fmt.Sprintf("t%d", tenant)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond+time.Duration(rng.Int64N(int64(longest))))
	defer cancel()
	deadline, _ := ctx.Deadline()
	began := time.Now()
	switch n := rng.IntN(1000); {
	case n < 6:
		// Short, so that the line goes on, and of the whole upstream, so that it is seen whether it holds.
		d := time.Duration(1+rng.IntN(30)) * time.Millisecond
		r.ops.report.Add(1)
		if err := m.pacer.Report(ctx, policies.Feedback{Wait: d}); err != nil {
			r.complainf("Report: %v", err)
		}
		told := time.Now()
		r.took("Report", deadline)
		r.mu.Lock()
		r.pauses = append(r.pauses, paused{told, began.Add(d)})
		r.mu.Unlock()
	case n < 150:
		r.ops.wait.Add(1)
		err := m.pacer.WaitN(ctx, cost, opts[1:]...)
		r.over("Wait", err, gone{began: began, at: time.Now(), cost: cost, tenant: tenant}, began, deadline)
	case n < 220:
		r.ops.allow.Add(1)
		err := m.pacer.Allow(ctx, opts...)
		r.over("Allow", err, gone{began: began, at: time.Now(), cost: cost, tenant: tenant}, began, deadline)
	default:
		r.ops.reserve.Add(1)
		v, err := m.pacer.Reserve(ctx, opts...)
		if err != nil {
			r.over("Reserve", err, gone{cost: cost}, began, deadline)
			return
		}
		r.took("Reserve", deadline)
		if n < 300 {
			time.Sleep(time.Duration(rng.Int64N(1 + int64(v.Delay()))))
			given := time.Now()
			r.ops.cancel.Add(1)
			if err := v.Cancel(ctx); err != nil {
				r.complainf("Cancel: %v", err)
			}
			r.took("Cancel", given)
			r.over("Cancel", context.Canceled, gone{cost: cost}, began, deadline)
			return
		}
		reserved := time.Now()
		if reserved.Sub(began) >= answerLate {
			r.mu.Lock()
			r.stalls = append(r.stalls, trouble{"a late answer", began, reserved})
			r.mu.Unlock()
		}
		due := reserved.Add(v.Delay())
		if n < 330 { // its caller loses patience
			time.AfterFunc(time.Duration(rng.Int64N(1+int64(v.Delay()))), cancel)
		}
		r.ops.wait.Add(1)
		err = v.Wait(ctx)
		at := time.Now()
		r.over("Reservation.Wait", err, gone{began: began, at: at, late: reserved.Sub(began) + max(0, at.Sub(due)), cost: cost, tenant: tenant}, began, deadline)
	}
}

// over notes how a call ended.
func (r *run) over(what string, err error, c gone, began, deadline time.Time) {
	r.took(what, deadline)
	r.check(what, err)
	if err == nil {
		r.mu.Lock()
		r.went = append(r.went, c)
		r.latest = max(r.latest, c.late)
		r.mu.Unlock()
		return
	}
	r.mu.Lock()
	r.unsure = append(r.unsure, span{began, time.Now(), c.cost, what == "Cancel" || what == "Reservation.Wait"})
	r.mu.Unlock()
	// A refused caller that asks again at once would do nothing but ask.
	if limited, ok := errors.AsType[*pacer.LimitError](err); ok {
		time.Sleep(min(30*time.Millisecond, 5*time.Millisecond+limited.Wait/4))
	}
}

// last lets all processes go as fast as they can, far from faults, and returns what part of the tightest rate went, in the
// best of the slices of a few seconds.
func (r *run) last() float64 {
	const slice, most = 1500 * time.Millisecond, 4
	r.mu.Lock()
	first := len(r.went)
	r.mu.Unlock()
	c := r.start(func(m *member, rng *rand.Rand) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		deadline, _ := ctx.Deadline()
		began, tenant := time.Now(), 1+rng.IntN(tenants)
		r.ops.wait.Add(1)
		err := m.pacer.Wait(ctx, pacer.Scope("tenant", fmt.Sprintf("t%d", tenant)))
		r.over("Wait", err, gone{began: began, at: time.Now(), cost: 1, tenant: tenant}, began, deadline)
	})
	defer r.end(c)
	best, begin := 0.0, time.Now()
	for range most {
		from := time.Now()
		time.Sleep(slice)
		r.mu.Lock()
		n := 0
		for _, g := range r.went[first:] {
			if g.at.After(from) {
				n++
			}
		}
		passed := time.Since(from)
		r.mu.Unlock()
		if best = max(best, float64(n)/(r.rate*passed.Seconds())); best >= 0.95 {
			return best
		}
	}
	if late := r.lateness.sum(begin); late > time.Since(begin)/50 {
		return best // the machine did not let them
	}
	r.complainf("the last phase reached %.1f %% of %.1f/s", 100*best, r.rate)
	return best
}

// account compares what the store charged with what went. It returns both as a part of what went: what was charged, and
// the same again if nothing was lost on purpose, or else 0.
//
// A call that went was charged at least once, by the store or by the process alone, which tells the store later. It was
// charged twice if the store's answer was lost: the process then went alone, and did not know of the first charge. That
// happens in trouble only. A call that was cancelled or refused in trouble is charged once, instead of not at all, for the
// same reason; its cost is added to the bound.
//
// A Cancel whose answer was lost is done again when the store is back. A window gives back what it is told to give back, so
// that one charge is missing then: what was given back in trouble is taken from the lower bound. Calls also give slots back
// to move behind a pause, or to exchange them when the store is back, which is not seen from here: a fiftieth of what went
// is for those, either way.
func (r *run) account() (charged, least float64) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r.ops.status.Add(1)
	status, err := r.fleet[0].pacer.Status(ctx, pacer.Scope("tenant", "t1"))
	if err != nil {
		r.complainf("Status: %v", err)
		return 0, 0
	}
	of := slices.IndexFunc(status.Policies, func(p pacer.PolicyStatus) bool { return p.Policy.Name() == quota })
	n := quotas - status.Policies[of].Remaining
	went, near, unsure, givenBack := int64(0), int64(0), int64(0), int64(0)
	ref := referee{troubles: r.troubles}
	for _, c := range r.went {
		went += c.cost
		if ref.troubled(c.began, c.at) != nil {
			near += c.cost
		}
	}
	for _, s := range r.unsure {
		if ref.troubled(s.from, s.to) != nil {
			unsure += s.cost
			if s.granted {
				givenBack += s.cost
			}
		}
	}
	charged = float64(n) / float64(went)
	if y, m, d := r.begin.UTC().Date(); time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC).Before(time.Now().Add(time.Minute)) {
		return charged, 0 // the day is not the one in which the run began, or nearly so
	}
	if n > went+near+unsure+went/50 {
		r.complainf("%d were charged for calls of %d that went, %d of it in trouble, and %d that did not go and were under way in trouble", n, went, near, unsure)
	}
	if r.emptied || r.site.masters > 1 {
		return charged, 0
	}
	if n < went-givenBack-went/50 {
		r.complainf("only %d were charged for calls of %d that went, and nothing was lost; %d were given back in trouble", n, went, givenBack)
	}
	return charged, charged
}

// leave closes every Pacer and client, and checks what is left in Redis.
func (r *run) leave() {
	for i, m := range r.fleet {
		began := time.Now()
		if err := m.pacer.Close(); err != nil {
			r.complainf("Close: %v", err)
		}
		r.took(fmt.Sprintf("Close of process %d", i), began)
		if err := m.pacer.Wait(context.Background()); !errors.Is(err, pacer.ErrClosed) {
			r.complainf("Wait after Close: %v", err)
		}
		if err := m.rdb.Close(); err != nil {
			r.complainf("the client's Close: %v", err)
		}
	}
	keys := 0
	for _, server := range r.site.servers {
		n, err := r.expiring(server)
		if err != nil {
			r.complainf("the keys of %s: %v", server.Addr, err)
		}
		keys += n
	}
	if keys == 0 {
		r.complainf("there is no key")
	}
}

// expiring counts the keys of a server that is a master, each of which must be one that expires.
func (r *run) expiring(server *redistest.Server) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	info, err := server.Client().Info(ctx, "replication").Result()
	if err != nil {
		return 0, err
	}
	if !strings.Contains(info, "role:master") {
		return 0, nil // it has what its master has
	}
	keys, n := server.Client().Scan(ctx, 0, "*", 1000).Iterator(), 0
	for keys.Next(ctx) {
		ttl, err := server.Client().PTTL(ctx, keys.Val()).Result()
		if err != nil {
			return n, err
		}
		if n++; ttl == -1 { // -2: it has just expired
			r.complainf("%s never expires", keys.Val())
		}
	}
	return n, keys.Err()
}

// leaks looks for goroutines that were not there before.
func (r *run) leaks(before goleak.Option) {
	if err := goleak.Find(before,
		// The proxies are not what is tested: a link that was reset leaves goroutines behind.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*Proxy).server"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*Proxy).freeBlocker"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).write"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).AddToxic"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).RemoveToxic"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicCollection).RemoveToxic"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"), // a server that was restarted
	); err != nil {
		r.complainf("goroutines are left: %v", err)
	}
}

// inPause finds calls that went in a pause that had been reported before they asked. A process that is alone does not hear
// of what others report, so only quiet times count.
func (r *run) inPause() (checked int, broken []string) {
	ref := referee{troubles: r.troubles}
	for _, p := range r.pauses {
		if ref.troubled(p.told.Add(-time.Second), p.until) != nil {
			continue
		}
		checked++
		for _, c := range r.went {
			if c.began.After(p.told) && c.at.Before(p.until.Add(-time.Millisecond)) {
				broken = append(broken, fmt.Sprintf("a call went at %s, in a pause until %s that was told at %s",
					c.at.Format("05.000"), p.until.Format("05.000"), p.told.Format("05.000")))
			}
		}
	}
	return checked, broken
}
