package pacer_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A second Release has nothing to do with the call that its permit was passed on to.
func TestAPlaceThatWasPassedOnIsNotReleasedByItsFirstOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFarAway()
		f.goes(60 * ms)
		p := f.pacer(t, policies.InFlight(1).Named("permits"))
		defer closing(t, p)
		first, err := p.Acquire(t.Context())
		require.NoError(t, err)
		var running, most int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				r, err := p.Acquire(t.Context())
				require.NoError(t, err)
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				running--
				mu.Unlock()
				r.Release()
			})
		}
		time.Sleep(500 * ms) // both queue
		first.Release()
		synctest.Wait()
		mu.Lock()
		require.Equal(t, 1, running, "it was passed on at once")
		mu.Unlock()
		first.Release()
		wg.Wait()
		require.Equal(t, 1, most)
	})
}

// A call that leaves the queue while it is asked for does so as soon as the answer is there, and leaves nothing charged.
func TestACallThatLeavesWhileItIsRequested(t *testing.T) {
	t.Parallel()
	for _, rate := range []int64{5, 100} {
		synctest.Test(t, func(t *testing.T) {
			f := newFarAway()
			f.goes(50 * ms)
			p := f.pacer(t, policies.PerSecond(rate).Burst(1), policies.Fixed(1000, 24*time.Hour).Named("day"))
			defer closing(t, p)
			var mu sync.Mutex
			var wg sync.WaitGroup
			went := int64(0)
			for i := range 40 {
				ctx, cancel := context.WithCancel(t.Context())
				ends := time.Now().Add(time.Duration(i) * 11 * ms)
				if i%2 > 0 {
					time.AfterFunc(time.Until(ends), cancel)
				}
				wg.Go(func() {
					defer cancel()
					if err := p.Wait(ctx); err != nil {
						require.ErrorIs(t, err, context.Canceled)
						require.LessOrEqual(t, time.Since(ends), 200*ms)
						return
					}
					mu.Lock()
					went++
					mu.Unlock()
				})
				synctest.Wait()
			}
			wg.Wait()
			time.Sleep(time.Second)
			require.Equal(t, 1000-went, statusOf(t, p, "day").Remaining)
		})
	}
}

// Release may come at any time, from any goroutine: also while another one waits for the permit.
func TestReleaseWhileAnotherGoroutineWaits(t *testing.T) {
	t.Parallel()
	p := newPacer(t, limits(policies.InFlight(1).Named("permits")))
	defer p.Close()
	for range 200 {
		hold, err := p.Acquire(t.Context())
		require.NoError(t, err)
		r, err := p.Reserve(t.Context())
		require.NoError(t, err)
		var wg sync.WaitGroup
		wg.Go(func() { assert.NoError(t, r.Wait(t.Context())) })
		wg.Go(hold.Release)
		wg.Go(func() {
			r.Release()
			r.WhileAlive(func() bool { return true })
		})
		wg.Wait()
		r.Release()
	}
	require.Equal(t, int64(1), statusOf(t, p, "permits").Remaining)
}

// slowRelease is a shared store on top of one in memory, whose answers to releases take their time.
type slowRelease struct {
	*memstore.Store
	store.Shared
}

func (s *slowRelease) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	return s.Store.Reserve(ctx, stack, calls, grants)
}

func (s *slowRelease) ReserveAll(ctx context.Context, batches []store.Batch) error {
	return s.Reserve(ctx, batches[0].Stack, batches[0].Calls, batches[0].Grants)
}

func (s *slowRelease) Cancel(ctx context.Context, stack store.Stack, grants []store.Grant) error {
	return s.Store.Cancel(ctx, stack, grants)
}

func (s *slowRelease) Status(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	return s.Store.Status(ctx, stack)
}

func (s *slowRelease) Report(ctx context.Context, stack store.Stack, notes []store.Note) (store.Instant, int, error) {
	time.Sleep(100 * ms)
	return s.Store.Report(ctx, stack, notes)
}

func (s *slowRelease) Heartbeat(context.Context, string, store.Heartbeat) (store.Membership, error) {
	return store.Membership{Now: s.Now(), Epoch: store.Epoch{Began: 1000}, Alive: 1}, nil
}

func (*slowRelease) Fault(error) store.Fault { return store.Unreachable }

// Release does not wait for a store that others share, whatever that is built on.
func TestReleaseDoesNotWaitForASharedStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := pacer.New(pacer.Config{Upstream: "api", Store: &slowRelease{Store: memstore.New()}, Policies: []policies.Policy{policies.InFlight(1)}})
		require.NoError(t, err)
		r, err := p.Acquire(t.Context())
		require.NoError(t, err)
		start := time.Now()
		r.Release()
		require.Zero(t, time.Since(start))
		require.NoError(t, p.Close())
	})
}
