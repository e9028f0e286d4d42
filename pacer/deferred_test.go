package pacer_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// brief is a store that decides so many calls of a request, and leaves the others to the next one.
type brief struct {
	*remote

	decides   int
	fails     int // which request fails; 0 for none
	requested []int
}

func (b *brief) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	return b.ReserveAll(ctx, []store.Batch{{Stack: stack, Calls: calls, Grants: grants}})
}

func (b *brief) ReserveAll(ctx context.Context, batches []store.Batch) error {
	all, left := 0, b.decides
	for i := range batches {
		all += len(batches[i].Calls)
	}
	b.mu.Lock()
	b.requested = append(b.requested, all)
	fails := len(b.requested) == b.fails
	b.mu.Unlock()
	if fails {
		time.Sleep(20 * time.Millisecond)
		return errBroken
	}
	for i := range batches {
		one := batches[i]
		n := min(left, len(one.Calls))
		for j := n; j < len(one.Grants); j++ {
			one.Grants[j] = store.Grant{Deferred: true}
		}
		if left -= n; n == 0 {
			continue
		}
		one.Calls, one.Grants = one.Calls[:n], one.Grants[:n]
		if err := b.remote.ReserveAll(ctx, []store.Batch{one}); err != nil {
			return err
		}
	}
	return nil
}

// Calls that a store defers are sent again, before later ones, in requests no larger than the store decides.
func TestWhatIsDeferredIsRequestedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &brief{remote: newRemote(1), decides: 1000}
		p, err := pacer.New(pacer.Config{Upstream: "api", Store: b, Outage: pacer.RefuseCalls, Policies: []policies.Policy{policies.PerSecond(10).Burst(1)}})
		require.NoError(t, err)
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		b.set(nil, 40*time.Millisecond)
		b.decides, b.requested = 20, nil
		var wg sync.WaitGroup
		var mu sync.Mutex
		slots := make(map[time.Duration]bool)
		start := time.Now()
		for range 100 {
			wg.Go(func() {
				r, err := p.Reserve(t.Context(), pacer.MaxWait(pacer.Forever))
				require.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				slots[time.Since(start)+r.Delay()] = true
			})
		}
		wg.Wait()
		require.Len(t, slots, 100, "each has a slot of its own")
		for at := range slots {
			require.LessOrEqual(t, at, 10_100*time.Millisecond, "and none of them is lost")
		}
		require.Equal(t, []int{1, 99, 20, 25, 20, 19}, b.requested)
	})
}

// If the rest of some calls that one caller wants to have fails, what the first ones got is given back.
func TestWhatIsDeferredFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &brief{remote: newRemote(1), decides: 1000}
		p, err := pacer.New(pacer.Config{
			Upstream: "api", Store: b, Outage: pacer.RefuseCalls, Policies: []policies.Policy{policies.PerSecond(10).Burst(10)},
		})
		require.NoError(t, err)
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		time.Sleep(time.Second)
		b.set(nil, 10*time.Millisecond)
		b.decides, b.requested, b.fails = 3, nil, 3
		var wg sync.WaitGroup
		for range 6 { // one, and then those that wait for it in one request
			wg.Go(func() {
				if err := p.Wait(t.Context()); err != nil {
					require.ErrorIs(t, err, store.ErrUnreachable)
				}
			})
		}
		wg.Wait()
		require.Equal(t, []int{1, 5, 2}, b.requested[:3])
		time.Sleep(time.Second)
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(10), s.Policies[0].Remaining)
		require.Zero(t, s.Policies[0].Backlog)
	})
}
