package redisstore_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Herds: no request for thousands of waiters at once is large, and nothing stays charged. How many requests there are is judged in virtual
// time, by the packages pacer and batch.

// A far is a server that is some way away: what clients send arrives late.
type far struct {
	listener net.Listener
	to       string
	delay    time.Duration

	mu     sync.Mutex
	conns  []net.Conn
	closed bool
	work   sync.WaitGroup
}

// newFar returns a way to a server that takes a while in one direction.
func newFar(t *testing.T, to string, delay time.Duration) *far {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &far{listener: l, to: to, delay: delay}
	f.work.Go(f.accept)
	t.Cleanup(func() {
		f.mu.Lock()
		f.closed = true
		for _, c := range f.conns {
			_ = c.Close()
		}
		f.mu.Unlock()
		_ = l.Close()
		f.work.Wait()
	})
	return f
}

func (f *far) keep(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, c)
	return !f.closed
}

func (f *far) accept() {
	for {
		near, err := f.listener.Accept()
		if err != nil {
			return
		}
		there, err := new(net.Dialer).DialContext(context.Background(), "tcp", f.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		if !f.keep(near) || !f.keep(there) {
			_ = near.Close()
			_ = there.Close()
			return
		}
		f.work.Go(func() { f.carry(near, there) })
		f.work.Go(func() {
			_, _ = io.Copy(near, there)
			_ = near.Close()
			_ = there.Close()
		})
	}
}

// carry passes on what comes, each piece as long after it came.
func (f *far) carry(from, to net.Conn) {
	type piece struct {
		data []byte
		at   time.Time
	}
	pieces := make(chan piece, 1024)
	f.work.Go(func() {
		for p := range pieces {
			time.Sleep(time.Until(p.at)) //realtime: it is the way to the server
			if _, err := to.Write(p.data); err != nil {
				_ = from.Close()
			}
		}
		_ = to.Close()
	})
	defer close(pieces)
	for {
		buffer := make([]byte, 64<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			pieces <- piece{buffer[:n], time.Now().Add(f.delay)}
		}
		if err != nil {
			return
		}
	}
}

// A counted is a process whose requests are counted.
type counted struct {
	*pacer.Pacer

	mu        sync.Mutex
	requests  map[string]int // by what was done
	failed    []error
	fallbacks int
	back      time.Time // when it had its store back
	why       error     // why it lost it
	most      int       // calls in a request
	asleep    int
	args      atomic.Int64 // the most that a request had
	commands  atomic.Int64 // that its client was given
}

// maxArgs is more than a request has that is about 256 charges and as many accounts.
const maxArgs = 4000

func newCounted(t *testing.T, addr string, ps ...policies.Policy) *counted {
	t.Helper()
	return newCountedIn(t, addr, patience, ps...)
}

// newCountedIn is newCounted, of a process that waits for its store for so long; 0 for the default.
func newCountedIn(t *testing.T, addr string, timeout time.Duration, ps ...policies.Policy) *counted {
	t.Helper()
	rdb := redis.NewClient(patient(addr, true))
	t.Cleanup(func() { _ = rdb.Close() })
	c := &counted{requests: make(map[string]int)}
	rdb.AddHook(c)
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	c.Pacer, err = pacer.New(pacer.Config{
		Upstream: "test", Store: store, Policies: ps, MaxWait: pacer.Forever, StoreTimeout: timeout, Processes: 1,
		Hooks: []*hooks.Set{{
			StoreRequest: func(s hooks.StoreRequest) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.requests[s.Op]++
				c.most = max(c.most, s.Calls)
				if s.Err != nil {
					c.failed = append(c.failed, s.Err)
				}
			},
			Waiting: func(context.Context, hooks.Waiting) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.asleep++
			},
			Failover: func(f hooks.Failover) {
				c.mu.Lock()
				defer c.mu.Unlock()
				if c.fallbacks++; f.On {
					c.why = f.Err
				} else {
					c.back = time.Now()
				}
			},
		}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func (c *counted) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counted) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.commands.Add(1)
		n := int64(len(cmd.Args()))
		for most := c.args.Load(); n > most && !c.args.CompareAndSwap(most, n); most = c.args.Load() {
		}
		return next(ctx, cmd)
	}
}

func (c *counted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// since returns how many requests there were of each kind since its last call.
func (c *counted) since() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.requests
	c.requests = make(map[string]int)
	return seen
}

// steady checks that the process never lost its store, and sent nothing large.
func (c *counted) steady(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(t, c.failed)
	require.Zero(t, c.fallbacks)
	c.small(t)
}

// small checks that the process sent nothing large. The caller holds mu.
func (c *counted) small(t *testing.T) {
	t.Helper()
	require.LessOrEqual(t, c.most, 256, "calls in a request")
	require.Less(t, c.args.Load(), int64(maxArgs))
}

// line queues so many calls of one stack, asleep, and returns them in order, with a function that waits for their ends.
func (c *counted) line(ctx context.Context, t *testing.T, n int, opts ...pacer.Option) (line []*pacer.Reservation, ended func() []error) {
	t.Helper()
	line = make([]*pacer.Reservation, n)
	var asking sync.WaitGroup
	gate := make(chan struct{}, 256)
	for i := range line {
		gate <- struct{}{}
		asking.Go(func() {
			var err error
			line[i], err = c.Reserve(ctx, opts...)
			if err != nil {
				t.Error(err)
			}
			<-gate
		})
	}
	asking.Wait()
	require.False(t, t.Failed())
	ended = sleepAll(ctx, line)
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.asleep >= n
	}, patience, 5*time.Millisecond)
	return line, ended
}

// sleepAll waits for reservations in the background, and returns a function that waits for the end of that.
func sleepAll(ctx context.Context, line []*pacer.Reservation) (ended func() []error) {
	errs := make([]error, len(line))
	var sleeping sync.WaitGroup
	for i, r := range line {
		sleeping.Go(func() { errs[i] = r.Wait(ctx) })
	}
	return func() []error {
		sleeping.Wait()
		return errs
	}
}

// backlog returns how many calls are charged to slots to come.
func (c *counted) backlog(t *testing.T, opts ...pacer.ScopeOption) int64 {
	t.Helper()
	s, err := c.Status(t.Context(), opts...)
	require.NoError(t, err)
	most := int64(0)
	for i := range s.Policies {
		most = max(most, s.Policies[i].Backlog)
	}
	return most
}

var slowPolicies = []policies.Policy{
	policies.Every(30 * time.Second).Named("slow"), policies.PerSecond(7).Burst(3).Named("second"), policies.Sliding(1_000, time.Hour).Named("hour"),
}

// Reservations can still be given back when the Pacer is closed, or just then.
func TestReservationsOutliveClose(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := newCounted(t, newFar(t, server.Addr, 20*time.Millisecond).listener.Addr().String(), slowPolicies...)
	require.NoError(t, c.Wait(t.Context()))
	var mu sync.Mutex
	var kept []*pacer.Reservation
	var all sync.WaitGroup
	reserve := func(n int) {
		for range n {
			all.Go(func() {
				r, err := c.Reserve(t.Context())
				if errors.Is(err, pacer.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				kept = append(kept, r)
			})
		}
	}
	reserve(500)
	all.Wait()
	sent := c.commands.Load()
	reserve(500)
	require.Eventually(t, func() bool { return c.commands.Load() > sent }, patience, time.Millisecond, "on their way")
	require.NoError(t, c.Close())
	all.Wait()
	require.Greater(t, len(kept), 500)
	before := c.commands.Load()
	for i, r := range kept {
		all.Go(func() {
			if i%2 == 0 {
				require.NoError(t, r.Cancel(t.Context()))
			} else {
				require.ErrorIs(t, r.Wait(t.Context()), pacer.ErrClosed)
			}
		})
	}
	all.Wait()
	require.Zero(t, newCounted(t, server.Addr, slowPolicies...).backlog(t))
	require.Greater(t, c.commands.Load(), before)
	c.small(t)
}

// Very many calls that give up at once give back their slots, and so does Close.
func TestVeryManyCancels(t *testing.T) {
	t.Parallel()
	n := extent(500, 2000)
	for _, how := range []string{"cancel", "close"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			c := newCounted(t, newFar(t, server.Addr, time.Millisecond).listener.Addr().String(), slowPolicies...)
			looker := newCounted(t, server.Addr, slowPolicies...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			require.NoError(t, c.Wait(ctx, pacer.MaxWait(0)))
			_, ended := c.line(ctx, t, n)
			require.Greater(t, looker.backlog(t), int64(n-100))
			c.since()
			want := context.Canceled
			if how == "close" {
				want = pacer.ErrClosed
				require.NoError(t, c.Close())
			} else {
				cancel()
			}
			for _, err := range ended() {
				require.ErrorIs(t, err, want)
			}
			require.Zero(t, looker.backlog(t))
			c.steady(t)
		})
	}
}

// After a pause a long queue gives its slots back in pieces, while calls go on reserving; neither Report nor Close waits for that.
func TestALongPauseTakesTheSlotsOfALine(t *testing.T) {
	t.Parallel()
	const n = 1000
	server := redistest.Start(t)
	c := newCounted(t, newFar(t, server.Addr, 2*time.Millisecond).listener.Addr().String(), policies.PerSecond(500).Named("all"), policies.Every(time.Millisecond).Burst(3).Named("fine"))
	// Nothing goes meanwhile.
	require.NoError(t, c.Report(t.Context(), policies.Feedback{Wait: 10 * time.Minute}))
	line, ended := c.line(t.Context(), t, n)
	looker := newCounted(t, server.Addr, policies.PerSecond(500).Named("all"), policies.Every(time.Millisecond).Burst(3).Named("fine"))
	require.Greater(t, looker.backlog(t), int64(n-100))
	c.since()
	require.NoError(t, c.Report(t.Context(), policies.Feedback{Wait: 20 * time.Minute}))
	behind := func() bool { // what has given its slot back may be about to be queued
		return looker.backlog(t) < n/10 && !slices.ContainsFunc(line, func(r *pacer.Reservation) bool { return r.Delay() <= 15*time.Minute })
	}
	require.Eventually(t, behind, patience, 10*time.Millisecond, "only the next ones hold slots")
	t.Log(c.since())
	c.steady(t)
	// Close in the middle of a move.
	require.NoError(t, c.Report(t.Context(), policies.Feedback{Wait: 40 * time.Minute}))
	require.NoError(t, c.Close())
	for _, err := range ended() {
		require.ErrorIs(t, err, pacer.ErrClosed)
	}
	require.Zero(t, looker.backlog(t))
}

// Many tenants come back to a server that has forgotten, some dozens in each request: no other call gets their slots.
func TestManyTenantsComeBackTogether(t *testing.T) {
	t.Parallel()
	const n = 1000
	server := redistest.Start(t)
	far := newFar(t, server.Addr, time.Millisecond)
	c := newCounted(t, far.listener.Addr().String(), policies.Every(time.Hour).Per("tenant"))
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for range 2 {
				_, err := c.Reserve(t.Context(), pacer.Scope("tenant", strconv.Itoa(i)))
				require.NoError(t, err)
			}
		})
	}
	all.Wait()
	require.NoError(t, server.Client().FlushAll(t.Context()).Err())
	c.since()
	r, err := c.Reserve(t.Context(), pacer.Scope("tenant", "0"))
	require.NoError(t, err)
	require.Greater(t, r.Delay(), time.Hour)
	require.Eventually(t, func() bool { return server.Client().DBSize(t.Context()).Val() > n }, patience, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		r, err := c.Reserve(t.Context(), pacer.Scope("tenant", "1"))
		return err == nil && r.Delay() > 0 && pacerTogether(c)
	}, patience, 50*time.Millisecond)
	t.Log(c.since())
	for i := 2; i < n; i += 97 {
		r, err := c.Reserve(t.Context(), pacer.Scope("tenant", strconv.Itoa(i)))
		require.NoError(t, err)
		require.Greater(t, r.Delay(), 90*time.Minute, "two calls of this tenant are queued")
	}
	require.Less(t, c.args.Load(), int64(maxArgs))
}

// pacerTogether reports whether a process uses its store again.
func pacerTogether(c *counted) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests["reserve"] > 0
}

// After a broken subscription, a process with calls of many tenants reads the pauses in a few requests.
func TestCatchingUpAfterABrokenSubscription(t *testing.T) {
	t.Parallel()
	const n = 500
	server := redistest.Start(t)
	rdb := server.Client()
	c := newCounted(t, server.Addr, policies.PerSecond(1000).Burst(1000).Named("all"), policies.Every(time.Hour).Per("tenant"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var line []*pacer.Reservation
	for i := range n {
		tenant := pacer.Scope("tenant", strconv.Itoa(i))
		require.NoError(t, c.Wait(ctx, tenant, pacer.MaxWait(0)))
		r, err := c.Reserve(ctx, tenant)
		require.NoError(t, err)
		line = append(line, r)
	}
	ended := sleepAll(ctx, line)
	listening(t, rdb, 1)
	require.Eventually(t, func() bool { return c.since()["status"] == 0 }, patience, 300*time.Millisecond)
	// A pause that reaches nobody.
	require.NoError(t, rdb.ClientKillByFilter(ctx, "TYPE", "pubsub").Err())
	policy := policies.Every(time.Hour).Per("tenant")
	backing, err := redisstore.New(rdb)
	require.NoError(t, err)
	_, _, err = backing.Report(ctx, store.Stack{Upstream: "test", Limits: []store.Limit{readings.AllowanceOf(store.Limit{Policy: policy.Name(), Scope: "7"})}},
		[]store.Note{store.Pause(0, 5*time.Hour)})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return line[7].Delay() > 2*time.Hour }, patience, 10*time.Millisecond)
	t.Log(c.since())
	cancel()
	ended()
	c.steady(t)
}

// A new epoch is announced to the subscribers: the one that they know has ended.
func TestAnEpochThatBeginsIsNews(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	backing, err := redisstore.New(server.Client())
	require.NoError(t, err)
	news := make(chan store.Change, 10)
	stop := backing.Listen("test", func(n store.News) {
		for _, c := range n.Changes {
			news <- c
		}
	})
	defer stop()
	listening(t, server.Client(), 1)
	heartbeat := func() {
		_, err := backing.Heartbeat(t.Context(), "test", store.Heartbeat{ID: "a", TTL: time.Minute, Keep: time.Hour})
		require.NoError(t, err)
	}
	for range 2 {
		heartbeat()
		heartbeat()
		require.Equal(t, store.EpochBegan, (<-news).Kind)
		require.Empty(t, news)
		require.NoError(t, server.Client().FlushAll(t.Context()).Err())
	}
}
