package pacer_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/ietf"
)

// deaf is a store that does not take reports when it is broken, nor those of contexts that have ended.
type deaf struct {
	store.Store

	broken atomic.Bool
}

func (d *deaf) Report(ctx context.Context, stack store.Stack, notes []store.Note) (store.Instant, int, error) {
	if d.broken.Load() {
		return 0, 0, errBroken
	}
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	return d.Store.Report(ctx, stack, notes)
}

var errBusy = errors.New("slow down")

// answers returns a call that an upstream answers after 20 ms.
func answers(reading policies.Reading, err error) func(context.Context) (policies.Reading, error) {
	return func(context.Context) (policies.Reading, error) {
		time.Sleep(20 * ms)
		return reading, err
	}
}

// refused is the reading of a call that was refused.
func refused(wait time.Duration, names ...string) policies.Reading {
	return policies.Reading{Feedback: []policies.Feedback{{Refused: true, Wait: wait, Policies: names}}, Verdict: policies.Limited}
}

// Do waits for its turn, hands the context and the error on as they are, and counts the call as answered once.
func TestDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var answered []time.Duration
		p := newPacer(t, pacer.Config{
			Policies: []policies.Policy{policies.PerSecond(1).Per("tenant").Named("peak")},
			Hooks:    []*hooks.Set{{Answered: func(_ context.Context, a hooks.Answered) { answered = append(answered, a.Took) }}},
		})
		ctx := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
		start := time.Now()
		require.NoError(t, p.Do(ctx, func(given context.Context) (policies.Reading, error) {
			require.Equal(t, ctx, given)
			return answers(policies.Reading{}, nil)(given)
		}))
		opts := append(make([]pacer.Option, 0, 2), pacer.Scope("tenant", "acme"))
		err := p.Do(t.Context(), answers(policies.Reading{}, errBusy), opts...)
		require.Zero(t, opts[:2][1], "the caller's")
		require.True(t, err == errBusy, "as it is") //nolint:errorlint,testifylint // that is the point
		require.Equal(t, 1020*ms, time.Since(start))
		require.NoError(t, p.Close())
		require.Equal(t, []time.Duration{20 * ms, 20 * ms}, answered)
	})
}

// A call that the pacer refuses is not made.
func TestDoOfACallThatMayNotGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerMinute(1)))
		never := func(context.Context) (policies.Reading, error) { panic("called") }
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		require.ErrorIs(t, p.Do(t.Context(), never, pacer.MaxWait(time.Second)), pacer.ErrNotYet)
		require.ErrorIs(t, p.Do(t.Context(), never, pacer.Cost(2)), pacer.TooCostly)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		require.ErrorIs(t, p.Do(ctx, never), context.Canceled)
		require.NoError(t, p.Close())
		require.ErrorIs(t, p.Do(t.Context(), never), pacer.ErrClosed)
	})
}

// The permit is held until the function has come to its end, whatever end that is.
func TestDoReleasesItsPermit(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context) (policies.Reading, error){
		"returned": answers(policies.Reading{}, nil),
		"failed":   answers(policies.Reading{}, errBusy),
		"panicked": func(context.Context) (policies.Reading, error) { time.Sleep(20 * ms); panic("ouch") },
		"exited": func(context.Context) (policies.Reading, error) {
			time.Sleep(20 * ms)
			runtime.Goexit()
			panic("unreachable")
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPacer(t, limits(policies.InFlight(1)))
			var calls sync.WaitGroup
			calls.Go(func() {
				defer func() { require.Equal(t, name == "panicked", recover() != nil, name) }()
				_ = p.Do(t.Context(), call)
			})
			synctest.Wait()
			require.ErrorIs(t, p.Do(t.Context(), call, pacer.MaxWait(0)), pacer.ErrNotYet, name)
			calls.Wait()
			synctest.Wait()
			require.NoError(t, p.Do(t.Context(), answers(policies.Reading{}, nil), pacer.MaxWait(0)), name)
			require.NoError(t, p.Close())
		})
	}
}

// A stray refusal raises the margin and delays no other call; NotBefore repeats its call when the upstream allows.
func TestDoOfAStrayRefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(50).Named("peak")))
		start := time.Now()
		require.ErrorIs(t, p.Do(t.Context(), answers(refused(time.Second), errBusy)), errBusy)
		require.Equal(t, 8*ms, status(t, p, "peak").Margin)
		require.NoError(t, p.Do(t.Context(), answers(policies.Reading{}, nil)))
		require.Equal(t, 40*ms, time.Since(start), "20 ms each, and nobody waited")
		start = time.Now()
		require.NoError(t, p.Do(t.Context(), answers(policies.Reading{}, nil), pacer.NotBefore(time.Second)))
		require.Equal(t, 1020*ms, time.Since(start), "the call that was refused")
	})
}

// A refusal that is not stray holds for everyone: a wait that is longer than the period, and a second refusal.
func TestDoOfARefusal(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string][]time.Duration{"long": {5 * time.Second}, "repeated": {time.Second, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			config := pacer.Config{Store: store, Policies: []policies.Policy{policies.PerSecond(50).Named("peak")}}
			p, other := newPacer(t, config), newPacer(t, config)
			for _, wait := range waits {
				require.ErrorIs(t, p.Do(t.Context(), answers(refused(wait), errBusy)), errBusy)
			}
			start := time.Now()
			require.NoError(t, other.Wait(t.Context()))
			require.Equal(t, waits[0], time.Since(start), name)
		})
	}
}

// The reading counts although the caller has left, and whatever the function returns: profiles read it from any reply.
func TestDoHeedsTheReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Store: &deaf{Store: memstore.New()}, Policies: []policies.Policy{policies.Daily(100, time.UTC).Named("daily")}})
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, p.Do(ctx, func(context.Context) (policies.Reading, error) {
			cancel()
			header := http.Header{"Ratelimit-Policy": {`"daily";q=100;w=86400`}, "Ratelimit": {`"daily";r=7;t=3600`}}
			return ietf.Profile.Read(&policies.Reply{Status: http.StatusOK, Header: header, Now: time.Now()}), nil
		}))
		require.Equal(t, int64(7), status(t, p, "daily").Remaining)
	})
}

// Calls of Do that are under way are not taken for those of other consumers.
func TestDoIsTracked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Daily(100, time.UTC).Named("daily")))
		slow := make(chan struct{})
		var calls sync.WaitGroup
		for range 5 {
			calls.Go(func() {
				require.NoError(t, p.Do(t.Context(), func(context.Context) (policies.Reading, error) {
					<-slow
					return policies.Reading{}, nil
				}))
			})
		}
		synctest.Wait()
		require.NoError(t, p.Do(t.Context(), answers(policies.Reading{Feedback: []policies.Feedback{left(89, "daily")}}, nil)))
		require.Equal(t, int64(84), status(t, p, "daily").Remaining, "others have spent ten, and the upstream has not seen the five yet")
		close(slow)
		calls.Wait()
	})
}

// A mistake in the reading is the error of a call without an error of its own. A store that fails, or a closed pacer, is not.
func TestDoOfABadReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &deaf{Store: memstore.New()}
		p := newPacer(t, pacer.Config{Store: store, Policies: []policies.Policy{policies.PerSecond(50).Named("peak")}})
		var config *pacer.ConfigError
		require.ErrorAs(t, p.Do(t.Context(), answers(refused(time.Second, "peek"), nil)), &config)
		require.Equal(t, `"peek"`, config.Value)
		require.ErrorIs(t, p.Do(t.Context(), answers(refused(time.Second, "peek"), errBusy)), errBusy)
		store.broken.Store(true)
		require.NoError(t, p.Do(t.Context(), answers(refused(time.Second, "peak"), nil)))
		require.NoError(t, p.Do(t.Context(), func(context.Context) (policies.Reading, error) { return refused(time.Second), p.Close() }))
	})
}
