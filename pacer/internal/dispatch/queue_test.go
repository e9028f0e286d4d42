package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
)

// Calls go at their slots, in order of arrival, and only those within reach hold slots meanwhile.
func TestCallsGoInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: ms, gap: 5 * ms}
		r := newRig(t, s, nil)
		var all sync.WaitGroup
		names := make([]string, 100)
		for i := range names {
			names[i] = fmt.Sprint(i)
			all.Go(func() { _, err := r.wait(t.Context(), names[i], request(rate)); require.NoError(t, err) })
			synctest.Wait()
		}
		require.Equal(t, int64(99), r.Queued(), "the first asks for itself")
		time.Sleep(300 * ms)
		require.LessOrEqual(t, s.ahead(), 9, "H is 40 ms")
		require.GreaterOrEqual(t, s.ahead(), 1)
		all.Wait()
		went, when := r.history()
		require.Equal(t, names, went)
		for i := range when {
			require.Equal(t, when[0]+time.Duration(i)*5*ms, when[i].Round(ms), i)
		}
		requests, calls := s.sent()
		require.LessOrEqual(t, requests, 40, "most requests are for several")
		require.Less(t, calls, 200)
		require.Zero(t, r.Queued())
	})
}

// A direct store decides at once whether a call may go now, but not while another call is queued: it would be overtaken.
func TestACallThatMayGoAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{gap: 100 * ms}
		r := newRig(t, s, func(c *dispatch.Config) { c.Direct = true })
		untried := request(rate)
		untried.Untried = true
		_, err := r.wait(t.Context(), "0", untried)
		require.NoError(t, err)
		require.Equal(t, []string{"reserve 1"}, s.history())
		require.Zero(t, s.request(0)[0].MaxWait)
		var all sync.WaitGroup
		for i := 1; i < 6; i++ {
			all.Go(func() { _, err := r.wait(t.Context(), fmt.Sprint(i), untried); require.NoError(t, err) })
			synctest.Wait()
		}
		require.Equal(t, store.Forever, s.request(2)[0].MaxWait, "a call that may not go now is asked for as any other")
		require.Positive(t, r.Queued())
		before, _ := s.sent()
		all.Go(func() { _, err := r.wait(t.Context(), "6", untried); require.NoError(t, err) })
		synctest.Wait()
		after, _ := s.sent()
		require.Equal(t, before, after)
		all.Wait()
		went, when := r.history()
		require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6"}, went)
		require.Equal(t, 600*ms, when[6].Round(ms))

		s.fail = func() error { return errDown }
		_, err = r.wait(t.Context(), "", untried)
		require.ErrorIs(t, err, errDown)
	})
}

// While a request is under way no other one is: calls that come meanwhile share the next one.
func TestCallsShareARequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: 100 * ms}
		r := newRig(t, s, nil)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { _, err := r.wait(t.Context(), "", request(rate)); require.NoError(t, err) })
			synctest.Wait()
		}
		all.Wait()
		require.Equal(t, []string{"reserve 1", "reserve 19"}, s.history())
		_, when := r.history()
		require.Equal(t, []time.Duration{100 * ms, 200 * ms}, []time.Duration{when[0].Round(ms), when[19].Round(ms)})
	})
}

// Calls of other stacks, costs and fair shares have queues of their own.
func TestOtherQueuesAreNotDelayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: 100 * ms}
		r := newRig(t, s, nil)
		other := request([]store.Limit{{Policy: "limit", Scope: "acme"}})
		dear, flow, cheap := request(rate), request(rate), request(rate)
		dear.Call.Cost, flow.Call.Flow, cheap.Call.Costs = 4, 7, []int64{2}
		var all sync.WaitGroup
		for _, q := range []*dispatch.Request{request(rate), other, dear, flow, cheap} {
			all.Go(func() { _, err := r.wait(t.Context(), "", q); require.NoError(t, err) })
		}
		all.Wait()
		require.Equal(t, 100*ms, time.Since(r.start).Round(ms))
		require.Len(t, s.history(), 5)
	})
}

// A call that leaves the queue leaves nothing behind, and the others move up.
func TestLeavingTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: ms, gap: 100 * ms}
		r := newRig(t, s, nil)
		var all sync.WaitGroup
		gone, leave := context.WithCancelCause(t.Context())
		for i := range 10 {
			ctx := t.Context()
			if i >= 4 && i < 8 {
				ctx = gone
			}
			all.Go(func() {
				if _, err := r.wait(ctx, fmt.Sprint(i), request(rate)); i >= 4 && i < 8 {
					require.ErrorIs(t, err, context.Canceled)
				} else {
					require.NoError(t, err)
				}
			})
			synctest.Wait()
		}
		time.Sleep(50 * ms)
		leave(errors.New("enough"))
		all.Wait()
		went, when := r.history()
		require.Equal(t, []string{"0", "1", "2", "3", "8", "9"}, went)
		require.Equal(t, 500*ms, (when[5] - when[0]).Round(ms))
		require.Equal(t, 6, s.charged(), "nothing was charged for the others")
	})
}

// If the owner of the next call leaves, the one after it makes the request. If it leaves while a request carries its call, it waits for the
// answer, and gives back what it was granted.
func TestLeavingWhileARequestIsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: 100 * ms, gap: ms}
		r := newRig(t, s, nil)
		var all sync.WaitGroup
		gone, leave := context.WithCancel(t.Context())
		for i, ctx := range []context.Context{t.Context(), gone, gone, t.Context()} {
			all.Go(func() {
				_, err := r.wait(ctx, fmt.Sprint(i), request(rate))
				require.Equal(t, ctx.Err(), err)
			})
			synctest.Wait()
		}
		time.Sleep(150 * ms) // the second request is under way: by one that leaves, for another that leaves and one that does not
		leave()
		all.Wait()
		went, _ := r.history()
		require.Equal(t, []string{"0", "3"}, went)
		require.Equal(t, 2, s.charged(), "the two others were given back")
	})
}

// A request that fails is the failure of its calls, and of no other.
func TestARequestFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: 10 * ms, fail: func() error { return errDown }}
		r := newRig(t, s, nil)
		_, err := r.wait(t.Context(), "", request(rate))
		require.ErrorIs(t, err, errDown)
		var all sync.WaitGroup
		for i := range 5 { // the first one makes a request, the others share the next one
			all.Go(func() {
				if _, err := r.wait(t.Context(), "", request(rate)); i == 0 {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, "reserve: the store is down")
				}
			})
			synctest.Wait()
		}
		time.Sleep(6 * ms) // the first request has been decided
		s.mu.Lock()
		s.fail = func() error { return errDown }
		s.mu.Unlock()
		all.Wait()
		_, err = r.wait(t.Context(), "", request(rate))
		require.NoError(t, err)
	})
}

// If the store panics, so does the call that made the request, and no other call waits for it.
func TestTheStorePanics(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string][]store.Limit{"slots": rate, "permits": inFlight} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &fake{way: 10 * ms, permits: 1, fail: func() error { panic("a bug") }}
				r := newRig(t, s, nil)
				require.PanicsWithValue(t, "a bug", func() { _, _ = r.wait(t.Context(), "", request(limits)) })
				c, err := r.wait(t.Context(), "", request(limits))
				require.NoError(t, err)
				r.Leases.Release(c.Lease())
			})
		})
	}
}

// A call that is known to be too far away is refused at once, as an estimate; one that turns out to be, when the longest wait is over.
func TestTooFarAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: ms, gap: 100 * ms}
		r := newRig(t, s, nil)
		for range 30 {
			go func() { _, _ = r.wait(t.Context(), "", request(rate)) }()
			synctest.Wait()
		}
		time.Sleep(500 * ms)
		short := request(rate)
		short.Call.MaxWait = time.Second
		_, err := r.wait(t.Context(), "", short)
		var no refused
		require.ErrorAs(t, err, &no)
		require.True(t, no.About)
		require.InDelta(t, 2500*ms, no.For, float64(200*ms))
		require.Equal(t, time.Second, no.MaxWait)
		require.Zero(t, no.Waited)
		require.Equal(t, "limit", no.Limit.Policy)
		require.Equal(t, 500*ms, time.Since(r.start).Round(ms))

		late := request(rate)
		late.Call.MaxWait = 2600 * ms // about as long as it takes: but then there is a pause
		done := make(chan error)
		go func() { _, err := r.wait(t.Context(), "", late); done <- err }()
		synctest.Wait()
		r.Changed(t.Context(), []store.Change{s.pause(time.Hour)})
		require.ErrorAs(t, <-done, &no)
		require.Equal(t, 2600*ms, no.MaxWait)

		ctx, cancel := context.WithTimeout(t.Context(), 2600*ms)
		defer cancel()
		_, err = r.wait(ctx, "", request(rate))
		require.ErrorAs(t, err, &no)
		require.True(t, no.ByDeadline)
	})
}

// The last answer of a process without a share does not predict when it has one: a call that may wait makes its own request.
func TestNoShareIsNotTooFar(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: ms, gap: 100 * ms}
		r := newRig(t, s, nil)
		for range 30 {
			go func() { _, _ = r.wait(t.Context(), "", request(rate)) }()
			synctest.Wait()
		}
		time.Sleep(500 * ms)
		without := func(is bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.noShare = is
		}
		without(true)
		time.Sleep(150 * ms)
		without(false)
		short := request(rate)
		short.Call.MaxWait = time.Second
		began := time.Now()
		_, err := r.wait(t.Context(), "", short)
		var no refused
		require.ErrorAs(t, err, &no)
		require.False(t, no.NoShare)
		require.Equal(t, time.Second, time.Since(began))
	})
}

// When the pace drops, queued calls that can no longer go in time are refused then, and not when their time is over.
func TestThePaceDrops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: ms, gap: 20 * ms}
		r := newRig(t, s, nil)
		q := request(rate)
		q.Call.MaxWait = 5 * time.Second
		early := make(chan bool, 100)
		var all sync.WaitGroup
		for range 100 { // it would take 2 s
			all.Go(func() {
				var no refused
				if _, err := r.wait(t.Context(), "", q); errors.As(err, &no) {
					early <- no.About && time.Since(r.start) < 4*time.Second
				}
			})
			synctest.Wait()
		}
		time.Sleep(500 * ms)
		s.mu.Lock()
		s.gap = time.Second
		s.mu.Unlock()
		all.Wait()
		close(early)
		n := 0
		for one := range early {
			if one {
				n++
			}
		}
		require.Greater(t, n, 50)
	})
}

// A call whose longest wait is over while it is queued in the process reports all of it.
func TestTheLongestWaitIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &fake{way: 400 * ms}, nil)
		var first sync.WaitGroup
		first.Go(func() { _, _ = r.wait(t.Context(), "", request(rate)) })
		synctest.Wait()
		q := request(rate)
		q.Call.MaxWait = 300 * ms
		_, err := r.wait(t.Context(), "", q)
		var no refused
		require.ErrorAs(t, err, &no)
		require.Equal(t, 300*ms, time.Since(r.start).Round(ms))
		require.Equal(t, 300*ms, no.Waited)
		require.Zero(t, r.Queued())
		first.Wait()
	})
}

// Close wakes all calls, which give back what they hold.
func TestCloseWakesAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: 10 * ms, gap: 100 * ms}
		r := newRig(t, s, nil)
		errs := make(chan error, 20)
		for range 20 {
			go func() { _, err := r.wait(t.Context(), "", request(rate)); errs <- err }()
			synctest.Wait()
		}
		time.Sleep(250 * ms)
		before, _ := r.history()
		require.Positive(t, s.ahead())
		r.close()
		require.Zero(t, s.ahead(), "Drain waits until all slots are given back")
		for range 20 - len(before) {
			synctest.Wait()
			one := <-errs
			for one == nil {
				one = <-errs
			}
			require.ErrorIs(t, one, store.ErrClosed)
		}
		_, err := r.wait(t.Context(), "", request(rate))
		require.ErrorIs(t, err, store.ErrClosed)
		require.True(t, r.IsClosed())
	})
}

// Calls that wait are counted by what they wait for.
func TestWhatCallsWaitFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: ms, gap: 100 * ms}
		r := newRig(t, s, nil)
		for range 9 {
			go func() { _, _ = r.wait(t.Context(), "", request(rate)) }()
			synctest.Wait()
		}
		later := request(rate)
		later.Call.NotBefore = time.Hour
		go func() { _, _ = r.wait(t.Context(), "", later) }()
		time.Sleep(50 * ms)
		require.Equal(t, map[store.Key]int64{{Policy: "limit"}: 8}, r.Waiting(), "one has gone, and one waits for no limit")
		r.Changed(t.Context(), []store.Change{s.pause(time.Minute)})
		time.Sleep(50 * ms)
		require.Equal(t, int64(8), r.Waiting()[store.Key{Policy: "limit"}])
	})
}
