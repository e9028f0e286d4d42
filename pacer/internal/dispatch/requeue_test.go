package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// hold returns a request for a call that holds its slot from the start.
func hold() *dispatch.Request {
	q := request(rate)
	q.WillWait = false
	return q
}

// waitAll has calls reserve, then wait, and returns a function that waits for them.
func (r *rig) waitAll(t *testing.T, n int, q *dispatch.Request) (wait func()) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		c := new(dispatch.Call)
		require.NoError(t, r.Reserve(t.Context(), c, q))
		all.Go(func() {
			if c.Wait(t.Context()) == nil {
				r.note(fmt.Sprint(i))
			}
		})
	}
	synctest.Wait()
	return all.Wait
}

// A pause moves those whose slots are inside it, and no others: all slots are given back before the first is reserved again, and the
// calls keep their order.
func TestAPauseMovesCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{gap: 100 * ms}
		r := newRig(t, s, nil)
		wait := r.waitAll(t, 150, hold())
		s.history()
		time.Sleep(50 * ms)
		r.Changed(t.Context(), []store.Change{s.pause(3050 * ms)})
		synctest.Wait()
		log := s.history()
		require.Equal(t, "cancel 30", log[0], "those at 100 ms, 200 ms … 3 s")
		require.Equal(t, "reserve 30", log[1])
		wait()
		went, when := r.history()
		require.Equal(t, []string{"0", "31", "32"}, went[:3], "the slots after the pause stay as they were")
		require.Equal(t, 3100*ms, when[1].Round(ms))
		require.Equal(t, []string{"1", "2"}, went[120:122], "the others go behind")
		require.Equal(t, 150, s.charged())
	})
}

// A pause that arrives between the grant and the wait is not missed, though no call waits then.
func TestAPauseBeforeTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{gap: 100 * ms}
		r := newRig(t, s, nil)
		now, later := new(dispatch.Call), new(dispatch.Call)
		require.NoError(t, r.Reserve(t.Context(), now, hold()))
		require.NoError(t, r.Reserve(t.Context(), later, hold()))
		r.Changed(t.Context(), []store.Change{s.pause(time.Second)})
		require.NoError(t, now.Wait(t.Context()))
		require.Equal(t, time.Second, time.Since(r.start).Round(ms), "even if its slot is now")
		require.NoError(t, later.Wait(t.Context()))
		require.Equal(t, 1100*ms, time.Since(r.start).Round(ms))
	})
}

// A pause that arrives while a call is moving is not missed: its new slot may lie inside.
func TestAPauseWhileMoving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{gap: 100 * ms, way: 20 * ms}
		r := newRig(t, s, nil)
		first, c := new(dispatch.Call), new(dispatch.Call)
		require.NoError(t, r.Reserve(t.Context(), first, hold()))
		require.NoError(t, r.Reserve(t.Context(), c, hold()))
		require.NoError(t, first.Wait(t.Context()))
		r.Changed(t.Context(), []store.Change{s.pause(time.Second)})
		go func() {
			time.Sleep(35 * ms) // it has given its slot back, and the store has decided on another one
			r.Changed(t.Context(), []store.Change{s.pause(5 * time.Second)})
		}()
		begin := time.Now()
		require.NoError(t, c.Wait(t.Context()))
		require.GreaterOrEqual(t, time.Since(begin), 5*time.Second)
		require.False(t, c.IsReusable())
		require.True(t, first.IsReusable())
	})
}

// A call that is given up while it is in its queue again leaves nothing behind there, by its owner or by another: the next one goes.
func TestACallThatIsGivenUpBehindAPause(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]func(c *dispatch.Call, cancel func()){
		"by its owner": func(_ *dispatch.Call, cancel func()) { cancel() },
		"by another":   func(c *dispatch.Call, _ func()) { _ = c.Cancel(context.Background()) },
	} {
		for _, after := range []time.Duration{5 * ms, 15 * ms, 25 * ms, 35 * ms, 45 * ms, 500 * ms} { // while it gives back, reserves, and waits
			synctest.Test(t, func(t *testing.T) {
				s := &fake{gap: 100 * ms, way: 20 * ms}
				r := newRig(t, s, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				now, other, c, next := new(dispatch.Call), new(dispatch.Call), new(dispatch.Call), new(dispatch.Call)
				for _, one := range []*dispatch.Call{now, other, c, next} {
					require.NoError(t, r.Reserve(t.Context(), one, hold()))
				}
				require.NoError(t, now.Wait(t.Context()))
				var all sync.WaitGroup
				all.Go(func() { require.Error(t, c.Wait(ctx), name) })
				all.Go(func() { require.NoError(t, other.Wait(t.Context()), name) })
				all.Go(func() { require.NoError(t, next.Wait(t.Context()), name) })
				synctest.Wait()
				all.Go(func() { r.Changed(t.Context(), []store.Change{s.pause(time.Second)}) })
				time.Sleep(after)
				giveUp(c, cancel)
				all.Wait()
				require.Zero(t, r.Queued(), name)
				require.Equal(t, 3, s.charged(), "%s after %v", name, after)
			})
		}
	}
}

// After a resumption there are earlier slots; a queued call polls.
func TestAResumption(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{gap: 100 * ms}
		r := newRig(t, s, nil)
		pause := s.pause(time.Hour)
		r.Changed(t.Context(), []store.Change{pause})
		wait := r.waitAll(t, 5, hold())
		s.mu.Lock()
		s.paused = 0
		s.mu.Unlock()
		time.Sleep(time.Second)
		r.Changed(t.Context(), []store.Change{{Kind: store.Resumed, Now: instant(time.Now())}})
		wait()
		require.Equal(t, 1400*ms, time.Since(r.start).Round(ms))
	})
}

// A call that would be too late behind a pause is refused, and its slot stays given back.
func TestTooLateBehindAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{gap: 100 * ms}
		r := newRig(t, s, nil)
		q, c := hold(), new(dispatch.Call)
		q.Call.NotBefore, q.Call.MaxWait = 2*time.Second, 10*time.Second
		require.NoError(t, r.Reserve(t.Context(), c, q))
		done := make(chan error)
		go func() { done <- c.Wait(t.Context()) }()
		time.Sleep(time.Second)
		r.Changed(t.Context(), []store.Change{s.pause(time.Minute)})
		var no refused
		require.ErrorAs(t, <-done, &no)
		require.Equal(t, []time.Duration{10 * time.Second, time.Second, time.Minute}, []time.Duration{no.MaxWait, no.Waited, no.For})
		require.True(t, no.Paused)
		require.Zero(t, s.charged())
		require.ErrorAs(t, c.Wait(t.Context()), &no, "the same error again")
		require.NoError(t, c.Cancel(t.Context()), "there is nothing to give back")
	})
}

// A call that wakes up far too late gives its slot back, and takes the next one.
func TestAnOverdueCallMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{gap: 100 * ms}
		r := newRig(t, s, nil)
		for late, moves := range map[time.Duration]bool{400 * ms: false, 600 * ms: true} {
			c := new(dispatch.Call)
			q := hold()
			q.Call.NotBefore = time.Second
			require.NoError(t, r.Reserve(t.Context(), c, q))
			s.history()
			time.Sleep(time.Second + late)
			require.NoError(t, c.Wait(t.Context()))
			require.Equal(t, moves, len(s.history()) > 0, late)
		}
	})
}

// A slot goes, or is given back, once.
func TestACallIsSpentOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{gap: 100 * ms}
		r := newRig(t, s, nil)
		c, given := new(dispatch.Call), new(dispatch.Call)
		require.NoError(t, r.Reserve(t.Context(), c, hold()))
		require.NoError(t, r.Reserve(t.Context(), given, hold()))
		require.Equal(t, 100*ms, given.Delay())
		require.Equal(t, "limit", given.View().Policy)
		require.NoError(t, c.Wait(t.Context()))
		require.ErrorIs(t, c.Wait(t.Context()), dispatch.ErrSpent)
		require.NoError(t, given.Cancel(t.Context()))
		require.NoError(t, given.Cancel(t.Context()))
		require.ErrorIs(t, given.Wait(t.Context()), dispatch.ErrSpent)
		_, _, err := given.Settle(t.Context(), nil, func(string) int64 { return 5 })
		require.ErrorIs(t, err, dispatch.ErrSpent)
		require.Equal(t, []string{"reserve 1", "reserve 1", "cancel 1"}, s.history())

		stack, all, err := c.Settle(t.Context(), nil, func(policy string) int64 { require.Equal(t, "limit", policy); return 5 })
		require.NoError(t, err)
		require.Equal(t, "api", stack.Upstream)
		require.Len(t, all, 1)
		require.Equal(t, []int64{1, 5}, []int64{all[0].Cost, all[0].Actual})
		_, _, err = c.Settle(t.Context(), nil, func(string) int64 { return 5 })
		require.ErrorIs(t, err, dispatch.ErrSettled)
	})
}

// If the answer comes after the context's end, or after its deadline, the slot is given back.
func TestTheAnswerComesTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: 100 * ms, gap: 200 * ms}
		r := newRig(t, s, nil)
		require.NoError(t, r.Reserve(t.Context(), new(dispatch.Call), hold()))
		ended, cancel := context.WithCancel(t.Context())
		time.AfterFunc(60*ms, cancel)
		require.ErrorIs(t, r.Reserve(ended, new(dispatch.Call), hold()), context.Canceled)
		require.Equal(t, 1, s.charged())

		time.Sleep(150 * ms)
		s.history()
		require.NoError(t, r.Reserve(t.Context(), new(dispatch.Call), hold()))
		ctx, cancel := context.WithTimeout(t.Context(), 150*ms)
		defer cancel()
		var no refused
		require.ErrorAs(t, r.Reserve(ctx, new(dispatch.Call), hold()), &no, "100 ms from when the store decided, 150 ms from the answer")
		require.True(t, no.ByDeadline)
		require.Equal(t, []string{"reserve 1", "reserve 1", "cancel 1"}, s.history(), "the store had granted it")
	})
}

// When the store is back, calls give up what this process granted them for slots that are not earlier. One that cannot have such a slot in
// time is refused.
func TestResync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{gap: 100 * ms, local: true}
		r := newRig(t, s, nil)
		wait := r.waitAll(t, 6, hold())
		strict := hold()
		strict.Call.MaxWait = 600 * ms // the seventh slot is at 600 ms
		refusal := make(chan error)
		go func() {
			_, err := r.wait(t.Context(), "", strict)
			refusal <- err
		}()
		time.Sleep(250 * ms)
		s.history()
		s.mu.Lock()
		s.local = false
		s.taken[instant(r.start.Add(600*ms))] = 2 // another process has that slot
		receive := s.receive
		s.mu.Unlock()
		receive(store.News{Changes: []store.Change{{Kind: store.Resync}}})
		require.ErrorAs(t, <-refusal, new(refused))
		wait()
		require.Equal(t, []string{"cancel 4", "reserve 1", "reserve 1", "reserve 1", "reserve 1"}, s.history(), "three have gone")
		_, when := r.history()
		require.Equal(t, 300*ms, when[3].Round(ms))
		require.Equal(t, 500*ms, when[5].Round(ms))
		require.Equal(t, 7, s.charged())
	})
}

// No call gets an earlier slot when the store is back: the others of the fleet count on theirs.
func TestResyncGivesNoEarlierSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{gap: 100 * ms, local: true}
		r := newRig(t, s, nil)
		wait := r.waitAll(t, 6, hold())
		time.Sleep(250 * ms)
		s.mu.Lock()
		s.local = false
		clear(s.taken) // the store does not know what this process granted
		receive := s.receive
		s.mu.Unlock()
		receive(store.News{Changes: []store.Change{{Kind: store.Resync}}})
		wait()
		_, when := r.history()
		require.Equal(t, []time.Duration{300 * ms, 400 * ms, 500 * ms}, []time.Duration{when[3].Round(ms), when[4].Round(ms), when[5].Round(ms)})
	})
}

// A call of a queue that waits for a rate may get an earlier slot. One that waits for a window does not.
func TestResyncGivesQueuedCallsEarlierSlots(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy policies.Policy
		want   time.Duration
	}{
		"rate": {policies.PerSecond(10), 110 * ms}, "window": {policies.Fixed(10, time.Second), 200 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &fake{gap: 100 * ms, local: true}
				r := newRig(t, s, nil)
				going := make(chan time.Duration, 3)
				begun := time.Now()
				for range 3 {
					go func() {
						_, _ = r.wait(t.Context(), "", request([]store.Limit{{Policy: "limit", Spec: c.policy.Spec()}}))
						going <- time.Since(begun)
					}()
				}
				time.Sleep(110 * ms)
				s.mu.Lock()
				s.local, s.gap = false, 10*ms
				clear(s.taken)
				receive := s.receive
				s.mu.Unlock()
				receive(store.News{Changes: []store.Change{{Kind: store.Resync}}})
				<-going
				<-going
				require.Equal(t, c.want, (<-going).Round(ms), "its slot was at 200 ms")
			})
		})
	}
}

// anew binds a call by other limits, from generation 1 on.
type anew []store.Limit

func (limits anew) Bind() dispatch.Bound {
	q := request(limits)
	q.Generation = 1
	return dispatch.Bound{Request: *q, OK: true, Keep: func() {}}
}

// A call that a request carries while it is bound anew gives back the slot that it gets, and goes to the queue of its new limits.
func TestACallIsBoundAnewWhileItIsOnTheWire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: 100 * ms, gap: time.Second}
		r := newRig(t, s, nil)
		_, err := r.wait(t.Context(), "", request(rate))
		require.NoError(t, err)
		s.history()
		time.AfterFunc(50*ms, func() { r.Replan(1) })
		q := request(rate)
		q.Binder = anew{{Policy: "other"}}
		c, err := r.wait(t.Context(), "", q)
		require.NoError(t, err)
		require.Equal(t, "other", c.View().Policy)
		require.Equal(t, 2, s.charged())
		require.ElementsMatch(t, []string{"reserve 1", "cancel 1", "reserve 1"}, s.history())
	})
}

// After news that may have been missed, the process reads which limits are paused.
func TestMissedNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{gap: 100 * ms}
		r := newRig(t, s, nil)
		wait := r.waitAll(t, 3, hold())
		s.pause(time.Minute)
		s.receive(store.News{Missed: true})
		wait()
		_, when := r.history()
		require.Equal(t, []time.Duration{0, time.Minute, time.Minute + 100*ms}, []time.Duration{when[0].Round(ms), when[1].Round(ms), when[2].Round(ms)})
	})
}

// panicking is a store that panics while it is bad: when something is given back, and, if it is worse, when something is reserved.
type panicking struct {
	*fake

	bad, worse bool
}

func (p *panicking) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	if p.worse {
		panic("a store")
	}
	return p.fake.Reserve(ctx, stack, calls, grants)
}

func (p *panicking) Cancel(ctx context.Context, stack store.Stack, grants []store.Grant) error {
	if p.bad {
		panic("a store")
	}
	return p.fake.Cancel(ctx, stack, grants)
}

// A store that panics in a goroutine of this package ends nothing: what was not given back is lost, and the calls of a request fail.
func TestAStoreThatPanicsWhileCallsMove(t *testing.T) {
	t.Parallel()
	for _, worse := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &panicking{fake: &fake{gap: 100 * ms}}
			r := newRig(t, s, nil)
			var all sync.WaitGroup
			var went, failed atomic.Int64
			for range 20 {
				c := new(dispatch.Call)
				require.NoError(t, r.Reserve(t.Context(), c, hold()))
				all.Go(func() {
					if err := c.Wait(t.Context()); err == nil {
						went.Add(1)
					} else {
						failed.Add(1)
					}
				})
			}
			synctest.Wait()
			s.bad, s.worse = true, worse
			r.Changed(t.Context(), []store.Change{s.pause(time.Minute)})
			all.Wait()
			want := []int64{20, 0}
			if worse {
				want = []int64{1, 19} // the first had gone
			}
			require.Equal(t, want, []int64{went.Load(), failed.Load()})
			require.Zero(t, r.Queued())
			s.bad, s.worse = false, false
			require.NoError(t, r.Reserve(t.Context(), new(dispatch.Call), hold()))
		})
	}
}

// calendar is a store that does not know the windows of its calendar for a while, and takes its time to grant.
type calendar struct {
	*fake

	unknown atomic.Bool
}

func (s *calendar) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	time.Sleep(10 * ms)
	if now := instant(time.Now()); s.unknown.Load() {
		grants[0] = store.Grant{AtLeast: true, Now: now, At: now.Add(time.Hour)}
		return nil
	}
	return s.fake.Reserve(ctx, stack, calls, grants)
}

// Calls that come back to a queue before one that waits for its answer make one request, however many they are.
func TestCallsThatComeBackAskOnce(t *testing.T) {
	t.Parallel()
	for range 20 { // the answer may be faster
		synctest.Test(t, func(t *testing.T) {
			s := &calendar{fake: &fake{gap: time.Second}}
			r := newRig(t, s, nil)
			wait := r.waitAll(t, 80, hold())
			s.unknown.Store(true)
			var last sync.WaitGroup
			last.Go(func() { _, _ = r.wait(t.Context(), "", request(rate)) })
			time.Sleep(time.Second)
			s.unknown.Store(false)
			before, _ := s.sent()
			r.Changed(t.Context(), []store.Change{{Kind: store.Resumed, Now: instant(time.Now())}})
			time.Sleep(3 * time.Second)
			after, _ := s.sent()
			require.LessOrEqual(t, after-before, 5)
			wait()
			last.Wait()
		})
	}
}
