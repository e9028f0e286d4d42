package fleet_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
)

const ms = time.Millisecond

func newPacer(t *testing.T, c pacer.Config) *pacer.Pacer {
	t.Helper()
	c.Upstream, c.Jitter = "test", pacer.NoJitter
	p, err := pacer.New(c)
	require.NoError(t, err)
	return p
}

func limits(p ...policies.Policy) pacer.Config { return pacer.Config{Policies: p} }

func snapshotOf(t *testing.T, p *pacer.Pacer, opts ...pacer.ScopeOption) *fleet.Snapshot {
	t.Helper()
	f, err := fleet.Of(p).Snapshot(t.Context(), opts...)
	require.NoError(t, err)
	return f
}

// policyOf returns a policy of a Snapshot.
func policyOf(t *testing.T, f *fleet.Snapshot, name string) *fleet.Policy {
	t.Helper()
	for i := range f.Policies {
		if f.Policies[i].Policy.Name() == name {
			return &f.Policies[i]
		}
	}
	require.Fail(t, "no policy "+name)
	return nil
}

func TestFleetInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Name: "me", Policies: []policies.Policy{
			policies.PerSecond(10).Burst(10).Named("peak").Lane("batch", 50),
			policies.PerSecond(2).Burst(1).Per("tenant").Named("tenant"),
			policies.Daily(1000, time.UTC),
			policies.InFlight(5).Named("permits"),
		}})
		f := snapshotOf(t, p)
		require.Equal(t, []string{"daily", "peak", "peak.batch", "permits", "tenant"}, namesOf(f))
		require.Nil(t, f.Binding())
		require.False(t, f.Shared)
		require.Equal(t, "me", f.Processes[0].Name)
		require.Equal(t, 1, f.Alive)
		require.Len(t, policyOf(t, f, "daily").History, fleet.HistorySeconds)
		require.Equal(t, int64(1000), policyOf(t, f, "daily").Remaining)
		require.False(t, policyOf(t, f, "tenant").Shown)
		require.True(t, policyOf(t, snapshotOf(t, p, pacer.Scope("tenant", "x")), "tenant").Shown)

		// A tenant makes ten calls, which take 4.5 s, and another one.
		var wg sync.WaitGroup
		call := func(tenant string) {
			r, err := p.Acquire(pacer.With(t.Context(), pacer.Scope("tenant", tenant)))
			require.NoError(t, err)
			r.Release()
		}
		for range 10 {
			wg.Go(func() { call("big{1}") })
			synctest.Wait() // of simultaneous calls, several may get slots far ahead
		}
		wg.Go(func() { call("small") })
		synctest.Wait()
		f = snapshotOf(t, p)
		require.Equal(t, "tenant", f.Binding().Policy.Name())
		require.Equal(t, int64(9), f.Binding().Waiting)
		require.Equal(t, int64(9), f.Processes[0].Waiting)
		require.Equal(t, "tenant=big%7B1%7D", f.TopKeys[0].Scope)
		require.Equal(t, int64(9), f.TopKeys[0].Waiting)
		require.Equal(t, int64(1), f.TopKeys[0].Cost)
		require.Equal(t, time.Second, f.TopKeys[0].Next, "the slot that is held next; eight wait for theirs in the process")
		wg.Wait()
		time.Sleep(600 * ms)
		f = snapshotOf(t, p)
		tenant, daily := policyOf(t, f, "tenant"), policyOf(t, f, "daily")
		var costs []int64
		for _, s := range tenant.History[54:] {
			costs = append(costs, s.Cost)
		}
		require.Equal(t, []int64{0, 3, 2, 2, 2, 2}, costs, "at 0, 0, 0.5, 1, … s; the last second that is over ended at 5 s")
		require.Equal(t, int64(9), sumWaits(tenant))
		require.Equal(t, 22500*ms, sumWaited(tenant), "0.5 + 1 + … + 4.5 s")
		require.Zero(t, sumWaits(daily))
		require.InDelta(t, 1.1, tenant.Rate(10), 0.001)
		require.InDelta(t, 0.011, daily.Utilization(), 1e-9)
		require.InDelta(t, 0.11, policyOf(t, f, "peak").Utilization(), 0.02)
		require.Equal(t, []fleet.TopKey{
			{PolicyStatus: f.TopKeys[0].PolicyStatus, Cost: 10},
			{PolicyStatus: f.TopKeys[1].PolicyStatus, Cost: 1},
		}, f.TopKeys)
		time.Sleep(3 * time.Minute)
		f = snapshotOf(t, p)
		require.Empty(t, f.TopKeys, "busy is who spends now")
		require.Zero(t, policyOf(t, f, "tenant").Rate(60))
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Second}))
		wg.Go(func() { call("small") })
		synctest.Wait()
		f = snapshotOf(t, p)
		require.Equal(t, []int64{1, 1}, []int64{f.Waiting, f.Processes[0].Waiting})
		require.Nil(t, f.Binding(), "it is the upstream")
		wg.Wait()
	})
}

func namesOf(f *fleet.Snapshot) []string {
	var names []string
	for i := range f.Policies {
		names = append(names, f.Policies[i].Policy.Name())
	}
	return names
}

func sumWaits(p *fleet.Policy) (n int64) {
	for _, s := range p.History {
		n += s.Waits
	}
	return n
}

func sumWaited(p *fleet.Policy) (d time.Duration) {
	for _, s := range p.History {
		d += s.Waited
	}
	return d
}

// The real cost of a call counts, and not its estimate, also of calls that went before anybody looked.
func TestFleetShowsWhatCallsReallyCost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(
			policies.PerSecond(200).Burst(2000).Named("tokens"), policies.Fixed(10_000, time.Minute).Per("tenant").Named("tenant"),
		))
		call := func() *pacer.Reservation {
			r, err := p.Acquire(t.Context(), pacer.Scope("tenant", "acme"), pacer.EstimateOf("tokens", 1000, policies.Learned{}), pacer.EstimateOf("tenant", 900, policies.Learned{}))
			require.NoError(t, err)
			return r
		}
		settle := func(r *pacer.Reservation, tokens int64) {
			require.NoError(t, r.Settle(t.Context(), policies.Cost{Policy: "tokens", N: tokens}, policies.Cost{Policy: "tenant", N: tokens}))
		}
		unseen := call()
		snapshotOf(t, p)
		seen := call()
		time.Sleep(1100 * ms)
		f := snapshotOf(t, p)
		require.InDelta(t, 0.5, policyOf(t, f, "tokens").Utilization(), 1e-9)
		require.Equal(t, int64(900), f.TopKeys[0].Cost)
		settle(unseen, 10)
		settle(seen, 50)
		f = snapshotOf(t, p)
		require.InDelta(t, 0.025, policyOf(t, f, "tokens").Utilization(), 1e-9)
		require.Equal(t, int64(50), f.TopKeys[0].Cost)
	})
}

// A stray refusal shows as a margin, of the policy or of its key, and as what the policy admits with it.
func TestFleetShowsTheMargin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(
			policies.PerSecond(50).Named("rate"), policies.Sliding(50, time.Second).Named("sliding"), policies.Fixed(50, time.Second).Named("fixed"),
			policies.AtMost(50, time.Second).Skew(0).Named("pinned"), policies.PerSecond(50).Per("tenant").Named("tenant"),
		))
		snapshotOf(t, p)
		names := []string{"fixed", "rate", "sliding", "tenant"}
		r, err := p.Acquire(t.Context(), pacer.Scope("tenant", "acme"))
		require.NoError(t, err)
		require.NoError(t, r.Report(t.Context(), policies.Feedback{Refused: true, Policies: names}))
		time.Sleep(1100 * ms)
		f := snapshotOf(t, p, pacer.Scope("tenant", "acme"))
		for _, name := range names {
			require.InDelta(t, 8*ms, policyOf(t, f, name).Margin, float64(ms), name)
		}
		require.Zero(t, policyOf(t, f, "pinned").Margin)
		require.InDelta(t, 50/1.008, policyOf(t, f, "rate").Capacity(), 0.05)
		require.InDelta(t, 50/1.008, policyOf(t, f, "sliding").Capacity(), 0.05)
		require.InDelta(t, 50, policyOf(t, f, "fixed").Capacity(), 0, "its windows begin when they did")
		require.Equal(t, "tenant=acme", f.TopKeys[0].Scope)
		require.InDelta(t, 8*ms, f.TopKeys[0].Margin, float64(ms))
		require.InDelta(t, 8*ms, policyOf(t, snapshotOf(t, p), "tenant").Margin, float64(ms), "of its only key")
	})
}

// The row of a policy with scopes is of its key that uses most of its limit, whatever other policies' keys spend, and also when none spends
// any more. Bookings count, in the future.
func TestTheRowOfAPolicyWithScopes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{MaxWait: time.Hour, Policies: []policies.Policy{
			policies.PerSecond(10).Burst(10).Per("tenant").Named("a"), policies.Daily(100, time.UTC).Per("account").Optional().Named("quota"),
			policies.InFlight(4).Per("tenant").Named("permits"),
		}})
		defer p.Close()
		operator := fleet.Of(p)
		row := func(name string) *fleet.Policy {
			f, err := operator.Snapshot(t.Context())
			require.NoError(t, err)
			return policyOf(t, f, name)
		}
		call := func(opts ...pacer.Option) *pacer.Reservation {
			r, err := p.Acquire(t.Context(), opts...)
			require.NoError(t, err)
			return r
		}
		require.False(t, row("quota").Shown, "no key is known")
		for i := range 30 {
			call(pacer.Scope("tenant", fmt.Sprint(i)), pacer.CostOf("a", 5)).Release()
		}
		call(pacer.Scope("tenant", "0"), pacer.Scope("account", "x"), pacer.CostOf("quota", 97)).Release()
		quota := row("quota")
		require.True(t, quota.Shown && quota.Busiest)
		require.Equal(t, "account=x", quota.Scope)
		require.InDelta(t, 0.97, quota.Utilization(), 1e-9)
		require.InDelta(t, 6.0/600, row("a").Utilization(), 1e-9, "of a minute")
		time.Sleep(10 * time.Minute)
		call(pacer.Scope("tenant", "0"), pacer.Scope("account", "y")).Release()
		require.Equal(t, "account=x", row("quota").Scope, "another one is busier, and uses less")
		r := call(pacer.Scope("tenant", "7"))
		require.InDelta(t, 0.25, row("permits").Utilization(), 1e-9)
		r.Release()
		for range 11 {
			_, _, err := p.Book(t.Context(), pacer.Scope("tenant", "booked"), pacer.CostOf("a", 10))
			require.NoError(t, err)
		}
		require.Equal(t, "tenant=booked", row("a").Scope)
		require.InDelta(t, 100, row("a").Backlog, 1)
		time.Sleep(10 * time.Minute)
		require.Equal(t, "account=y", policyOf(t, snapshotOf(t, p), "quota").Scope, "nobody has looked before: the last one that was busy")
	})
}

// Calls that need not wait are counted as well, from the first look on.
func TestFleetCountsWhatGoesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(1000).Burst(1000).Named("all"), policies.PerSecond(100).Burst(100).Per("tenant").Named("tenant")))
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "before"), pacer.MaxWait(0))) // the long way: it is new
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "before"), pacer.MaxWait(0)))
		require.Empty(t, snapshotOf(t, p).TopKeys, "what went before the first look is not known")
		time.Sleep(2 * time.Minute)
		for second := range 3 {
			for i := range 300 {
				require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", fmt.Sprint(i%10)), pacer.Cost(int64(1+second)), pacer.MaxWait(0)))
			}
			time.Sleep(time.Second)
		}
		f := snapshotOf(t, p)
		for _, name := range []string{"all", "tenant"} {
			h := policyOf(t, f, name).History
			require.Equal(t, []fleet.Second{{}, {Cost: 300}, {Cost: 600}, {Cost: 900}}, h[56:], name)
		}
		require.Len(t, f.TopKeys, 10)
		for _, k := range f.TopKeys {
			require.Equal(t, int64(180), k.Cost)
		}
	})
}

// A key that spends much is among the busiest, however many others come and go.
func TestTheBusiestKeyIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(1000).Per("tenant")))
		defer p.Close()
		snapshotOf(t, p)
		for i := range 20_000 {
			tenant := fmt.Sprint("t", i)
			if i >= 10_000 && i%50 == 0 { // when there are many others already
				tenant = "big"
			}
			r, err := p.Reserve(t.Context(), pacer.Scope("tenant", tenant)) // the long way
			require.NoError(t, err)
			require.NoError(t, r.Wait(t.Context()))
			if i%100 == 0 {
				time.Sleep(10 * ms)
			}
		}
		f := snapshotOf(t, p)
		require.Equal(t, "tenant=big", f.TopKeys[0].Scope)
		require.InDelta(t, 200, f.TopKeys[0].Cost, 40, "a 512th part of all is the error")
		require.LessOrEqual(t, len(f.TopKeys), fleet.MaxTopKeys)
	})
}

// Minutes turn, and what was spent in the one before fades.
func TestSpentInTheLastMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // time begins at midnight
		p := newPacer(t, limits(policies.PerSecond(1000).Burst(1000).Per("tenant")))
		snapshotOf(t, p)
		spend := func(n int64) {
			require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "short"), pacer.Cost(n), pacer.MaxWait(0)))
			r, err := p.Reserve(t.Context(), pacer.Scope("tenant", "long"), pacer.Cost(n))
			require.NoError(t, err)
			require.NoError(t, r.Wait(t.Context()))
		}
		costs := func() (all []int64) {
			for _, k := range snapshotOf(t, p).TopKeys {
				all = append(all, k.Cost)
			}
			return all
		}
		spend(100)
		spend(100)
		time.Sleep(time.Minute)
		require.Equal(t, []int64{200, 200}, costs())
		time.Sleep(15 * time.Second)
		require.Equal(t, []int64{150, 150}, costs())
		spend(10)
		require.Equal(t, []int64{160, 160}, costs())
		time.Sleep(45 * time.Second)
		require.Equal(t, []int64{10, 10}, costs())
		time.Sleep(time.Minute)
		require.Empty(t, costs())
	})
}

// Each caller's spending is counted, whatever way its calls take: by policy, without the parts of one, and as they cost in the end.
func TestCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(1000).Burst(500).Named("peak").Lane("batch", 50), policies.Daily(100_000, time.UTC).Named("tokens")))
		require.Empty(t, snapshotOf(t, p).Callers)
		sync := pacer.With(t.Context(), pacer.Caller("sync/contacts"))
		require.NoError(t, p.Wait(sync))
		require.NoError(t, p.Wait(t.Context()), "of nobody")
		require.NoError(t, p.Wait(sync, pacer.Lane("batch"), pacer.Caller("night")))
		r, err := p.Acquire(sync, pacer.CostOf("tokens", 10))
		require.NoError(t, err)
		require.NoError(t, r.Settle(t.Context(), policies.Cost{Policy: "tokens", N: 50}))
		tok, _, err := p.Book(t.Context(), pacer.Caller("desk"))
		require.NoError(t, err)
		_, err = p.Redeem(t.Context(), tok)
		require.NoError(t, err)
		require.Equal(t, []fleet.Caller{
			{Name: "sync/contacts", Policy: "tokens", Cost: 51}, {Name: "sync/contacts", Policy: "peak", Cost: 2}, {Name: "desk", Policy: "peak", Cost: 1},
			{Name: "night", Policy: "peak", Cost: 1}, {Name: "desk", Policy: "tokens", Cost: 1}, {Name: "night", Policy: "tokens", Cost: 1},
		}, snapshotOf(t, p).Callers)

		for i := range 700 {
			require.NoError(t, p.Wait(pacer.With(t.Context(), pacer.Caller(fmt.Sprint("caller ", i)))))
		}
		f := snapshotOf(t, p)
		require.Len(t, f.Callers, 100)
		require.Equal(t, "sync/contacts", f.Callers[0].Name, "callers without end do not hide those that spend much")
		time.Sleep(2 * time.Minute)
		require.Empty(t, snapshotOf(t, p).Callers)
		require.NoError(t, p.Close())
	})
}

// A closed Pacer shows no fleet, and neither does an operator whose store has no registry.
func TestFleetErrors(t *testing.T) {
	t.Parallel()
	p := newPacer(t, limits())
	require.NoError(t, p.Close())
	_, err := fleet.Of(p).Snapshot(t.Context())
	require.ErrorIs(t, err, pacer.ErrClosed)
	require.NoError(t, fleet.Of(p).Close())
	require.Nil(t, fleet.Of(nil))
	_, err = fleet.Open(t.Context(), memstore.New(), "x")
	require.EqualError(t, err, "pacer: Store is *memstore.Store: does not record which processes use it: use a store that is a store.Registry")
}

// An operator intervenes in what a process does, and leaves its Pacer open.
func TestOperatorOfAPacer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := limits(policies.PerSecond(10).Burst(10).Named("peak"), policies.PerSecond(10).Per("tenant").Optional().Named("tenant"))
		c.MaxPause = time.Minute
		p := newPacer(t, c)
		op, acme := fleet.Of(p), pacer.Scope("tenant", "acme")
		require.Equal(t, "test", op.Upstream())
		require.Equal(t, time.Minute, op.MaxPause())
		require.Len(t, op.Policies(), 2)

		require.NoError(t, op.Pause(t.Context(), time.Hour, nil))
		s, err := op.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Minute, s.PausedFor, "MaxPause")
		require.NoError(t, op.Resume(t.Context()))
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))

		require.NoError(t, op.Pause(t.Context(), time.Second, []string{"tenant"}, acme))
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		require.ErrorIs(t, p.Wait(t.Context(), acme, pacer.MaxWait(0)), pacer.ErrNotYet)
		require.NoError(t, op.Reset(t.Context(), acme))
		require.NoError(t, p.Wait(t.Context(), acme, pacer.MaxWait(0)))

		var scope *pacer.LimitError
		require.ErrorAs(t, op.Pause(t.Context(), time.Second, []string{"tenant"}), &scope)
		require.ErrorContains(t, op.Pause(t.Context(), time.Second, []string{"other"}), `no policy of upstream "test" has that name`)
		require.ErrorContains(t, op.Pause(t.Context(), -1, nil), "must not be negative")
		require.NoError(t, op.Close())
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)), "it is not the operator's to close")
	})
}

// A reset of an upstream without a lane resets all of them.
func TestResetMeansAllLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Daily(10, time.UTC).Lane("batch", 50)))
		batch := pacer.With(t.Context(), pacer.Lane("batch"))
		left := func() []int64 {
			f := snapshotOf(t, p)
			return []int64{policyOf(t, f, "daily").Remaining, policyOf(t, f, "daily.batch").Remaining}
		}
		for range 3 {
			require.NoError(t, p.Wait(batch))
		}
		require.Equal(t, []int64{7, 2}, left())
		require.NoError(t, fleet.Of(p).Reset(t.Context()))
		require.Equal(t, []int64{10, 5}, left())
	})
}
