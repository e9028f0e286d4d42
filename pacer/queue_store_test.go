package pacer_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// farAway is a remote store that is so far away for each operation and each piece of news.
type farAway struct {
	*remote

	way time.Duration
}

func newFarAway() *farAway { return &farAway{remote: newRemote(1)} }

func (f *farAway) Listen(upstream string, received func(store.News)) (stop func()) {
	return f.store.Listen(upstream, func(n store.News) {
		time.AfterFunc(f.way/2, func() { received(n) })
	})
}

// goes sets the time of a round trip to the store, half of it each way.
func (f *farAway) goes(way time.Duration) {
	f.way = way
	f.set(nil, way/2)
}

func (f *farAway) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	return f.ReserveAll(ctx, []store.Batch{{Stack: stack, Calls: calls, Grants: grants}})
}

func (f *farAway) ReserveAll(ctx context.Context, batches []store.Batch) error {
	defer time.Sleep(f.way / 2)
	return f.remote.ReserveAll(ctx, batches)
}

func (f *farAway) Report(ctx context.Context, stack store.Stack, notes []store.Note) (store.Instant, int, error) {
	defer time.Sleep(f.way / 2)
	return f.remote.Report(ctx, stack, notes)
}

// pacer is a process whose store is far away.
func (f *farAway) pacer(t *testing.T, list ...policies.Policy) *pacer.Pacer {
	t.Helper()
	p, err := pacer.New(pacer.Config{Upstream: "api", Store: f, Policies: list, StoreTimeout: 5 * time.Second, MaxWait: pacer.Forever, Processes: f.alive})
	require.NoError(t, err)
	return p
}

// pacers are n processes that have reached the store while it was near, with the options of each; nil for none.
func (f *farAway) pacers(t *testing.T, n int, opts [][]pacer.Option, list ...policies.Policy) (all []*pacer.Pacer) {
	t.Helper()
	for i := range n {
		p := f.pacer(t, list...)
		all = append(all, p)
		var of []pacer.Option
		if opts != nil {
			of = opts[i]
		}
		r, err := p.Acquire(t.Context(), of...)
		require.NoError(t, err)
		r.Release()
		synctest.Wait()
	}
	return all
}

// callers acquire, run for some time and release, over and over.
type callers struct {
	wg      sync.WaitGroup
	running atomic.Int64
	most    atomic.Int64
	busy    atomic.Int64 // in µs
	went    atomic.Int64
}

func (c *callers) call(ctx context.Context, t *testing.T, p *pacer.Pacer, n int, lasts time.Duration, opts ...pacer.Option) {
	t.Helper()
	for range n {
		c.wg.Go(func() {
			for ctx.Err() == nil {
				r, err := p.Acquire(ctx, opts...)
				if ctx.Err() != nil && err != nil {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				now := c.running.Add(1)
				for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
				}
				time.Sleep(lasts)
				c.running.Add(-1)
				c.busy.Add(lasts.Microseconds())
				c.went.Add(1)
				r.Release()
			}
		})
	}
}

// However many calls of a process wait for permits, a few of them are in the store's queue; all go in order, and a crowd
// that gives up leaves nothing behind.
func TestACrowdForPermitsKeepsTheQueueShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Policies: []policies.Policy{policies.InFlight(5).Named("permits")}, MaxWait: pacer.Forever})
		defer p.Close()
		var order []int
		var mu sync.Mutex
		var wg sync.WaitGroup
		const n = 2000
		for i := range n {
			wg.Go(func() {
				r, err := p.Acquire(t.Context())
				require.NoError(t, err)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(10 * ms)
				r.Release()
			})
			synctest.Wait()
		}
		for range 20 {
			time.Sleep(100 * ms)
			require.LessOrEqual(t, statusOf(t, p, "permits").Queued, int64(45), "500 are served in a second, 20 of them within the reach")
			require.Positive(t, statusOf(t, p, "permits").Queued)
		}
		wg.Wait()
		require.Len(t, order, n)
		for i, call := range order {
			require.InDelta(t, i, call, 45, "those that are queued at once may come in any order")
		}

		hold, err := p.Acquire(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		for range 500 {
			wg.Go(func() {
				r, err := p.Acquire(ctx)
				if err == nil {
					time.Sleep(time.Hour)
					r.Release()
				} else {
					require.ErrorIs(t, err, context.Canceled)
				}
			})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		hold.Release()
		time.Sleep(2 * time.Hour)
		wg.Wait()
		require.Zero(t, statusOf(t, p, "permits").Queued)
		require.Equal(t, int64(5), statusOf(t, p, "permits").Remaining)
	})
}

// A call that waits in the process for a permit is refused when its time is over, with the reason.
func TestACallBehindTheLineIsRefusedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Policies: []policies.Policy{policies.InFlight(1).Named("permits")}, MaxWait: 2 * time.Second})
		defer p.Close()
		hold, err := p.Acquire(t.Context())
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				start := time.Now()
				_, err := p.Acquire(t.Context())
				require.ErrorIs(t, err, pacer.ErrNotYet)
				require.ErrorContains(t, err, "permits")
				require.InDelta(t, 2*time.Second, time.Since(start), float64(ms))
			})
		}
		wg.Wait()
		hold.Release()
		require.Zero(t, statusOf(t, p, "permits").Queued)
		r, err := p.Acquire(t.Context())
		require.NoError(t, err)
		r.Release()
	})
}

// However far away the store is, permits are not idle while calls of the process wait: they are passed on. Nor are they ever more, and each
// process gets its part, or that of its tenant, however many callers the other one has.
func TestPermitsArePassedOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		policy  policies.Policy
		callers [2]int
		least   int64 // calls of each process, of 6,000 in a minute
	}{
		{"in order", policies.InFlight(10), [2]int{20, 20}, 2200},
		{"fair", policies.InFlight(10).Fair("tenant"), [2]int{10, 40}, 1200},
		{"parts", policies.InFlight(10).Reserve("a", 50), [2]int{10, 40}, 1200},
	} {
		for _, way := range []time.Duration{60 * ms, 150 * ms} {
			synctest.Test(t, func(t *testing.T) {
				f := newFarAway()
				ctx, cancel := context.WithCancel(t.Context())
				var each [2]callers
				opts := [][]pacer.Option{{pacer.Scope("tenant", "a"), pacer.Lane("a")}, {pacer.Scope("tenant", "b")}}
				ps := f.pacers(t, len(each), opts, c.policy.Named("permits"))
				f.goes(way)
				for i, p := range ps {
					each[i].call(ctx, t, p, c.callers[i], 100*ms, opts[i]...)
				}
				time.Sleep(10 * time.Second) // the permits are taken, and the processes know the way
				before, length := each[0].busy.Load()+each[1].busy.Load(), 60*time.Second
				first := [2]int64{each[0].went.Load(), each[1].went.Load()}
				time.Sleep(length)
				used := float64(each[0].busy.Load()+each[1].busy.Load()-before) / float64(10*length.Microseconds())
				went := [2]int64{each[0].went.Load() - first[0], each[1].went.Load() - first[1]}
				t.Logf("%s, %v away: %.1f %% of the permits were used, %d calls", c.name, way, 100*used, went)
				require.GreaterOrEqual(t, used, 0.9, "without that: 40 and 20 %")
				require.LessOrEqual(t, each[0].most.Load()+each[1].most.Load(), int64(20))
				require.Greater(t, min(went[0], went[1]), c.least)
				cancel()
				each[0].wg.Wait()
				each[1].wg.Wait()
				for _, p := range ps {
					require.NoError(t, p.Close())
				}
				time.Sleep(time.Minute)
				f.goes(0)
				p := f.pacer(t, c.policy.Named("permits"))
				require.Equal(t, int64(10), statusOf(t, p, "permits").Remaining)
				require.Zero(t, statusOf(t, p, "permits").Queued)
				closing(t, p)
			})
		}
	}
}

// A call that needs a slot, too, gets the permit first, and then makes one request: so permits idle for one round trip, and those beside a
// tighter rate lose nothing of it.
func TestPermitsArePassedOnBesideOthers(t *testing.T) {
	t.Parallel()
	permits := policies.InFlight(10).Named("permits")
	for _, c := range []struct {
		other policies.Policy
		way   time.Duration
		calls float64 // in a second at least; the best that a round trip allows
	}{
		{policies.PerSecond(200), 20 * ms, 10 / 0.12},
		{policies.PerSecond(200), 60 * ms, 10 / 0.16},
		{policies.PerSecond(200), 150 * ms, 10 / 0.25},
		{policies.Fixed(3000, time.Minute).Skew(0), 60 * ms, 50},
		{policies.PerSecond(20), 150 * ms, 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFarAway()
			ctx, cancel := context.WithCancel(t.Context())
			var all callers
			ps := f.pacers(t, 2, nil, permits, c.other)
			f.goes(c.way)
			for _, p := range ps {
				all.call(ctx, t, p, 40, 100*ms)
			}
			time.Sleep(10 * time.Second)
			went, requests := all.went.Load(), f.count()
			time.Sleep(time.Minute)
			n := float64(all.went.Load() - went)
			t.Logf("%v, %v away: %.1f of %.1f calls a second, %.2f requests each", c.other, c.way, n/60, c.calls, float64(f.count()-requests)/n)
			require.GreaterOrEqual(t, n/60, 0.9*c.calls)
			require.LessOrEqual(t, all.most.Load(), int64(10))
			cancel()
			all.wg.Wait()
			for _, p := range ps {
				require.NoError(t, p.Close())
			}
			time.Sleep(time.Minute)
			f.goes(0)
			p := f.pacer(t, permits, c.other)
			require.Equal(t, int64(10), statusOf(t, p, "permits").Remaining)
			require.Zero(t, statusOf(t, p, "permits").Queued)
			closing(t, p)
		})
	}
}

// orderly counts requests that are under way at once, but for calls that have their permits already.
type orderly struct {
	*farAway

	mu        sync.Mutex
	has       map[int64]bool // calls that got their permits
	now, most int
}

func (o *orderly) ReserveAll(ctx context.Context, batches []store.Batch) error {
	n := 0
	o.mu.Lock()
	for i := range batches {
		for j := range batches[i].Calls {
			if !o.has[batches[i].Calls[j].ID] {
				n = 1
			}
		}
	}
	o.now += n
	o.most = max(o.most, o.now)
	o.mu.Unlock()
	err := o.farAway.ReserveAll(ctx, batches)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now -= n
	for i := range batches {
		for j, g := range batches[i].Grants {
			o.has[batches[i].Calls[j].ID] = o.has[batches[i].Calls[j].ID] || g.OK
		}
	}
	return err
}

// At most one request of a stack is under way, but for calls that have their permits: so calls are queued in the store in order of arrival.
func TestOneRequestOfAStackAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &orderly{farAway: newFarAway(), has: make(map[int64]bool)}
		o.goes(60 * ms)
		p := opened(t, pacer.Config{
			Upstream: "api", Store: o, Policies: []policies.Policy{policies.InFlight(10), policies.PerSecond(200)}, MaxWait: pacer.Forever, StoreTimeout: 5 * time.Second,
		})
		ctx, cancel := context.WithCancel(t.Context())
		var all callers
		all.call(ctx, t, p, 40, 100*ms)
		time.Sleep(20 * time.Second)
		cancel()
		all.wg.Wait()
		require.Equal(t, 1, o.most)
	})
}

// A process may have a permit for nearly each of its callers, who call again at once: then none of them waits when a call is over, and
// still its permit does not go back to a store far away, which would cost the others a request.
func TestAPermitIsKeptForACallerThatComesAtOnce(t *testing.T) {
	t.Parallel()
	for _, way := range []time.Duration{60 * ms, 150 * ms} {
		synctest.Test(t, func(t *testing.T) {
			f := newFarAway()
			ctx, cancel := context.WithCancel(t.Context())
			var each [4]callers
			ps := f.pacers(t, len(each), nil, policies.InFlight(25).Named("permits"))
			f.goes(way)
			busy := func() (sum int64) {
				for i := range each {
					sum += each[i].busy.Load()
				}
				return sum
			}
			for i, p := range ps {
				each[i].call(ctx, t, p, 16, 500*ms)
			}
			time.Sleep(3 * time.Second)
			before := busy()
			time.Sleep(12 * time.Second)
			used := float64(busy()-before) / float64(25*(12*time.Second).Microseconds())
			t.Logf("%v away: %.1f %% of the permits were used", way, 100*used)
			require.GreaterOrEqual(t, used, 0.95, "without that: 98 and 84 %")
			cancel()
			for i := range each {
				each[i].wg.Wait()
			}
			time.Sleep(4 * way) // none is kept when nobody comes
			require.Equal(t, int64(25), statusOf(t, ps[0], "permits").Remaining)
			for _, p := range ps {
				require.NoError(t, p.Close())
			}
		})
	}
}

// A call that got its slot before the distance of the store was known still requests its permit in time, and keeps the slot.
func TestPermitsBesideARateFarAway(t *testing.T) {
	t.Parallel()
	for _, way := range []time.Duration{20 * ms, 60 * ms} {
		synctest.Test(t, func(t *testing.T) {
			f := newFarAway()
			f.goes(way)
			p := f.pacer(t, policies.PerSecond(10).Burst(1), policies.InFlight(8))
			defer closing(t, p)
			var all sync.WaitGroup
			start := time.Now()
			for range 30 {
				all.Go(func() {
					r, err := p.Acquire(t.Context())
					require.NoError(t, err)
					r.Release()
				})
				synctest.Wait()
			}
			all.Wait()
			require.LessOrEqual(t, time.Since(start), 2900*ms+5*way, "one interval each, and the first answers")
		})
	}
}
