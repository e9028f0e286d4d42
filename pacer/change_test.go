package pacer_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Settings implements [store.Settable].
func (r *remote) Settings(ctx context.Context, upstream string) (*store.Settings, error) {
	s, _, err := r.enter()
	if err != nil {
		return nil, err
	}
	all, err := s.Settings(ctx, upstream)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		all.Resets = slices.Clone(r.resets)
	}
	return all, err
}

// begin begins another epoch, which lists what was forgotten last: everything, or what is resumed. The caller holds mu.
func (r *remote) begin(all bool, resumed ...store.Key) {
	r.epoch.Resets++
	r.resets = append(r.resets[max(0, len(r.resets)-31):], store.Reset{Epoch: r.epoch, Now: store.Instant(time.Now().UnixMicro()), All: all, Resumed: resumed})
}

// Set implements [store.Settable].
func (r *remote) Set(ctx context.Context, upstream string, changes []store.Setting) (*store.Settings, error) {
	s, _, err := r.enter()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.begin(false)
	r.mu.Unlock()
	return s.Set(ctx, upstream, changes)
}

// A went is a call that went: its number, by when it came, and when it went.
type wentAt struct {
	number int
	at     time.Duration
}

// However often operators change settings, in one process or another, one after the other or many at once, no process takes the store for
// lost, calls that a change does not concern go on as if there were none, and the last setting holds everywhere.
func TestManySettingsLoseNoStore(t *testing.T) {
	t.Parallel()
	for _, way := range extent([]time.Duration{20 * ms}, []time.Duration{2 * ms, 20 * ms, 100 * ms}) {
		undisturbed, _ := settingWhileCallsWait(t, way, 0, 0, false)
		require.Greater(t, undisturbed, int64(1150), "of 1200")
		for name, c := range map[string]struct {
			every   time.Duration
			changes int
			atOnce  bool // nobody waits for the one before
			most    int  // requests that set something
		}{
			"200 in a row":    {0, 200, false, 200},
			"200 at once":     {0, 200, true, 2},
			"often":           {30 * ms, 266, false, 266},
			"often, not slow": {30 * ms, 266, true, int(8*time.Second/max(30*ms, way)) + 1},
		} {
			went, sets := settingWhileCallsWait(t, way, c.every, c.changes, c.atOnce)
			require.GreaterOrEqual(t, went, undisturbed*97/100, "%s, %v away: of %d", name, way, undisturbed)
			require.LessOrEqual(t, sets, c.most, "%s, %v away", name, way)
		}
	}
}

// settingWhileCallsWait sets a limit that binds no call, again and again, and returns how many of the calls of 40 callers in two processes go
// in 8 s, and how many requests that set something the store received.
func settingWhileCallsWait(t *testing.T, way, every time.Duration, changes int, atOnce bool) (calls int64, sets int) {
	t.Helper()
	var went atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		r, acme, other := newRemote(2), pacer.Scope("tenant", "acme"), pacer.Scope("tenant", "other")
		r.set(nil, way)
		list := []policies.Policy{policies.PerSecond(150), policies.PerSecond(1000).Per("tenant").Named("tenant")}
		both := []*pacer.Pacer{away(t, r, pacer.PaceLocally, list...), away(t, r, pacer.PaceLocally, list...)}
		var wg sync.WaitGroup
		start, last := time.Now(), ""
		for _, p := range both {
			defer closing(t, p)
			for range 20 {
				wg.Go(func() {
					for time.Since(start) < 8*time.Second && assert.NoError(t, p.Wait(t.Context(), acme)) {
						went.Add(1)
					}
				})
			}
		}
		for n := 1; n <= changes && time.Since(start) < 8*time.Second; n++ {
			with := policies.PerSecond(int64(n))
			set := func() { assert.NoError(t, fleet.Of(both[0]).SetLimit(t.Context(), "tenant", with, 0, other)) }
			if last = with.Per("tenant").Named("tenant").String(); atOnce {
				wg.Go(set)
				synctest.Wait() // they come in order
			} else {
				set()
			}
			time.Sleep(every)
		}
		wg.Wait()
		require.Zero(t, pacer.Absences(both[0])+pacer.Absences(both[1]), "%v away, each %v", way, every)
		time.Sleep(5 * time.Second) // for a heartbeat
		for _, p := range both {
			s, err := p.Status(t.Context(), other)
			require.NoError(t, err)
			if got := s.Policies[1].Policy.String(); last != "" {
				require.Equal(t, last, got)
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		sets = int(r.epoch.Resets)
	})
	return went.Load(), sets
}

// Changes that share a request and have no room together are made one by one: those that have room hold.
func TestASettingTooManyHarmsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		r.set(nil, 100*ms)
		var all []store.Setting
		for i := range store.MaxSettings - 1 {
			all = append(all, store.Setting{Policy: "tenant", Scope: fmt.Sprint(i), Text: "tenant: 1 per 1s"})
		}
		_, err := r.Set(t.Context(), "api", all)
		require.NoError(t, err)
		p := away(t, r, pacer.PaceLocally, policies.PerSecond(1000).Per("tenant").Named("tenant"))
		defer closing(t, p)
		errs, wg := make([]error, 3), sync.WaitGroup{}
		for i, tenant := range []string{"0", "one", "two"} {
			wg.Go(func() {
				errs[i] = fleet.Of(p).SetLimit(t.Context(), "tenant", policies.PerSecond(9), 0, pacer.Scope("tenant", tenant))
			})
			synctest.Wait()
		}
		wg.Wait()
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		var full *store.SettingsError
		require.ErrorAs(t, errs[2], &full)
		s, err := fleet.Of(p).Settings(t.Context())
		require.NoError(t, err)
		require.Len(t, s.Limits, store.MaxSettings)
	})
}

// However often something is reset, no process takes the store for lost: it grants again only what was granted before.
func TestManyResetsLoseNoStore(t *testing.T) {
	t.Parallel()
	for _, way := range []time.Duration{2 * ms, 100 * ms} {
		synctest.Test(t, func(t *testing.T) {
			r := newRemote(2)
			r.set(nil, way)
			r.slow, r.random = 20*ms, rand.New(rand.NewPCG(1, uint64(way)))
			both := []*pacer.Pacer{away(t, r, pacer.PaceLocally, policies.PerSecond(75)), away(t, r, pacer.PaceLocally, policies.PerSecond(75))}
			var wg sync.WaitGroup
			start := time.Now()
			for _, p := range both {
				defer closing(t, p)
				for range 20 {
					wg.Go(func() {
						for time.Since(start) < 8*time.Second && assert.NoError(t, p.Wait(t.Context())) {
						}
					})
				}
			}
			for time.Since(start) < 8*time.Second {
				wg.Go(func() { assert.NoError(t, fleet.Of(both[0]).Reset(t.Context())) })
				time.Sleep(30 * ms)
			}
			wg.Wait()
			require.Zero(t, pacer.Absences(both[0])+pacer.Absences(both[1]), "%v away", way)
		})
	}
}

// If a function of OverrideBy panics or blocks when waiting calls are bound again, they stay bound as they are, and go on.
func TestAnOverrideThatFailsHarmsNobody(t *testing.T) { //nolint:paralleltest // it sets the default logger
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	for _, blocks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var bad atomic.Bool
			let := make(chan struct{})
			keyed := policies.PerSecond(1).Per("tenant").OverrideBy(func([]string) (policies.Policy, bool) {
				switch {
				case bad.Load() && blocks:
					<-let
				case bad.Load():
					panic("a function of the user's")
				}
				return policies.PerSecond(2), true
			})
			p := away(t, newRemote(1), pacer.PaceLocally, keyed)
			defer closing(t, p)
			defer close(let)
			went := line(t, p, 10, func(ctx context.Context, _ int) error { return p.Wait(ctx, pacer.Scope("tenant", "x")) })
			bad.Store(true)
			require.NoError(t, p.Declare(keyed, policies.PerSecond(5)))
			require.Len(t, went(), 10)
			if !blocks {
				require.Panics(t, func() { _ = p.Wait(t.Context(), pacer.Scope("tenant", "y")) }, "the caller's")
			}
		})
	}
}

// line has calls wait one after the other, and returns a function that waits until all have gone.
func line(t *testing.T, p *pacer.Pacer, n int, ask func(ctx context.Context, i int) error) func() []wentAt {
	t.Helper()
	var mu sync.Mutex
	var all []wentAt
	var wg sync.WaitGroup
	_, _ = p.Status(t.Context(), pacer.Scope("tenant", "x")) // from its first contact on, calls have an order
	begin := time.Now()
	for i := range n {
		wg.Go(func() {
			if err := ask(t.Context(), i); err != nil {
				t.Errorf("call %d: %v", i, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, wentAt{i, time.Since(begin)})
		})
		time.Sleep(time.Millisecond) // they come in this order
	}
	return func() []wentAt {
		wg.Wait()
		return all
	}
}

func waitsFor(p *pacer.Pacer) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error { return p.Wait(ctx, pacer.MaxWait(pacer.Forever)) }
}

func acquires(p *pacer.Pacer) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		r, err := p.Acquire(ctx, pacer.MaxWait(pacer.Forever))
		if err == nil {
			r.Release()
		}
		return err
	}
}

// inOrderFrom checks that calls went in order of arrival.
func inOrderFrom(t *testing.T, all []wentAt) { t.Helper(); nearlyInOrder(t, all, 0) }

// nearlyInOrder checks that no call went before more than so many that came before it.
func nearlyInOrder(t *testing.T, all []wentAt, most int) {
	t.Helper()
	for i := range all {
		overtaken := 0
		for _, later := range all[i+1:] {
			if later.number < all[i].number && later.at > all[i].at { // those of one instant may go in any order
				overtaken++
			}
		}
		require.LessOrEqual(t, overtaken, most, "%v", all)
	}
}

// opened is a new Pacer that is closed in the end.
func opened(t *testing.T, c pacer.Config) *pacer.Pacer {
	t.Helper()
	p := newPacer(t, c)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

// eachStore runs a test in virtual time with a direct store, and with one that is shared, a few milliseconds away.
func eachStore(t *testing.T, do func(t *testing.T, config func(...policies.Policy) pacer.Config)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			do(t, func(all ...policies.Policy) pacer.Config {
				return pacer.Config{Upstream: "api", Policies: all, Store: store, Jitter: pacer.NoJitter}
			})
		})
	})
	t.Run("shared", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			store := newRemote(3)
			store.set(nil, 5*time.Millisecond)
			do(t, func(all ...policies.Policy) pacer.Config {
				return pacer.Config{Upstream: "api", Policies: all, Store: store, Jitter: pacer.NoJitter}
			})
		})
	})
}

// A new number holds at once for those that wait already, in their order, and none of them fails.
func TestADeclaredPolicyHoldsAtOnce(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		for name, ask := range map[string]func(*pacer.Pacer) func(context.Context, int) error{"Wait": waitsFor, "Acquire": acquires} {
			p := opened(t, config(policies.PerSecond(2).Named(name)))
			all := line(t, p, 40, ask(p))
			time.Sleep(time.Second)
			require.NoError(t, p.Declare(policies.PerSecond(200).Named(name)))
			went := all()
			inOrderFrom(t, went)
			require.Less(t, went[39].at, 1500*time.Millisecond, "%s: 37 calls of 200 a second", name)
			require.Equal(t, policies.PerSecond(200).Named(name).String(), fleet.Of(p).Policies()[0].String())
		}
	})
}

// A lower number holds at once, too: no more than one burst goes besides.
func TestALowerPolicyHoldsAtOnce(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		p := opened(t, config(policies.PerSecond(200).Named("x")))
		begin := time.Now()
		all := line(t, p, 600, waitsFor(p))
		time.Sleep(time.Second)
		require.NoError(t, p.Declare(policies.PerSecond(2).Named("x")))
		changed := time.Now()
		synctest.Wait()
		time.Sleep(4 * time.Second)
		require.NoError(t, p.Declare(policies.PerSecond(200).Named("x")))
		slow := 0
		went := all()
		for _, w := range went {
			if at := begin.Add(w.at); at.After(changed) && at.Before(changed.Add(4*time.Second)) {
				slow++
			}
		}
		require.InDelta(t, 8, slow, 2)
	})
}

// queues reports whether calls queue for some policies in the store.
func queues(list []policies.Policy) bool {
	return slices.ContainsFunc(list, func(p policies.Policy) bool { return p.Spec().HasQueue() || len(p.Lanes()) > 0 })
}

// Another shape, more policies, other scopes, lanes, permits: those that wait are bound by them.
func TestWaitingCallsAreBoundAnew(t *testing.T) {
	t.Parallel()
	slow := policies.PerSecond(1).Named("rate")
	for name, c := range map[string]struct {
		before, after []policies.Policy
		most          time.Duration // until the last of ten has gone, from the change on
	}{
		"a window":          {[]policies.Policy{slow}, []policies.Policy{policies.Fixed(20, time.Second).Named("rate")}, time.Second},
		"another name":      {[]policies.Policy{slow}, []policies.Policy{policies.PerSecond(10).Named("other")}, 1100 * time.Millisecond},
		"none":              {[]policies.Policy{slow}, nil, 50 * time.Millisecond},
		"one more":          {[]policies.Policy{slow}, []policies.Policy{policies.PerSecond(10).Named("rate"), policies.PerSecond(5).Named("more")}, 2200 * time.Millisecond},
		"per tenant":        {[]policies.Policy{slow}, []policies.Policy{policies.PerSecond(20).Named("rate"), policies.PerSecond(10).Per("tenant")}, 1100 * time.Millisecond},
		"permits":           {[]policies.Policy{slow}, []policies.Policy{policies.InFlight(1)}, 12 * time.Second},
		"no permits":        {[]policies.Policy{policies.InFlight(1), slow}, []policies.Policy{policies.PerSecond(10).Named("rate")}, 1100 * time.Millisecond},
		"a lane":            {[]policies.Policy{slow}, []policies.Policy{policies.PerSecond(10).Named("rate").Lane("batch", 50)}, 2 * time.Second},
		"no lane":           {[]policies.Policy{slow.Burst(2).Lane("batch", 50)}, []policies.Policy{policies.PerSecond(10).Named("rate")}, 1100 * time.Millisecond},
		"fair shares":       {[]policies.Policy{slow}, []policies.Policy{policies.PerSecond(10).Named("rate").Fair("tenant")}, 1200 * time.Millisecond},
		"from fair shares":  {[]policies.Policy{slow.Fair("tenant")}, []policies.Policy{policies.PerSecond(10).Named("rate")}, 1100 * time.Millisecond},
		"a scope that lack": {[]policies.Policy{policies.PerSecond(10).Named("rate")}, []policies.Policy{policies.PerSecond(10).Named("rate").Per("nobody")}, 1100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
				t.Helper()
				p := opened(t, config(c.before...))
				all := line(t, p, 12, func(ctx context.Context, _ int) error {
					r, err := p.Acquire(ctx, pacer.MaxWait(pacer.Forever), pacer.Scope("tenant", "acme"), pacer.Lane("batch"))
					if err == nil {
						r.Release()
					}
					return err
				})
				began := time.Now()
				require.NoError(t, p.Declare(c.after...))
				went := all()
				require.LessOrEqual(t, time.Since(began), c.most+200*time.Millisecond, "%v", went)
				if !queues(c.before) && !queues(c.after) { // these calls reach the store one by one, all at the same time
					nearlyInOrder(t, went, 2) // calls whose request is under way may come a little late
				}
			})
		})
	}
}

// Bad policies are refused as a whole, and the old ones hold.
func TestBadPoliciesChangeNothing(t *testing.T) {
	t.Parallel()
	p := newPacer(t, limits(policies.PerSecond(10)))
	for _, bad := range [][]policies.Policy{
		{policies.PerSecond(0)},
		{policies.PerSecond(1), policies.PerSecond(2)},
		{policies.PerSecond(1), {}},
	} {
		var wrong *pacer.ConfigError
		require.ErrorAs(t, p.Declare(bad...), &wrong)
		require.ErrorAs(t, fleet.Of(p).SetPolicies(t.Context(), bad...), &wrong)
		require.Equal(t, "per-second: 10 per 1s", fleet.Of(p).Policies()[0].String())
	}
	tenant, wrong := policies.PerSecond(1).Per("tenant"), (*pacer.ConfigError)(nil)
	err := fleet.Of(p).SetPolicies(t.Context(), tenant.OverrideBy(func([]string) (policies.Policy, bool) { return policies.Policy{}, false }))
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, "leave the policy to the code of each process")
	for i := range store.MaxSettings {
		tenant = tenant.Override(policies.PerSecond(2), fmt.Sprint(i))
	}
	require.NoError(t, fleet.Of(p).SetPolicies(t.Context(), tenant))
	err = fleet.Of(p).SetPolicies(t.Context(), tenant, policies.PerMinute(1).Per("tenant").Override(policies.PerMinute(2), "one too many"))
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, "1025 overrides")
	require.Equal(t, "per-second.tenant: 1 per 1s, per tenant", fleet.Of(p).Policies()[0].String())
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Declare(policies.PerSecond(1)), pacer.ErrClosed)
	require.ErrorIs(t, fleet.Of(p).SetPolicies(t.Context(), policies.PerSecond(1)), pacer.ErrClosed)
}

// A setting holds for every process of the fleet, also for later ones, until it is unset.
func TestSetPoliciesHoldForTheFleet(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		one, two := opened(t, config(policies.PerSecond(1).Named("x"))), opened(t, config(policies.PerSecond(1).Named("x")))
		both := []func() []wentAt{line(t, one, 20, waitsFor(one)), line(t, two, 20, waitsFor(two))}
		began := time.Now()
		require.NoError(t, fleet.Of(one).SetPolicies(t.Context(), policies.PerSecond(100).Named("x"), policies.Daily(1000, time.UTC)))
		for _, all := range both {
			nearlyInOrder(t, all(), 2)
		}
		require.Less(t, time.Since(began), time.Second)
		late := opened(t, config(policies.PerSecond(1).Named("x")))
		require.NoError(t, late.Wait(t.Context()))
		for _, p := range []*pacer.Pacer{one, two, late} {
			require.Len(t, fleet.Of(p).Policies(), 2)
		}
		require.NoError(t, late.Declare(policies.PerSecond(5).Named("x")), "it holds when that ends")
		require.Len(t, fleet.Of(late).Policies(), 2)
		require.NoError(t, fleet.Of(two).UnsetPolicies(t.Context()))
		require.NoError(t, one.Wait(t.Context()))
		require.NoError(t, late.Wait(t.Context()))
		time.Sleep(time.Second)
		require.Equal(t, "x: 1 per 1s", fleet.Of(one).Policies()[0].String())
		require.Equal(t, "x: 5 per 1s", fleet.Of(late).Policies()[0].String())
		require.NoError(t, fleet.Of(one).SetPolicies(t.Context()), "no policies limit nothing")
		require.Empty(t, fleet.Of(one).Policies())
	})
}

// Fair shares that processes declare apply in all of them at once when a setting without them ends, also to calls that wait already.
func TestAFleetGetsFairSharesAtOnce(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		was := policies.PerSecond(50).Named("x")
		one, two := opened(t, config(was.Fair("tenant"))), opened(t, config(was.Fair("tenant")))
		require.NoError(t, fleet.Of(one).SetPolicies(t.Context(), was))
		asks := func(p *pacer.Pacer, tenant string) func(context.Context, int) error {
			return func(ctx context.Context, _ int) error {
				return p.Wait(ctx, pacer.MaxWait(pacer.Forever), pacer.Scope("tenant", tenant))
			}
		}
		many := line(t, two, 100, asks(two, "a"))
		more := line(t, one, 100, asks(one, "a"))
		few := line(t, one, 25, asks(one, "b"))
		require.NoError(t, fleet.Of(one).UnsetPolicies(t.Context()))
		few()
		began := time.Now()
		many()
		require.Greater(t, time.Since(began), time.Second, "most calls of the other tenant still wait")
		more()
	})
}

// An operator may limit calls in flight while one version in the fleet never releases a permit: none of its calls fails, and no more run at
// once than the limit.
func TestSetPoliciesLimitCallsInFlight(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		rate := policies.PerSecond(100).Burst(1)
		before, after := opened(t, config(rate)), opened(t, config(rate, policies.InFlight(50)))
		var running, most, plain, released atomic.Int64
		work := func() {
			for n := running.Add(1); n > most.Load(); {
				most.Store(n)
			}
			time.Sleep(900 * time.Millisecond)
			running.Add(-1)
		}
		var wg sync.WaitGroup
		start := time.Now()
		for range 8 {
			wg.Go(func() {
				for time.Since(start) < time.Minute && assert.NoError(t, before.Wait(t.Context())) {
					work()
					plain.Add(1)
				}
			})
			wg.Go(func() {
				for time.Since(start) < time.Minute {
					r, err := after.Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					work()
					r.Release()
					released.Add(1)
				}
			})
		}
		time.Sleep(3 * time.Second)
		require.NoError(t, fleet.Of(before).SetPolicies(t.Context(), rate, policies.InFlight(4).Lease(3*time.Second)))
		time.Sleep(3 * time.Second)
		most.Store(0)
		plain.Store(0)
		released.Store(0)
		wg.Wait()
		require.LessOrEqual(t, most.Load(), int64(4))
		require.Greater(t, plain.Load(), int64(20))
		require.Greater(t, released.Load(), int64(20))
	})
}

// Policies that are set have their overrides with them, in every process, also in those that come later. A setting of a key comes first.
func TestSetPoliciesHaveOverrides(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		declared := policies.PerSecond(1).Per("tenant").Named("x").Override(policies.PerSecond(9).Burst(9), "acme")
		one, two := opened(t, config(declared)), opened(t, config(declared))
		set := policies.PerSecond(1).Per("tenant").Named("x").Override(policies.PerSecond(1).Burst(4), "acme").Override(policies.PerSecond(1).Burst(3), "a: b")
		require.NoError(t, fleet.Of(one).SetPolicies(t.Context(), set))
		allowed := func(p *pacer.Pacer, tenant string) (n int) {
			for p.Wait(t.Context(), pacer.Scope("tenant", tenant), pacer.MaxWait(0)) == nil {
				n++
			}
			return n
		}
		time.Sleep(time.Second)
		_, err := fleet.Of(two).Settings(t.Context())
		require.NoError(t, err)
		for tenant, want := range map[string]int{"acme": 4, "a: b": 3, "globex": 1} {
			require.Equal(t, want, allowed(two, tenant), tenant)
			require.Equal(t, 0, allowed(one, tenant), tenant)
		}
		time.Sleep(time.Minute)
		late := opened(t, config(declared))
		require.NoError(t, fleet.Of(late).SetLimit(t.Context(), "x", policies.PerSecond(1).Burst(6), 0, pacer.Scope("tenant", "a: b")))
		require.Equal(t, 4, allowed(late, "acme"))
		require.Equal(t, 6, allowed(late, "a: b"))
		s, err := fleet.Of(late).Settings(t.Context())
		require.NoError(t, err)
		require.Equal(t, "x: 1 per 1s, per tenant\nfor \"a: b\": 1 per 1s, burst 3\nfor \"acme\": 1 per 1s, burst 4", s.Policies.Text)
		require.NoError(t, s.Policies.Err)
		require.NoError(t, fleet.Of(one).UnsetPolicies(t.Context()))
		time.Sleep(time.Minute)
		_, err = fleet.Of(two).Settings(t.Context())
		require.NoError(t, err)
		require.Equal(t, 9, allowed(two, "acme"))
	})
}

// A key has numbers of its own: from code, or set at run time, for a time or for good.
func TestLimitsOfKeys(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		rate := policies.PerSecond(2).Per("tenant").Override(policies.PerSecond(20).Burst(5), "large")
		p := opened(t, config(rate))
		allowed := func(tenant string) (n int) {
			for p.Wait(t.Context(), pacer.Scope("tenant", tenant), pacer.MaxWait(0)) == nil {
				n++
			}
			return n
		}
		require.Equal(t, 1, allowed("small"))
		require.Equal(t, 5, allowed("large"))
		all := line(t, p, 10, func(ctx context.Context, _ int) error { return p.Wait(ctx, pacer.Scope("tenant", "acme")) })
		require.NoError(t, fleet.Of(p).SetLimit(t.Context(), rate.Name(), policies.PerSecond(100).Burst(3), time.Minute, pacer.Scope("tenant", "acme")))
		began := time.Now()
		nearlyInOrder(t, all(), 2)
		require.Less(t, time.Since(began), 200*time.Millisecond)
		time.Sleep(time.Second)
		require.InDelta(t, 4, allowed("acme"), 1, "some come back meanwhile, where the store is far away")
		s, err := p.Status(t.Context(), pacer.Scope("tenant", "acme"))
		require.NoError(t, err)
		require.Equal(t, "per-second.tenant: 100 per 1s, burst 3, per tenant", s.Policies[0].Policy.String())
		time.Sleep(time.Minute)
		require.Equal(t, 1, allowed("acme"), "it is over")
		require.NoError(t, fleet.Of(p).SetLimit(t.Context(), rate.Name(), policies.PerSecond(1).Burst(2), 0, pacer.Scope("tenant", "large")))
		time.Sleep(10 * time.Second)
		require.Equal(t, 2, allowed("large"), "what is set goes before what is declared")
		require.NoError(t, fleet.Of(p).UnsetLimit(t.Context(), rate.Name(), pacer.Scope("tenant", "large")))
		time.Sleep(10 * time.Second)
		require.Equal(t, 5, allowed("large"))

		var wrong *pacer.ConfigError
		require.ErrorAs(t, fleet.Of(p).SetLimit(t.Context(), "nothing", policies.PerSecond(1), 0), &wrong)
		require.ErrorAs(t, fleet.Of(p).SetLimit(t.Context(), rate.Name(), policies.Daily(1, time.UTC), 0, pacer.Scope("tenant", "x")), &wrong)
		require.ErrorAs(t, fleet.Of(p).SetLimit(t.Context(), rate.Name(), policies.PerSecond(1), -1, pacer.Scope("tenant", "x")), &wrong)
		var lacks *pacer.LimitError
		require.ErrorAs(t, fleet.Of(p).SetLimit(t.Context(), rate.Name(), policies.PerSecond(1), 0), &lacks)
	})
}

// Changes at random while calls wait: none fails, all go, and nothing is left behind.
func TestPoliciesChangeAtRandom(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		p := opened(t, config(policies.PerSecond(50).Named("x")))
		shapes := [][]policies.Policy{
			{policies.PerSecond(50).Named("x")},
			{policies.AtMost(40, time.Second).Named("x")},
			{policies.Sliding(60, time.Second).Named("x"), policies.PerSecond(30).Per("tenant")},
			{policies.PerSecond(50).Named("x").Fair("tenant")},
			{policies.PerSecond(50).Named("x"), policies.InFlight(5)},
			{policies.PerSecond(50).Named("x").Lane("batch", 50)},
			nil,
		}
		n := extent(100, 400)
		all := line(t, p, n, func(ctx context.Context, i int) error {
			r, err := p.Acquire(ctx, pacer.MaxWait(pacer.Forever), pacer.Scope("tenant", fmt.Sprint(i%3)), pacer.Scope("x", "y"))
			if err == nil {
				r.Release()
			}
			return err
		})
		for i := range 40 {
			require.NoError(t, p.Declare(shapes[(i*5+i/7)%6]...))
			time.Sleep(time.Duration(17+i*13%90) * time.Millisecond)
		}
		require.NoError(t, p.Declare(policies.PerSecond(1000).Named("x")))
		require.Len(t, all(), n)
	})
}

// A call counts for the policy that admitted it, even if the order of the policies changed.
func TestWhatGoesIsCountedByName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(1000).Burst(1000).Named("a"), policies.PerSecond(1000).Burst(1000).Named("b")))
		registry, _ := inside.Of(p).Registry()
		_, err := registry.Index(t.Context(), fleet.Of(p).Upstream())
		require.NoError(t, err)
		require.NoError(t, p.Declare(policies.PerSecond(1000).Burst(1000).Named("c"), policies.PerSecond(1000).Burst(1000).Named("b")))
		registry, _ = inside.Of(p).Registry()
		_, err = registry.Index(t.Context(), fleet.Of(p).Upstream())
		require.NoError(t, err)
		for range 7 {
			require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		}
		index, err := registry.Index(t.Context(), fleet.Of(p).Upstream())
		require.NoError(t, err)
		counted := make(map[string]int64)
		for _, w := range index.Went {
			counted[w.Policy] += w.What.Cost
		}
		require.Equal(t, map[string]int64{"b": 7, "c": 7}, counted)
		require.NoError(t, p.Close())
	})
}

// Settings can be read: the policies of the fleet, and the limits of keys, since when and until when. A store that keeps none returns an
// error.
func TestSettingsAreRead(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		rate := policies.PerSecond(2).Per("tenant", "user").Named("rate")
		p, other := opened(t, config(rate)), opened(t, config(rate))
		read := func() *fleet.Settings {
			s, err := fleet.Of(other).Settings(t.Context())
			require.NoError(t, err)
			return s
		}
		require.NoError(t, fleet.Of(p).UnsetPolicies(t.Context()))
		require.True(t, read().None())
		require.True(t, (*fleet.Settings)(nil).None())
		began := time.Now().Round(0)
		require.NoError(t, fleet.Of(p).SetPolicies(t.Context(), rate, policies.Daily(10, time.UTC)))
		time.Sleep(time.Minute)
		acme := []pacer.ScopeOption{pacer.Scope("tenant", "acme"), pacer.Scope("user", "a b")}
		require.NoError(t, fleet.Of(p).SetLimit(t.Context(), "rate", policies.PerSecond(9), time.Hour, acme...))
		s := read()
		require.False(t, s.None())
		require.Equal(t, "api", s.Upstream)
		require.Equal(t, "rate: 2 per 1s, per tenant+user\ndaily: 10 daily (UTC)", s.Policies.Text)
		require.Len(t, s.Policies.Policies, 2)
		require.NoError(t, s.Policies.Err)
		require.WithinDuration(t, began, s.Policies.Since, 20*ms)
		require.Zero(t, s.Policies.Until, "for good")
		require.Len(t, s.Limits, 1)
		one := s.Limits[0]
		require.Equal(t, []string{"rate", "tenant=acme user=a%20b"}, []string{one.Policy, one.Scope})
		require.Equal(t, "rate: 9 per 1s, per tenant+user", one.Text)
		require.Equal(t, one.Text, one.Policies[0].String())
		require.Equal(t, time.Hour, one.Until.Sub(one.Since))
		require.WithinDuration(t, s.Changed, one.Since, ms)
		require.WithinDuration(t, began.Add(time.Minute), s.Changed, 20*ms)
		require.Equal(t, policies.Daily(10, time.UTC).String(), fleet.Of(other).Policies()[1].String(), "and heeded")

		status, err := keysOf(pacer.With(t.Context(), acme...), other, []policies.Policy{rate}, []store.Key{
			{Policy: "rate", Scope: store.EscapeScope("acme") + ":" + store.EscapeScope("a b")}, {Policy: "rate", Scope: "x:y"},
		})
		require.NoError(t, err)
		for i, want := range []string{"rate: 9 per 1s, per tenant+user", "rate: 9 per 1s, per tenant+user", "rate: 2 per 1s, per tenant+user"} {
			require.Equal(t, want, status.Policies[i].Policy.String(), "status of key %d", i)
		}
		require.NoError(t, fleet.Of(p).UnsetPolicies(t.Context()))
		require.NoError(t, fleet.Of(p).UnsetLimit(t.Context(), "rate", acme...))
		require.True(t, read().None())
		require.NoError(t, p.Close())
		_, err = fleet.Of(p).Settings(t.Context())
		require.ErrorIs(t, err, pacer.ErrClosed)
	})
}

// A store that keeps no settings refuses them, and an unreadable setting does not hold.
func TestStoresWithoutSettings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, backing := range map[string]store.Store{
			"direct": struct{ store.Store }{memstore.New()}, "shared": struct{ store.Shared }{newRemote(1)},
		} {
			p := opened(t, pacer.Config{Upstream: "api", Store: backing, Policies: []policies.Policy{policies.PerSecond(1).Per("tenant")}})
			_, err := fleet.Of(p).Settings(t.Context())
			for what, err := range map[string]error{
				"Settings": err, "SetPolicies": fleet.Of(p).SetPolicies(t.Context(), policies.PerSecond(2)), "UnsetPolicies": fleet.Of(p).UnsetPolicies(t.Context()),
				"SetLimit": fleet.Of(p).SetLimit(t.Context(), "per-second.tenant", policies.PerSecond(2), 0, pacer.Scope("tenant", "x")),
			} {
				var failed *pacer.StoreError
				require.ErrorAs(t, err, &failed, "%s %s", name, what)
				require.ErrorIs(t, err, store.ErrNoSettings, "%s %s", name, what)
			}
		}
		backing := memstore.New()
		p := opened(t, pacer.Config{Upstream: "api", Store: backing, Policies: []policies.Policy{policies.PerSecond(1)}})
		_, err := backing.Set(t.Context(), "api", []store.Setting{{Text: "x: 5 per moon"}, {Policy: "per-second", Scope: "y", Text: "?"}})
		require.NoError(t, err)
		s, err := fleet.Of(p).Settings(t.Context())
		require.NoError(t, err)
		require.Error(t, s.Policies.Err)
		require.Error(t, s.Limits[0].Err)
		require.Equal(t, "y", s.Limits[0].Scope)
		require.Equal(t, "per-second: 1 per 1s", fleet.Of(p).Policies()[0].String())
	})
}

// A store that has lost its data has lost the settings: the processes' own policies hold again.
func TestWhatIsSetIsLostWithTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(2)
		p := opened(t, pacer.Config{Upstream: "api", Store: r, Policies: []policies.Policy{policies.PerSecond(1).Named("x")}, Jitter: pacer.NoJitter})
		require.NoError(t, fleet.Of(p).SetPolicies(t.Context(), policies.PerSecond(100).Named("x")))
		require.Equal(t, "x: 100 per 1s", fleet.Of(p).Policies()[0].String())
		r.forget()
		require.NoError(t, p.Wait(t.Context()))
		back()
		require.NoError(t, p.Wait(t.Context()))
		time.Sleep(10 * time.Second)
		require.Equal(t, "x: 1 per 1s", fleet.Of(p).Policies()[0].String())
	})
}
