package failover_test

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

var errDown = errors.New("connection refused")

// shared is a store of a fleet that can fail, hang and forget.
type shared struct {
	mu         sync.Mutex
	mem        *memstore.Store
	epoch      store.Epoch
	down       bool // every operation fails
	hangs      bool // none is answered
	loses      bool // the answers to operations that count are lost
	deaf       bool // and the operations themselves
	done       map[store.Once]bool
	heartbeats []store.Heartbeat
	until      map[string]store.Instant // by process, when the last heartbeat ends
	holds      []store.Holding          // what heartbeats bring
	notes      []store.Note
	served     int // calls
	forgets    int // how many more requests for calls meet another life of the data
	away       time.Duration
}

func newShared() *shared { return &shared{mem: memstore.New(), epoch: store.Epoch{Began: 7_000}} }

// enter returns the store's memory, or an error.
func (s *shared) enter(ctx context.Context) (*memstore.Store, error) {
	s.mu.Lock()
	away := s.away
	s.mu.Unlock()
	time.Sleep(away)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hangs {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return nil, ctx.Err()
	}
	if s.down {
		return nil, errDown
	}
	return s.mem, nil
}

func (s *shared) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *shared) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	return s.ReserveAll(ctx, []store.Batch{{Stack: stack, Calls: calls, Grants: grants}})
}

func (s *shared) ReserveAll(ctx context.Context, batches []store.Batch) error {
	mem, err := s.enter(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.forgets > 0 {
		s.forgets--
		s.epoch.Began += 1_000_000
	}
	epoch := s.epoch
	s.served += len(batches[0].Calls)
	s.mu.Unlock()
	if batches[0].Stack.Epoch != epoch {
		return &store.ForgotError{Epoch: epoch}
	}
	for i := range batches {
		if err := mem.Reserve(ctx, batches[i].Stack, batches[i].Calls, batches[i].Grants); err != nil {
			return err
		}
	}
	return nil
}

func (s *shared) Cancel(ctx context.Context, stack store.Stack, grants []store.Grant) error {
	return s.CancelAll(ctx, []store.Batch{{Stack: stack, Grants: grants}})
}

func (s *shared) CancelAll(ctx context.Context, batches []store.Batch) error {
	mem, err := s.enter(ctx)
	for i := 0; err == nil && i < len(batches); i++ {
		err = mem.Cancel(ctx, batches[i].Stack, batches[i].Grants)
	}
	return cmp.Or(err, s.lost(true))
}

// repeated reports whether an operation was done before.
func (s *shared) repeated(o *store.Once) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o == nil {
		return false
	}
	if s.done == nil {
		s.done = make(map[store.Once]bool)
	}
	k := store.Once{By: o.By, Number: o.Number}
	was := s.done[k]
	s.done[k] = true
	for k := range s.done {
		if k.Number < o.Known {
			delete(s.done, k)
		}
	}
	return was
}

// lost returns an error in place of an answer that is lost.
func (s *shared) lost(counts bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loses && counts {
		return errDown
	}
	return nil
}

func (s *shared) Report(ctx context.Context, stack store.Stack, notes []store.Note) (store.Instant, int, error) {
	mem, err := s.enter(ctx)
	if err != nil {
		return 0, 0, err
	}
	counts := slices.ContainsFunc(notes, func(n store.Note) bool { return n.Kind == store.NoteSettle })
	s.mu.Lock()
	deaf := s.deaf && counts
	s.mu.Unlock()
	if deaf {
		return 0, 0, errDown
	}
	if s.repeated(stack.Once) {
		return mem.Now(), 0, s.lost(counts)
	}
	s.set(func() { s.notes = append(s.notes, notes...) })
	now, changed, err := mem.Report(ctx, stack, notes)
	return now, changed, cmp.Or(err, s.lost(counts))
}

func (s *shared) Status(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	mem, err := s.enter(ctx)
	if err != nil {
		return store.StackStatus{}, err
	}
	return mem.Status(ctx, stack)
}

func (s *shared) Pauses(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	return s.Status(ctx, stack)
}

func (s *shared) Heartbeat(ctx context.Context, _ string, b store.Heartbeat) (store.Membership, error) {
	mem, err := s.enter(ctx)
	if err != nil {
		return store.Membership{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heartbeats = append(s.heartbeats, b)
	if now := mem.Now(); b.Until > now && b.Began == s.epoch.Began && s.until[b.ID] < b.Until {
		s.epoch = store.Epoch{Began: now}
	}
	if s.until == nil {
		s.until = make(map[string]store.Instant)
	}
	s.until[b.ID] = mem.Now().Add(b.TTL)
	return store.Membership{Now: mem.Now(), Epoch: s.epoch, Alive: 2, Barrier: mem.Now().Add(b.Barrier), Holds: s.holds}, nil
}

func (*shared) Fault(error) store.Fault { return store.Unreachable }

// scene is a member on top of a shared store.
type scene struct {
	*failover.Store
	failover.Nobody

	shared *shared
	stack  store.Stack

	mu    sync.Mutex
	seen  []failover.Change
	calls readings.Reports // that run
	busy  bool             // one more begins each time that they are looked at
}

func (s *scene) Permits() []readings.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		id := 1e14 + int64(len(s.calls.All))
		s.calls.All = append(s.calls.All, readings.Report{Limits: s.stack.Limits, Notes: []store.Note{{Kind: store.NoteRenew, Value: id, At: s.Now()}}})
	}
	return slices.Clone(s.calls.All)
}

func (s *scene) FailedOver(c failover.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, c)
}

func (s *scene) changes() []failover.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func newScene(mode failover.Mode) *scene {
	return newSceneOf(mode, policies.PerSecond(10).Named("rate"))
}

// newSceneOf returns a scene with one policy.
func newSceneOf(mode failover.Mode, p policies.Policy) *scene {
	s := &scene{shared: newShared(), stack: store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: p.Name(), Spec: p.Spec()}}}}
	s.Store = failover.New(s.shared, &failover.Config{
		Upstream: "api", Mode: mode, Timeout: time.Second, Processes: 2, Policies: []policies.Policy{p},
		InForce: failover.Nobody{Policy: p}, Owner: s,
	})
	return s
}

// reserve reserves for one call.
func (s *scene) reserve(ctx context.Context) (store.Grant, error) {
	var grants [1]store.Grant
	err := s.Reserve(ctx, s.stack, []store.Call{{Cost: 1, MaxWait: store.Forever}}, grants[:])
	return grants[0], err
}

// While the shared store answers, it decides. When it fails, this process decides at once, within its share and behind what the store
// had granted; when the store is back, it learns what was spent, and decides again.
func TestTheStoreIsLostAndComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(failover.Local)
		g, err := s.reserve(t.Context())
		require.NoError(t, err)
		require.True(t, g.OK)
		require.False(t, g.Local)
		require.Empty(t, s.changes())

		s.shared.set(func() { s.shared.down = true })
		begin := time.Now()
		var at []store.Instant
		for range 5 {
			g, err := s.reserve(t.Context())
			require.NoError(t, err)
			require.True(t, g.Local)
			require.NotNil(t, g.Receipt)
			require.False(t, s.Exchangeable(&g), "there is nothing that it could be exchanged for")
			at = append(at, g.At)
		}
		require.Zero(t, time.Since(begin), "a store that fails costs no time")
		for i := 1; i < len(at); i++ {
			require.Equal(t, 200*time.Millisecond, at[i].Sub(at[i-1]), "half of the rate")
		}
		require.Len(t, s.changes(), 1)
		require.True(t, s.changes()[0].Lost)
		require.ErrorIs(t, s.changes()[0].Err, errDown)
		require.Nil(t, s.Registry())
		require.False(t, s.Echoes())

		time.Sleep(5 * time.Second) // all of them have gone
		s.shared.set(func() { s.shared.down = false })
		time.Sleep(3 * time.Second)
		require.Len(t, s.changes(), 2)
		require.False(t, s.changes()[1].Lost)
		g, err = s.reserve(t.Context())
		require.NoError(t, err)
		require.False(t, g.Local)
		require.False(t, s.Exchangeable(&g))
		s.Close()
		require.Zero(t, s.shared.heartbeats[len(s.shared.heartbeats)-1].TTL, "it leaves the fleet")
		_, err = s.reserve(t.Context())
		require.ErrorIs(t, err, store.ErrClosed)
	})
}

// A store that is silent is given its budget of time, and no more; the next calls do not wait for it.
func TestASilentStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(failover.Local)
		_, err := s.reserve(t.Context())
		require.NoError(t, err)
		s.shared.set(func() { s.shared.hangs = true })
		begin := time.Now()
		g, err := s.reserve(t.Context())
		require.NoError(t, err)
		require.True(t, g.Local)
		require.Equal(t, time.Second, time.Since(begin))
		_, err = s.reserve(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(begin), "nobody asks again at once")
		s.Close()
	})
}

// A store that has not answered in time is out of reach because of a timeout, which is not the caller's.
func TestASilentStoreTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(failover.Refuse)
		_, err := s.reserve(t.Context())
		require.NoError(t, err)
		s.shared.set(func() { s.shared.hangs = true })
		var timeout net.Error
		_, err = s.reserve(t.Context())
		require.ErrorIs(t, err, store.ErrUnreachable)
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller had time")
		s.Close()
	})
}

// The mode decides what happens to calls.
func TestModes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(failover.Refuse)
		s.shared.down = true
		_, err := s.reserve(t.Context())
		require.ErrorIs(t, err, store.ErrUnreachable)
		require.ErrorIs(t, err, errDown)
		_, err = s.Status(t.Context(), s.stack)
		require.ErrorIs(t, err, store.ErrUnreachable)
		s.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		s := newScene(failover.LetThrough)
		s.shared.down = true
		for range 100 {
			g, err := s.reserve(t.Context())
			require.NoError(t, err)
			require.Zero(t, g.Wait())
			require.True(t, g.Local)
			require.Nil(t, g.Receipt)
			require.NoError(t, s.Cancel(t.Context(), s.stack, []store.Grant{g}))
		}
		s.Close()
	})
}

// A store that has forgotten is reminded of what it had granted, before it decides again.
func TestAStoreThatForgotIsReminded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(failover.Local)
		var last store.Grant
		for range 30 {
			g, err := s.reserve(t.Context())
			require.NoError(t, err)
			last = g
		}
		s.shared.set(func() {
			s.shared.mem, s.shared.epoch, s.shared.notes = memstore.New(), store.Epoch{Began: s.shared.epoch.Began + 1_000_000}, nil
		})
		g, err := s.reserve(t.Context())
		require.NoError(t, err)
		require.True(t, g.Local, "it is not believed at once")
		time.Sleep(2500 * time.Millisecond)
		claimed := store.Instant(0)
		s.shared.set(func() {
			for _, n := range s.shared.notes {
				if n.Kind == store.NoteClaim {
					claimed = max(claimed, store.Instant(n.Charge.To))
				}
			}
		})
		require.GreaterOrEqual(t, claimed, last.At, "the last slot that it had granted")
		s.Close()
	})
}

// A call never gets the error of a store that forgets more than once: the store is reminded again, and one that only forgets is out of reach.
func TestAStoreThatForgetsAgain(t *testing.T) {
	t.Parallel()
	for _, mode := range []failover.Mode{failover.Refuse, failover.LetThrough} {
		for _, times := range []int{1, 2, 100} {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(mode)
				defer s.Close()
				_, err := s.reserve(t.Context())
				require.NoError(t, err)
				s.shared.set(func() { s.shared.forgets = times })
				g, err := s.reserve(t.Context())
				if lost := times == 100; lost && mode == failover.Refuse {
					require.ErrorIs(t, err, store.ErrUnreachable)
				} else {
					require.NoError(t, err, times)
					require.Equal(t, lost, g.Local, times)
				}
			})
		}
	}
}

// A fleet's background requests are bounded, however large it is.
func TestTheScheduleOfAFleet(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 10, 100, 1000, 5000} {
		p := failover.ScheduleOf(n)
		each := float64(n)
		heartbeats, checks, descriptions := each/p.Heartbeat.Seconds(), each/p.Check.Seconds(), each/p.Describe.Seconds()
		if n >= 120 {
			require.LessOrEqual(t, heartbeats, 41.0, n)
			require.LessOrEqual(t, checks, 21.0, n)
			require.LessOrEqual(t, descriptions, 84.0, n)
		}
		require.Greater(t, p.TTL, 3*p.Heartbeat, "two heartbeats may be lost: %d", n)
		require.LessOrEqual(t, p.Describe, time.Minute)
	}
}

// A call does not wait for as long as a store that is far away forgets.
func TestAStoreThatForgetsAgainFarAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(failover.Refuse)
		_, err := s.reserve(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		s.shared.set(func() { s.shared.forgets, s.shared.away = 1000, 400*time.Millisecond })
		defer s.Close()
		began := time.Now()
		_, err = s.reserve(t.Context())
		require.ErrorIs(t, err, store.ErrUnreachable)
		require.Equal(t, 1200*time.Millisecond, time.Since(began), "asked, reminded and asked again")
	})
}
