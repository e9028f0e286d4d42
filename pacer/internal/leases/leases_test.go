package leases_test

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// received is what a store received about calls.
type received struct {
	mu       sync.Mutex
	released map[int64]int
	renewed  map[int64]int
	at       []time.Duration // of renewals
	start    time.Time
	late     int // reports after Close
}

func (r *received) report(all []readings.Report, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if closed {
		r.late++
	}
	for _, m := range all {
		for _, n := range m.Notes {
			if n.Kind == store.NoteRelease {
				r.released[n.Value]++
			} else {
				r.renewed[n.Value]++
				r.at = append(r.at, time.Since(r.start))
			}
		}
	}
}

func (r *received) gaveBack() map[int64]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.released)
}

func (r *received) renewals() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.at)
}

func (r *received) afterClose() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.late
}

func newReceived() *received {
	return &received{released: make(map[int64]int), renewed: make(map[int64]int), start: time.Now()}
}

func limits(ps ...policies.Policy) []store.Limit {
	all := make([]store.Limit, 0, len(ps))
	for _, p := range ps {
		all = append(all, store.Limit{Policy: p.Name(), Spec: p.Spec()})
	}
	return all
}

func never(*leases.Lease) bool { return false }

// A permit is renewed three times in the length of its lease, given back once, and then nothing runs any more.
func TestAPermitIsRenewedAndGivenBackOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReceived()
		s := leases.New(leases.Config{Report: r.report, PassOn: never})
		require.Nil(t, s.Take(1, limits(policies.PerSecond(1)), 0, time.Now(), leases.Passing{}), "no permits")
		f := s.Take(7, limits(policies.PerSecond(1), policies.InFlight(2).Lease(30*time.Second)), 5, time.Now(), leases.Passing{})
		require.Len(t, f.Limits, 1)
		require.Len(t, s.Held(), 1)
		time.Sleep(35 * time.Second)
		synctest.Wait()
		require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}, r.renewals())
		s.Release(f)
		s.Release(f)
		synctest.Wait()
		require.Equal(t, map[int64]int{7: 1}, r.gaveBack())
		require.Empty(t, s.Held())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, r.renewals(), 3)
		s.Close()
		s.Close()
	})
}

// The permit of a call that is not alive is not renewed, and is forgotten when its lease has run out.
func TestWhatIsNotAliveRunsOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReceived()
		s := leases.New(leases.Config{Report: r.report, PassOn: never})
		f := s.Take(1, limits(policies.InFlight(2).Lease(30*time.Second)), 0, time.Now(), leases.Passing{})
		var alive atomic.Bool
		alive.Store(true)
		s.WhileAlive(f, alive.Load)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		require.Len(t, r.renewals(), 1)
		alive.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, r.renewals(), 1)
		require.Empty(t, s.Held())
		s.Release(f)
		synctest.Wait()
		require.Empty(t, r.gaveBack(), "the store has taken it back by itself")
		s.Close()
	})
}

// A function of WhileAlive that panics does not end the program: its permit, and those of others, are renewed until they are given back. No
// lock is held meanwhile.
func TestAFunctionThatPanicsHarmsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReceived()
		s := leases.New(leases.Config{Report: r.report, PassOn: never})
		all := limits(policies.InFlight(2).Lease(30 * time.Second))
		bad, good := s.Take(1, all, 0, time.Now(), leases.Passing{}), s.Take(2, all, 0, time.Now(), leases.Passing{})
		s.WhileAlive(bad, func() bool {
			s.Held()
			panic("a function of the user's")
		})
		time.Sleep(25 * time.Second)
		synctest.Wait()
		require.Len(t, r.renewals(), 4)
		s.Release(bad)
		s.Release(good)
		synctest.Wait()
		require.Equal(t, map[int64]int{1: 1, 2: 1}, r.gaveBack())
		s.Close()
	})
}

// A function of WhileAlive that hangs delays renewals once, for a second, and its call counts as running.
func TestAFunctionThatHangsHarmsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReceived()
		s := leases.New(leases.Config{Report: r.report, PassOn: never})
		all := limits(policies.InFlight(2).Lease(30 * time.Second))
		bad, good := s.Take(1, all, 0, time.Now(), leases.Passing{}), s.Take(2, all, 0, time.Now(), leases.Passing{})
		release := make(chan struct{})
		s.WhileAlive(bad, func() bool {
			<-release
			return false
		})
		time.Sleep(25 * time.Second)
		synctest.Wait()
		require.Len(t, r.renewals(), 4)
		close(release)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, s.Held()[0].Notes, 1, "that of the other")
		s.Release(good)
		s.Close()
	})
}

// A guarded permit stays taken for a while; Close does not wait for that.
func TestAGuardedPermitComesBackLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReceived()
		s := leases.New(leases.Config{Report: r.report, PassOn: never, Direct: true})
		guarded := limits(policies.InFlight(2).Skew(time.Second))
		s.Release(s.Take(1, guarded, 0, time.Now(), leases.Passing{}))
		time.Sleep(time.Second - 1)
		require.Empty(t, r.gaveBack())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, map[int64]int{1: 1}, r.gaveBack())
		s.Release(s.Take(2, guarded, 0, time.Now(), leases.Passing{}))
		s.Close()
		require.Equal(t, map[int64]int{1: 1, 2: 1}, r.gaveBack())
		require.Equal(t, 1, r.afterClose())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, map[int64]int{1: 1, 2: 1}, r.gaveBack())
	})
}

// Permits that are passed on are not given back, and the call that had them before cannot do so any more.
func TestAPermitIsPassedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReceived()
		var s *leases.Leases
		var heirs []*leases.Lease
		s = leases.New(leases.Config{Report: r.report, PassOn: func(f *leases.Lease) bool {
			if len(heirs) == 2 {
				return false
			}
			heirs = append(heirs, s.Pass(f, store.Instant(len(heirs)+1)))
			return true
		}})
		first := s.Take(1, limits(policies.InFlight(1)), 0, time.Now(), leases.Passing{Queue: 9})
		s.Release(first)
		require.Equal(t, uint64(9), heirs[0].Passed.Queue)
		require.Nil(t, s.Pass(first, 5), "it is another's")
		s.Release(first)
		s.GiveBack(first)
		s.Release(heirs[0])
		require.Len(t, s.Held(), 1)
		synctest.Wait()
		require.Empty(t, r.gaveBack())
		s.Release(heirs[1])
		synctest.Wait()
		require.Equal(t, map[int64]int{1: 1}, r.gaveBack())
		s.Close()
		require.Nil(t, s.Pass(heirs[1], 5))
	})
}

// A call that has left the queue is reported, and one that was forgotten is not.
func TestLeavingTheQueueIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReceived()
		s := leases.New(leases.Config{Report: r.report, PassOn: never})
		all := limits(policies.InFlight(1))
		s.Leave(3, all, nil)
		f := s.Take(4, all, 0, time.Now(), leases.Passing{})
		s.Forget(f)
		s.Release(f)
		s.Forget(nil)
		s.Release(nil)
		s.WhileAlive(nil, nil)
		synctest.Wait()
		require.Equal(t, map[int64]int{3: 1}, r.gaveBack())
		s.Close()
	})
}

// Leases are renewed in time though calls end all the time and the store is far away.
func TestCallsThatEndHoldUpNoRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReceived()
		s := leases.New(leases.Config{PassOn: never, Report: func(all []readings.Report, closed bool) {
			time.Sleep(200 * time.Millisecond)
			r.report(all, closed)
		}})
		s.Take(1, limits(policies.InFlight(9).Lease(3*time.Second)), 0, time.Now(), leases.Passing{})
		for id := range int64(100) {
			s.Leave(10+id, limits(policies.InFlight(9)), nil)
			time.Sleep(50 * time.Millisecond)
		}
		var last time.Duration
		for _, at := range r.renewals() {
			require.Less(t, at-last, 3*time.Second/2)
			last = at
		}
		require.Greater(t, last, 3*time.Second)
		s.Close()
	})
}
