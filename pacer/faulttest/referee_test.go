package faulttest_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
)

// skew is what the strict policies allow for late timers. The referee looks at their nominal periods.
const skew = 25 * time.Millisecond

// highestCost is the most that one call costs. A rate must have a burst as high.
const highestCost = 4

// tenants is for how many values of the scope calls are made.
const tenants = 3

// A rule is a policy as its documentation defines it, without the numbers that stores use.
type rule struct {
	policy policies.Policy
	fixed  bool // windows of the clock; otherwise any window of the period's length
	limit  int64
	period time.Duration
	scoped bool // for each tenant; calls without one pass it by
}

// The names of two policies of every run.
const (
	tightest = "tightest" // an AtMost, the one that decides how many calls go in the long run
	quota    = "quota"    // a Daily whose total is never reached: it only counts
	quotas   = int64(1_000_000_000)
)

// rules makes up policies. The first is the tightest, with the rate that it allows in the long run.
func rules(rng *rand.Rand) (all []rule, rate float64) {
	limit := 200 + rng.Int64N(400)
	burst := highestCost + rng.Int64N(limit/10)
	all = append(all, rule{policies.AtMost(limit, time.Second).Burst(burst).Skew(skew).Named(tightest), false, limit, time.Second, false})
	rate = float64(limit-burst+1) / (time.Second + skew).Seconds()
	for i := range 1 + rng.IntN(3) {
		period := time.Duration(1+rng.IntN(2)) * time.Second
		// More than the tightest needs, with what windows waste.
		least := int64(1.4 * rate * period.Seconds())
		r := rule{limit: min(2000*int64(period.Seconds()), least+rng.Int64N(2*least)), period: period, scoped: rng.IntN(3) == 0}
		switch rng.IntN(3) {
		case 0:
			r.policy = policies.AtMost(r.limit, period).Burst(highestCost + rng.Int64N(r.limit/8)).Skew(skew)
		case 1:
			r.policy = policies.Sliding(r.limit, period).Buckets(5 + rng.Int64N(20)).Skew(skew)
		default:
			r.policy, r.fixed = policies.Fixed(r.limit, period).Skew(skew), true
		}
		r.policy = r.policy.Named(fmt.Sprintf("p%d", i))
		if r.scoped {
			r.policy = r.policy.Per("tenant").Optional()
		}
		all = append(all, r)
	}
	return all, rate
}

// gone is a call that went: its Wait returned nil.
type gone struct {
	began  time.Time     // when it was asked for
	at     time.Time     // just after that
	late   time.Duration // how much later that was than it should have been, as far as the caller could tell
	cost   int64
	tenant int // 0 for none
}

// A trouble is a time with faults. The policies are to hold exactly again some time after it.
type trouble struct {
	what     string
	from, to time.Time
}

// stalled is how late a timer is, on a machine that has something else to do, when the time is counted as one of trouble: a
// process whose store did not answer within the StoreTimeout, be it for want of a processor, is alone.
const stalled = 50 * time.Millisecond

// calm is how long after a fault the policies hold exactly again.
const calm = 3 * time.Second

// A referee is an upstream that knows each policy by its definition, and nothing of how stores keep it.
//
// # In quiet times
//
// While no fault is near, no window has more than the limit. The calls are seen a little later than they went, and not all
// by the same: if the latest of a window was late by D, calls of a window of P − (D − skew) were granted within P + skew. So
// where a window of P has too many, the referee looks at P − max(0, D − skew) instead, with the D that was measured around it.
//
// # In trouble
//
// Take any window of the period. Each call in it was granted by the store or by a process alone.
//
//   - The store, as long as it is one and remembers, grants no more than the limit L into any window. One that forgot is
//     told by each process, before that one asks it again, what this process knows. So the store's calls are at most L.
//   - A process alone has a share of L/n in any window. All n of them together have L.
//
// Those that are not alone may have all of L, and those that are alone their shares beside it: with k of n alone at the same
// time, L + k·L/n. Who is alone may change within the window, so the referee asks for no more than 2 L: L too many. An
// answer may be as late as the StoreTimeout, a later one is given back. So calls that were granted within P and a quarter
// of a second may go within P; that is not added, since those who get late answers are soon alone.
//
// Where two servers may hold themselves to be the master at the same time, each of them grants L: 2 L too many.
type referee struct {
	troubles []trouble
	masters  int64 // how many servers may decide at the same time
	lateness *lateness
}

// findings are what a referee found.
type findings struct {
	broken    []string // of each policy, and each fault, the worst window
	worst     float64  // the largest overshoot in trouble, as a part of the limit
	worstAt   string
	overshoot map[string]float64 // the largest near each kind of fault
	judged    int                // windows
	exactly   int                // of them in quiet times
	bad       []*bad
	forgiving int // of them with too many calls unless their lateness is allowed for
}

// troubled returns the last trouble that reaches into [from, to]; nil if there is none.
func (j *referee) troubled(from, to time.Time) (last *trouble) {
	for i := range j.troubles {
		if x := &j.troubles[i]; !x.from.After(to) && !from.After(x.to.Add(calm)) && (last == nil || x.from.After(last.from)) {
			last = x
		}
	}
	return last
}

// judge looks at every window that begins with a call, or at every window of the clock.
func (j *referee) judge(r *rule, calls []gone) (f findings) {
	sets := make([][]gone, 1)
	if r.scoped {
		sets = make([][]gone, tenants)
	}
	for _, c := range calls {
		switch {
		case !r.scoped:
			sets[0] = append(sets[0], c)
		case c.tenant > 0:
			sets[c.tenant-1] = append(sets[c.tenant-1], c)
		}
	}
	for _, set := range sets {
		slices.SortFunc(set, func(a, b gone) int { return a.at.Compare(b.at) })
		if r.fixed {
			j.clock(r, set, &f)
		} else {
			j.sliding(r, set, &f)
		}
	}
	for _, b := range f.bad {
		f.broken = append(f.broken, fmt.Sprintf("%s (and %d windows more)", b.text, b.more))
	}
	f.bad = nil
	return f
}

// bad is the worst of the windows that broke a policy during one fault, or far from faults.
type bad struct {
	what string
	n    int64
	text string
	more int
}

// blame notes a window with n calls.
func (f *findings) blame(what string, n int64, text string) {
	i := slices.IndexFunc(f.bad, func(b *bad) bool { return b.what == what })
	if i < 0 {
		f.bad = append(f.bad, &bad{what, n, text, 0})
		return
	}
	b := f.bad[i]
	b.more++
	if n > b.n {
		b.n, b.text = n, text
	}
}

func (j *referee) sliding(r *rule, calls []gone, f *findings) {
	sum, end := int64(0), 0
	for i := range calls {
		for end < len(calls) && calls[end].at.Sub(calls[i].at) < r.period {
			sum += calls[end].cost
			end++
		}
		j.window(r, calls[i].at, sum, calls[i:end], f, func(d time.Duration) int64 {
			n := int64(0)
			for _, c := range calls[i:end] {
				if c.at.Sub(calls[i].at) < r.period-d {
					n += c.cost
				}
			}
			return n
		})
		sum -= calls[i].cost
	}
}

func (j *referee) clock(r *rule, calls []gone, f *findings) {
	for begin := 0; begin < len(calls); {
		at := calls[begin].at.Truncate(r.period)
		sum, end := int64(0), begin
		for end < len(calls) && calls[end].at.Before(at.Add(r.period)) {
			sum += calls[end].cost
			end++
		}
		set := calls[begin:end]
		j.window(r, at, sum, set, f, func(d time.Duration) int64 {
			n := int64(0)
			for _, c := range set {
				if c.at.Sub(at) >= d { // the others may belong to the window before
					n += c.cost
				}
			}
			return n
		})
		begin = end
	}
}

// window judges one window that has a sum of costs; recount counts it again for calls that were too late by so much.
func (j *referee) window(r *rule, from time.Time, sum int64, calls []gone, f *findings, recount func(time.Duration) int64) {
	f.judged++
	to := from.Add(r.period)
	x := j.troubled(from, to)
	if x == nil {
		f.exactly++
	}
	if sum <= r.limit {
		return
	}
	if x != nil {
		over := float64(sum-r.limit) / float64(r.limit)
		f.overshot(x.what, over)
		if over > f.worst {
			f.worst, f.worstAt = over, fmt.Sprintf("%s, %d of %d in %v at %s during %s", r.policy.Name(), sum, r.limit, r.period, from.Format("05.000"), x.what)
		}
		if sum <= r.limit*(1+j.masters) {
			return
		}
		f.blame(x.what+x.from.String(), sum, fmt.Sprintf("%s: %d calls in %v from %s, more than %d times the limit of %d, during %s",
			r.policy.Name(), sum, r.period, from.Format("05.000"), 1+j.masters, r.limit, x.what))
		return
	}
	late := j.lateness.during(from.Add(-r.period), to)
	for _, c := range calls {
		late = max(late, c.late)
	}
	f.forgiving++
	if n := recount(max(0, late-skew)); n > r.limit {
		f.blame("", n, fmt.Sprintf("%s: %d calls in %v from %s, and %d with calls late by up to %v allowed for; the limit is %d, and no fault is near",
			r.policy.Name(), sum, r.period, from.Format("05.000"), n, late, r.limit))
	}
}

// watchers is how many timers are watched.
const watchers = 2

// lateness knows by how much this machine's timers were late, and when.
type lateness struct {
	mu   sync.Mutex
	naps []nap
}

type nap struct {
	woke time.Time
	late time.Duration
}

// watch sleeps, and notes when it wakes too late, until stop is closed.
func (l *lateness) watch(stop <-chan struct{}) {
	const sleep = 2 * time.Millisecond
	timer := time.NewTimer(sleep)
	defer timer.Stop()
	for {
		asleep := time.Now()
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		if late := time.Since(asleep) - sleep; late > skew/5 {
			l.mu.Lock()
			l.naps = append(l.naps, nap{time.Now(), late})
			l.mu.Unlock()
		}
		timer.Reset(sleep)
	}
}

// stalls returns the times in which the machine was so late that a store may seem to be out of reach.
func (l *lateness) stalls() (all []trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.naps {
		if n.late >= stalled {
			all = append(all, trouble{"a stall of this machine", n.woke.Add(-n.late), n.woke})
		}
	}
	return all
}

// sum returns for how long, in all, this machine has stalled since then.
func (l *lateness) sum(since time.Time) (all time.Duration) {
	for _, x := range l.stalls() {
		if x.to.After(since) {
			all += x.to.Sub(x.from)
		}
	}
	return all / watchers
}

// during returns the most that a timer was late in a time.
func (l *lateness) during(from, to time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := time.Duration(0)
	for _, n := range l.naps {
		if n.woke.After(from) && n.woke.Add(-n.late).Before(to) {
			most = max(most, n.late)
		}
	}
	return most
}

func (f *findings) overshot(what string, over float64) {
	if f.overshoot == nil {
		f.overshoot = make(map[string]float64)
	}
	f.overshoot[what] = max(f.overshoot[what], over)
}

func (f *findings) add(other findings) {
	for what, over := range other.overshoot {
		f.overshot(what, over)
	}
	f.broken = append(f.broken, other.broken...)
	if other.worst > f.worst {
		f.worst, f.worstAt = other.worst, other.worstAt
	}
	f.judged += other.judged
	f.exactly += other.exactly
	f.forgiving += other.forgiving
}

// A referee that never finds anything proves nothing.
func TestRefereeFindsWhatBreaksAPolicy(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	at := func(ms ...int) (calls []gone) {
		for _, n := range ms {
			calls = append(calls, gone{at: start.Add(time.Duration(n) * time.Millisecond), cost: 1, tenant: 1})
		}
		slices.SortFunc(calls, func(a, b gone) int { return cmp.Compare(b.at.UnixNano(), a.at.UnixNano()) }) // in any order
		return calls
	}
	any3, fixed3 := rule{policies.AtMost(3, time.Second), false, 3, time.Second, false}, rule{policies.Fixed(3, time.Second), true, 3, time.Second, false}
	perTenant := any3
	perTenant.scoped = true
	other := at(0, 100, 500, 900)
	other[0].tenant, other[1].tenant = 2, 0
	late := at(0, 300, 600, 990)
	late[2].late = 40 * time.Millisecond
	dear := at(0, 10)
	dear[1].cost = 3
	trouble := []trouble{{"a fault", start.Add(2 * time.Second), start.Add(3 * time.Second)}}
	for name, c := range map[string]struct {
		rule  rule
		calls []gone
		bad   bool
	}{
		"three":                              {any3, at(0, 1, 2, 1000, 1001, 1002), false},
		"four":                               {any3, at(500, 501, 502, 1499), true},
		"a cost counts":                      {any3, dear, true},
		"late calls are allowed for":         {any3, late, false},
		"around the turn of a fixed window":  {fixed3, at(997, 998, 999, 1000, 1001, 1002), false},
		"four in a fixed window":             {fixed3, at(0, 1, 998, 999), true},
		"four of one tenant":                 {perTenant, at(0, 100, 500, 900), true},
		"four of several tenants":            {perTenant, other, false},
		"twice the limit in a fault":         {any3, at(2000, 2001, 2002, 2003, 2004, 2005), false},
		"more than that in a fault":          {any3, at(2000, 2001, 2002, 2003, 2004, 2005, 2006), true},
		"four just before a fault's window":  {any3, at(990, 992, 994, 996), true},
		"four long after a fault":            {any3, at(6001, 6002, 6003, 6004), true},
		"four just after a fault":            {any3, at(5999, 6000, 6001, 6002), false},
		"in a fault, in a window before it":  {any3, at(1100, 1200, 1300, 2050), false},
		"more than twice, in a fixed window": {fixed3, at(2000, 2100, 2200, 2300, 2400, 2500, 2600), true},
	} {
		j := referee{troubles: trouble, masters: 1, lateness: &lateness{}}
		if got := j.judge(&c.rule, c.calls); (len(got.broken) > 0) != c.bad {
			require.Fail(t, name, "%+v", got)
		}
	}
}
