package pacer_test

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

const ms = time.Millisecond

// retryAfter is RetryAfter of an error that has one, or 0.
func retryAfter(err error) time.Duration {
	d, _ := pacer.RetryAfter(err)
	return d
}

func newPacer(t *testing.T, c pacer.Config) *pacer.Pacer {
	t.Helper()
	if c.Upstream == "" {
		c.Upstream = "test"
	}
	if c.Jitter == 0 {
		c.Jitter = pacer.NoJitter
	}
	p, err := pacer.New(c)
	require.NoError(t, err)
	return p
}

func limits(p ...policies.Policy) pacer.Config { return pacer.Config{Policies: p} }

func TestWaitPaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(10).Burst(2)))
		start := time.Now()
		for i, want := range []time.Duration{0, 0, 100 * ms, 200 * ms, 300 * ms} {
			require.NoError(t, p.Wait(t.Context()))
			require.Equal(t, want, time.Since(start), "call %d", i)
		}
		require.NoError(t, p.Wait(t.Context(), pacer.Cost(2)))
		require.Equal(t, 500*ms, time.Since(start))
	})
}

func TestWaitIsFairUnderConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(100)))
		start := time.Now()
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 10 {
					require.NoError(t, p.Wait(t.Context()))
				}
			})
		}
		wg.Wait()
		require.Equal(t, 6390*ms, time.Since(start))
	})
}

func TestADeadlineThatCannotBeMetIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(1).Named("peak")))
		require.NoError(t, p.Wait(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 500*ms)
		defer cancel()
		start := time.Now()
		err := p.Wait(ctx)
		require.Zero(t, time.Since(start), "must not sleep to fail")
		var le *pacer.LimitError
		require.ErrorAs(t, err, &le)
		require.Equal(t, "peak", le.Policy)
		require.Equal(t, time.Second, le.Wait)
		wrapped := &url.Error{Op: "Get", URL: "http://x", Err: err}
		for _, target := range []error{pacer.ErrRefused, pacer.ErrNotYet, context.DeadlineExceeded} {
			require.ErrorIs(t, wrapped, target)
		}
		require.NotErrorIs(t, err, pacer.TooCostly)
		require.Contains(t, err.Error(), `policy "peak"`)

		require.NoError(t, p.Wait(t.Context()), "nothing was charged")
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestMaxWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Every(time.Hour)))
		require.NoError(t, p.Wait(t.Context()))
		err := p.Wait(t.Context())
		require.ErrorIs(t, err, pacer.ErrNotYet, "the default is finite")
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(59*time.Minute)), pacer.ErrNotYet)
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(pacer.Forever)))
	})
}

func TestNeverDiffersFromNotYet(t *testing.T) {
	t.Parallel()
	p := newPacer(t, limits(policies.PerSecond(10).Burst(3).Named("peak"), policies.Fixed(100, time.Minute)))
	err := p.Wait(t.Context(), pacer.Cost(4))
	require.ErrorIs(t, err, pacer.TooCostly)
	require.ErrorIs(t, err, pacer.ErrRefused)
	require.NotErrorIs(t, err, pacer.ErrNotYet)
	var le *pacer.LimitError
	require.ErrorAs(t, err, &le)
	require.Equal(t, int64(3), le.Limit)
	require.NoError(t, p.Wait(t.Context(), pacer.Cost(3), pacer.MaxWait(0)), "nothing was charged")
}

func TestACancelledWaitGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(1)))
		require.NoError(t, p.Wait(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error)
		go func() { got <- p.Wait(ctx) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-got, context.Canceled)
		start := time.Now()
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, time.Second, time.Since(start), "the second slot, not the third")
		require.ErrorIs(t, p.Wait(ctx), context.Canceled, "a context that is done asks for nothing")
	})
}

func TestAThousandCancelledWaitsLeaveTheCapacity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(100).Burst(3), policies.PerSecond(10).Per("tenant").Burst(2)))
		var wg sync.WaitGroup
		var went atomic.Int64
		for i := range 1000 {
			wg.Go(func() {
				ctx := pacer.With(t.Context(), pacer.Scope("tenant", string(rune('a'+i%7))))
				ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(i%50)*ms, nil)
				defer cancel()
				ctx2, cancel2 := context.WithCancel(context.WithoutCancel(ctx))
				context.AfterFunc(ctx, cancel2) // no deadline to see: it is cancelled in its sleep
				if p.Wait(ctx2) == nil {
					went.Add(1)
				}
			})
		}
		wg.Wait()
		require.Positive(t, went.Load())
		time.Sleep(time.Second) // what went is past
		s, err := p.Status(t.Context(), pacer.Scope("tenant", "a"))
		require.NoError(t, err)
		for _, policy := range s.Policies {
			require.Zero(t, policy.Backlog, "%v", policy)
			require.Zero(t, policy.Next)
		}
		start := time.Now()
		for range 3 {
			require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "a")))
		}
		require.Equal(t, 100*ms, time.Since(start))
	})
}

func TestCloseWakesWaiters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		c := limits(policies.PerSecond(1))
		c.Store = store
		p, other := newPacer(t, c), newPacer(t, c)
		require.NoError(t, p.Wait(t.Context()))
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { require.ErrorIs(t, p.Wait(t.Context()), pacer.ErrClosed) })
		}
		synctest.Wait()
		held, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.NoError(t, p.Close())
		require.NoError(t, p.Close(), "twice is harmless")
		wg.Wait()
		require.ErrorIs(t, held.Wait(t.Context()), pacer.ErrClosed)
		require.ErrorIs(t, p.Wait(t.Context()), pacer.ErrClosed)
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrClosed)
		require.ErrorIs(t, p.Report(t.Context(), policies.Feedback{}), pacer.ErrClosed)
		_, err = p.Status(t.Context())
		require.ErrorIs(t, err, pacer.ErrClosed)

		start := time.Now()
		require.NoError(t, other.Wait(t.Context()))
		require.Equal(t, time.Second, time.Since(start), "the slots were given back")
	})
}

func TestScopes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(
			policies.PerSecond(1).Burst(1).Per("tenant"),
			policies.Every(time.Minute).Burst(1).Per("user", "ticket").Optional(),
		))
		acme := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
		require.NoError(t, p.Wait(acme, pacer.MaxWait(0)))
		require.ErrorIs(t, p.Wait(acme, pacer.MaxWait(0)), pacer.ErrNotYet)
		require.NoError(t, p.Wait(acme, pacer.Scope("tenant", "other"), pacer.MaxWait(0)), "an option overrides the context")
		require.NoError(t, p.Wait(pacer.With(acme, pacer.Scope("tenant", "third")), pacer.MaxWait(0)), "the innermost counts")

		err := p.Wait(t.Context(), pacer.MaxWait(0))
		var se *pacer.LimitError
		require.ErrorAs(t, err, &se)
		require.ErrorIs(t, err, pacer.ErrRefused)
		require.Equal(t, "tenant", se.Scope)
		require.ErrorAs(t, p.Wait(pacer.With(acme, pacer.Scope("tenant", "")), pacer.MaxWait(0)), &se, "an empty value is none")

		time.Sleep(time.Second)
		ticket := []pacer.Option{pacer.Scope("tenant", "acme"), pacer.Scope("user", "u"), pacer.Scope("ticket", "7")}
		require.NoError(t, p.Wait(t.Context(), append([]pacer.Option{pacer.MaxWait(0)}, ticket...)...))
		time.Sleep(time.Second)
		require.NoError(t, p.Wait(acme, pacer.Scope("user", "u"), pacer.MaxWait(0)), "half of the scopes do not bind")
		time.Sleep(time.Second)
		err = p.Wait(t.Context(), append([]pacer.Option{pacer.MaxWait(0)}, ticket...)...)
		var le *pacer.LimitError
		require.ErrorAs(t, err, &le)
		require.Equal(t, "user=u ticket=7", le.Scope)
	})
}

// A context with a scope is one like any other: contexts made of it carry the scope, and it ends with its parent.
func TestAContextWithAScope(t *testing.T) {
	t.Parallel()
	type key struct{}
	parent, end := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
	ctx := pacer.With(pacer.With(parent, pacer.Scope("user", "bob")), pacer.Scope("tenant", "acme"))
	child, cancel := context.WithTimeout(context.WithValue(ctx, "other", 1), time.Hour) //nolint:staticcheck // a key of another type
	defer cancel()
	p := newPacer(t, limits(policies.Every(time.Hour).Per("tenant", "user")))
	require.NoError(t, p.Wait(context.WithoutCancel(child), pacer.MaxWait(0)))
	require.ErrorIs(t, p.Wait(child, pacer.MaxWait(0)), pacer.ErrNotYet)
	require.NoError(t, p.Wait(pacer.With(child, pacer.Scope("user", "eve")), pacer.MaxWait(0)))
	require.Equal(t, "value", child.Value(key{}))
	require.Nil(t, child.Value("nobody"))
	broken := errors.New("broken")
	end(broken)
	<-child.Done()
	require.ErrorIs(t, context.Cause(child), broken)
	require.ErrorIs(t, p.Wait(ctx, pacer.MaxWait(0)), context.Canceled)
}

func TestReservations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(10).Named("peak")))
		first, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.Zero(t, first.Delay())
		second, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.Equal(t, 100*ms, second.Delay())
		third, err := p.Reserve(t.Context(), pacer.NotBefore(time.Second))
		require.NoError(t, err)
		require.Equal(t, time.Second, third.Delay())

		require.NoError(t, second.Cancel(t.Context()))
		require.NoError(t, second.Cancel(t.Context()), "twice gives back once")
		require.ErrorIs(t, second.Wait(t.Context()), pacer.ErrSpent)
		again, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.Equal(t, 100*ms, again.Delay())
		require.NoError(t, again.Wait(t.Context()))
		require.ErrorIs(t, again.Wait(t.Context()), pacer.ErrSpent, "one charge is one call")
		require.NoError(t, again.Cancel(t.Context()), "used: nothing to give back")
		next, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.Equal(t, 100*ms, next.Delay())

		done, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, next.Cancel(done), "a context that is done does not keep the slot")
	})
}

func TestJitterStaysWithinSlackAndIsNeverEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Policies: []policies.Policy{policies.PerSecond(100).Burst(3)}, Jitter: time.Hour})
		strict := newPacer(t, pacer.Config{Policies: []policies.Policy{policies.PerSecond(100)}, Jitter: time.Hour})
		spread := make(map[time.Duration]bool)
		for i := range 200 {
			start := time.Now()
			r, err := p.Reserve(t.Context())
			require.NoError(t, err)
			slot := time.Duration(max(0, i-2)) * 10 * ms
			_ = start
			d := r.Delay()
			require.GreaterOrEqual(t, d, slot)
			if i > 2 {
				require.LessOrEqual(t, d, slot+20*ms)
				spread[d-slot] = true
			} else {
				require.Zero(t, d, "a call that need not wait does not")
			}
			r, err = strict.Reserve(t.Context())
			require.NoError(t, err)
			require.Equal(t, time.Duration(i)*10*ms, r.Delay(), "no slack, no jitter")
		}
		require.Greater(t, len(spread), 100)
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(10).Burst(5).Named("peak"), policies.Fixed(100, time.Minute).Per("tenant").Named("tenant")))
		acme := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
		require.NoError(t, p.Wait(acme, pacer.Cost(3)))
		s, err := p.Status(acme)
		require.NoError(t, err)
		require.Len(t, s.Policies, 2)
		require.Equal(t, "peak", s.Policies[0].Policy.Name())
		require.Equal(t, int64(2), s.Policies[0].Remaining)
		require.Equal(t, "tenant=acme", s.Policies[1].Scope)
		require.Equal(t, int64(97), s.Policies[1].Remaining)
		require.Equal(t, 300*time.Millisecond, s.Policies[0].Full)
		require.Equal(t, time.Minute, s.Policies[1].Full.Round(time.Second), "virtual time begins at midnight")
		time.Sleep(300 * time.Millisecond)
		s, err = p.Status(acme)
		require.NoError(t, err)
		require.Zero(t, s.Policies[0].Full)
		require.Equal(t, int64(5), s.Policies[0].Remaining)
		require.NoError(t, p.Report(acme, policies.Feedback{Wait: time.Second, Policies: []string{"tenant"}}))
		s, err = p.Status(acme)
		require.NoError(t, err)
		require.Equal(t, time.Second, s.Policies[1].PausedFor)
		require.Zero(t, s.PausedFor)
	})
}

// failing is a store that fails.
type failing struct{ err error }

func (f failing) Reserve(context.Context, store.Stack, []store.Call, []store.Grant) error {
	return f.err
}
func (f failing) Cancel(context.Context, store.Stack, []store.Grant) error { return f.err }
func (f failing) Report(context.Context, store.Stack, []store.Note) (store.Instant, int, error) {
	return 0, 0, f.err
}
func (f failing) Status(context.Context, store.Stack) (store.StackStatus, error) {
	return store.StackStatus{}, f.err
}

func TestAStoreThatFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	p := newPacer(t, pacer.Config{Store: failing{broken}})
	_, statusErr := p.Status(t.Context())
	for op, err := range map[string]error{
		"reserve": p.Wait(t.Context()),
		"report":  p.Report(t.Context(), policies.Feedback{Wait: 1}),
		"status":  statusErr,
	} {
		var se *pacer.StoreError
		require.ErrorAs(t, err, &se)
		require.Equal(t, op, se.Op)
		require.ErrorIs(t, err, broken)
		require.NotErrorIs(t, err, pacer.ErrRefused)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	require.ErrorIs(t, p.Wait(ctx), context.DeadlineExceeded, "the context's end is not the store's fault")
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	good := policies.PerSecond(1)
	for name, c := range map[string]struct {
		config pacer.Config
		want   string
	}{
		"empty upstream":   {pacer.Config{}, `Upstream is ""`},
		"hostile upstream": {pacer.Config{Upstream: "a}b"}, `Upstream is "a}b"`},
		"zero policy":      {pacer.Config{Upstream: "u", Policies: []policies.Policy{{}}}, "make it with a constructor"},
		"bad policy":       {pacer.Config{Upstream: "u", Policies: []policies.Policy{good, policies.PerSecond(0)}}, "Policies[1]"},
		"duplicate names":  {pacer.Config{Upstream: "u", Policies: []policies.Policy{good, policies.PerSecond(2)}}, "Policies[1]"},
		"negative wait":    {pacer.Config{Upstream: "u", MaxWait: -1}, "MaxWait"},
		"negative pause":   {pacer.Config{Upstream: "u", MaxPause: -1}, "MaxPause"},
		"negative jitter":  {pacer.Config{Upstream: "u", Jitter: -2}, "Jitter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := pacer.New(c.config)
			var ce *pacer.ConfigError
			require.ErrorAs(t, err, &ce)
			require.Contains(t, err.Error(), c.want)
		})
	}
	t.Run("options", func(t *testing.T) {
		t.Parallel()
		p := newPacer(t, limits(good))
		for _, o := range []pacer.Option{pacer.Cost(0), pacer.Cost(-1), pacer.MaxWait(-1), pacer.NotBefore(-1), pacer.NotBefore(pacer.Forever + 1)} {
			var ce *pacer.ConfigError
			require.ErrorAs(t, p.Wait(t.Context(), o), &ce)
		}
		var ce *pacer.ConfigError
		require.ErrorAs(t, p.Report(t.Context(), policies.Feedback{Wait: -1}), &ce)
		require.ErrorAs(t, p.Report(t.Context(), policies.Feedback{Wait: 1, Policies: []string{"nobody"}}), &ce)
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)), "the state is untouched")
	})
}

func TestNoPoliciesLimitNothing(t *testing.T) {
	t.Parallel()
	p := newPacer(t, pacer.Config{})
	for range 100 {
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
	}
}

// The slot of a reservation is an instant of the store's clock; the call goes in its slack.
func TestAReservationKnowsItsSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Fixed(1, time.Minute)))
		defer p.Close()
		begun := store.Instant(time.Now().UnixMicro())
		first, err := p.Reserve(t.Context())
		require.NoError(t, err)
		second, err := p.Reserve(t.Context())
		require.NoError(t, err)
		at, _ := inside.Slot(first)
		require.Equal(t, begun, at)
		minute := store.Instant(time.Minute / time.Microsecond)
		at, slack := inside.Slot(second)
		require.Equal(t, begun-begun%minute+minute, at)
		require.Equal(t, time.Minute-time.Microsecond, slack)
		require.NoError(t, first.NotUsed(t.Context()))
		require.NoError(t, second.NotUsed(t.Context()))
	})
}

func TestStatusBinding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(10).Named("peak"), policies.PerSecond(2).Named("slow")))
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Nil(t, s.Binding())
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		s, err = p.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, "slow", s.Binding().Policy.Name())
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Second, Policies: []string{"peak"}}))
		s, err = p.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, "peak", s.Binding().Policy.Name())
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Minute, Policies: nil}))
		s, err = p.Status(t.Context())
		require.NoError(t, err)
		require.Nil(t, s.Binding(), "the whole upstream is paused")
	})
}
