package bench_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
)

// A scene is calls that a real Pacer paces, in virtual time: the same each time, on any machine.
type scene struct {
	t     *testing.T
	p     *pacer.Pacer
	store *memstore.Store
	began time.Time

	mu    sync.Mutex
	calls []*played
	wg    sync.WaitGroup
}

// A played call is what became of one.
type played struct {
	who              string
	asks, goes, over time.Duration // since the start of the scene
	slot             time.Duration // that its reservation got
	went             bool
}

// perform plays a scene of an upstream with these policies, and returns its calls in the order of their requests.
func perform(t *testing.T, stack []policies.Policy, script func(*scene)) []*played {
	t.Helper()
	var s scene
	synctest.Test(t, func(t *testing.T) {
		s = scene{t: t, store: memstore.New(), began: time.Now()}
		s.p = s.pacer(stack...)
		script(&s)
		s.wg.Wait()
		require.NoError(t, s.p.Close())
	})
	return s.calls
}

// pacer returns a Pacer for the scene's store. Jitter is drawn at random, and so turned off.
func (s *scene) pacer(stack ...policies.Policy) *pacer.Pacer {
	p, err := pacer.New(pacer.Config{Upstream: "api", Store: s.store, Policies: stack, MaxWait: pacer.Forever, Jitter: pacer.NoJitter})
	require.NoError(s.t, err)
	return p
}

// at sleeps until so long after the start.
func (s *scene) at(d time.Duration) { time.Sleep(d - s.now()) }

func (s *scene) now() time.Duration { return time.Since(s.began) }

// ask makes calls, one after the other at the same instant. Each waits for its turn and then runs for a time.
func (s *scene) ask(n int, who string, runs time.Duration, opts ...pacer.Option) {
	s.askUntil(context.Background(), n, who, runs, opts...)
}

// askUntil is for calls that are given up when the context ends.
func (s *scene) askUntil(ctx context.Context, n int, who string, runs time.Duration, opts ...pacer.Option) {
	opts = append(slices.Clone(opts), pacer.Scope("tenant", who))
	for range n {
		c := &played{who: who, asks: s.now()}
		s.calls = append(s.calls, c)
		s.wg.Go(func() { s.run(ctx, c, runs, opts) })
		synctest.Wait() // until it sleeps, or runs
	}
}

func (s *scene) run(ctx context.Context, c *played, runs time.Duration, opts []pacer.Option) {
	// Acquire, but that what was given at first is of interest.
	r, err := s.p.Reserve(ctx, opts...)
	if err != nil {
		return
	}
	slot := s.now() + r.Delay()
	if r.Wait(ctx) != nil {
		return
	}
	goes := s.now()
	time.Sleep(runs)
	r.Release()
	s.mu.Lock()
	defer s.mu.Unlock()
	c.slot, c.goes, c.over, c.went = slot, goes, s.now(), true
}

// of returns the calls of one.
func of(calls []*played, who string) []*played {
	return slices.DeleteFunc(slices.Clone(calls), func(c *played) bool { return c.who != who })
}

// went returns when calls went, in order.
func went(calls []*played) []time.Duration {
	var all []time.Duration
	for _, c := range calls {
		if c.went {
			all = append(all, c.goes)
		}
	}
	slices.Sort(all)
	return all
}
