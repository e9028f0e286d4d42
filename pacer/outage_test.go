package pacer_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/deadline"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// remote is a store of a fleet that fails on demand. It has the memory store's accounts.
type remote struct {
	alive    int  // 0: as many as are there
	barriers bool // as the real one does; otherwise who comes back does not wait

	mu          sync.Mutex
	store       *memstore.Store
	epoch       store.Epoch
	resets      []store.Reset
	failing     error
	doomed      error         // of operations that begin now, when they end
	hangs       time.Duration // each operation takes so long, whatever its context is
	barrier     store.Instant
	came        []string // who is there
	until       map[string]store.Instant
	slow        time.Duration // each tenth operation takes up to so much longer
	random      *rand.Rand    // which ones, and how much
	heartbeats  []store.Heartbeat
	noReports   int // so many reports fail, after so many others
	goodReports int
	requested   int     // operations begun
	asking      int     // operations under way
	most        int     // of them at once
	sent        [][]int // for each request: how many calls of each stack
	granted     int     // calls that got a slot
	spoiled     string  // a scope whose key holds something else
}

var (
	errBroken  = errors.New("connection refused")
	errPanics  = errors.New("a store of the user's")
	errSpoiled = errors.New("the key holds something else")
)

func newRemote(alive int) *remote {
	return &remote{alive: alive, store: memstore.New(), epoch: store.Epoch{Began: store.Instant(time.Now().UnixMicro())}}
}

// enter begins an operation, and returns what it works on.
func (r *remote) enter() (*memstore.Store, store.Epoch, error) {
	r.mu.Lock()
	r.requested++
	r.asking++
	r.most = max(r.most, r.asking)
	hangs, doomed := r.hangs, r.doomed
	if r.slow > 0 && r.random.IntN(10) == 0 {
		hangs += time.Duration(r.random.Int64N(int64(r.slow)))
	}
	r.mu.Unlock()
	time.Sleep(hangs)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asking--
	if errors.Is(r.failing, errPanics) {
		panic(r.failing)
	}
	if doomed != nil {
		return r.store, r.epoch, doomed
	}
	return r.store, r.epoch, r.failing
}

// between returns a time at random.
func (r *remote) between(least, most time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return least + time.Duration(r.random.Int64N(int64(most-least)))
}

func (r *remote) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	return r.ReserveAll(ctx, []store.Batch{{Stack: stack, Calls: calls, Grants: grants}})
}

func (r *remote) ReserveAll(ctx context.Context, batches []store.Batch) error {
	var sent []int
	for i := range batches {
		sent = append(sent, len(batches[i].Calls))
	}
	r.mu.Lock()
	r.sent = append(r.sent, sent)
	r.mu.Unlock()
	s, epoch, err := r.enter()
	if err != nil {
		return err
	}
	if known := batches[0].Stack.Epoch; !known.IsZero() && !epoch.Is(known) {
		return &store.ForgotError{Epoch: epoch}
	}
	for i := range batches {
		b := &batches[i]
		if r.spoiled != "" && slices.ContainsFunc(b.Stack.Limits, func(l store.Limit) bool { return l.Scope == r.spoiled }) {
			return errSpoiled
		}
		if err := s.Reserve(ctx, b.Stack, b.Calls, b.Grants); err != nil {
			return err
		}
		r.mu.Lock()
		r.granted += len(store.Granted(b.Grants))
		r.mu.Unlock()
	}
	return nil
}

func (r *remote) Cancel(ctx context.Context, stack store.Stack, grants []store.Grant) error {
	s, _, err := r.enter()
	if err != nil {
		return err
	}
	return s.Cancel(ctx, stack, grants)
}

func (r *remote) Report(ctx context.Context, stack store.Stack, notes []store.Note) (store.Instant, int, error) {
	s, _, err := r.enter()
	r.mu.Lock()
	switch {
	case err != nil || r.noReports == 0:
	case r.goodReports > 0:
		r.goodReports--
	default:
		r.noReports--
		err = errBroken
	}
	r.mu.Unlock()
	if err != nil {
		return 0, 0, err
	}
	for i := range notes {
		r.mu.Lock()
		switch notes[i].Kind { //nolint:exhaustive // the others begin none
		case store.NoteReset:
			r.begin(true)
		case store.NoteResume:
			r.begin(false, stack.Limits[notes[i].Limit].Key())
		}
		r.mu.Unlock()
	}
	before, _ := s.Settings(ctx, stack.Upstream)
	at, changed, err := s.Report(ctx, stack, notes)
	if after, _ := s.Settings(ctx, stack.Upstream); len(after.Allowances) > len(before.Allowances) {
		r.mu.Lock()
		r.begin(false)
		r.mu.Unlock()
	}
	return at, changed, err
}

func (r *remote) Status(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	s, _, err := r.enter()
	if err != nil {
		return store.StackStatus{}, err
	}
	return s.Status(ctx, stack)
}

func (r *remote) Heartbeat(ctx context.Context, upstream string, b store.Heartbeat) (store.Membership, error) {
	s, epoch, err := r.enter()
	if err != nil {
		return store.Membership{}, err
	}
	st, err := s.Status(ctx, store.Stack{Upstream: upstream})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heartbeats = append(r.heartbeats, b)
	r.came = slices.DeleteFunc(r.came, func(id string) bool { return r.alive == 0 && r.until[id] <= st.Now })
	if !slices.Contains(r.came, b.ID) {
		r.came = append(r.came, b.ID)
	}
	if r.until == nil {
		r.until = make(map[string]store.Instant)
	}
	r.until[b.ID] = st.Now.Add(b.TTL)
	if r.barriers && b.Barrier > 0 && r.barrier < st.Now {
		r.barrier = st.Now + store.Instant(b.Barrier.Microseconds())
	}
	return store.Membership{Now: st.Now, Epoch: epoch, Alive: cmp.Or(r.alive, len(r.came)), Rank: slices.Index(r.came, b.ID), Barrier: r.barrier}, err
}

var errDenied = errors.New("NOPERM")

func (r *remote) Fault(err error) store.Fault {
	switch {
	case errors.Is(err, errDenied):
		return store.Denied
	case errors.Is(err, errSpoiled):
		return store.Unfit
	}
	return store.Unreachable
}

func (r *remote) set(err error, hangs time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing, r.hangs = err, hangs
}

// forget loses everything.
func (r *remote) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store, r.epoch = memstore.New(), store.Epoch{Began: r.epoch.Began + 1000}
}

func (r *remote) received() []store.Heartbeat {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.heartbeats)
}

func (r *remote) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requested
}

// away is a Pacer of a fleet, which knows how many processes that has: it has its share from the start.
func away(t *testing.T, r *remote, outage pacer.Outage, list ...policies.Policy) *pacer.Pacer {
	t.Helper()
	p, err := pacer.New(pacer.Config{Upstream: "api", Store: r, Policies: list, Jitter: pacer.NoJitter, Outage: outage, Processes: r.alive})
	require.NoError(t, err)
	return p
}

func closing(t *testing.T, p *pacer.Pacer) {
	t.Helper()
	require.NoError(t, p.Close())
}

// back waits until a Pacer has come back to its store.
func back() { time.Sleep(2 * time.Second) }

func remaining(t *testing.T, p *pacer.Pacer) int64 {
	t.Helper()
	s, err := p.Status(t.Context())
	require.NoError(t, err)
	return s.Policies[0].Remaining
}

// A store that hangs costs a call the store's timeout, once; then no call waits for it, and one request at a time checks whether it is
// back.
func TestAHangingStoreCostsItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.PerSecond(1000).Burst(1000))
		require.NoError(t, p.Wait(t.Context()))
		r.set(nil, 3*time.Second)
		start := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { require.NoError(t, p.Wait(t.Context())) })
		}
		wg.Wait()
		require.LessOrEqual(t, time.Since(start), 250*time.Millisecond+60*time.Millisecond)
		r.mu.Lock()
		r.most = r.asking
		r.mu.Unlock()
		start, requested := time.Now(), r.count()
		for range 50 {
			require.NoError(t, p.Wait(t.Context()))
		}
		require.LessOrEqual(t, time.Since(start), 60*time.Millisecond)
		require.LessOrEqual(t, r.count()-requested, 1)
		time.Sleep(7 * time.Second) // those that hung have ended, and were given back
		r.mu.Lock()
		require.LessOrEqual(t, r.asking, 10, "one in 350 ms, and each hangs for 3 s")
		r.mu.Unlock()
		r.set(nil, 0)
		time.Sleep(3 * time.Second)
		back()
		requested = r.count()
		require.NoError(t, p.Wait(t.Context()))
		require.Greater(t, r.count(), requested, "the store is asked again")
		closing(t, p)
	})
}

// A connecting is a remote store that has to connect for the next operation.
type connecting struct {
	*remote

	takes    atomic.Int64
	punctual bool
}

func (c *connecting) Punctual() bool { return c.punctual }

func (c *connecting) ReserveAll(ctx context.Context, batches []store.Batch) error {
	if err := c.connect(ctx); err != nil {
		return err
	}
	return c.remote.ReserveAll(ctx, batches)
}

func (c *connecting) connect(ctx context.Context) error {
	deadline.Connecting(ctx)
	select {
	case <-time.After(time.Duration(c.takes.Swap(0))):
	case <-ctx.Done():
		return ctx.Err()
	}
	deadline.Connected(ctx)
	return nil
}

func (c *connecting) Status(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	if err := c.connect(ctx); err != nil {
		return store.StackStatus{}, err
	}
	return c.remote.Status(ctx, stack)
}

// A store is not lost while it connects, for up to four timeouts.
func TestAStoreThatConnectsIsNotLost(t *testing.T) {
	t.Parallel()
	for _, punctual := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := &connecting{remote: newRemote(1), punctual: punctual}
			p, err := pacer.New(pacer.Config{Upstream: "api", Store: r, Processes: 1, Policies: []policies.Policy{policies.PerSecond(100).Burst(100)}})
			require.NoError(t, err)
			defer closing(t, p)
			r.set(nil, 200*ms)
			r.takes.Store(int64(700 * ms))
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() { assert.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0))) })
			}
			wg.Wait()
			r.takes.Store(int64(700 * ms))
			_, err = p.Status(t.Context())
			require.NoError(t, err)
			require.Zero(t, pacer.Absences(p))
			r.takes.Store(int64(time.Hour))
			start := time.Now()
			require.NoError(t, p.Wait(t.Context()), "paced locally")
			require.InDelta(t, 1, time.Since(start).Seconds(), 0.1)
			require.Equal(t, 1, pacer.Absences(p))
		})
	}
}

// A store that panics in any goroutine is lost, and found again. Nothing is left of it.
func TestAStoreThatPanicsIsLost(t *testing.T) { //nolint:paralleltest // it sets the default logger
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p, err := pacer.New(pacer.Config{Upstream: "api", Store: r, Processes: 1, Policies: []policies.Policy{policies.PerSecond(10), policies.InFlight(1)}})
		require.NoError(t, err)
		for range 2 {
			held, err := p.Acquire(t.Context())
			require.NoError(t, err)
			r.set(errPanics, 0)
			held.Release()
			for range 20 {
				require.NoError(t, p.Do(t.Context(), func(context.Context) (policies.Reading, error) { return policies.Reading{}, nil }))
			}
			require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Second}))
			_, err = p.Status(t.Context())
			require.NoError(t, err)
			time.Sleep(5 * time.Second)
			r.set(nil, 0)
			back()
			require.NoError(t, p.Do(t.Context(), func(context.Context) (policies.Reading, error) { return policies.Reading{}, nil }))
		}
		require.Equal(t, 2, pacer.Absences(p))
		r.set(errPanics, 0)
		closing(t, p)
	})
}

// The context of a call does not cut an operation short, and a long one does not make it longer.
func TestTheStoresTimeoutIsItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.PerSecond(1000).Burst(1000))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(nil, 200*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		require.NoError(t, p.Wait(ctx))
		require.Equal(t, 200*time.Millisecond, time.Since(start))
	})
}

func TestCallsAreRefusedIfConfigured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.RefuseCalls, policies.PerSecond(1000).Burst(1000))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(errBroken, 0)
		for range 3 {
			err := p.Wait(t.Context())
			var se *pacer.StoreError
			require.ErrorAs(t, err, &se)
			require.ErrorIs(t, err, store.ErrUnreachable)
			require.ErrorContains(t, err, "connection refused", "the first cause stays to be seen")
			require.ErrorIs(t, p.Report(t.Context(), policies.Feedback{Wait: time.Second}), store.ErrUnreachable)
			_, err = p.Status(t.Context())
			require.ErrorIs(t, err, store.ErrUnreachable)
		}
		r.set(nil, 0)
		back()
		require.NoError(t, p.Wait(t.Context()))
		r.forget()
		require.NoError(t, p.Wait(t.Context()), "a store that has lost its data is there, and receives it at once")
		require.Equal(t, int64(998), remaining(t, p), "both calls of this moment are known")
	})
}

func TestCallsAreLetThroughIfConfigured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.LetThrough, policies.Every(time.Hour))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(errBroken, 0)
		start := time.Now()
		for range 10 {
			require.NoError(t, p.Wait(t.Context()))
		}
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Second}))
		require.Zero(t, time.Since(start))
		r.set(nil, 0)
		back()
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
	})
}

// An answer that comes too late was a charge without a call: it is given back.
func TestALateAnswerIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.RefuseCalls, policies.Daily(10, time.UTC))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(nil, time.Second)
		require.ErrorIs(t, p.Wait(t.Context()), store.ErrUnreachable)
		r.set(nil, 0)
		back()
		require.Equal(t, int64(9), remaining(t, p))
	})
}

// Before a process has ever reached the store, it takes its Config's word for how many there are.
func TestLocalFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		r.failing = errBroken
		p, err := pacer.New(pacer.Config{Upstream: "api", Store: r, Policies: []policies.Policy{policies.Daily(100, time.UTC)}, Processes: 4})
		require.NoError(t, err)
		defer closing(t, p)
		n := 0
		for p.Wait(t.Context(), pacer.MaxWait(0)) == nil {
			n++
		}
		require.Equal(t, 25, n)
		r.set(nil, 0)
		back()
		require.Equal(t, int64(75), remaining(t, p), "the store has received it")
	})
}

// The local line begins behind what the fleet was granted, and slots that were granted stay good.
func TestTheLocalLineBeginsBehindTheFleets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(4)
		p := away(t, r, pacer.PaceLocally, policies.PerSecond(10))
		defer closing(t, p)
		var held []*pacer.Reservation
		for range 30 { // a line of 3 s
			one, err := p.Reserve(t.Context())
			require.NoError(t, err)
			held = append(held, one)
		}
		r.set(errBroken, 0)
		start := time.Now()
		var slots []time.Duration
		for range 5 {
			one, err := p.Reserve(t.Context())
			require.NoError(t, err)
			slots = append(slots, time.Since(start)+one.Delay())
		}
		require.GreaterOrEqual(t, slots[0], 3*time.Second)
		require.LessOrEqual(t, slots[0], 3600*time.Millisecond, "behind it, at this process's turn")
		for i := range 4 {
			require.Equal(t, 400*time.Millisecond, slots[i+1]-slots[i])
		}
		require.InDelta(t, 2900*time.Millisecond, held[29].Delay(), float64(time.Millisecond))
	})
}

// Processes that lose the store at once take turns: together they keep the pace of the one line.
func TestLocalProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(4)
		var all []*pacer.Pacer
		for range 4 {
			p := away(t, r, pacer.PaceLocally, policies.PerSecond(10))
			require.NoError(t, p.Wait(t.Context()))
			all = append(all, p)
		}
		r.set(errBroken, 0)
		var mu sync.Mutex
		var went []time.Time
		var wg sync.WaitGroup
		for _, p := range all {
			wg.Go(func() {
				for range 20 {
					require.NoError(t, p.Wait(t.Context()))
					mu.Lock()
					went = append(went, time.Now())
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for i := range len(went) - 1 {
			require.InDelta(t, 100*time.Millisecond, went[i+1].Sub(went[i]), float64(time.Millisecond), "call %d", i)
		}
		for _, p := range all {
			closing(t, p)
		}
	})
}

// Calls made locally are charged when the store is back, once.
func TestWhatWasSpentLocallyIsCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(2)
		p := away(t, r, pacer.PaceLocally, policies.Daily(100, time.UTC))
		defer closing(t, p)
		for range 10 {
			require.NoError(t, p.Wait(t.Context()))
		}
		r.set(errBroken, 0)
		n := 0
		for p.Wait(t.Context(), pacer.MaxWait(0)) == nil {
			n++
		}
		require.Equal(t, 45, n, "half of what was left")
		require.Equal(t, int64(0), remaining(t, p))
		r.set(nil, 0)
		back()
		require.Equal(t, int64(45), remaining(t, p))
		back()
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, int64(44), remaining(t, p), "once")
	})
}

// A rate that was used locally up to its limit is not full again for the fleet, and calls that sleep on move to the fleet's
// line without being pushed back.
func TestWaitersComeBackWithTheirSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.PerSecond(10))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(errBroken, 0)
		var mu sync.Mutex
		var went []time.Time
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				require.NoError(t, p.Wait(t.Context()))
				mu.Lock()
				defer mu.Unlock()
				went = append(went, time.Now())
			})
		}
		synctest.Wait()
		time.Sleep(time.Second)
		r.set(nil, 0)
		wg.Wait()
		for i := range len(went) - 1 {
			require.InDelta(t, 100*time.Millisecond, went[i+1].Sub(went[i]), float64(time.Millisecond), "call %d", i)
		}
		one, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 100*time.Millisecond, one.Delay(), float64(2*time.Millisecond))
	})
}

// A store that has lost its data receives what its processes know: counts, queues and pauses.
func TestAStoreThatForgotReceivesReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.Daily(100, time.UTC).Named("daily"), policies.PerSecond(10).Per("tenant").Optional().Named("rate"))
		defer closing(t, p)
		for range 40 {
			require.NoError(t, p.Wait(t.Context()))
		}
		acme, other := pacer.Scope("tenant", "acme"), pacer.Scope("tenant", "other")
		for range 20 {
			_, err := p.Reserve(t.Context(), acme)
			require.NoError(t, err)
		}
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Policies: []string{"rate"}, Wait: time.Minute}, other))
		r.forget()
		require.NoError(t, p.Wait(t.Context()))
		back()
		require.Equal(t, int64(39), remaining(t, p))
		one, err := p.Reserve(t.Context(), acme)
		require.NoError(t, err)
		require.LessOrEqual(t, one.Delay(), 400*time.Millisecond, "the line of 2 s is over")
		err = p.Wait(t.Context(), other, pacer.MaxWait(0))
		var le *pacer.LimitError
		require.ErrorAs(t, err, &le)
		require.Equal(t, pacer.Paused, le.Reason)
		require.InDelta(t, 58*time.Second, le.Wait, float64(time.Second))
	})
}

// An idle process reports its knowledge, too.
func TestAnIdleProcessRemembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(2)
		idle, busy := away(t, r, pacer.PaceLocally, policies.Daily(100, time.UTC)), away(t, r, pacer.PaceLocally, policies.Daily(100, time.UTC))
		defer closing(t, idle)
		defer closing(t, busy)
		for range 40 {
			require.NoError(t, idle.Wait(t.Context()))
		}
		r.forget()
		time.Sleep(5 * time.Second)
		require.Equal(t, int64(60), remaining(t, busy))
	})
}

// A deliberate reset is not undone, whichever process remembers the old state.
func TestAResetIsNotUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(2)
		one, two := away(t, r, pacer.PaceLocally, policies.Daily(100, time.UTC)), away(t, r, pacer.PaceLocally, policies.Daily(100, time.UTC))
		defer closing(t, one)
		defer closing(t, two)
		for range 40 {
			require.NoError(t, one.Wait(t.Context()))
		}
		require.NoError(t, fleet.Of(two).Reset(t.Context()))
		require.Equal(t, int64(100), remaining(t, one))
		require.NoError(t, one.Wait(t.Context()), "the store still decides")
		require.Equal(t, int64(99), remaining(t, two))
		time.Sleep(5 * time.Second)
		r.forget()
		time.Sleep(5 * time.Second)
		require.Equal(t, int64(99), remaining(t, two))
	})
}

// Refunds that the store missed while it was away stay charged. Spending meanwhile is reported, and given back if it was not used.
func TestWhatIsOwedIsPaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.Daily(10, time.UTC))
		defer closing(t, p)
		one, err := p.Reserve(t.Context())
		require.NoError(t, err)
		two, err := p.Reserve(t.Context(), pacer.Cost(3))
		require.NoError(t, err)
		require.NoError(t, two.Wait(t.Context()))
		r.set(errBroken, 0)
		require.NoError(t, one.NotUsed(t.Context()))
		require.NoError(t, two.Settle(t.Context(), policies.Cost{N: 1}))
		three, err := p.Reserve(t.Context(), pacer.Cost(4))
		require.NoError(t, err)
		four, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.NoError(t, four.NotUsed(t.Context()))
		r.set(nil, 0)
		back()
		require.Equal(t, int64(2), remaining(t, p), "of ten: calls of 1, 3 and 4")
		require.NoError(t, three.NotUsed(t.Context()), "granted locally, given back to the fleet")
		require.Equal(t, int64(6), remaining(t, p))
	})
}

// A slot that was granted locally is not used behind the return of the store, though its owner begins to wait only then: others have the whole
// limit.
func TestALocalReservationIsExchangedWhenItsOwnerWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(2)
		one, two := away(t, r, pacer.PaceLocally, policies.PerSecond(2)), away(t, r, pacer.PaceLocally, policies.PerSecond(2))
		defer closing(t, one)
		defer closing(t, two)
		require.NoError(t, one.Wait(t.Context()))
		require.NoError(t, two.Wait(t.Context()))
		r.set(errBroken, 0)
		all := make([]*pacer.Reservation, 10)
		var err error
		for i := range 5 {
			all[i], err = one.Reserve(t.Context())
			require.NoError(t, err)
		}
		r.set(nil, 0)
		back()
		var slots []store.Instant
		for i := range 5 {
			all[5+i], err = two.Reserve(t.Context())
			require.NoError(t, err)
		}
		var going sync.WaitGroup
		for _, v := range all {
			going.Go(func() { require.NoError(t, v.Wait(t.Context())) })
		}
		going.Wait()
		for _, v := range all {
			slot, _ := inside.Slot(v)
			slots = append(slots, slot)
		}
		slices.Sort(slots)
		for i := 1; i < len(slots); i++ {
			require.GreaterOrEqual(t, slots[i].Sub(slots[i-1]), 500*time.Millisecond, "%v", slots)
		}
	})
}

// A pause that arrives during an outage applies in this process, and is reported to the fleet.
func TestAPauseReceivedLocally(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(2)
		one, two := away(t, r, pacer.PaceLocally, policies.PerSecond(10)), away(t, r, pacer.PaceLocally, policies.PerSecond(10))
		defer closing(t, one)
		defer closing(t, two)
		require.NoError(t, one.Wait(t.Context()))
		r.set(errBroken, 0)
		require.NoError(t, one.Report(t.Context(), policies.Feedback{Wait: 30 * time.Second}))
		require.ErrorIs(t, one.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
		r.set(nil, 0)
		back()
		require.ErrorIs(t, two.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
		s, err := two.Status(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 28*time.Second, max(s.PausedFor, s.Policies[0].PausedFor), float64(time.Second))
	})
}

// The first processes to return wait for the others.
func TestTheFleetComesBackTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(2)
		r.barriers = true
		p := away(t, r, pacer.PaceLocally, policies.Daily(1000, time.UTC))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(errBroken, 0)
		require.NoError(t, p.Wait(t.Context()))
		r.set(nil, 0)
		time.Sleep(300 * time.Millisecond)
		r.mu.Lock()
		require.NotZero(t, r.barrier)
		r.mu.Unlock()
		requested := r.count()
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, requested, r.count(), "still local")
		fresh := away(t, r, pacer.PaceLocally, policies.Daily(1000, time.UTC))
		defer closing(t, fresh)
		require.NoError(t, fresh.Wait(t.Context()), "one that comes just then waits with them")
		back()
		require.Equal(t, int64(996), remaining(t, p))
	})
}

// A process that finds the barrier of others returns at that one, though it is over before a further request would be answered.
func TestOneBarrierIsEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(2)
		r.barriers = true
		p := away(t, r, pacer.PaceLocally, policies.PerSecond(100))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(errBroken, 0)
		require.NoError(t, p.Wait(t.Context()))
		r.set(nil, 200*ms)
		others := store.Instant(time.Now().Add(350 * ms).UnixMicro())
		r.mu.Lock()
		r.barrier = others
		r.mu.Unlock()
		back()
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Equal(t, others, r.barrier)
	})
}

// A store that denies every process access is a mistake if it always did, and an outage otherwise.
func TestDenied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		r.failing = errDenied
		p := away(t, r, pacer.PaceLocally, policies.PerSecond(1000).Burst(10))
		defer closing(t, p)
		for range 3 {
			require.ErrorIs(t, p.Wait(t.Context()), errDenied)
		}
		r.set(nil, 0)
		require.NoError(t, p.Wait(t.Context()))
		r.set(errDenied, 0)
		require.NoError(t, p.Wait(t.Context()))
	})
}

// A process reports that it is alive while it is, and that it leaves.
func TestAProcessSendsHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.PerSecond(10))
		time.Sleep(time.Minute)
		require.Empty(t, r.received(), "not before it is used")
		require.NoError(t, p.Wait(t.Context()))
		time.Sleep(time.Minute)
		require.GreaterOrEqual(t, len(r.received()), 20)
		require.LessOrEqual(t, len(r.received()), 29, "not more often than it takes")
		for _, b := range r.received() {
			require.Equal(t, 10*time.Second, b.TTL)
			require.Equal(t, r.received()[0].ID, b.ID)
			require.Greater(t, b.Keep, time.Second)
		}
		closing(t, p)
		require.Zero(t, r.received()[len(r.received())-1].TTL)
		n := len(r.received())
		time.Sleep(time.Minute)
		require.Len(t, r.received(), n)
		closing(t, p)
		require.ErrorIs(t, p.Wait(t.Context()), pacer.ErrClosed)
	})
}

// A call that wakes long after its slot and its slack gives it back, and reserves again.
func TestAStaleSlotIsNotUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.PerSecond(10)}, Jitter: pacer.NoJitter})
		require.NoError(t, err)
		var held []*pacer.Reservation
		for range 30 {
			one, err := p.Reserve(t.Context(), pacer.MaxWait(pacer.Forever))
			require.NoError(t, err)
			held = append(held, one)
		}
		time.Sleep(time.Minute)
		start := time.Now()
		var wg sync.WaitGroup
		for _, one := range held {
			wg.Go(func() { require.NoError(t, one.Wait(t.Context())) })
		}
		wg.Wait()
		require.Equal(t, 2900*time.Millisecond, time.Since(start).Round(time.Millisecond), "at the pace, from now on")

		p, err = pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.PerSecond(10)}, MaxLate: pacer.Forever})
		require.NoError(t, err)
		one, err := p.Reserve(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		start = time.Now()
		require.NoError(t, one.Wait(t.Context()))
		require.Zero(t, time.Since(start))
	})
}

// One that is too late for its deadline is refused, without a charge.
func TestAStaleSlotThatCannotBeReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.PerSecond(10)}, MaxWait: 20 * time.Second})
		require.NoError(t, err)
		one, err := p.Reserve(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		for range 10 {
			_, err := p.Reserve(t.Context())
			require.NoError(t, err)
		}
		require.ErrorIs(t, one.Wait(t.Context()), pacer.ErrNotYet)
	})
}

func TestBadOutageConfig(t *testing.T) {
	t.Parallel()
	for field, c := range map[string]pacer.Config{
		"StoreTimeout": {Upstream: "x", StoreTimeout: -1},
		"Outage":       {Upstream: "x", Outage: 9},
		"Processes":    {Upstream: "x", Processes: -1},
		"MaxLate":      {Upstream: "x", MaxLate: -1},
	} {
		_, err := pacer.New(c)
		var ce *pacer.ConfigError
		require.ErrorAs(t, err, &ce)
		require.Equal(t, field, ce.Field)
	}
	_, err := pacer.New(pacer.Config{Upstream: "x", Processes: 10_001})
	require.Error(t, err)
}

// A share may be less than what one call costs. Such a call goes, at the pace of the share.
func TestACallThatCostsMoreThanTheShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		r.failing = errBroken
		p, err := pacer.New(pacer.Config{Upstream: "api", Store: r, Processes: 4, Jitter: pacer.NoJitter, Policies: []policies.Policy{
			policies.PerSecond(40).Burst(4).Named("a"), policies.PerSecond(80).Burst(4).Named("b"), policies.AtMost(400, time.Second).Burst(8).Named("c"),
			policies.Fixed(60, time.Second).Named("d"),
		}})
		require.NoError(t, err)
		defer closing(t, p)
		start := time.Now()
		for range 10 {
			require.NoError(t, p.Wait(t.Context(), pacer.Cost(4)))
		}
		require.InDelta(t, 4*time.Second, time.Since(start), float64(time.Second), "40 at 10 a second")
		one, err := p.Reserve(t.Context(), pacer.Cost(4))
		require.NoError(t, err)
		require.NoError(t, one.NotUsed(t.Context()))
	})
}

// The longer a store is away, the more rarely it is tried: once a second in the end. A short outage ends promptly all the same.
func TestALongOutageIsProbedRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.PaceLocally, policies.Daily(1000, time.UTC))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(errBroken, 0)
		require.NoError(t, p.Wait(t.Context()))
		before := r.count()
		time.Sleep(1600 * time.Millisecond)
		require.InDelta(t, 15, r.count()-before, 3)
		time.Sleep(time.Minute)
		before = r.count()
		time.Sleep(time.Minute)
		require.InDelta(t, 60, r.count()-before, 6)
		r.set(nil, 0)
		time.Sleep(1200 * time.Millisecond)
		require.Equal(t, int64(998), remaining(t, p), "it is back")
	})
}
