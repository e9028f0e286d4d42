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

// registrar is a store that is slow to record reports of processes, and sometimes fails.
type registrar struct {
	*remote

	mu       sync.Mutex
	received int
	went     int64
}

func (r *registrar) Describe(_ context.Context, _ string, about store.About) (int, error) {
	time.Sleep(200 * ms)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.received++; r.received%3 == 0 {
		return 0, errBroken
	}
	for i := range about.Went {
		r.went += about.Went[i].What.Cost
	}
	return 1, nil
}

func (*registrar) Index(context.Context, string) (*store.Index, error) { return nil, errBroken }

func (*registrar) Upstreams(context.Context) ([]string, error) { return nil, errBroken }

// Each start is reported once, even if it is long after its slot, while the second of that slot is being reported.
func TestWhatGoesLateIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &registrar{remote: newRemote(1)}
		p, err := pacer.New(pacer.Config{
			Upstream: "test", Store: store, Policies: []policies.Policy{policies.PerSecond(20)}, MaxLate: 10 * time.Second,
		})
		require.NoError(t, err)
		const calls = 400
		var wg sync.WaitGroup
		for range calls {
			r, err := p.Reserve(t.Context())
			require.NoError(t, err)
			wg.Go(func() {
				time.Sleep(r.Delay() + 900*ms)
				require.NoError(t, r.Wait(t.Context()))
			})
			time.Sleep(50 * ms)
		}
		wg.Wait()
		time.Sleep(20 * time.Second)
		store.mu.Lock()
		require.Greater(t, store.received, 6)
		require.Equal(t, int64(calls), store.went)
		store.mu.Unlock()
		require.NoError(t, p.Close())
	})
}
