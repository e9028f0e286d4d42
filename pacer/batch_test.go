package pacer_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// requests returns the requests since its last call: for each one, how many calls of each stack.
func (r *remote) requests() [][]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.sent
	r.sent = nil
	return sent
}

// batchingPacer is a Pacer whose store takes 40 ms for an operation.
func batchingPacer(t *testing.T, list ...policies.Policy) (*remote, *pacer.Pacer) {
	t.Helper()
	r := newRemote(1)
	p := away(t, r, pacer.RefuseCalls, list...)
	require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "first")))
	r.set(nil, 40*time.Millisecond)
	r.requests()
	return r, p
}

// waits lets calls of some tenants wait, each in a goroutine, and waits until they have begun.
func waits(t *testing.T, wg *sync.WaitGroup, p *pacer.Pacer, tenants ...string) {
	t.Helper()
	for _, tenant := range tenants {
		wg.Go(func() { require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", tenant))) })
	}
	synctest.Wait()
}

func times(n int, s string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = s
	}
	return all
}

// Calls of a batch keep their position in the queue, their cost and their own MaxWait.
func TestBatchedCallsAreThemselves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, p := batchingPacer(t, policies.PerSecond(10).Burst(3))
		defer closing(t, p)
		time.Sleep(time.Second) // the burst is whole again
		var wg sync.WaitGroup
		waits(t, &wg, p, "first")
		type outcome struct {
			delay time.Duration
			err   error
		}
		outcomes := make([]outcome, 4)
		for i, opts := range [][]pacer.Option{{pacer.Cost(2)}, {}, {pacer.MaxWait(150 * time.Millisecond)}, {}} {
			wg.Go(func() {
				res, err := p.Reserve(t.Context(), opts...)
				if outcomes[i].err = err; err == nil {
					outcomes[i].delay = res.Delay()
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, [][]int{{1}, {4}}, r.requests())
		require.Zero(t, outcomes[0].delay)
		require.Equal(t, outcome{delay: 60 * time.Millisecond}, outcomes[1], "100 ms after the first, which went 40 ms ago")
		require.ErrorIs(t, outcomes[2].err, pacer.ErrNotYet)
		require.Equal(t, outcomes[1].delay+100*time.Millisecond, outcomes[3].delay)
	})
}

// Answers to calls take the place of heartbeats.
func TestCallsSpareTheHeartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, p := batchingPacer(t, policies.PerSecond(10))
		defer closing(t, p)
		r.set(nil, 0)
		time.Sleep(10 * time.Second)
		before := len(r.received())
		var wg sync.WaitGroup
		for range 40 {
			waits(t, &wg, p, "a")
			time.Sleep(50 * time.Millisecond)
		}
		require.LessOrEqual(t, len(r.received())-before, 1, "in two seconds with a line")
		wg.Wait()
	})
}

// One stack whose keys hold something else does not harm those that went with it.
func TestOneBadStackHarmsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, p := batchingPacer(t, policies.PerSecond(1000).Burst(1000).Per("tenant"))
		defer closing(t, p)
		r.mu.Lock()
		r.spoiled = "bad"
		r.mu.Unlock()
		var wg sync.WaitGroup
		waits(t, &wg, p, "a", "b", "c", "d")
		wg.Go(func() { require.ErrorIs(t, p.Wait(t.Context(), pacer.Scope("tenant", "bad")), errSpoiled) })
		waits(t, &wg, p, "e", "f")
		wg.Wait()
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "a")), "the store works")
	})
}

// A store whose answers take almost the whole timeout is slow, and no call of the next batch gives it up.
func TestASlowStoreIsNotGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, p := batchingPacer(t, policies.PerSecond(1000).Burst(1000))
		defer closing(t, p)
		r.set(nil, 240*time.Millisecond)
		var wg sync.WaitGroup
		waits(t, &wg, p, "first")
		waits(t, &wg, p, times(10, "others")...)
		wg.Wait()
		require.Equal(t, [][]int{{1}, {10}}, r.requests())
	})
}

// Calls batched behind a request without an answer wait no longer than its caller, and charge nothing. When the store is back, the hanging
// request delays no call.
func TestNoBatchWaitsBehindAStoreThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, p := batchingPacer(t, policies.Daily(100, time.UTC))
		defer closing(t, p)
		r.set(nil, time.Hour)
		start := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				require.ErrorIs(t, p.Wait(t.Context()), store.ErrUnreachable)
				require.LessOrEqual(t, time.Since(start), 250*time.Millisecond)
			})
			synctest.Wait()
		}
		wg.Wait()
		r.set(nil, 0)
		back()
		start = time.Now()
		for range 3 {
			require.NoError(t, p.Wait(t.Context()))
		}
		require.Zero(t, time.Since(start), "the one that hangs still does, but nobody waits for it")
		require.Equal(t, int64(96), remaining(t, p))
		time.Sleep(time.Hour)
		require.Equal(t, int64(96), remaining(t, p), "it was given back")
		r.requests()
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, [][]int{{1}}, r.requests(), "nobody believes that the store has lost it")
	})
}

// A request that began before the process lost its store, and fails after the return, does not count against the store.
func TestAnOldFailureIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, p := batchingPacer(t, policies.PerSecond(1000).Burst(1000))
		defer closing(t, p)
		r.set(nil, 5*time.Second)
		r.mu.Lock()
		r.doomed = errBroken
		r.mu.Unlock()
		start := time.Now()
		require.ErrorIs(t, p.Wait(t.Context()), store.ErrUnreachable)
		r.set(nil, 0)
		r.mu.Lock()
		r.doomed = nil
		r.mu.Unlock()
		time.Sleep(time.Until(start.Add(5*time.Second - time.Millisecond)))
		for range 50 { // around the moment when it ends
			require.NoError(t, p.Wait(t.Context()))
			_, err := p.Status(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
	})
}

// A call whose context ends while its batch waits gives its slot back.
func TestACallThatEndsWhileItsBatchWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, p := batchingPacer(t, policies.Daily(100, time.UTC))
		defer closing(t, p)
		var wg sync.WaitGroup
		waits(t, &wg, p, "first")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		wg.Go(func() { require.ErrorIs(t, p.Wait(ctx), context.DeadlineExceeded) })
		wg.Wait()
		require.Equal(t, int64(98), remaining(t, p))
	})
}

// Every answer of a batch reaches its caller: no call goes twice on one charge, or without one.
func TestEveryAnswerReachesItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const tenants, calls = 7, 40
		r, p := batchingPacer(t, policies.PerSecond(1000).Named("all"), policies.PerSecond(50).Per("tenant"))
		defer closing(t, p)
		r.set(nil, 3*time.Millisecond)
		var mu sync.Mutex
		gone := make(map[string][]time.Time)
		var wg sync.WaitGroup
		for i := range tenants * calls {
			tenant := strconv.Itoa(i % tenants)
			wg.Go(func() {
				time.Sleep(time.Duration(i%13) * time.Millisecond)
				require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", tenant)))
				mu.Lock()
				defer mu.Unlock()
				gone[tenant] = append(gone[tenant], time.Now())
			})
		}
		wg.Wait()
		for tenant, at := range gone {
			require.Len(t, at, calls)
			for i := 1; i < calls; i++ {
				require.GreaterOrEqual(t, at[i].Sub(at[i-1]), 20*time.Millisecond-time.Microsecond, tenant)
			}
		}
	})
}

// punctual is a remote store whose operations end when their contexts do.
type punctual struct {
	*remote

	panics bool
}

func (*punctual) Punctual() bool { return true }

func (s *punctual) ReserveAll(ctx context.Context, batches []store.Batch) error {
	if s.panics {
		panic("a hook of the client")
	}
	s.mu.Lock()
	hangs := s.hangs
	s.mu.Unlock()
	select {
	case <-time.After(hangs):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.set(nil, 0)
	err := s.remote.ReserveAll(ctx, batches)
	s.set(nil, hangs)
	return err
}

// A punctual store is called in the goroutine of the call, and its timeout still holds. Calls of a batch meanwhile go as always; and a
// panic of the caller's harms no other call.
func TestAPunctualStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &punctual{remote: newRemote(1)}
		p, err := pacer.New(pacer.Config{Upstream: "api", Store: r, Outage: pacer.RefuseCalls, Policies: []policies.Policy{policies.Daily(100, time.UTC)}})
		require.NoError(t, err)
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(nil, 40*time.Millisecond)
		r.requests()
		var wg sync.WaitGroup
		waits(t, &wg, p, "first")
		waits(t, &wg, p, times(5, "others")...)
		wg.Wait()
		require.Equal(t, [][]int{{1}, {5}}, r.requests())
		require.NoError(t, p.Wait(t.Context()), "after a flight")

		r.panics = true
		require.Panics(t, func() { _ = p.Wait(t.Context()) })
		r.panics = false
		require.NoError(t, p.Wait(t.Context()), "nothing is in its way")

		r.set(nil, time.Hour)
		start := time.Now()
		require.ErrorIs(t, p.Wait(t.Context()), store.ErrUnreachable)
		require.Equal(t, 250*time.Millisecond, time.Since(start))
		r.set(nil, 0)
		back()
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, int64(100-1-6-1-1-1), remaining(t, p))
	})
}
