package pacer_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/stacks"
	"github.com/headway-go/headway/pacer/memstore"
)

// extentOfStacks returns how many stacks are played, and about how many calls go in each.
func extentOfStacks() (n, calls int) { return extent(3, 200), extent(600, 1500) }

// played plays a stack on a memory store, in virtual time.
func played(t *testing.T, s *stacks.Stack, lasts time.Duration) (w *stacks.Show) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var fleet []*pacer.Pacer
		for range s.Processes {
			fleet = append(fleet, newPacer(t, pacer.Config{Store: store, Policies: s.Policies(), MaxWait: pacer.Forever}))
		}
		w = s.Play(t, fleet, lasts)
		for _, p := range fleet {
			require.NoError(t, p.Close())
		}
	})
	return w
}

// promisedReach is how far ahead processes hold slots of a store that is near.
const promisedReach = 40 * ms

// figures are the used part of some stacks.
type figures struct {
	mu   sync.Mutex
	used map[stacks.Class][]float64
}

func (f *figures) note(class stacks.Class, used float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.used == nil {
		f.used = make(map[stacks.Class][]float64)
	}
	f.used[class] = append(f.used[class], used)
}

// log logs the figures of a class and returns its mean.
func (f *figures) log(t *testing.T, class stacks.Class) (mean float64) {
	t.Helper()
	used := f.used[class]
	if len(used) == 0 {
		return 1
	}
	slices.Sort(used)
	low := 0
	for _, one := range used {
		mean += one / float64(len(used))
		if one < leastUsed {
			low++
		}
	}
	t.Logf("%-6s: %3d stacks: %.2f %% of what any schedule can send on average, %.2f %% at least; %d below %.1f %%", class, len(used), 100*mean, 100*used[0], low, 100*leastUsed)
	return mean
}

// judge logs the figures of all classes, and judges their means.
func (f *figures) judge(t *testing.T) {
	t.Helper()
	for _, class := range []stacks.Class{stacks.Plain, stacks.Strict, stacks.Permits} {
		require.GreaterOrEqual(t, f.log(t, class), meanUsed, class)
	}
}

const (
	// leastUsed is how much of what any schedule can send goes at least, in each stack.
	leastUsed = 0.985
	// leastStrict is the same if a shared rate has a burst of 1: gaps shorter than its interval are of no use, and it may take some seconds
	// until slots of different tenants leave none.
	leastStrict = 0.96
	// meanUsed is how much goes on average.
	meanUsed = 0.99
)

// Of what any schedule could send, next to nothing is lost, whatever the limits and the callers are; no limit is ever broken; and a caller
// without a queue waits for slots and not for the queues of others.
func TestRandomStacks(t *testing.T) {
	t.Parallel()
	n, calls := extentOfStacks()
	var all figures
	var rates, windows, tight newcomers
	var group sync.WaitGroup
	gate := make(chan struct{}, 2)
	for seed := range uint64(n) {
		gate <- struct{}{}
		group.Go(func() {
			defer func() { <-gate }()
			s := stacks.Random(seed + 1)
			w := played(t, s, s.Lasts(calls))
			if broken := w.Broken(); broken != "" {
				t.Error(broken)
			}
			used := w.Used()
			all.note(s.Class, used)
			if used > 1 {
				t.Errorf("%v: %.2f %% of the optimum, which is none", s, 100*used)
			}
			if used < leastUsed {
				t.Logf("%.2f %% of %v", 100*used, s)
			}
			least := leastUsed
			if s.Class == stacks.Strict {
				least = leastStrict
			}
			if used < least {
				t.Errorf("%v: %.2f %% of what any schedule can send, want %.1f %%", s, 100*used, 100*least)
			}
			switch waited := w.Newcomers(promisedReach); {
			case s.Class == stacks.Permits:
			case s.Class == stacks.Strict:
				tight.note(s, waited)
			case s.Windowed():
				windows.note(s, waited)
			default:
				rates.note(s, waited)
			}
		})
	}
	group.Wait()
	all.judge(t)
	for where, s := range map[string]*newcomers{"where rates are shared": &rates, "where windows are shared": &windows} {
		s.log(t, where)
		for _, one := range s.beyond {
			t.Error(one)
		}
	}
	tight.log(t, "where a rate of burst 1 is shared")
}

// newcomers are calls of those who have no line of their own.
type newcomers struct {
	mu     sync.Mutex
	all    []stacks.Newcomer
	beyond []string
}

func (s *newcomers) note(of *stacks.Stack, calls []stacks.Newcomer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, calls...)
	worst := stacks.Newcomer{}
	n := 0
	for _, one := range calls {
		if over := one.Waited - one.Promise; over > 0 {
			if n++; over > worst.Waited-worst.Promise || n == 1 {
				worst = one
			}
		}
	}
	if n > 0 {
		s.beyond = append(s.beyond, fmt.Sprintf("%d of %d calls wait too long, at most %v instead of %v: %v", n, len(calls), worst.Waited, worst.Promise, of))
	}
}

func (s *newcomers) log(t *testing.T, where string) {
	t.Helper()
	if len(s.all) == 0 {
		return
	}
	slices.SortFunc(s.all, func(a, b stacks.Newcomer) int { return int(a.Waited - b.Waited) })
	at := func(q float64) time.Duration {
		return s.all[int(q*float64(len(s.all)-1))].Waited.Round(time.Millisecond)
	}
	part := 0.0
	for _, one := range s.all {
		part = max(part, float64(one.Waited)/float64(one.Promise))
	}
	t.Logf("%d calls of newcomers %s wait %v (p50), %v (p99), %v (most), at most %.0f %% of what they may", len(s.all), where, at(0.5), at(0.99), at(1), 100*part)
	for _, one := range s.beyond {
		t.Log(one)
	}
}

// One tenant alone has all of its own limit.
func TestATenantAlone(t *testing.T) {
	t.Parallel()
	n, calls := extentOfStacks()
	var all figures
	for seed := range uint64(n) {
		s := stacks.Random(seed + 1).Alone()
		w := played(t, s, s.Lasts(calls))
		require.Empty(t, w.Broken())
		used := w.Used()
		all.note(s.Class, used)
		if used < leastUsed || used > 1 {
			t.Errorf("%v: %.2f %% of what one tenant can send", s, 100*used)
		}
	}
	all.judge(t)
}
