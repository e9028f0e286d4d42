package failover_test

import (
	"context"
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

// quota is a window that holds all calls of a test.
func quota() *scene {
	return newSceneOf(failover.Local, policies.Fixed(100, 1000*time.Hour).Named("quota"))
}

// left returns how many more calls the shared store admits.
func (s *scene) left(t *testing.T) int64 {
	t.Helper()
	status, err := s.shared.mem.Status(t.Context(), s.stack)
	require.NoError(t, err)
	return status.Limits[0].Remaining
}

// others make calls of other processes.
func (s *scene) others(t *testing.T, n int64) {
	t.Helper()
	var g [1]store.Grant
	require.NoError(t, s.shared.mem.Reserve(t.Context(), s.stack, []store.Call{{Cost: n}}, g[:]))
	require.True(t, g[0].OK)
}

// away has the store lose its answers, or answer again.
func (s *scene) away(loses bool) { s.shared.set(func() { s.shared.loses = loses }) }

// A call's real cost is charged once, however often the answer is lost. Unused or cancelled slots are given back once, or not at all if the
// store does not answer, and that is counted.
func TestASettlementIsNotDoneTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		way    string
		actual int64
		down   bool // and not only the answers are lost
		left   int64
	}{{"cancelled", 0, false, 40}, {"cancelled", 0, true, 39}, {"settled", 0, false, 40}, {"settled", 0, true, 39}, {"settled", 11, false, 29}, {"settled", 11, true, 29}} {
		synctest.Test(t, func(t *testing.T) {
			s := quota()
			g, err := s.reserve(t.Context())
			require.NoError(t, err)
			s.others(t, 60)
			s.shared.set(func() { s.shared.loses, s.shared.down = !c.down, c.down })
			if c.way == "cancelled" {
				require.NoError(t, s.Cancel(t.Context(), s.stack, []store.Grant{g}))
			} else {
				_, _, err = s.Report(t.Context(), s.stack, []store.Note{{Kind: store.NoteSettle, Charge: g.Charges[0], Cost: 1, Actual: c.actual}})
				require.NoError(t, err)
			}
			time.Sleep(5 * time.Second)
			s.shared.set(func() { s.shared.loses, s.shared.down = false, false })
			time.Sleep(5 * time.Second)
			require.Equal(t, c.left, s.left(t))
			require.Equal(t, c.actual == 0, s.changes()[1].Dropped == 1)
			s.Close()
			require.Equal(t, c.left, s.left(t))
		})
	}
}

// Local spending is charged once, however often the answer to that is lost.
func TestWhatWasSpentIsChargedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := quota()
		s.spend(t, 20)
		time.Sleep(time.Second)
		s.shared.set(func() { s.shared.down, s.shared.loses = false, true })
		time.Sleep(3 * time.Second)
		require.Equal(t, int64(79), s.left(t))
		require.Len(t, s.changes(), 1, "it does not know")
		s.away(false)
		time.Sleep(5 * time.Second)
		require.Equal(t, int64(79), s.left(t))
		s.Close()
		require.Equal(t, int64(79), s.left(t))
	})
}

// Local spending is in the first requests of a process that is back, though calls run: other processes that return at the same time begin
// calls in the same window.
func TestSpendingIsReportedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := quota()
		s.spend(t, 20)
		permits := policies.InFlight(8)
		s.mu.Lock()
		s.calls.Add(&store.Limit{Policy: permits.Name(), Spec: permits.Spec()}, store.Note{Kind: store.NoteRenew, Value: 1e14})
		s.mu.Unlock()
		count := func(kind store.NoteKind) (n int) {
			s.shared.set(func() {
				for i := range s.shared.notes {
					if s.shared.notes[i].Kind == kind {
						n++
					}
				}
			})
			return n
		}
		s.shared.set(func() { s.shared.down, s.shared.away = false, 10*time.Millisecond })
		renewed := 0
		for count(store.NoteSettle) == 0 {
			renewed = count(store.NoteRenew)
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		require.Equal(t, 1, renewed, "before the barrier, and not after it")
		s.Close()
	})
}

// Local spending of a rate is not charged when it has passed, though the report of it was lost.
func TestALostReportPasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSceneOf(failover.Local, policies.PerMinute(60).Burst(10).Named("rate"))
		s.spend(t, 5)
		s.shared.set(func() { s.shared.down, s.shared.deaf = false, true })
		time.Sleep(20 * time.Second)
		require.Len(t, s.changes(), 1)
		s.shared.set(func() { s.shared.deaf = false })
		time.Sleep(3 * time.Second)
		require.Len(t, s.changes(), 2)
		require.Equal(t, int64(10), s.left(t))
		s.Close()
	})
}

// A process that leaves before it is back reports what it spent.
func TestAProcessThatLeavesPaysWhatItOwes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := quota()
		s.spend(t, 20)
		time.Sleep(10 * time.Second)
		s.shared.set(func() { s.shared.down = false })
		s.Close()
		require.Equal(t, int64(79), s.left(t))
	})
}

// spend makes one call by the shared store, and some without it.
func (s *scene) spend(t *testing.T, n int) {
	t.Helper()
	_, err := s.reserve(t.Context())
	require.NoError(t, err)
	s.shared.set(func() { s.shared.down = true })
	for range n {
		g, err := s.reserve(t.Context())
		require.NoError(t, err)
		require.True(t, g.Local)
	}
}

// A process that leaves while the store is away waits for it no longer than for one request.
func TestCloseDoesNotWaitForAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := quota()
			_, err := s.reserve(t.Context())
			require.NoError(t, err)
			s.shared.set(func() { s.shared.down, s.shared.hangs = !hangs, hangs })
			_, err = s.reserve(t.Context())
			require.NoError(t, err)
			begin := time.Now()
			s.Close()
			require.LessOrEqual(t, time.Since(begin), 2*time.Second)
		})
	}
}

// A resumption takes effect now or not at all: later it could undo a newer pause.
func TestAResumptionIsNotLate(t *testing.T) {
	t.Parallel()
	for _, kind := range []store.NoteKind{store.NoteResume, store.NoteReset} {
		synctest.Test(t, func(t *testing.T) {
			s := quota()
			s.stack.Limits = append(s.stack.Limits, readings.AllowanceOf(s.stack.Limits[0]))
			_, err := s.reserve(t.Context())
			require.NoError(t, err)
			s.shared.set(func() { s.shared.down = true })
			_, err = s.reserve(t.Context())
			require.NoError(t, err)
			_, _, err = s.Report(t.Context(), s.stack, []store.Note{store.Pause(1, time.Minute)})
			require.NoError(t, err)
			_, _, err = s.Report(t.Context(), s.stack, []store.Note{{Kind: kind, Limit: 1}})
			require.ErrorIs(t, err, store.ErrUnreachable)
			require.ErrorContains(t, err, "do it again when the store is back")
			g, err := s.reserve(t.Context())
			require.NoError(t, err)
			require.Zero(t, g.Wait(), "this process heeds it")
			_, _, err = s.shared.mem.Report(t.Context(), s.stack, []store.Note{store.Pause(1, time.Hour)})
			require.NoError(t, err)
			s.shared.set(func() { s.shared.down = false })
			time.Sleep(5 * time.Second)
			status, err := s.shared.mem.Status(t.Context(), s.stack)
			require.NoError(t, err)
			require.NotZero(t, status.Limits[1].Paused, "others paused after that")
			s.Close()
		})
	}
}

// A settled difference is somebody else's by the time that the store is back, though the answer was lost: to grant it again is no loss, and
// it is not restored.
func TestASettlementWhoseAnswerIsLostIsNoLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSceneOf(failover.Local, policies.Every(10*time.Second).Burst(5).Named("rate"))
		var grants [1]store.Grant
		require.NoError(t, s.Reserve(t.Context(), s.stack, []store.Call{{Cost: 5}}, grants[:]))
		require.Zero(t, s.left(t))
		s.shared.set(func() { s.shared.loses = true })
		_, _, err := s.Report(t.Context(), s.stack, []store.Note{{Kind: store.NoteSettle, Charge: grants[0].Charges[0], Cost: 5, Actual: 1}})
		require.NoError(t, err)
		s.shared.set(func() { s.shared.loses = false })
		time.Sleep(4 * time.Second)
		require.Len(t, s.changes(), 2, "it is back")
		require.Positive(t, s.left(t))
		for range 3 {
			g, err := s.reserve(t.Context())
			require.NoError(t, err)
			require.False(t, g.Local)
		}
		require.Len(t, s.changes(), 2)
		require.Equal(t, 1, s.Losses())
		s.Close()
	})
}

// A store that has forgotten is not reminded of what a call did not need.
func TestWhatACallDidNotNeedIsNotBroughtBack(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]policies.Policy{"rate": policies.Every(time.Hour).Burst(5), "window": policies.Fixed(5, 1000*time.Hour)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSceneOf(failover.Local, p.Named("p"))
				var grants [1]store.Grant
				require.NoError(t, s.Reserve(t.Context(), s.stack, []store.Call{{Cost: 5}}, grants[:]))
				_, _, err := s.Report(t.Context(), s.stack, []store.Note{{Kind: store.NoteSettle, Charge: grants[0].Charges[0], Cost: 5, Actual: 1}})
				require.NoError(t, err)
				require.Equal(t, int64(4), s.left(t))
				s.shared.set(func() {
					s.shared.mem, s.shared.epoch = memstore.New(), store.Epoch{Began: s.shared.epoch.Began + 1_000_000}
				})
				time.Sleep(10 * time.Second)
				require.Len(t, s.changes(), 2, "it has been reminded")
				require.Equal(t, int64(4), s.left(t))
				s.Close()
			})
		})
	}
}

// Debts are bounded. Charges are kept all the same, and dropped debts are reported.
func TestTooMuchIsOwed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSceneOf(failover.Local, policies.Fixed(1_000_000, 1000*time.Hour).Named("quota"))
		g, err := s.reserve(t.Context())
		require.NoError(t, err)
		s.shared.set(func() { s.shared.down = true })
		_, err = s.reserve(t.Context())
		require.NoError(t, err)
		const more = 1 << 15
		for range more + 100 {
			_, _, err = s.Report(t.Context(), s.stack, []store.Note{{Kind: store.NoteSettle, Charge: g.Charges[0], Cost: 1, Actual: 2}})
			require.NoError(t, err)
		}
		for range 7 {
			require.NoError(t, s.Cancel(context.Background(), s.stack, []store.Grant{g}))
		}
		s.shared.set(func() { s.shared.down = false })
		time.Sleep(10 * time.Second)
		require.Len(t, s.changes(), 2)
		require.Equal(t, 7, s.changes()[1].Dropped)
		require.Equal(t, int64(1_000_000-1-1-more-100), s.left(t))
		s.Close()
	})
}
