package stacks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/inside"
)

// A Show is the result of a stack.
type Show struct {
	*Stack

	tb       testing.TB
	mu       sync.Mutex
	from, to int64
	went     []sent
	demands  []demand
}

// Play runs a stack's tenants through some pacers, which share a store. It begins with a window of the longest kind.
func (s *Stack) Play(tb testing.TB, fleet []*pacer.Pacer, lasts time.Duration) *Show {
	tb.Helper()
	w := &Show{Stack: s, tb: tb}
	if whole := s.whole(); whole > 0 {
		time.Sleep(whole - time.Duration(time.Now().UnixNano()%int64(whole)))
	}
	w.from = time.Now().UnixMicro()
	w.to = w.from + lasts.Microseconds()
	ctx, cancel := context.WithCancel(tb.Context())
	var all sync.WaitGroup
	for i := range w.deep {
		w.demands = append(w.demands, demand{deep: true})
		for j := range len(fleet) * w.callers {
			all.Go(func() {
				for w.call(ctx, fleet[j%len(fleet)], fmt.Sprint("deep-", i)) {
				}
			})
		}
	}
	for i, every := range w.light {
		all.Go(func() { w.now(ctx, fleet[i%len(fleet)], i, every, &all) })
	}
	if w.newcomer > 0 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(w.seed, 99))
			for wait(ctx, rand.N(2*w.newcomer)) == nil && w.call(ctx, fleet[r.IntN(len(fleet))], newcomer) {
			}
		})
	}
	_ = wait(ctx, time.Until(time.UnixMicro(w.to)))
	cancel()
	all.Wait()
	w.ends()
	return w
}

// newcomer is the tenant without a queue.
const newcomer = "newcomer"

// whole returns the longest window of the clock; 0 if there is none.
func (s *Stack) whole() (d time.Duration) {
	for _, b := range s.bounds {
		if b.kind == fixed {
			d = max(d, b.period)
		}
	}
	return d
}

// ends makes demands of the calls of tenants that are not deep, and drops calls after the end.
func (w *Show) ends() {
	comes := make(map[string][]int64)
	for _, c := range w.went {
		if !strings.HasPrefix(c.tenant, "deep") && c.requested < w.to {
			comes[c.tenant] = append(comes[c.tenant], c.requested)
		}
	}
	for _, at := range comes {
		slices.Sort(at)
		w.demands = append(w.demands, demand{comes: at})
	}
	w.went = slices.DeleteFunc(w.went, func(c sent) bool { return c.at == 0 || c.at >= w.to })
	slices.SortFunc(w.went, func(a, b sent) int { return int(a.at - b.at) })
}

// now makes a light tenant call now and then.
func (w *Show) now(ctx context.Context, p *pacer.Pacer, i int, every time.Duration, all *sync.WaitGroup) {
	r := rand.New(rand.NewPCG(w.seed, uint64(i))) //nolint:gosec // i counts tenants
	for wait(ctx, time.Duration(r.Int64N(int64(2*every)))) == nil {
		all.Go(func() { w.call(ctx, p, fmt.Sprint("light-", i)) })
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// call makes one call. It returns false at the end.
func (w *Show) call(ctx context.Context, p *pacer.Pacer, tenant string) bool {
	c := sent{tenant: tenant, requested: time.Now().UnixMicro()}
	r, err := p.Acquire(ctx, pacer.Scope("tenant", tenant))
	if err == nil {
		slot, _ := inside.Slot(r)
		c.slot, c.at = int64(slot), time.Now().UnixMicro()
		if c.at < c.slot {
			w.tb.Errorf("%v: a call went at %d, before its slot, %d", w.Stack, c.at, c.slot)
		}
		if w.takes > 0 {
			time.Sleep(w.takes)
			c.until = time.Now().UnixMicro()
		}
		r.Release()
	} else if ctx.Err() == nil {
		w.tb.Errorf("%v: %v", w.Stack, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.went = append(w.went, c)
	return err == nil
}

// Calls returns how many calls went.
func (w *Show) Calls() int { return len(w.went) }

// Broken returns how the calls break a limit; "" if they do not.
func (w *Show) Broken() string {
	for i := range w.bounds {
		if why := w.bounds[i].breach(w.went); why != "" {
			return fmt.Sprintf("%v: %s", w.Stack, why)
		}
	}
	return ""
}

// Used returns the sent part of what any schedule could send. Tenants may send in the course of a window what can go at its start, so it is
// the best of the parts up to several instants in the last tenth.
func (w *Show) Used() float64 {
	const ends, parts = 6, 50
	best := 0.0
	for i := range int64(ends) {
		to := w.to - (w.to-w.from)*i/parts
		n, _ := slices.BinarySearchFunc(w.went, to, func(c sent, at int64) int { return int(c.at - at) })
		best = max(best, float64(n)/float64(max(1, optimum(w.bounds, w.demands, w.from, to))))
	}
	return best
}

// A Newcomer is a call of a tenant without a queue.
type Newcomer struct {
	Waited  time.Duration // beyond its own limits
	Promise time.Duration // the longest that it may
}

// Newcomers returns how long the calls of the tenant without a queue waited, and how long they may: the reach, a call for each queue and
// two more, and the burst of the limit that all share; for a window, also its period. Deep tenants have a queue in each process, and others
// one each.
func (w *Show) Newcomers(reach time.Duration) (calls []Newcomer) {
	each, burst, turn := int64(0), int64(0), int64(0)
	for i := range w.bounds {
		switch b := &w.bounds[i]; {
		case b.perTenant:
		case b.kind == sliding:
			turn = max(turn, b.interval()*b.n)
		case b.kind == fixed:
			turn = max(turn, (b.period + b.skew).Microseconds())
		default:
			each, burst = max(each, b.interval()), max(burst, b.bursts())
		}
	}
	queues := int64(w.deep*w.Processes + len(w.light))
	promise := reach + time.Duration((queues+2+burst)*each+turn)*time.Microsecond
	own := barriersOf(w.bounds, true)
	for _, c := range w.went {
		if c.tenant == newcomer {
			due := own.open(c.requested)
			for _, one := range own {
				one.pass(c.at)
			}
			calls = append(calls, Newcomer{time.Duration(c.at-due) * time.Microsecond, promise})
		}
	}
	return calls
}

// Windowed reports whether tenants share a window: a call that finds it full waits for its period.
func (s *Stack) Windowed() bool {
	return slices.ContainsFunc(s.bounds, func(b bound) bool { return !b.perTenant && (b.kind == sliding || b.kind == fixed) })
}

// Alone leaves one of the deep tenants.
func (s *Stack) Alone() *Stack {
	one := *s
	one.deep, one.light, one.newcomer = 1, nil, 0
	return &one
}

// DeepOnly leaves the deep tenants.
func (s *Stack) DeepOnly() *Stack {
	some := *s
	some.light, some.newcomer = nil, 0
	return &some
}
