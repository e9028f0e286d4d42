package faulttest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

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
	scoped bool          // for each tenant; calls without one pass it by
	exact  time.Duration // no time of this length has more slots than the limit: the period, and what the policy's skew adds
}

// The names of two policies of every run.
const (
	tightest = "tightest" // an AtMost, the one that decides how many calls go in the long run
	quota    = "quota"    // a Daily whose total is never reached: it only counts
	quotas   = int64(1_000_000_000)
)

// rules makes up policies, with limits that are so many times as high as those of a short test. The first is the tightest,
// with the rate that it allows in the long run.
func rules(rng *rand.Rand, scale int64) (all []rule, rate float64) {
	limit := scale * (200 + rng.Int64N(400))
	burst := highestCost + rng.Int64N(limit/10)
	all = append(all, rule{policies.AtMost(limit, time.Second).Burst(burst).Skew(skew).Named(tightest), false, limit, time.Second, false, time.Second + skew})
	rate = float64(limit-burst+1) / (time.Second + skew).Seconds()
	for i := range 1 + rng.IntN(3) {
		period := time.Duration(1+rng.IntN(2)) * time.Second
		// More than the tightest needs, with what windows waste.
		least := int64(1.4 * rate * period.Seconds())
		r := rule{limit: min(scale*2000*int64(period.Seconds()), least+rng.Int64N(2*least)), period: period, scoped: rng.IntN(3) == 0, exact: period}
		switch rng.IntN(3) {
		case 0:
			r.policy = policies.AtMost(r.limit, period).Burst(highestCost + rng.Int64N(r.limit/8)).Skew(skew)
			r.exact += skew
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
//
// The store is answerable for a call that goes at its slot, or later by no more than its slack. A later call is late because of this
// machine, and counts as if it had gone at the latest instant that was promised. Of a call without a reservation only the time is known in
// which it went.
type gone struct {
	by       *member
	began    time.Time     // when it was requested
	at       time.Time     // when it went, or just after that
	slot     time.Time     // from when on it might; zero if that is not known
	from, to time.Time     // it went no earlier and no later, except for this machine's delays
	late     time.Duration // by how much this machine was late
	cost     int64
	reserved int64     // what it was charged before it was settled
	before   time.Time // it was not to go before this instant
	blind    bool      // its caller slept until the slot, and learned nothing meanwhile
	tenant   int       // 0 for none
}

// A trouble is a time with faults. The policies hold exactly again some time after it.
type trouble struct {
	what     string
	from, to time.Time
}

// calm is how long after a fault the policies hold exactly again.
const calm = 3 * time.Second

// A referee is an upstream that knows each policy by its definition, and nothing of how stores keep it.
//
// # In quiet times
//
// While no fault is near, no window has more than the limit: of slots, with the skew that the policy adds to its period. Calls
// of which only a time is known count where they must have gone in the window. So no machine is too slow for this.
//
// # In trouble
//
// Take any window of the period. Each call in it was granted by the store or by a process that paced locally.
//
//   - The store, as long as it is one and remembers, grants no more than the limit L into any window. To a store that has lost its data,
//     each process reports what it knows before its next request. So the store's calls are at most L.
//   - A process that paces locally has a share of L/n in any window: k of them have k·L/n.
//
// So the referee requires no more than L + k·L/n, where k is how many of the n processes paced locally at some time shortly before the end
// of the window, by the hooks; and L if none did. A process is taken to pace locally for a second more than it reports, since its calls
// start at their slots, and hooks are called late.
//
// Where two servers may hold themselves to be the master at the same time, each of them grants L: one L more.
type referee struct {
	troubles []trouble
	masters  int64 // how many servers may decide at the same time

	processes int64
	absences  []absence
}

// An absence is a time in which a process paced locally; to is zero if it did not end.
type absence struct {
	process  int
	from, to time.Time
}

// after is how long after the return of the store locally granted calls may start, and how late a hook is called.
const after = time.Second

// most returns the most that may go in a window of a limit in trouble.
func (j *referee) most(limit int64, from, to time.Time) int64 {
	who := make(map[int]bool)
	for _, a := range j.absences {
		if a.from.Add(-after).Before(to) && (a.to.IsZero() || a.to.Add(after).After(from)) {
			who[a.process] = true
		}
	}
	return j.masters*limit + (limit*int64(len(who))+j.processes-1)/max(1, j.processes)
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
		slices.SortFunc(set, func(a, b gone) int { return a.from.Compare(b.from) })
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

// sliding judges every window that begins with a call: the longer one far from faults, and else that of the period.
func (j *referee) sliding(r *rule, calls []gone, f *findings) {
	for i := range calls {
		from, length := calls[i].from, r.exact
		if j.troubled(from, from.Add(length)) != nil {
			length = r.period
		}
		j.window(r, from, from.Add(length), inner(calls[i:], from.Add(length)), f)
	}
}

// clock judges every window of the clock that has a call.
func (j *referee) clock(r *rule, calls []gone, f *findings) {
	for begin := 0; begin < len(calls); {
		at := calls[begin].from.Truncate(r.period)
		to := at.Add(r.period)
		j.window(r, at, to, inner(calls[begin:], to), f)
		for begin < len(calls) && calls[begin].from.Before(to) {
			begin++
		}
	}
}

// inner returns the cost of those calls that went before an instant for certain. They are sorted by when they went at the
// earliest.
func inner(calls []gone, to time.Time) (sum int64) {
	for i := range calls {
		if !calls[i].from.Before(to) {
			break
		}
		if calls[i].to.Before(to) {
			sum += calls[i].cost
		}
	}
	return sum
}

// window judges one window that has a sum of costs.
func (j *referee) window(r *rule, from, to time.Time, sum int64, f *findings) {
	f.judged++
	x := j.troubled(from, to)
	if x == nil {
		f.exactly++
	}
	if sum <= r.limit {
		return
	}
	if x == nil {
		f.blame("", sum, fmt.Sprintf("%s: %d calls in %v from %s; the limit is %d, and no fault is near",
			r.policy.Name(), sum, to.Sub(from), from.Format("05.000"), r.limit))
		return
	}
	over := float64(sum-r.limit) / float64(r.limit)
	f.overshot(x.what, over)
	if over > f.worst {
		f.worst, f.worstAt = over, fmt.Sprintf("%s, %d of %d in %v at %s during %s", r.policy.Name(), sum, r.limit, r.period, from.Format("05.000"), x.what)
	}
	if most := j.most(r.limit, from, to); sum > most {
		f.blame(x.what+x.from.String(), sum, fmt.Sprintf("%s: %d calls in %v from %s, more than %d under a limit of %d, during %s",
			r.policy.Name(), sum, r.period, from.Format("05.000"), most, r.limit, x.what))
	}
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
}
