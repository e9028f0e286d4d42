package usage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/store"
)

const second = store.Instant(time.Second / time.Microsecond)

// waiting is a process whose calls wait, and to which nothing was stated.
type waiting map[store.Key]int64

func (w waiting) CallsWaiting() map[store.Key]int64 { return w }

func (waiting) Stated(int) []store.Statement { return nil }

// A process's spending is in one report, and in the next one if that one is lost.
func TestWhatIsSpentIsReportedOnce(t *testing.T) {
	t.Parallel()
	m := usage.NewMeter([]string{"a", "b"}, true)
	p := usage.Process{
		Upstream: "api", Name: "worker", Meter: m, Source: waiting{{}: 1, {Policy: "b"}: 2, {Policy: "b", Scope: "acme"}: 3},
	}
	p.SetPolicies([]string{"a", "b"}, []string{"policy a"}, "")
	limits := []store.Limit{{Policy: "a"}, {Policy: "b", Scope: "acme"}, {Policy: "unknown"}}
	spend := func(at store.Instant) {
		m.Add(limits, &store.Call{Cost: 1, Costs: []int64{2, 5}}, at, 1, time.Second)
	}
	spent := func(n int64) []store.Went {
		return []store.Went{{Policy: "a", Second: n, What: store.Second{Cost: 2}}, {Policy: "b", Second: n, What: store.Second{Cost: 5, Waits: 1, Waited: time.Second}}}
	}
	spend(1000 * second)
	lost, _ := p.About(1001*second, false)
	require.Equal(t, spent(1000), lost.Went)
	require.Equal(t, []store.KeyUse{{Waiting: 1}, {Policy: "b", Waiting: 5}}, lost.Waiting)
	require.Equal(t, []store.KeyUse{{Policy: "b", Scope: "acme", Cost: 5, Waiting: 3}}, lost.Keys)
	require.Equal(t, "worker", lost.Name)
	again, received := p.About(1002*second, false)
	require.Equal(t, spent(1000), again.Went)
	spend(1001*second + 1) // it goes later than its slot: that second was reported
	received()
	next, _ := p.About(1003*second, false)
	require.Equal(t, spent(1002), next.Went, "in the first second that was not")
	last, _ := p.About(1002*second, true)
	require.True(t, last.Left)
}

// A call's real cost counts in the second of its estimate, whether the report of that comes later, is under way, lost or there.
func TestWhatIsSettledIsReportedOnce(t *testing.T) {
	t.Parallel()
	m := usage.NewMeter([]string{"tokens"}, true)
	p := usage.Process{Meter: m, Source: waiting(nil)}
	limits := []store.Limit{{Policy: "unknown"}, {Policy: "tokens", Scope: "acme"}}
	spend := func(at, cost int64) func(more int64) {
		counted := m.Add(limits, &store.Call{Cost: cost}, store.Instant(at)*second, store.BindsNothing, 0)
		return func(more int64) {
			for i := range limits {
				m.Settle(&limits[i], "", store.Instant(at)*second, counted, more)
			}
		}
	}
	went := func(at, cost int64) store.Went {
		return store.Went{Policy: "tokens", Second: at, What: store.Second{Cost: cost}}
	}
	report := func(at int64) ([]store.Went, func()) {
		about, received := p.About(store.Instant(at)*second, false)
		return about.Went, received
	}
	early, late, never := spend(1000, 2000), spend(1000, 500), spend(1000, 30)
	early(-1900)
	lost, _ := report(1001)
	require.Equal(t, []store.Went{went(1000, 630)}, lost, "before it was reported")
	late(-400)
	again, received := report(1002)
	require.Equal(t, []store.Went{went(1000, 630), went(1000, -400)}, again, "the report may have come, so that its second stays as it was")
	never(70)
	received()
	next, received := report(1003)
	require.Equal(t, []store.Went{went(1000, 70)}, next, "while the report was under way")
	received()
	none, _ := report(1004)
	require.Empty(t, none)
	about, _ := p.About(1004*second, false)
	require.Equal(t, []store.KeyUse{{Policy: "tokens", Scope: "acme", Cost: 300}}, about.Keys)

	m.Settle(&limits[1], "", 1000*second, 0, -300)
	after, _ := p.About(1005*second, false)
	require.Equal(t, about.Keys, after.Keys, "what was not counted is not corrected")
}

// A registry of one process counts from the first look on.
func TestARegistryOfOneProcess(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	m := usage.NewMeter([]string{"a"}, false)
	p := &usage.Process{Upstream: "api", Name: "worker", Meter: m, Source: waiting(nil)}
	r := &usage.Registry{Process: p, Closed: closed}
	require.False(t, m.IsOn())
	other, err := r.Index(t.Context(), "other")
	require.NoError(t, err)
	require.Zero(t, other.Alive)
	require.False(t, m.IsOn())
	_, err = r.Index(t.Context(), "api")
	require.NoError(t, err)
	require.True(t, m.IsOn())
	m.Add([]store.Limit{{Policy: "a"}}, &store.Call{Cost: 3}, store.Instant(time.Now().UnixMicro()), store.BindsNothing, 0)
	index, err := r.Index(t.Context(), "api")
	require.NoError(t, err)
	require.Len(t, index.Went, 1)
	require.Equal(t, int64(3), index.Went[0].What.Cost)
	require.Equal(t, "worker", index.Processes[0].Name)
	close(closed)
	_, err = r.Index(t.Context(), "api")
	require.ErrorIs(t, err, store.ErrClosed)
}
