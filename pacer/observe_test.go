package pacer_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/zendesk"
)

// predictions are what hooks receive of observed calls.
type predictions struct {
	mu   sync.Mutex
	all  []hooks.Observed
	lost int64
}

func (o *predictions) hooks() *hooks.Set {
	return &hooks.Set{
		Observed: func(_ context.Context, e hooks.Observed) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.all = append(o.all, e)
		},
		NotObserved: func(n int64) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.lost += n
		},
	}
}

// take waits until everything was received, and returns what came since its last call.
func (o *predictions) take() []hooks.Observed {
	time.Sleep(time.Second) // of virtual time
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.all
	o.all = nil
	return all
}

// A mode is whether all policies are observed.
type mode bool

const (
	enforce mode = false
	observe mode = true
)

// of returns policies in the mode.
func (m mode) of(list []policies.Policy) (all []policies.Policy) {
	for _, one := range list {
		if m == observe {
			all = append(all, one.Observed())
		} else {
			enforced, err := policies.Parse(strings.TrimSuffix(one.String(), ", observed"))
			if err != nil {
				panic(err) // what String writes can be read
			}
			all = append(all, enforced)
		}
	}
	return all
}

// setMode declares the policies of a Pacer in another mode.
func setMode(p *pacer.Pacer, m mode) error { return p.Declare(m.of(fleet.Of(p).Policies())...) }

// observing returns a Pacer in a mode, and its predictions. Enforcing leaves the policies as they are.
func observing(t *testing.T, c pacer.Config, m mode) (*pacer.Pacer, *predictions) {
	t.Helper()
	o := &predictions{}
	c.Hooks = []*hooks.Set{o.hooks()}
	if m == observe {
		c.Policies = m.of(c.Policies)
	}
	return opened(t, c), o
}

// goesNow checks that something takes no time, and returns no error.
func goesNow(t *testing.T, do func() error) {
	t.Helper()
	began := time.Now()
	require.NoError(t, do())
	require.Zero(t, time.Since(began))
}

// In Observe no call waits, by any method, and each is charged as if it had waited.
func TestNoCallWaitsInObserve(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		p, o := observing(t, config(policies.PerSecond(1).Named("rate")), observe)
		for range 3 {
			goesNow(t, func() error { return p.Wait(t.Context()) })
		}
		r, err := p.Acquire(t.Context())
		require.NoError(t, err)
		r.Release()
		goesNow(t, func() error { return r.Report(t.Context(), policies.Feedback{}) })
		r, err = p.Reserve(t.Context())
		require.NoError(t, err)
		require.Zero(t, r.Delay())
		goesNow(t, func() error { return r.Wait(t.Context()) })
		require.ErrorIs(t, r.Wait(t.Context()), pacer.ErrSpent)

		all := o.take()
		require.Len(t, all, 5)
		for i, e := range all {
			require.NoError(t, e.Refused)
			require.InDelta(t, time.Duration(i)*time.Second, e.Wait, float64(20*time.Millisecond), i)
			require.Equal(t, i > 0, e.Policy == "rate", "the first one need not wait")
		}
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Contains(t, s.Policies[0].Policy.String(), ", observed")
		require.Positive(t, s.Policies[0].Backlog)
	})
}

// A call that would have been refused starts, is reported, and is charged nothing.
func TestNothingIsRefusedInObserve(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		p, o := observing(t, config(
			policies.PerSecond(1).Named("rate"), policies.PerSecond(1).Per("tenant").Named("tenant"), policies.InFlight(1).Named("flight"),
			policies.Rate(10, time.Second).Burst(10).Lane("batch", 50).Named("lanes"),
		), observe)
		acme := pacer.Scope("tenant", "acme")
		for _, c := range []struct {
			opts []pacer.Option
			is   error
		}{
			{[]pacer.Option{acme, pacer.Cost(3)}, pacer.TooCostly},
			{nil, pacer.ErrRefused},
			{[]pacer.Option{acme}, nil},
			{[]pacer.Option{acme, pacer.MaxWait(time.Millisecond)}, pacer.ErrNotYet},
			{[]pacer.Option{acme, pacer.MaxWait(0)}, pacer.ErrNotYet},
		} {
			r, err := p.Acquire(t.Context(), c.opts...)
			require.NoError(t, err)
			r.Release()
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			o.mu.Lock()
			require.NotEmpty(t, o.all)
			got := o.all[len(o.all)-1]
			o.mu.Unlock()
			if c.is == nil {
				require.NoError(t, got.Refused)
			} else {
				require.ErrorIs(t, got.Refused, c.is)
			}
		}
		o.take()
		time.Sleep(time.Second)
		for _, want := range []int64{0, 2} { // the first would hold its permit for a lease
			goesNow(t, func() error { return p.Wait(t.Context(), acme, pacer.MaxWait(0)) })
			require.Equal(t, want, o.take()[0].Running)
		}
		time.Sleep(15 * time.Second)
		goesNow(t, func() error { return p.Wait(t.Context(), acme, pacer.MaxWait(0)) })
		require.Zero(t, o.take()[0].Running)
		var config1 *pacer.ConfigError
		r, err := p.TryAcquire(t.Context(), acme, pacer.Lane("misspelt"))
		require.NoError(t, err)
		r.Release()
		require.ErrorAs(t, o.take()[0].Refused, &config1)
	})
}

// A back-off is the caller's own wish.
func TestNotBeforeHoldsInObserve(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		p, o := observing(t, config(policies.PerSecond(1)), observe)
		began := time.Now()
		require.NoError(t, p.Wait(t.Context(), pacer.NotBefore(time.Second)))
		require.Equal(t, time.Second, time.Since(began))
		require.ErrorIs(t, p.Wait(t.Context(), pacer.NotBefore(time.Second), pacer.MaxWait(0)), pacer.ErrNotYet)
		all := o.take()
		require.Len(t, all, 1)
		require.Zero(t, all[0].Wait)
	})
}

// A pause, too, is only reported.
func TestPausesInObserve(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		p, o := observing(t, config(policies.PerSecond(100).Burst(10).Named("rate"), policies.InFlight(3).Named("flight")), observe)
		r, err := p.Acquire(t.Context(), pacer.Tracked())
		require.NoError(t, err)
		require.Zero(t, o.take()[0].Wait)
		require.NoError(t, r.Report(t.Context(), policies.Feedback{Wait: 30 * time.Second, Refused: true}))
		require.NoError(t, r.Report(t.Context(), policies.Feedback{
			Policies: []string{"flight"}, Wait: time.Second, Refused: true,
		}), "observed policies can be named")
		r.Release()
		r, err = p.Acquire(t.Context(), pacer.Tracked())
		require.NoError(t, err)
		require.NoError(t, r.Report(t.Context(), policies.Feedback{}), "the pause has become a limit of the call that is no policy")
		r.Release()
		e := o.take()[0]
		require.True(t, e.Paused)
		require.InDelta(t, 29*time.Second, e.Wait, float64(time.Second))
		require.NoError(t, setMode(p, enforce))
		_, err = p.TryAcquire(t.Context())
		require.ErrorIs(t, err, pacer.ErrNotYet, "the pause counts")
	})
}

// The other policies of a stack are enforced as always, unaffected by the one that is observed.
func TestOnePolicyIsObserved(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		p, o := observing(t, config(
			policies.PerSecond(10).Burst(1).Named("enforced"), policies.PerSecond(5).Per("tenant").Named("observed").Observed(),
		), enforce)
		_, err := p.Status(t.Context(), pacer.Scope("tenant", "acme"))
		require.NoError(t, err)
		began := time.Now()
		for range 21 {
			require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "acme")))
		}
		took := time.Since(began)
		require.InDelta(t, 2*time.Second, took, float64(30*time.Millisecond), "10 a second")
		require.NoError(t, p.Wait(t.Context()), "the scope is the observed policy's")
		all := o.take()
		require.Len(t, all, 22)
		last := all[20]
		require.Equal(t, "observed", last.Policy)
		require.Equal(t, "tenant=acme", last.Scope)
		require.InDelta(t, 2*time.Second, last.Wait, float64(250*time.Millisecond), "5 a second, while 10 came")
		var scope *pacer.LimitError
		require.ErrorAs(t, all[21].Refused, &scope)
	})
}

// Charges count when the policies are enforced; reservations for calls that have gone do not.
func TestEnforcementBegins(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*pacer.Pacer) error{
		"SetMode": func(p *pacer.Pacer) error { return setMode(p, enforce) },
		"Declare": func(p *pacer.Pacer) error {
			return p.Declare(policies.AtMost(10, time.Minute).Burst(10).Skew(0).Named("rate"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
				t.Helper()
				policy, first := policies.AtMost(10, time.Minute).Burst(10).Skew(0).Named("rate"), observe
				if name == "Declare" {
					policy, first = policy.Observed(), enforce
				}
				p, o := observing(t, config(policy), first)
				for range 50 {
					goesNow(t, func() error { return p.Wait(t.Context(), pacer.MaxWait(pacer.Forever)) })
				}
				require.Len(t, o.take(), 50)
				require.NoError(t, begin(p))
				began := time.Now()
				require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(pacer.Forever)))
				require.Greater(t, time.Since(began), 50*time.Second, "ten have gone, which counts")
				require.Less(t, time.Since(began), 70*time.Second, "and not the forty that would have waited")
				require.Empty(t, o.take())
				s, err := p.Status(t.Context())
				require.NoError(t, err)
				require.Zero(t, s.Policies[0].Backlog)
			})
		})
	}
}

// Requests that are under way when enforcement begins are given back, too, and so is everything in the end.
func TestNothingIsLeftOfObserving(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		for _, end := range []func(*pacer.Pacer) error{
			func(p *pacer.Pacer) error { return setMode(p, enforce) },
			(*pacer.Pacer).Close,
		} {
			policy := policies.PerSecond(1).Named("rate")
			p, _ := observing(t, config(policy), observe)
			other := opened(t, config(policy))
			for range 30 {
				goesNow(t, func() error { return p.Wait(t.Context()) })
			}
			require.NoError(t, end(p)) // with a shared store, they are pending
			time.Sleep(3 * time.Second)
			s, err := other.Status(t.Context())
			require.NoError(t, err)
			require.Zero(t, s.Policies[0].Backlog)
			require.Zero(t, s.Policies[0].Next)
			require.NoError(t, p.Close())
		}
	})
}

// A call that does not go after all gives back its charge.
func TestObservedCallsAreCancelled(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		p, _ := observing(t, config(
			policies.PerSecond(1).Named("rate").Observed(), policies.PerSecond(1).Named("enforced"), policies.InFlight(1).Named("flight").Observed(),
		), enforce)
		require.NoError(t, p.Wait(t.Context(), pacer.CostOf("flight", 0), pacer.MaxWait(0)))
		for range 5 {
			r, err := p.Reserve(t.Context())
			require.NoError(t, err)
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, r.Cancel(t.Context()))
			time.Sleep(20 * time.Millisecond)
		}
		synctest.Wait()
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		for _, one := range s.Policies {
			require.Zero(t, one.Backlog, one.Policy)
		}
	})
}

// Calls that wait when the policies are no longer enforced go.
func TestObservingBegins(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		p, o := observing(t, config(policies.Every(time.Minute), policies.InFlight(5)), enforce)
		wait := line(t, p, 20, acquires(p))
		began := time.Now()
		require.NoError(t, setMode(p, observe))
		wait()
		require.Less(t, time.Since(began), time.Second)
		require.NotEmpty(t, o.take())
	})
}

// Calls in flight are counted in the process, and those that would have been queued are reported.
func TestPermitsInObserve(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		p, o := observing(t, config(policies.InFlight(2).Per("tenant").Optional().Named("flight")), observe)
		var held []*pacer.Reservation
		for range 4 {
			r, err := p.Acquire(t.Context(), pacer.Scope("tenant", "acme"))
			require.NoError(t, err)
			held = append(held, r)
		}
		all := o.take()
		require.Len(t, all, 2)
		for i, e := range all {
			require.True(t, e.InFlight)
			require.Equal(t, int64(3+i), e.Running)
			require.Equal(t, "tenant=acme", e.Scope)
		}
		for _, r := range held {
			r.Release()
			r.Release()
		}
		r, err := p.Acquire(t.Context(), pacer.Scope("tenant", "acme"))
		require.NoError(t, err)
		require.NoError(t, r.Cancel(t.Context()))
		require.Empty(t, o.take())
	})
}

// A cost that is known afterwards is settled with the accounts of observed policies, too.
func TestObservedCostsAreSettled(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		p, o := observing(t, config(policies.Fixed(100, time.Hour).Named("tokens"), policies.Fixed(50, time.Hour).Named("other")), observe)
		r, err := p.Acquire(t.Context(), pacer.EstimateOf("tokens", 90, policies.Learned{}), pacer.CostOf("other", 0))
		require.NoError(t, err)
		o.take()
		require.NoError(t, r.Settle(t.Context(), policies.Cost{Policy: "tokens", N: 20}, policies.Cost{Policy: "other", N: 7}))
		require.ErrorIs(t, r.Settle(t.Context(), policies.Cost{Policy: "tokens", N: 20}), pacer.ErrSpent)
		time.Sleep(time.Second)
		synctest.Wait()
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(80), s.Policies[0].Remaining)
		require.Equal(t, int64(43), s.Policies[1].Remaining)
	})
}

// Parts of an observed window are predicted, and calls are charged and settled in the part of their own party alone.
func TestObservedParts(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		p, o := observing(t, config(policies.Fixed(100, time.Hour).Reserve("support", 50).Reserve("sync", 10).Named("quota")), observe)
		refused := func(n int64, opts ...pacer.Option) bool {
			require.NoError(t, p.Wait(t.Context(), append(opts, pacer.Cost(n))...))
			all := o.take()
			require.Len(t, all, 1)
			return all[0].Refused != nil
		}
		for _, n := range []int64{1, 0} {
			r, err := p.Acquire(t.Context(), pacer.CostOf("quota", n))
			require.NoError(t, err)
			require.Len(t, o.take(), int(n))
			require.NoError(t, r.Settle(t.Context(), policies.Cost{Policy: "quota", N: 15}))
		}
		require.False(t, refused(10))
		require.True(t, refused(1), "the rest is kept")
		require.False(t, refused(50, pacer.Lane("support")))
		require.False(t, refused(10, pacer.Lane("sync")))
	})
}

// No call waits for a store that is far away, or away, and the pending requests are bounded.
func TestObservingDoesNotWaitForTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		far := newRemote(1)
		far.set(nil, 200*time.Millisecond)
		p, o := observing(t, pacer.Config{Upstream: "api", Store: far, Policies: []policies.Policy{policies.PerSecond(10)}}, observe)
		for range 10_000 {
			goesNow(t, func() error { return p.Wait(t.Context(), pacer.MaxWait(pacer.Forever)) })
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		o.mu.Lock()
		require.Positive(t, o.lost)
		require.Equal(t, 10_000, len(o.all)+int(o.lost))
		o.mu.Unlock()
		far.set(errBroken, 0)
		goesNow(t, func() error { return p.Wait(t.Context()) })
	})
}

// Fair shares and lanes are observed in order of arrival, and enforced on the same accounts.
func TestSharesAndLanesInObserve(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		p, o := observing(t, config(
			policies.PerSecond(10).Burst(2).Fair("tenant").Named("fair"), policies.PerSecond(20).Burst(4).Lane("batch", 50).Named("lanes"),
		), observe)
		load := func() {
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					if err := p.Wait(t.Context(), pacer.Scope("tenant", string(rune('a'+i%3))), pacer.Lane("batch")); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		began := time.Now()
		load()
		require.Zero(t, time.Since(began))
		all := o.take()
		require.Len(t, all, 20)
		require.InDelta(t, 1800*time.Millisecond, all[19].Wait, float64(20*time.Millisecond))
		goesNow(t, func() error { return p.Wait(t.Context()) })
		require.ErrorIs(t, o.take()[0].Refused, pacer.ErrRefused, "it carries no tenant")

		require.NoError(t, setMode(p, enforce))
		time.Sleep(10 * time.Second)
		began = time.Now()
		load()
		require.InDelta(t, 1800*time.Millisecond, time.Since(began), float64(200*time.Millisecond))
		require.NoError(t, setMode(p, observe))
		began = time.Now()
		load()
		require.Zero(t, time.Since(began))
		require.Len(t, o.take(), 20)
	})
}

// Predictions are logged; long ones, and refusals, at level Info.
func TestObservedCallsAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := newPacer(t, pacer.Config{
			Policies: []policies.Policy{policies.PerMinute(1).Named("m").Observed(), policies.InFlight(1).Named("flight").Optional().Per("x").Observed()},
			Hooks:    []*hooks.Set{hooks.Log(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))},
		})
		for range 4 {
			_, err := p.Acquire(t.Context(), pacer.Scope("x", "1"), pacer.MaxWait(time.Minute))
			require.NoError(t, err)
		}
		require.NoError(t, p.Close())
		require.Contains(t, log.String(), `level=INFO msg="headway: an observed call would have waited" upstream=test policy=m wait=1m0s`)
		require.Contains(t, log.String(), `level=INFO msg="headway: an observed call would have been refused" upstream=test policy=m wait=2m0s`)
		require.Contains(t, log.String(), `level=DEBUG msg="headway: an observed call would have been queued" upstream=test policy=flight scope="x=1"`)
	})
}

// SetPolicies has a whole fleet observe one policy.
func TestAFleetObserves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		c := pacer.Config{Upstream: "api", Store: shared, Policies: []policies.Policy{policies.Every(time.Minute).Named("rate")}}
		one, o := observing(t, c, enforce)
		other := opened(t, c)
		require.NoError(t, fleet.Of(other).SetPolicies(t.Context(), policies.Every(time.Minute).Named("rate").Observed()))
		synctest.Wait()
		require.True(t, fleet.Of(one).Policies()[0].IsObserved())
		for range 3 {
			goesNow(t, func() error { return one.Wait(t.Context(), pacer.MaxWait(0)) })
		}
		require.Len(t, o.take(), 3)
	})
}

// anArrival is a call of a load.
type anArrival struct {
	after   time.Duration
	account string
	update  bool
}

// zendeskLoad returns calls of some accounts that come at random, at so many per cent of what each account may. So many per cent of them
// update tickets.
func zendeskLoad(plan, accounts, percent, updates int, lasts time.Duration) (all []anArrival) {
	r := rand.New(rand.NewPCG(4, 11))
	rate := float64(accounts*plan*percent) / 100 / float64(time.Minute)
	for at := time.Duration(0); at < lasts; at += time.Duration(r.ExpFloat64() / rate) {
		all = append(all, anArrival{at, string(rune('a' + r.IntN(accounts))), r.IntN(100) < updates})
	}
	return all
}

// play makes the calls of a load, and returns how long each waited, and when the last one went.
func play(t *testing.T, p *pacer.Pacer, all []anArrival) (waits []time.Duration) {
	t.Helper()
	waits = make([]time.Duration, len(all))
	var wg sync.WaitGroup
	began := time.Now()
	for i, one := range all {
		time.Sleep(one.after - time.Since(began))
		wg.Go(func() {
			opts := []pacer.Option{pacer.Scope(zendesk.ScopeAccount, one.account), pacer.MaxWait(pacer.Forever)}
			if one.update {
				opts = append(opts, pacer.Scope(zendesk.ScopeTicketsUpdate, one.account))
			}
			came := time.Now()
			if err := p.Wait(t.Context(), opts...); err != nil {
				t.Error(err)
			}
			waits[i] = time.Since(came)
		})
	}
	wg.Wait()
	return waits
}

// percentile returns the value below which so many per cent of some are.
func percentile(all []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)-1)*percent/100]
}

// Enforcement does what was predicted: the same load, of examples/zendesk, waits as long when it is enforced. If all calls have the same
// limits, they go in one order. Otherwise, a process that enforces has a queue for each stack, which take turns: that is not predicted.
func TestThePredictionIsWhatEnforcementDoes(t *testing.T) {
	t.Parallel()
	const plan, accounts, peak = 700, 3, 14
	length := extent(time.Minute, 5*time.Minute)
	all := append(zendesk.Limits(plan),
		policies.AtMost(peak, time.Second).Burst(2).Skew(50*time.Millisecond).Per(zendesk.ScopeAccount).Optional().Named("peak"))
	type row struct {
		percent, updates int
		within           float64
	}
	short := []row{{110, 0, 0.02}, {110, 10, 0.1}}
	for _, c := range extent(short, append(short, row{95, 0, 0.02}, row{95, 10, 0.1})) { // which has too few calls in a minute
		t.Run(fmt.Sprintf("%d %% of the limit, %d %% updates", c.percent, c.updates), func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
				t.Helper()
				load := zendeskLoad(plan, accounts, c.percent, c.updates, length)
				settings := config(all...)
				settings.Upstream = "enforced"
				enforced := play(t, opened(t, settings), load)
				settings.Upstream = "observed"
				p, o := observing(t, settings, observe)
				require.Zero(t, slices.Max(play(t, p, load)), "nothing waits")
				var predicted []time.Duration
				for _, e := range o.take() {
					require.NoError(t, e.Refused)
					predicted = append(predicted, e.Wait)
				}
				require.Len(t, predicted, len(load))
				for _, q := range []int{50, 99} {
					want, got := percentile(enforced, q), percentile(predicted, q)
					t.Logf("p%d of %d calls: enforced %v, predicted %v", q, len(load), want, got)
					require.InDelta(t, want, got, c.within*float64(want), "p%d", q)
				}
			})
		})
	}
}

// A call that waits for the end of a pause goes when nothing is enforced any more.
func TestObserveEndsAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(10)))
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Minute}))
		start, done := time.Now(), make(chan error)
		go func() { done <- p.Wait(t.Context()) }()
		time.Sleep(time.Second)
		require.NoError(t, setMode(p, observe))
		require.NoError(t, <-done)
		require.Equal(t, time.Second, time.Since(start))
	})
}
