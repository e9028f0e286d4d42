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
