package pacer_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// CancelAll implements [store.Shared].
func (r *remote) CancelAll(ctx context.Context, batches []store.Batch) error {
	s, _, err := r.enter()
	if err != nil {
		return err
	}
	for i := range batches {
		if err := s.Cancel(ctx, batches[i].Stack, batches[i].Grants); err != nil {
			return err
		}
	}
	return nil
}

// Pauses implements [store.Shared].
func (r *remote) Pauses(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	return r.Status(ctx, stack)
}

// tenants reserves n calls for each of so many tenants.
func tenants(t *testing.T, p *pacer.Pacer, tenants, n int) []*pacer.Reservation {
	t.Helper()
	var line []*pacer.Reservation
	for range n {
		for i := range tenants {
			r, err := p.Reserve(t.Context(), pacer.Scope("tenant", strconv.Itoa(i)))
			require.NoError(t, err)
			line = append(line, r)
		}
	}
	return line
}

func cancelEach(t *testing.T, line []*pacer.Reservation) {
	t.Helper()
	var all sync.WaitGroup
	for _, r := range line {
		all.Go(func() { require.NoError(t, r.Cancel(t.Context())) })
	}
	all.Wait()
}

// Slots that are given back at the same time are given back together, and so are those that could not be while the store was
// away.
func TestCancelsShareRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 300
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.Every(time.Second).Per("tenant"))
		defer closing(t, p)
		line := tenants(t, p, n, 3)
		r.set(nil, 5*time.Millisecond)
		before, start := r.count(), time.Now()
		cancelEach(t, line[2*n:])
		require.LessOrEqual(t, r.count()-before, 7, "six for 300 stacks, and perhaps a heartbeat")
		require.LessOrEqual(t, time.Since(start), 30*time.Millisecond)
		r.set(errBroken, 5*time.Millisecond)
		start = time.Now()
		cancelEach(t, line[n:2*n])
		require.LessOrEqual(t, time.Since(start), 20*time.Millisecond, "owed to a store that is out of reach")
		r.set(nil, 0)
		before = r.count()
		back()
		require.LessOrEqual(t, r.count()-before, 40, "what was known and what was owed, some dozens of keys in each request")
		for i := range n {
			one, err := p.Reserve(t.Context(), pacer.Scope("tenant", strconv.Itoa(i)))
			require.NoError(t, err)
			require.Zero(t, one.Delay(), "only the first call of the tenant is left, which was two seconds ago")
		}
	})
}

// Report returns when the store has heeded a pause, however many have to move behind it.
func TestReportDoesNotWaitForWaiters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, way = 400, 20 * time.Millisecond
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.Every(10*time.Second).Per("tenant"))
		line := tenants(t, p, n, 2)[n:]
		for _, one := range line {
			go func() { _ = one.Wait(t.Context()) }()
		}
		synctest.Wait()
		r.set(nil, way)
		start, before := time.Now(), r.count()
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: 30 * time.Second}))
		require.Equal(t, way, time.Since(start))
		time.Sleep(20 * way)
		for _, one := range line {
			require.GreaterOrEqual(t, one.Delay(), 29*time.Second)
		}
		require.LessOrEqual(t, r.count()-before, 34, "three of them because it is the first pause")
		// Close waits for the requests on the wire, and not for thousands that would have to follow.
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Minute}))
		start = time.Now()
		closing(t, p)
		require.LessOrEqual(t, time.Since(start), 15*way)
		for i := range n {
			st := store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: "every-10s.tenant", Scope: strconv.Itoa(i), Spec: policies.Every(10 * time.Second).Spec()}}}
			s, err := r.store.Status(t.Context(), st)
			require.NoError(t, err)
			require.Zero(t, s.Limits[0].Backlog, "given back")
		}
	})
}

// lagging is a store whose answers to Reserve take a while to come back.
type lagging struct {
	*remote

	lag atomic.Int64
}

func (l *lagging) ReserveAll(ctx context.Context, batches []store.Batch) error {
	err := l.remote.ReserveAll(ctx, batches)
	time.Sleep(time.Duration(l.lag.Load()))
	return err
}

// A call that moves when another pause, or its end, arrives moves once more if necessary.
func TestNewsOfThoseWhoAreMoving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const way = 50 * time.Millisecond
		for after := 5 * time.Millisecond; after < 4*way; after += 10 * time.Millisecond {
			r := &lagging{remote: newRemote(1)}
			p, err := pacer.New(pacer.Config{Upstream: "api", Store: r, Policies: []policies.Policy{policies.Every(2 * time.Second)}, Jitter: pacer.NoJitter})
			require.NoError(t, err)
			require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
			woke := make(chan time.Time, 1)
			start := time.Now()
			go func() {
				_ = p.Wait(t.Context())
				woke <- time.Now()
			}()
			synctest.Wait()
			r.set(nil, way/5)
			r.lag.Store(int64(way))
			require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: 10 * time.Second}))
			time.Sleep(after)
			go func() { _ = p.Report(t.Context(), policies.Feedback{Wait: 30 * time.Second}) }()
			require.GreaterOrEqual(t, (<-woke).Sub(start), 30*time.Second, "%v later", after)
			closing(t, p)
		}
	})
}

// Close does not wait until a process that resyncs has reported all that it knows.
func TestCloseDoesNotWaitForComingBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.Every(time.Minute).Per("tenant"))
		_ = tenants(t, p, 1000, 2)
		r.set(errBroken, 0)
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "new"), pacer.MaxWait(0)))
		r.set(nil, 100*time.Millisecond)
		time.Sleep(450 * time.Millisecond) // it reports
		start := time.Now()
		closing(t, p)
		require.LessOrEqual(t, time.Since(start), 250*time.Millisecond)
	})
}

// However many processes there are, they do not send more to the store than it can well receive.
func TestLargeFleetsSpeakLess(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 5000; n++ {
		heartbeat, ttl, describe, check := pacer.Schedule(n)
		rate := func(every time.Duration) float64 { return float64(n) / every.Seconds() }
		// Each heartbeat may go with a ping of the subscription, descriptions are up to a quarter sooner, and each process announces its
		// upstream once in a while.
		sum := 2*rate(heartbeat) + rate(describe)*8/7 + float64(n)/max(60, float64(n)/10)
		require.LessOrEqual(t, sum, 200.0, "%d processes", n)
		require.GreaterOrEqual(t, ttl, 3*heartbeat, "a process that misses a heartbeat or two is still there")
		require.LessOrEqual(t, describe, time.Minute)
		require.LessOrEqual(t, float64(n)/check.Seconds(), 20.1)
	}
}

// A process of a large fleet sends heartbeats seldom, is believed for longer, and sends one at once when something has happened.
func TestAProcessOfALargeFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1000)
		p := away(t, r, pacer.PaceLocally, policies.Every(time.Hour))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		go func() { _ = p.Wait(t.Context(), pacer.MaxWait(pacer.Forever)) }()
		time.Sleep(10 * time.Minute)
		heartbeats := len(r.received())
		time.Sleep(10 * time.Minute)
		received := r.received()
		require.LessOrEqual(t, len(received)-heartbeats, 33, "once in 25 s, or a little sooner")
		require.Greater(t, len(received)-heartbeats, 20)
		require.GreaterOrEqual(t, received[len(received)-1].TTL, 75*time.Second)
	})
}

// A long queue moves in pieces: after a resumption its first calls go on at once, however many there are behind them and whatever the
// distance of the store. When a pause begins, a piece moves after the other, too, and all are behind it.
func TestTheFirstOfALongQueueGoOnAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, way, pause = 1000, 12 * time.Millisecond, time.Minute
		policy := policies.PerSecond(50)
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policy)
		ctx, cancel := context.WithCancel(t.Context())
		var line []*pacer.Reservation
		var waiting sync.WaitGroup
		var went atomic.Int64
		for range n {
			one, err := p.Reserve(ctx, pacer.MaxWait(pacer.Forever))
			require.NoError(t, err)
			line = append(line, one)
			waiting.Go(func() {
				if one.Wait(ctx) == nil {
					went.Add(1)
				}
			})
		}
		synctest.Wait()
		r.set(nil, way)
		require.NoError(t, p.Report(ctx, policies.Feedback{Wait: pause}))
		time.Sleep(3 * time.Second)
		before := went.Load()
		for i, one := range line[before:] {
			require.GreaterOrEqual(t, one.Delay(), pause-4*time.Second, "%d", i)
		}
		require.NoError(t, fleet.Of(p).Resume(ctx))
		time.Sleep(100 * time.Millisecond) // a request each to give back, to learn of the resumption (two), and to reserve
		require.Positive(t, went.Load()-before)
		time.Sleep(3 * time.Second)
		require.GreaterOrEqual(t, went.Load()-before, int64(150), "and the others at their pace")
		last := time.Duration(0)
		for _, one := range line[went.Load():] {
			require.Greater(t, one.Delay(), last, "in their order")
			last = one.Delay()
		}
		cancel()
		waiting.Wait()
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Zero(t, s.Policies[0].Backlog)
		closing(t, p)
	})
}
