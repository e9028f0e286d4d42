package pacer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// fresh is a Pacer of a fleet that has had no answer from its store yet.
func fresh(t *testing.T, r *remote, c pacer.Config, list ...policies.Policy) *pacer.Pacer {
	t.Helper()
	c.Upstream, c.Store, c.Policies, c.Jitter = "api", r, list, pacer.NoJitter
	p, err := pacer.New(c)
	require.NoError(t, err)
	return p
}

// starts records when calls go.
type starts struct {
	mu      sync.Mutex
	all     []time.Time
	calling sync.WaitGroup // callers that join
}

func (s *starts) add() { s.addAt(time.Now()) }

func (s *starts) addAt(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, at)
}

func (s *starts) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// calls makes all calls that a Pacer allows. They go at their slots by the clock of the store: answers come later by different delays.
func (s *starts) calls(ctx context.Context, p *pacer.Pacer) {
	for ctx.Err() == nil {
		if c, err := p.Acquire(ctx); err == nil {
			slot, _ := inside.Slot(c)
			s.addAt(time.UnixMicro(int64(slot)))
		}
	}
}

// join has callers make all calls that a Pacer allows, each after a while.
func (s *starts) join(ctx context.Context, t *testing.T, p *pacer.Pacer, callers int, after func() time.Duration) {
	t.Helper()
	t.Cleanup(func() { closing(t, p) })
	for range callers {
		s.calling.Go(func() {
			time.Sleep(after())
			s.calls(ctx, p)
		})
	}
}

func withoutDelay() time.Duration { return 0 }

// most returns the most starts within any window.
func (s *starts) most(window time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.all, time.Time.Compare)
	most, first := 0, 0
	for i, at := range s.all {
		for at.Sub(s.all[first]) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// errNoContact is what a call gets whose store has never answered.
func requireNoContact(t *testing.T, err error) {
	t.Helper()
	var failed *pacer.StoreError
	require.ErrorAs(t, err, &failed)
	require.True(t, failed.NoContact)
	require.ErrorIs(t, err, pacer.ErrUnreachable)
}

// Processes that start before their store do not take themselves for the only ones: together they never exceed the limit, neither
// before the store comes nor when it does.
func TestAFleetThatStartsBeforeItsStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const processes = 20
		r := newRemote(processes)
		r.failing, r.barriers = errBroken, true
		var went starts
		var wg sync.WaitGroup
		var all []*pacer.Pacer
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // the barrier is 3 s after the store came, at most
		defer cancel()
		for range processes {
			p := fresh(t, r, pacer.Config{}, policies.AtMost(200, time.Second))
			all = append(all, p)
			for range 8 {
				wg.Go(func() {
					for p.Wait(ctx) == nil {
						went.add()
					}
				})
			}
		}
		time.Sleep(3 * time.Second)
		require.Zero(t, went.most(time.Hour), "nobody knows its share")
		r.set(nil, 0)
		wg.Wait()
		require.LessOrEqual(t, went.most(time.Second), 200)
		require.GreaterOrEqual(t, len(went.all), 190, "the store has answered after a second at the latest")
		for _, p := range all {
			closing(t, p)
		}
	})
}

// A fleet that starts or grows makes no more calls than the limit in any second, wherever in its start the store is lost, and however slow some
// answers are: a process has a share only when all others that have one know of it. Once it has, the fleet goes on. 60 starts of every case, those
// of 600 processes included, were played once.
func TestAFleetThatLosesItsStoreWhileItStarts(t *testing.T) {
	t.Parallel()
	cells := 0
	for _, fleet := range []starting{
		{processes: 20, callers: 4, seeds: 60}, {processes: 60, callers: 2, seeds: 60}, {processes: 600, callers: 1, seeds: 10},
		{processes: 8, more: 12, callers: 4, seeds: 60},
	} {
		for _, lost := range []time.Duration{50 * ms, 100 * ms, 500 * ms, time.Second, 3 * time.Second, 10 * time.Second, 0} {
			for _, hangs := range []time.Duration{0, time.Second} {
				f, seeds := fleet, extent(uint64(1), fleet.seeds)
				f.lost, f.hangs = lost, hangs
				if cells++; seeds == 1 && (cells%9 != 0 || f.processes == 600) {
					continue
				}
				t.Run(fmt.Sprint(f.processes, "+", f.more, " ", f.lost, " ", f.hangs), func(t *testing.T) {
					t.Parallel()
					for seed := range seeds {
						synctest.Test(t, func(t *testing.T) { playStart(t, &f, seed) })
					}
				})
			}
		}
	}
}

// A starting fleet makes all calls that it may.
type starting struct {
	processes, more, callers int           // more come after 8 s; callers of each process
	lost, hangs              time.Duration // when the store is lost after that, for 3 s; 0: never. How long its requests take then
	seeds                    uint64
}

func playStart(t *testing.T, f *starting, seed uint64) {
	t.Helper()
	const limit = 200
	r := newRemote(0)
	r.barriers, r.slow, r.random = true, 200*time.Millisecond, rand.New(rand.NewPCG(seed, uint64(f.processes)<<32+uint64(f.lost+f.hangs)))
	r.set(nil, 2*time.Millisecond)
	var went starts
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	start := func(n int) {
		for range n {
			p := fresh(t, r, pacer.Config{}, policies.PerSecond(limit).Burst(1))
			went.join(ctx, t, p, f.callers, func() time.Duration { return r.between(0, 50*time.Millisecond) })
		}
	}
	start(f.processes)
	if f.more > 0 {
		time.Sleep(8 * time.Second)
		start(f.more)
	}
	time.Sleep(f.lost)
	if f.lost > 0 {
		r.set(errBroken, f.hangs)
		time.Sleep(3 * time.Second)
		r.set(nil, 2*time.Millisecond)
	}
	time.Sleep(4 * time.Second)
	n := went.count()
	time.Sleep(2 * time.Second)
	require.Greater(t, went.count()-n, limit/2, "seed %d", seed)
	cancel()
	went.calling.Wait()
	most := limit + 1
	if f.lost > 0 && (f.more > 0 || f.lost > 5*time.Second && f.processes < 600) {
		most += f.processes // those that have a share: a call of each was under way
	}
	require.LessOrEqual(t, went.most(time.Second), most, "seed %d", seed)
}

// A fleet that has its store back makes no more calls than the limit, even if some answers are slow, and other processes wait for their
// first contact: all wait until the slowest knows that the store is back, and none uses its share after that.
func TestAFleetReturnsTogether(t *testing.T) {
	t.Parallel()
	for seed := range extent(uint64(4), 500) {
		synctest.Test(t, func(t *testing.T) {
			const limit = 200
			r := newRemote(8)
			r.barriers, r.random = true, rand.New(rand.NewPCG(seed, 0))
			r.set(nil, 2*time.Millisecond)
			var went starts
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			list := []policies.Policy{policies.PerSecond(limit).Burst(1)}
			for range r.alive {
				went.join(ctx, t, away(t, r, pacer.PaceLocally, list...), 4, withoutDelay)
			}
			time.Sleep(time.Second)
			r.set(errBroken, time.Duration(seed%2)*time.Second)
			time.Sleep(r.between(0, 12*time.Second))
			for range r.alive {
				went.join(ctx, t, fresh(t, r, pacer.Config{}, list...), 4, withoutDelay)
			}
			time.Sleep(3 * time.Second)
			went.mu.Lock()
			went.all = nil // the loss is judged elsewhere
			went.mu.Unlock()
			r.mu.Lock()
			r.slow = 200 * time.Millisecond
			r.mu.Unlock()
			r.set(nil, 2*time.Millisecond)
			time.Sleep(5 * time.Second)
			cancel()
			went.calling.Wait()
			require.LessOrEqual(t, went.most(time.Second), limit+1, "seed %d", seed)
		})
	}
}

// A process whose first request was under way while the store hung waits for the processes that have lost the store meanwhile: they use the
// whole limit until they know that it is back.
func TestAFirstContactWithAStoreThatHung(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 200
		r := newRemote(4)
		r.barriers = true
		var went starts
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		list := []policies.Policy{policies.PerSecond(limit).Burst(1)}
		for range r.alive {
			went.join(ctx, t, away(t, r, pacer.PaceLocally, list...), 4, withoutDelay)
		}
		time.Sleep(5 * time.Second)
		r.set(nil, 900*ms) // fewer than four timeouts
		went.join(ctx, t, fresh(t, r, pacer.Config{}, list...), 4, withoutDelay)
		time.Sleep(890 * ms)
		r.set(nil, 2*ms)
		time.Sleep(5 * time.Second)
		cancel()
		went.calling.Wait()
		require.LessOrEqual(t, went.most(time.Second), limit+r.alive)
	})
}

// A first contact that takes longer than any attempt may at first is made all the same.
func TestAStoreThatIsSlowAtFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(4)
		r.hangs = 1500 * time.Millisecond // more than 4 × StoreTimeout
		time.AfterFunc(3*time.Second, func() { r.set(nil, 0) })
		p := fresh(t, r, pacer.Config{}, policies.PerSecond(1000).Burst(1000))
		defer closing(t, p)
		begin := time.Now()
		done := make(chan error)
		go func() { done <- p.Wait(t.Context()) }()
		require.NoError(t, <-done)
		require.Less(t, time.Since(begin), 10*time.Second)
	})
}

// A call waits for the first contact as long as it may, and no longer.
func TestHowLongACallWaitsForTheFirstContact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		r.failing = errBroken
		p := fresh(t, r, pacer.Config{}, policies.PerSecond(10))
		defer closing(t, p)

		begin := time.Now()
		err := p.Wait(t.Context())
		requireNoContact(t, err)
		require.ErrorIs(t, err, errBroken)
		require.Equal(t, time.Minute, time.Since(begin))
		for _, advice := range []string{"reserve", "connection refused", "address", "network", "ACL", "Config.Processes", "LetThrough"} {
			require.ErrorContains(t, err, advice)
		}
		require.NotErrorIs(t, err, pacer.ErrRefused)

		begin = time.Now()
		requireNoContact(t, p.Wait(t.Context(), pacer.MaxWait(3*time.Second)))
		require.Equal(t, 3*time.Second, time.Since(begin))

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err = p.Wait(ctx)
		requireNoContact(t, err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(begin))

		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		_, err = p.Acquire(ctx)
		require.Equal(t, context.Canceled, err)
		require.Equal(t, 6*time.Second, time.Since(begin))

		requireNoContact(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		_, err = p.Reserve(t.Context(), pacer.MaxWait(0))
		requireNoContact(t, err)
		_, err = p.Status(t.Context())
		requireNoContact(t, err)
		require.Equal(t, 6*time.Second, time.Since(begin), "at once")

		var closed error
		var wg sync.WaitGroup
		wg.Go(func() { closed = p.Wait(t.Context(), pacer.MaxWait(pacer.Forever)) })
		time.Sleep(time.Hour)
		closing(t, p)
		wg.Wait()
		require.Equal(t, pacer.ErrClosed, closed)
		require.Equal(t, pacer.ErrClosed, p.Wait(t.Context()))
	})
}

// The wait for the first contact counts as the call's wait.
func TestTheWaitForTheFirstContactCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		r.failing = errBroken
		p := fresh(t, r, pacer.Config{}, policies.PerSecond(1).Burst(1))
		defer closing(t, p)
		time.AfterFunc(3*time.Second, func() { r.set(nil, 0) })
		begin := time.Now()
		errs := make(chan error, 20)
		for range 20 {
			go func() { errs <- p.Wait(t.Context(), pacer.MaxWait(10*time.Second)) }()
		}
		went := 0
		for range 20 {
			err := <-errs
			if err == nil {
				went++
				continue
			}
			var limit *pacer.LimitError
			require.ErrorAs(t, err, &limit)
			require.GreaterOrEqual(t, limit.Waited, 3*time.Second)
			require.InDelta(t, 10*time.Second, limit.MaxWait, float64(time.Millisecond))
		}
		require.InDelta(t, 7, went, 1)
		require.LessOrEqual(t, time.Since(begin), 10*time.Second+time.Millisecond)
	})
}

// Waiting for the first contact costs nothing: one attempt is made for all calls, leaving is cheap, and few requests answer them when the
// store comes.
func TestThousandsWaitForTheFirstContact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := extent(1000, 10_000)
		r := newRemote(1)
		r.set(errBroken, time.Millisecond)
		p := fresh(t, r, pacer.Config{}, policies.PerSecond(1_000_000).Burst(1_000_000))
		defer closing(t, p)
		ctx, cancel := context.WithCancel(t.Context())
		var stay, leave sync.WaitGroup
		for range n {
			stay.Go(func() { require.NoError(t, p.Wait(t.Context())) })
			leave.Go(func() { require.ErrorIs(t, p.Wait(ctx), context.Canceled) })
		}
		time.Sleep(10 * time.Second)
		require.LessOrEqual(t, r.count(), 15, "attempts")
		before := r.count()
		cancel()
		leave.Wait()
		require.Equal(t, before, r.count(), "who leaves asks nothing")
		r.set(nil, time.Millisecond)
		begin := time.Now()
		stay.Wait()
		require.LessOrEqual(t, time.Since(begin), 1200*time.Millisecond)
		require.LessOrEqual(t, r.count(), before+n/64)
	})
}

// With the number of processes, or if calls are let through or refused, no call waits.
func TestWhoNeedNotWaitForTheFirstContact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		r.failing = errBroken
		begin := time.Now()
		known := fresh(t, r, pacer.Config{Processes: 2}, policies.Daily(10, time.UTC))
		defer closing(t, known)
		for range 5 {
			require.NoError(t, known.Wait(t.Context(), pacer.MaxWait(0)))
		}
		require.ErrorIs(t, known.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
		through := fresh(t, r, pacer.Config{Outage: pacer.LetThrough}, policies.Daily(1, time.UTC))
		defer closing(t, through)
		for range 5 {
			require.NoError(t, through.Wait(t.Context()))
		}
		refuses := fresh(t, r, pacer.Config{Outage: pacer.RefuseCalls}, policies.Daily(1, time.UTC))
		defer closing(t, refuses)
		err := refuses.Wait(t.Context())
		require.ErrorIs(t, err, pacer.ErrUnreachable)
		require.NotErrorIs(t, err, store.ErrNoContact)
		require.Zero(t, time.Since(begin))
	})
}

// Calls of a process that loses its store before it has a share fail with ErrNoShare, also the call that finds the store lost, and one that
// is queued for a permit. Calls that may wait long enough go when the store is back.
func TestACallOfAProcessWithoutAShare(t *testing.T) {
	t.Parallel()
	permits := policies.InFlight(1).Named("permits")
	for name, one := range map[string]struct {
		all          []policies.Policy
		withoutDelay bool
		call         func(context.Context, *pacer.Pacer, time.Duration) error
	}{
		"Allow": {nil, true, func(ctx context.Context, p *pacer.Pacer, _ time.Duration) error { return p.Wait(ctx, pacer.MaxWait(0)) }},
		"Reserve": {nil, false, func(ctx context.Context, p *pacer.Pacer, most time.Duration) error {
			_, err := p.Reserve(ctx, pacer.MaxWait(most))
			return err
		}},
		"Reserve later": {nil, false, func(ctx context.Context, p *pacer.Pacer, most time.Duration) error {
			_, err := p.Reserve(ctx, pacer.NotBefore(time.Second), pacer.MaxWait(most))
			return err
		}},
		"Wait": {nil, false, func(ctx context.Context, p *pacer.Pacer, most time.Duration) error {
			return p.Wait(ctx, pacer.MaxWait(most))
		}},
		"permit": {[]policies.Policy{permits}, false, func(ctx context.Context, p *pacer.Pacer, most time.Duration) error {
			c, err := p.Acquire(ctx, pacer.MaxWait(most))
			if err == nil {
				c.Release()
			}
			return err
		}},
		"permit at once": {[]policies.Policy{permits}, true, func(ctx context.Context, p *pacer.Pacer, _ time.Duration) error {
			_, err := p.TryAcquire(ctx)
			return err
		}},
	} {
		for _, known := range []bool{false, true} { // that the store is lost
			t.Run(fmt.Sprint(name, known), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRemote(3)
					p := fresh(t, r, pacer.Config{}, append(one.all, policies.PerSecond(100))...)
					defer closing(t, p)
					c, err := p.Acquire(t.Context())
					require.NoError(t, err)
					c.Release()
					time.Sleep(time.Second)
					r.set(errBroken, 0)
					if known {
						_ = p.Wait(t.Context(), pacer.MaxWait(0))
					}
					began := time.Now()
					err = one.call(t.Context(), p, 3*time.Second)
					var failed *pacer.StoreError
					require.ErrorAs(t, err, &failed)
					require.True(t, failed.NoShare)
					require.False(t, failed.NoContact)
					require.ErrorIs(t, err, pacer.ErrUnreachable)
					require.NotErrorIs(t, err, pacer.ErrRefused)
					require.ErrorContains(t, err, "Config.Processes")
					if one.withoutDelay {
						require.Zero(t, time.Since(began))
						return
					}
					require.Equal(t, 3*time.Second, time.Since(began))
					time.AfterFunc(time.Second, func() { r.set(nil, 0) })
					began = time.Now()
					require.NoError(t, one.call(t.Context(), p, 5*time.Second))
					require.Less(t, time.Since(began), 3*time.Second)
				})
			})
		}
	}
}

// A process that has had an answer from its store waits until the store has known it so long that all others count it, even if nothing else
// goes well. Then it need not wait for the store any more.
func TestAProcessInContactWithItsStoreKnowsItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(4)
		r.failing = errBroken
		p := fresh(t, r, pacer.Config{}, policies.Daily(100, time.UTC), policies.PerSecond(1).Per("tenant").Optional().Named("rate"))
		defer closing(t, p)
		pause := policies.Feedback{Policies: []string{"rate"}, Wait: time.Hour}
		require.NoError(t, p.Report(t.Context(), pause, pacer.Scope("tenant", "acme")))
		requireNoContact(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		r.set(nil, 0)
		r.mu.Lock()
		r.noReports = 1 << 30 // it cannot learn of the pause
		r.mu.Unlock()
		back()
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), store.ErrNoShare)
		begin := time.Now()
		require.NoError(t, p.Wait(t.Context()))
		require.InDelta(t, 2250*time.Millisecond, time.Since(begin), float64(time.Second))
		n := 1
		for p.Wait(t.Context(), pacer.MaxWait(0)) == nil {
			n++
		}
		require.Equal(t, 25, n)
	})
}

// A store that does not let a process in is an error at once, for all calls that wait, whenever that turns out. One that does so later on
// serves them.
func TestDeniedBeforeTheFirstContact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		r.failing = errBroken
		p := fresh(t, r, pacer.Config{}, policies.PerSecond(1000).Burst(100))
		defer closing(t, p)
		errs := make(chan error, 100)
		for range 100 {
			go func() { errs <- p.Wait(t.Context(), pacer.MaxWait(pacer.Forever)) }()
		}
		time.Sleep(10 * time.Second)
		require.Empty(t, errs)
		r.set(errDenied, 0)
		for range 100 {
			require.ErrorIs(t, <-errs, errDenied)
		}
		requested := r.count()
		time.Sleep(time.Hour)
		require.Equal(t, requested, r.count(), "nobody waits")
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), errDenied)
		r.set(nil, 0)
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
	})
}

// A pause that is reported before the first contact is not lost: the calls that wait for the store obey it.
func TestAPauseBeforeTheFirstContact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(2)
		r.failing = errBroken
		p := fresh(t, r, pacer.Config{}, policies.PerSecond(10))
		defer closing(t, p)
		begin := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			require.NoError(t, p.Wait(t.Context()))
			require.InDelta(t, 20*time.Second, time.Since(begin), float64(time.Second))
		})
		synctest.Wait()
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: 20 * time.Second}))
		time.Sleep(3 * time.Second)
		r.set(nil, 0)
		wg.Wait()
	})
}

// Hooks receive that the first contact does not come, and when it does.
func TestHooksReceiveTheFirstContact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(3)
		r.barriers = true
		var mu sync.Mutex
		var seen []hooks.Failover
		set := &hooks.Set{Failover: func(f hooks.Failover) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, f)
		}}
		p := fresh(t, r, pacer.Config{Hooks: []*hooks.Set{set}}, policies.PerSecond(10))
		r.set(errBroken, 0)
		time.AfterFunc(5*time.Second, func() { r.set(nil, 0) })
		require.NoError(t, p.Wait(t.Context()))
		closing(t, p)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, seen, 2)
		require.True(t, seen[0].On && seen[0].Never)
		require.Zero(t, seen[0].Processes)
		require.ErrorIs(t, seen[0].Err, errBroken)
		require.False(t, seen[1].On)
		require.Equal(t, 3, seen[1].Processes)
		require.InDelta(t, 5*time.Second, seen[1].For, float64(3*time.Second))
	})
}
