package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// runAll has n calls get a permit each and hold it for a time, and returns a function that waits for them.
func (r *rig) runAll(t *testing.T, n int, hold time.Duration) (wait func()) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			c, err := r.wait(t.Context(), fmt.Sprint(i), request(inFlight))
			if errors.Is(err, store.ErrClosed) {
				return
			}
			require.NoError(t, err)
			time.Sleep(hold)
			r.Leases.Release(c.Lease())
		})
		time.Sleep(ms)
	}
	return all.Wait
}

// releases returns how many permits came back.
func (f *fake) releases() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.freed
}

// queued returns how many calls are in the store's queue.
func (f *fake) queued() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queue)
}

// A permit is passed on to the next call of the process, in order and at once; the store sees one call.
func TestAPermitIsPassedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: 100 * ms, permits: 1}
		r := newRig(t, s, nil)
		wait := r.runAll(t, 8, 300*ms)
		wait()
		went, when := r.history()
		require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7"}, went)
		require.Equal(t, 100*ms, when[0].Round(ms))
		require.Zero(t, s.releases())
		for i := 1; i < 8; i++ {
			require.Equal(t, 300*ms, (when[i] - when[i-1]).Round(ms), i)
		}
		time.Sleep(time.Second)
		require.Zero(t, s.queued(), "no position is left behind")
		require.Equal(t, 1, s.releases())
	})
}

// A permit that no call waits for is kept for a moment, for the next one that comes, and then given back.
func TestAPermitIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: 80 * ms, permits: 1}
		r := newRig(t, s, nil)
		c, err := r.wait(t.Context(), "", request(inFlight))
		require.NoError(t, err)
		for range 3 {
			r.Leases.Release(c.Lease())
			time.Sleep(9 * ms)
			begin := time.Now()
			c, err = r.wait(t.Context(), "", request(inFlight))
			require.NoError(t, err)
			require.Zero(t, time.Since(begin).Round(ms))
		}
		require.Zero(t, s.releases())
		r.Leases.Release(c.Lease())
		time.Sleep(11*ms + 80*ms)
		require.Equal(t, 1, s.releases())
		begin := time.Now()
		c, err = r.wait(t.Context(), "", request(inFlight))
		require.NoError(t, err)
		require.Equal(t, 80*ms, time.Since(begin).Round(ms), "it asked the store")
		r.Leases.Release(c.Lease())
	})
}

// After its slice of time a permit goes back to the store, even if another call of the process waits.
func TestAPermitGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: 10 * ms, permits: 1} // a slice is 2 s, give or take half of it
		r := newRig(t, s, nil)
		wait := r.runAll(t, 20, 500*ms)
		wait()
		time.Sleep(time.Second)
		require.GreaterOrEqual(t, s.releases(), 3)
		require.LessOrEqual(t, s.releases(), 12)
	})
}

// Permits are not passed on while the upstream is paused, nor if a lease counts only from some age on.
func TestWhichPermitsArePassedOn(t *testing.T) {
	t.Parallel()
	after := policies.InFlight(1).Spec()
	after.After = 1
	fair := policies.InFlight(1).Spec()
	fair.Queue = specs.FairQueue
	for name, one := range map[string]struct {
		limits []store.Limit
		paused bool
		passed bool
	}{
		"permits":          {limits: inFlight, passed: true},
		"paused":           {limits: inFlight, paused: true},
		"with a rate":      {limits: []store.Limit{inFlight[0], rate[0]}, passed: true},
		"fair shares":      {limits: []store.Limit{{Policy: "permits", Spec: fair}}, passed: true},
		"only from an age": {limits: []store.Limit{{Policy: "permits", Spec: after}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &fake{way: 40 * ms, permits: 1}
				r := newRig(t, s, nil)
				first, err := r.wait(t.Context(), "", request(one.limits))
				require.NoError(t, err)
				go func() {
					c, err := r.wait(t.Context(), "second", request(one.limits))
					if err == nil {
						r.Leases.Release(c.Lease())
					}
				}()
				time.Sleep(100 * ms)
				if one.paused {
					r.Changed(t.Context(), []store.Change{{Kind: store.Paused, Now: instant(time.Now()), Until: instant(time.Now().Add(time.Hour))}})
				}
				r.Leases.Release(first.Lease())
				time.Sleep(50 * ms) // one that needs a slot, too, polls once: after less than it takes to give the permit back, and to poll
				went, _ := r.history()
				require.Equal(t, one.passed, slices.Contains(went, "second"))
			})
		})
	}
}

// As many calls are in the store's queue as are useful; the others wait in the process, and leave it in order.
func TestFewCallsAreInTheStoresQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: 10 * ms, permits: 1}
		r := newRig(t, s, nil)
		defer r.close()
		first, err := r.wait(t.Context(), "", request(inFlight))
		require.NoError(t, err)
		for range 30 {
			go func() { _, _ = r.wait(t.Context(), "", request(inFlight)) }()
			time.Sleep(20 * ms)
		}
		require.Equal(t, 4, s.queued(), "of permits that are passed on")
		require.Equal(t, int64(26), r.Queued())
		require.Equal(t, int64(30), r.Waiting()[store.Key{Policy: "permits"}])

		other := newRig(t, &fake{way: 10 * ms, permits: 1}, nil)
		defer other.close()
		after := policies.InFlight(1).Spec()
		after.After = 1
		for range 30 {
			go func() { _, _ = other.wait(t.Context(), "", request([]store.Limit{{Policy: "permits", Spec: after}})) }()
			synctest.Wait()
		}
		time.Sleep(100 * ms)
		require.Equal(t, int64(30-1-dispatch.MinQueued), other.Queued(), "of those that are not; one has gone")
		r.Leases.Release(first.Lease())
	})
}

// A call that is woken polls at once, and one whose wake-up is lost after a while. A wake-up that comes before the answer is not lost.
func TestWakeUps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, one := range map[string]struct {
			mute   bool
			expect time.Duration
		}{"woken": {expect: 200 * ms}, "not woken": {mute: true, expect: time.Second}} {
			s := &fake{way: 40 * ms, permits: 1, mute: one.mute}
			s.held = map[int64]bool{7: true} // of another process
			r := newRig(t, s, nil)
			time.AfterFunc(180*ms, func() {
				_, _, _ = s.Report(context.Background(), store.Stack{}, []store.Note{{Kind: store.NoteRelease, Value: 7}})
			})
			begin := time.Now()
			c, err := r.wait(t.Context(), "", request(inFlight))
			require.NoError(t, err)
			require.InDelta(t, one.expect, time.Since(begin), float64(100*ms), name)
			r.Leases.Release(c.Lease())
			r.close()
		}

		s := &fake{way: 40 * ms, permits: 1}
		s.held = map[int64]bool{7: true}
		r := newRig(t, s, nil)
		r.Listen()
		time.AfterFunc(5*ms, func() { // it reaches the store when the call has been queued there, and before the call knows
			time.Sleep(5 * ms)
			_, _, _ = s.Report(context.Background(), store.Stack{}, []store.Note{{Kind: store.NoteRelease, Value: 7}})
		})
		c, err := r.wait(t.Context(), "", request(inFlight))
		require.NoError(t, err)
		require.Less(t, time.Since(r.start), 150*ms)
		r.Leases.Release(c.Lease())
	})
}

// A call that is queued before its owner waits polls when the wait begins: it may have been woken before.
func TestACallThatIsWokenBeforeItsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: 40 * ms, permits: 1}
		s.held = map[int64]bool{7: true} // of another process
		r := newRig(t, s, nil)
		r.Listen()
		q, c := request(inFlight), new(dispatch.Call)
		q.WillWait = false
		require.NoError(t, r.Reserve(t.Context(), c, q))
		_, _, _ = s.Report(t.Context(), store.Stack{}, []store.Note{{Kind: store.NoteRelease, Value: 7}})
		begin := time.Now()
		require.NoError(t, c.Wait(t.Context()))
		require.Equal(t, 40*ms, time.Since(begin).Round(ms))
		r.Leases.Release(c.Lease())
	})
}

// A queued call that gives up leaves the store's queue, and its error has how long it waited if its time was over.
func TestLeavingTheStoresQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fake{way: 10 * ms, permits: 0}
		r := newRig(t, s, nil)
		q := request(inFlight)
		q.Call.MaxWait = 3 * time.Second
		_, err := r.wait(t.Context(), "", q)
		var no refused
		require.ErrorAs(t, err, &no)
		require.True(t, no.Queued)
		require.Equal(t, 3*time.Second, time.Since(r.start).Round(ms))
		ctx, cancel := context.WithTimeout(t.Context(), 2500*ms)
		defer cancel()
		_, err = r.wait(ctx, "", request(inFlight))
		require.ErrorAs(t, err, &no)
		require.True(t, no.ByDeadline)
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = r.wait(ctx, "", request(inFlight))
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(100 * ms)
		require.Zero(t, s.queued())
	})
}
