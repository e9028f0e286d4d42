package memstore_test

import (
	"encoding/json"
	"testing"
	"time"
	_ "time/tzdata" // Berlin's

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A restored store continues the counts of windows and calendars, whatever its clock did meanwhile, but not reservations for later, nor
// rates.
func TestWindowsAreRestored(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	now := store.Instant(1.7e15)
	clock := memstore.WithClock(func() store.Instant { return now })
	stack := store.Stack{Upstream: "api", Limits: []store.Limit{
		{Policy: "day", Spec: policies.Daily(100, berlin).Spec()},
		{Policy: "minute", Scope: "acme", Spec: policies.Fixed(10, time.Minute).Spec()},
		{Policy: "sliding", Spec: policies.Sliding(20, time.Minute).Spec()},
		{Policy: "rate", Spec: policies.PerSecond(50).Burst(20).Spec()},
	}}
	reserve := func(m *memstore.Store, n int) []store.Grant {
		grants, calls := make([]store.Grant, n), make([]store.Call, n)
		for i := range calls {
			calls[i] = store.Call{Cost: 1, MaxWait: store.Forever}
		}
		require.NoError(t, m.Reserve(t.Context(), stack, calls, grants))
		return grants
	}
	remaining := func(m *memstore.Store) (all []int64) {
		s, err := m.Status(t.Context(), stack)
		require.NoError(t, err)
		for _, l := range s.Limits {
			all = append(all, l.Remaining)
		}
		return all
	}
	first := memstore.New(clock)
	reserve(first, 8)
	require.Equal(t, []int64{92, 2, 12, 12}, remaining(first))
	saved, err := json.Marshal(first.Windows(10, time.Second))
	require.NoError(t, err)

	now = now.Add(5 * time.Second)
	var windows []memstore.Window
	require.NoError(t, json.Unmarshal(saved, &windows))
	second := memstore.New(clock)
	require.Equal(t, 3, second.Restore(windows))
	memstore.Audit(t, second)
	require.Equal(t, []int64{92, 2, 12, 20}, remaining(second))
	require.Zero(t, second.Restore(windows), "it has these keys")
	grants := reserve(second, 5)
	require.True(t, grants[1].At <= now && grants[2].At > now, "two had room")
	require.Equal(t, "day", second.Windows(1, time.Second)[0].Policy, "which lasts longest")
	for _, w := range second.Windows(10, time.Second) {
		if w.Policy == "minute" {
			require.Equal(t, int64(10), w.Counts[len(w.Counts)-1][1], "the calls of the next minute may never be made")
		}
	}

	now = now.Add(48 * time.Hour)
	require.Zero(t, memstore.New(clock).Restore(windows), "all are over")
	require.Empty(t, second.Windows(10, time.Second))
}

// A restored window goes on with its pace.
func TestPacesAreRestored(t *testing.T) {
	t.Parallel()
	now := store.Instant(1.7e15).Add(25 * time.Second)
	clock := memstore.WithClock(func() store.Instant { return now })
	stack := store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: "p", Spec: policies.Fixed(60, time.Minute).Burst(5).Spec()}}}
	reserve := func(m *memstore.Store) store.Instant {
		grants := make([]store.Grant, 1)
		require.NoError(t, m.Reserve(t.Context(), stack, []store.Call{{Cost: 1, MaxWait: store.Forever}}, grants))
		return grants[0].At
	}
	first := memstore.New(clock)
	for range 10 {
		now = reserve(first)
	}
	second := memstore.New(clock)
	require.Equal(t, 1, second.Restore(first.Windows(10, time.Second)))
	memstore.Audit(t, second)
	for range 3 {
		require.Equal(t, reserve(first), reserve(second))
	}
}

// A file may hold anything.
func TestRestoreLeavesOutNonsense(t *testing.T) {
	t.Parallel()
	m := memstore.New(memstore.WithMaxKeys(1), memstore.WithClock(func() store.Instant { return 1000 }))
	good := memstore.Window{Upstream: "api", Policy: "p", Bucket: 100, Ends: 2000, Counts: [][2]int64{{900, 1}, {1000, 2}}}
	for name, change := range map[string]func(w *memstore.Window){
		"no bucket":         func(w *memstore.Window) { w.Bucket = 0 },
		"negative buckets":  func(w *memstore.Window) { w.Buckets = -1 },
		"no counts":         func(w *memstore.Window) { w.Counts = nil },
		"out of order":      func(w *memstore.Window) { w.Counts = [][2]int64{{1000, 1}, {900, 1}} },
		"twice":             func(w *memstore.Window) { w.Counts = [][2]int64{{900, 1}, {900, 1}} },
		"a negative count":  func(w *memstore.Window) { w.Counts = [][2]int64{{900, -1}} },
		"begins at its end": func(w *memstore.Window) { w.Counts = [][2]int64{{2000, 1}} },
		"a negative line":   func(w *memstore.Window) { w.Line = -1 },
		"a late front":      func(w *memstore.Window) { w.Since = 2000 },
		"is over":           func(w *memstore.Window) { w.Ends = 1000 },
	} {
		bad := good
		change(&bad)
		require.Zero(t, m.Restore([]memstore.Window{bad}), name)
	}
	other := good
	other.Scope = "acme"
	require.Equal(t, 1, m.Restore([]memstore.Window{good, other}), "there is no room for two")
	memstore.Audit(t, m)
}
