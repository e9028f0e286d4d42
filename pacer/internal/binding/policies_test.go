package binding_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A rig is policies, of which 10 a second are declared, and the number of their changes.
type rig struct {
	*binding.Policies

	changes int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{}
	r.Policies = binding.NewPolicies(&binding.Config{
		Upstream: "test", MaxPause: time.Hour,
		Declared: []policies.Policy{policies.PerSecond(10).Per("tenant").Named("p")},
		Changed: func(before, now *binding.Set) {
			require.Equal(t, before.Generation+1, now.Generation)
			require.Same(t, now, r.Now(), "it is in force when others learn of it")
			r.changes++
		},
	})
	t.Cleanup(r.Close)
	return r
}

// limit returns how many calls a second a tenant has.
func (r *rig) limit(tenant string) int64 {
	a := binding.Ask{Set: r.Now(), Options: []binding.Option{scope("tenant", tenant)}}
	limits := a.Bindable(false)
	n, _ := r.Now().PolicyOf(&limits[0]).Limit()
	return n
}

const second = store.Instant(1_000_000)

// set returns what operators have set, by a version and its texts, which hold for ten seconds each, and two more each.
func set(version store.Instant, all ...store.Setting) *store.Settings {
	s := &store.Settings{Now: 100 * second, Version: version, All: all}
	for i := range s.All {
		s.All[i].Since, s.All[i].Until = 90*second, (110+2*store.Instant(i))*second
	}
	return s
}

const twenty, thirty = "p: 20/s, per tenant", "p: 30/s, per tenant"

// Settings replace the declared policies until they end.
func TestWhatIsSetEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		require.Equal(t, int64(10), r.limit("a"))
		require.Empty(t, r.Now().Source)
		r.Read(set(1, store.Setting{Text: twenty}, store.Setting{Policy: "p", Scope: "a", Text: thirty}))
		require.Equal(t, 1, r.changes)
		require.Equal(t, int64(30), r.limit("a"))
		require.Equal(t, int64(20), r.limit("b"))
		require.Equal(t, "set at 1970-01-01 00:01:30.000", r.Now().Source)
		for range 9 { // a file that is edited more often than settings end does not prolong them
			time.Sleep(time.Second)
			require.True(t, r.Declare([]policies.Policy{policies.PerSecond(10).Per("tenant").Named("p")}))
		}
		synctest.Wait()
		require.Equal(t, 1, r.changes)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, int64(10), r.limit("b"), "that of all tenants has ended")
		require.Equal(t, int64(30), r.limit("a"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, int64(10), r.limit("a"), "that of one tenant as well")
		require.Equal(t, 3, r.changes)
	})
}

// The latest version counts, and a lost one no longer holds.
func TestWhichVersionCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.Read(set(0))
		require.Zero(t, r.changes, "nothing was ever set")
		r.Read(set(2, store.Setting{Text: twenty}))
		r.Read(set(1, store.Setting{Text: thirty}))
		require.Equal(t, int64(20), r.limit("a"), "an answer that was overtaken")
		r.Read(set(3, store.Setting{Text: thirty}))
		require.Equal(t, int64(30), r.limit("a"))
		require.Equal(t, 2, r.changes)
		r.Read(set(4, store.Setting{Text: thirty}))
		require.Equal(t, 2, r.changes, "the same policies, since the same time")
		require.True(t, r.Declare([]policies.Policy{policies.PerSecond(5).Per("tenant").Named("p")}))
		require.Equal(t, int64(30), r.limit("a"), "what is set goes first")
		r.Read(set(0))
		require.Equal(t, int64(5), r.limit("a"), "the store has forgotten it")
	})
}

// A text that is not understood does not hold, and the source contains that.
func TestTextsThatAreNotUnderstood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.Read(set(1, store.Setting{Text: "?"}, store.Setting{Policy: "p", Scope: "a", Text: "?"}))
		require.Equal(t, int64(10), r.limit("a"))
		require.Contains(t, r.Now().Source, `not understood: "?": policies: Text is "?"`)
	})
}

// Policies that are set with overrides are the same when they are read again, and others if an override is another one.
func TestOverridesThatAreSet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, c := range []struct {
		override string
		changes  int
		acme     int64
	}{
		{"", 1, 20},
		{"\nfor \"acme\": 50/s", 2, 50},
		{"\nfor \"acme\": 50/s", 2, 50},
		{"\nfor \"acme\": 60/s", 3, 60},
		{"\nfor \"acme\": 60/s\nfor \"globex\": 5/s", 4, 60},
		{"\nfor \"globex\": 5/s\nfor \"acme\": 60/s", 4, 60},
		{"", 5, 20},
	} {
		r.Read(set(store.Instant(i+1), store.Setting{Text: twenty + c.override}))
		require.Equal(t, c.changes, r.changes, c.override)
		require.Equal(t, c.acme, r.limit("acme"), c.override)
		require.Equal(t, int64(20), r.limit("initech"), c.override)
	}
}

// After Close nothing changes, and no timer is left.
func TestNothingChangesAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.Read(set(1, store.Setting{Text: twenty}))
		r.Close()
		r.Close()
		require.False(t, r.Declare(nil))
		r.Read(set(2, store.Setting{Text: thirty}))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, r.changes)
		require.Equal(t, int64(20), r.limit("a"))
	})
}
