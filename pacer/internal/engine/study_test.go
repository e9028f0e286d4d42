package engine_test

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies"
)

// The study answers what a limit that tenants share is worth when all of them are queued: how much of it is used, and how
// long somebody waits who calls now and then. Time is virtual, there is no store and no network, and seeds are fixed.
//
// Deep tenants always have a call that could go. As a Pacer does, each process holds slots only up to ahead in the future, and
// always one. It asks for the next one up to late after it could, so that slots come at uneven times.
const (
	ahead = 40 * time.Millisecond
	late  = 15 * time.Millisecond
	// processes is how many each deep tenant has.
	processes = 3
	warmUp    = 10 * time.Second
	length    = 60 * time.Second
)

// A world is one upstream in virtual time.
type world struct {
	list     []policies.Policy
	accounts map[string]engine.Account
	rng      *rand.Rand
	ahead    time.Duration // how far ahead its processes hold slots
	now      int64
	turns    turns
	went     []gone
}

// gone is a call that went, or is to go.
type gone struct {
	tenant        string
	requested, at int64
}

type turn struct {
	at, seq int64
	do      func()
}

type turns []turn

func (t *turns) Len() int { return len(*t) }
func (t *turns) Less(i, j int) bool {
	return cmp.Or(cmp.Compare((*t)[i].at, (*t)[j].at), cmp.Compare((*t)[i].seq, (*t)[j].seq)) < 0
}
func (t *turns) Swap(i, j int) { (*t)[i], (*t)[j] = (*t)[j], (*t)[i] }
func (t *turns) Push(x any)    { *t = append(*t, x.(turn)) }
func (t *turns) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// studied is when a study begins, in store time.
const studied = 1_735_689_600_000_000

func newWorld(seed uint64, list ...policies.Policy) *world {
	return &world{
		list: policies.Stacked(list), accounts: make(map[string]engine.Account),
		rng: rand.New(rand.NewPCG(seed, 3)), ahead: ahead, now: studied,
	}
}

func (w *world) at(t int64, do func()) {
	heap.Push(&w.turns, turn{max(t, w.now), w.rng.Int64(), do}) // who comes at the same time comes in any order
}

func (w *world) run() {
	for len(w.turns) > 0 {
		t := heap.Pop(&w.turns).(turn)
		if t.at > studied+length.Microseconds() {
			return
		}
		w.now = t.at
		t.do()
	}
}

// stack returns the limits of a tenant.
func (w *world) stack(tenant string) []engine.Entry {
	var stack []engine.Entry
	for _, p := range w.list {
		name := p.Name()
		if len(p.Scopes()) > 0 {
			name += ":" + tenant
		}
		spec := p.Spec()
		if w.accounts[name] == nil {
			w.accounts[name] = engine.NewAccount(spec.Algorithm)
		}
		stack = append(stack, engine.Entry{Account: w.accounts[name], Limit: engine.Limit{Spec: &spec}})
	}
	return stack
}

// call makes one call, and returns when it goes.
func (w *world) call(tenant string) int64 {
	g, _ := engine.Reserve(w.now, 0, w.stack(tenant), engine.Call{Cost: 1, MaxWait: 1 << 50}, nil)
	w.went = append(w.went, gone{tenant, w.now, g.At})
	return g.At
}

// deep has a tenant call for as long as the world lasts, and as often as it may.
func (w *world) deep(tenant string, from time.Duration) {
	var next func()
	next = func() {
		w.at(max(w.now, w.call(tenant)-w.ahead.Microseconds())+w.rng.Int64N(late.Microseconds()), next)
	}
	w.at(studied+from.Microseconds(), next)
}

// light has a tenant call now and then.
func (w *world) light(tenant string, every time.Duration) {
	var next func()
	next = func() {
		w.call(tenant)
		w.at(w.now+1+w.rng.Int64N(2*every.Microseconds()), next)
	}
	w.at(studied+every.Microseconds(), next)
}

// rate returns how many calls of a tenant, or of all, went per second after the start.
func (w *world) rate(tenant string) float64 {
	n := 0
	for _, g := range w.went {
		if at := g.at - studied; at >= warmUp.Microseconds() && at < length.Microseconds() && (tenant == "" || g.tenant == tenant) {
			n++
		}
	}
	return float64(n) / (length - warmUp).Seconds()
}

// wait returns how long a part of a tenant's calls waited at most.
func (w *world) wait(tenant string, part float64) time.Duration {
	var waits []int64
	for _, g := range w.went {
		if g.tenant == tenant {
			waits = append(waits, g.at-g.requested)
		}
	}
	slices.Sort(waits)
	if len(waits) == 0 {
		return 0
	}
	return time.Duration(waits[int(part*float64(len(waits)-1))]) * time.Microsecond
}

// judge returns how the calls that went break a policy, by its definition.
func (w *world) judge(p policies.Policy) string {
	times := make(map[string][]int64)
	for _, g := range w.went {
		key := ""
		if len(p.Scopes()) > 0 {
			key = g.tenant
		}
		times[key] = append(times[key], g.at)
	}
	n, period := p.Limit()
	for key, all := range times {
		slices.Sort(all)
		for i := int64(0); p.Spec().Most > 0 && i+n < int64(len(all)); i++ {
			if all[i+n]-all[i] < (period + policies.DefaultSkew).Microseconds() {
				return fmt.Sprintf("%v, %q: %d calls in %d µs", p, key, n+1, all[i+n]-all[i])
			}
		}
	}
	return ""
}

// capacity returns how many calls per second a policy admits.
func capacity(p policies.Policy) float64 { return 1e6 / float64(p.Spec().Interval) }

// Of a limit that deep tenants share, next to nothing is lost, and who calls now and then waits for some slots and not for
// the whole queue.
func TestSharedLimitsAreUsed(t *testing.T) {
	t.Parallel()
	second := time.Second
	for _, c := range []struct {
		name string
		list []policies.Policy
		deep int
		used float64 // at least
	}{
		{"AtMost 100 + 30", []policies.Policy{policies.AtMost(100, second), policies.AtMost(30, second).Per("tenant")}, 3, 0.99},
		{"AtMost 100 + 30", []policies.Policy{policies.AtMost(100, second), policies.AtMost(30, second).Per("tenant")}, 6, 0.99},
		{"AtMost 5 + 2", []policies.Policy{policies.AtMost(5, second), policies.AtMost(2, second).Per("tenant")}, 3, 0.985},
		{"AtMost 50 + 7", []policies.Policy{policies.AtMost(50, second), policies.AtMost(7, second).Per("tenant")}, 12, 0.985},
		{"AtMost 300 + 70", []policies.Policy{policies.AtMost(300, second), policies.AtMost(70, second).Per("tenant")}, 6, 0.985},
		{"5 + 2", []policies.Policy{policies.PerSecond(5), policies.PerSecond(2).Per("tenant")}, 3, 0.985},
		{"100 + 30", []policies.Policy{policies.PerSecond(100), policies.PerSecond(30).Per("tenant")}, 3, 0.985},
		{"100 + 30", []policies.Policy{policies.PerSecond(100), policies.PerSecond(30).Per("tenant")}, 6, 0.985},
		{"7 + 3", []policies.Policy{policies.PerSecond(7), policies.PerSecond(3).Per("tenant")}, 3, 0.985},
		{"50 + 7", []policies.Policy{policies.PerSecond(50), policies.PerSecond(7).Per("tenant")}, 12, 0.985},
		{"100 + 10", []policies.Policy{policies.PerSecond(100), policies.PerSecond(10).Per("tenant")}, 10, 0.985},
		{"AtMost 50 alone", []policies.Policy{policies.AtMost(50, second)}, 4, 0.985},
		{"AtMost 50 alone, burst 10", []policies.Policy{policies.AtMost(50, second).Burst(10)}, 4, 0.985},
	} {
		for _, lit := range []bool{false, true} {
			for _, deep := range []int{c.deep, 1} {
				w := newWorld(1, c.list...)
				for i := range deep * processes {
					w.deep(fmt.Sprint("deep-", i%deep), time.Duration(i)*17*time.Millisecond)
				}
				if lit {
					w.light("light", second)
				}
				w.run()
				most := capacity(w.list[0])
				if len(w.list) > 1 {
					most = min(most, float64(deep)*capacity(w.list[1]))
				}
				if most == capacity(w.list[0]) {
					most -= w.rate("light")
				}
				used, p50, p99 := (w.rate("")-w.rate("light"))/most, w.wait("light", 0.5), w.wait("light", 0.99)
				t.Logf("%-26s %2d deep: %5.1f/s, %5.1f %% used; light: p50 %v, p99 %v", c.name, deep, w.rate(""), 100*used, p50, p99)
				for _, p := range w.list {
					if broken := w.judge(p); broken != "" {
						t.Error(broken)
					}
				}
				if used < c.used {
					t.Errorf("%s, %d deep, lit %v: %.1f %% used, want %.1f", c.name, deep, lit, 100*used, 100*c.used)
				}
				// A process that asks ahead of its slot gets the next one behind those that the others hold. So each of them
				// holds one, besides those that go within ahead.
				longest := ahead + late + time.Duration(float64(deep*processes+3)/capacity(w.list[0])*1e9)
				if lit && p50 > longest {
					t.Errorf("%s, %d deep: a light tenant waits %v, want at most %v", c.name, deep, p50, longest)
				}
			}
		}
	}
}

// If processes held the slots of all calls that wait, a tenant who calls now and then would wait behind all of them: that is why they hold
// only those of the next moments.
func TestFarSlotsAreInTheWayOfOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		list []policies.Policy
		deep int
	}{
		"5 + 2":             {[]policies.Policy{policies.PerSecond(5), policies.PerSecond(2).Per("tenant")}, 3},
		"100 + 30":          {[]policies.Policy{policies.PerSecond(100), policies.PerSecond(30).Per("tenant")}, 6},
		"AtMost 100 + 30":   {[]policies.Policy{policies.AtMost(100, time.Second), policies.AtMost(30, time.Second).Per("tenant")}, 6},
		"AtMost 300 + 70":   {[]policies.Policy{policies.AtMost(300, time.Second), policies.AtMost(70, time.Second).Per("tenant")}, 6},
		"100 + 30, burst 1": {[]policies.Policy{policies.PerSecond(100).Burst(1), policies.PerSecond(30).Per("tenant")}, 6},
	} {
		waits := make(map[time.Duration]time.Duration)
		for _, far := range []time.Duration{ahead, 30 * time.Second} {
			w := newWorld(1, c.list...)
			w.ahead = far
			for i := range c.deep * processes {
				w.deep(fmt.Sprint("deep-", i%c.deep), time.Duration(i)*17*time.Millisecond)
			}
			w.light("light", time.Second)
			w.run()
			waits[far] = w.wait("light", 0.5)
			t.Logf("%-17s %2d deep, slots held %4v ahead: %5.1f/s; light: p50 %v, p99 %v", name, c.deep, far, w.rate(""), waits[far], w.wait("light", 0.99))
		}
		if waits[30*time.Second] < 5*waits[ahead] {
			t.Errorf("%s: a light tenant waits %v, and %v behind far slots", name, waits[ahead], waits[30*time.Second])
		}
	}
}
