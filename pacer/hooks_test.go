package pacer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
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
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// diary is a set of hooks that record their events.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) writef(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
}

// read returns what was written since it was last read.
func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

func limitOf(policy, scope string) string { return strings.TrimSpace(policy + " " + scope) }

func (d *diary) hooks() *hooks.Set {
	return &hooks.Set{
		Waiting: func(_ context.Context, s hooks.Waiting) {
			why := "waits for"
			if s.Paused {
				why = "waits, paused, for"
			}
			if s.Queued {
				why = fmt.Sprintf("is %d behind for", s.Ahead)
			}
			d.writef("%s %s (%d), %v", why, limitOf(s.Policy, s.Scope), s.Cost, s.Wait)
		},
		WaitDone: func(_ context.Context, s hooks.WaitDone) {
			d.writef("slept for %s, %v, error %v", limitOf(s.Policy, s.Scope), s.Took, s.Err)
		},
		Admitted: func(_ context.Context, g hooks.Admitted) {
			d.writef("goes (%d) after %v %s", g.Cost, g.Waited, limitOf(g.Policy, g.Scope))
		},
		Refused: func(_ context.Context, r hooks.Refusal) {
			d.writef("refused by %s, %v: %T", limitOf(r.Policy, r.Scope), r.Wait, r.Err)
		},
		Paused:  func(p hooks.Pause) { d.writef("paused %s for %v", limitOf(p.Policy, p.Scope), p.For) },
		Resumed: func(p hooks.Pause) { d.writef("resumed %s", limitOf(p.Policy, p.Scope)) },
		FeedbackApplied: func(_ context.Context, h hooks.FeedbackApplied) {
			d.writef("heeded %v of %s for %v: %d", h.Kind, limitOf(h.Policy, h.Scope), h.For, h.Value)
		},
		Failover: func(f hooks.Failover) { d.writef("fallback %v of %d, %v: %v", f.On, f.Processes, f.For, f.Err) },
		StoreRequest: func(c hooks.StoreRequest) {
			if c.Err != nil {
				d.writef("%s failed after %v", c.Op, c.Took)
			} else if c.Took > time.Second {
				d.writef("%s answered after %v", c.Op, c.Took)
			}
		},
		Dropped: func(n int64) { d.writef("dropped %d", n) },
	}
}

// observedPacer is a Pacer whose hooks keep a diary.
func observedPacer(t *testing.T, p ...policies.Policy) (*pacer.Pacer, *diary) {
	t.Helper()
	d := new(diary)
	one := newPacer(t, pacer.Config{Policies: p, Hooks: []*hooks.Set{d.hooks()}})
	t.Cleanup(func() { require.NoError(t, one.Close()) })
	return one, d
}

// Hooks receive the error of a request as it came, in one sentence.
func TestHooksOfAStoreThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		failed := make(map[string]bool)
		r := newRemote(1)
		p, err := pacer.New(pacer.Config{Upstream: "api", Store: r, Outage: pacer.RefuseCalls, Policies: []policies.Policy{policies.PerSecond(10)}, Hooks: []*hooks.Set{{
			StoreRequest: func(c hooks.StoreRequest) {
				mu.Lock()
				defer mu.Unlock()
				if c.Err != nil {
					failed[c.Err.Error()] = true
				}
			},
		}}})
		require.NoError(t, err)
		require.NoError(t, p.Wait(t.Context()))
		r.set(fmt.Errorf("%w: %w", store.ErrUnreachable, io.ErrUnexpectedEOF), 0)
		_ = p.Wait(t.Context())
		closing(t, p)
		require.Equal(t, map[string]bool{"pacer: the store is out of reach: unexpected EOF": true}, failed)
	})
}

// Hooks receive what a call costs each of its policies, and what settling it has changed; a lane's part costs what the whole does.
func TestHooksOfCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var admitted []hooks.Admitted
		var settled []hooks.Settled
		p := newPacer(t, pacer.Config{
			Policies: []policies.Policy{
				policies.PerSecond(100).Burst(100).Per("tenant").Named("calls"), policies.Fixed(1000, time.Hour).Named("tokens").Lane("batch", 50),
				policies.InFlight(9).Named("permits"),
			},
			Hooks: []*hooks.Set{{
				Admitted: func(_ context.Context, a hooks.Admitted) { admitted = append(admitted, a) },
				Settled:  func(_ context.Context, s hooks.Settled) { settled = append(settled, s) },
			}},
		})
		defer p.Close()
		acme, batch := pacer.Scope("tenant", "acme"), pacer.Lane("batch")
		first, err := p.Acquire(t.Context(), acme, batch, pacer.EstimateOf("tokens", 400, policies.Learned{}))
		require.NoError(t, err)
		second, err := p.Acquire(t.Context(), acme, pacer.Cost(3), pacer.CostOf("tokens", 0))
		require.NoError(t, err)
		require.NoError(t, first.Settle(t.Context(), policies.Cost{Policy: "tokens", N: 10}, policies.Cost{Policy: "calls", N: 1}))
		require.NoError(t, second.Settle(t.Context(), policies.Cost{N: 5}))
		synctest.Wait()
		require.Equal(t, [][]hooks.PolicyCost{
			{{Policy: "calls", Scope: "tenant=acme", Cost: 1}, {Policy: "tokens", Cost: 400}, {Policy: "permits", Cost: 1}},
			{{Policy: "calls", Scope: "tenant=acme", Cost: 3}, {Policy: "permits", Cost: 1}},
		}, [][]hooks.PolicyCost{admitted[0].Costs, admitted[1].Costs})
		require.Equal(t, []hooks.Settled{
			{Upstream: "test", PolicyCost: hooks.PolicyCost{Policy: "tokens", Cost: 10}, Charged: 400},
			{Upstream: "test", PolicyCost: hooks.PolicyCost{Policy: "calls", Scope: "tenant=acme", Cost: 5}, Charged: 3},
		}, settled)
	})
}

// A call that takes the short way through a store in memory costs what any other does.
func TestHooksOfACallThatGoesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var costs [][]hooks.PolicyCost
		p := newPacer(t, pacer.Config{
			Policies: []policies.Policy{
				policies.PerSecond(9).Burst(9).Named("all"), policies.PerSecond(9).Burst(9).Per("user").Optional().Named("user"),
				policies.PerSecond(9).Burst(9).Per("tenant").Named("tenant"),
			},
			Hooks: []*hooks.Set{{Admitted: func(_ context.Context, a hooks.Admitted) { costs = append(costs, a.Costs) }}},
		})
		defer p.Close()
		for range 2 {
			require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "acme"), pacer.Cost(2)))
		}
		synctest.Wait()
		want := []hooks.PolicyCost{{Policy: "all", Cost: 2}, {Policy: "tenant", Scope: "tenant=acme", Cost: 2}}
		require.Equal(t, [][]hooks.PolicyCost{want, want}, costs)
	})
}

// Hooks receive how late a call went after its slot, and how long its answer took since: once.
func TestHooksOfAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := new(diary)
		p := newPacer(t, pacer.Config{
			Policies: []policies.Policy{policies.PerSecond(1)}, Jitter: pacer.NoJitter,
			Hooks: []*hooks.Set{{
				Admitted: func(_ context.Context, a hooks.Admitted) { d.writef("goes %v late", a.Late) },
				Answered: func(_ context.Context, a hooks.Answered) { d.writef("%s answers after %v", a.Upstream, a.Took) },
			}},
		})
		defer p.Close()
		ctx := t.Context()
		answer := func(r *pacer.Reservation) []string {
			for range 2 {
				require.NoError(t, r.Report(ctx))
				time.Sleep(ms)
			}
			synctest.Wait()
			return d.read()
		}
		for range 2 { // at once, and after a wait
			r, err := p.Acquire(ctx)
			require.NoError(t, err)
			time.Sleep(40 * ms)
			require.Equal(t, []string{"goes 0s late", "test answers after 40ms"}, answer(r))
		}
		reserve := func() *pacer.Reservation {
			r, err := p.Reserve(ctx)
			require.NoError(t, err)
			require.Positive(t, r.Delay())
			return r
		}
		r := reserve()
		time.Sleep(r.Delay() + 3*ms)
		require.NoError(t, r.Wait(ctx))
		time.Sleep(20 * ms)
		require.Equal(t, []string{"goes 3ms late", "test answers after 20ms"}, answer(r))
		r = reserve()
		time.Sleep(r.Delay() + 30*ms)
		require.Equal(t, []string{"goes 0s late", "test answers after 30ms"}, answer(r), "when it went is not known")
		require.Equal(t, []string{"goes 0s late", "test answers after 0s"}, answer(reserve()), "before its slot")
		r = reserve()
		require.NoError(t, r.Cancel(ctx))
		require.Empty(t, answer(r), "it did not go")
	})
}

func TestHooksOfACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, d := observedPacer(t, policies.PerSecond(1).Per("tenant").Named("t"))
		acme := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
		require.NoError(t, p.Wait(acme))
		require.NoError(t, p.Wait(acme))
		require.Error(t, p.Wait(acme, pacer.MaxWait(0)))
		require.Error(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		require.Error(t, p.Wait(acme, pacer.Cost(2)))
		synctest.Wait()
		require.Equal(t, []string{
			"goes (1) after 0s",
			"waits for t tenant=acme (1), 1s",
			"slept for t tenant=acme, 1s, error <nil>",
			"goes (1) after 1s t tenant=acme",
			"refused by t tenant=acme, 1s: *pacer.LimitError",
			"refused by t, 0s: *pacer.LimitError",
			"refused by t tenant=acme, 0s: *pacer.LimitError",
		}, d.read())

		ctx, cancel := context.WithCancel(acme)
		time.AfterFunc(300*ms, cancel)
		require.ErrorIs(t, p.Wait(ctx), context.Canceled)
		synctest.Wait()
		require.Equal(t, []string{"waits for t tenant=acme (1), 1s", "slept for t tenant=acme, 300ms, error context canceled"}, d.read())

		time.Sleep(time.Minute)
		require.NoError(t, p.Wait(acme, pacer.MaxWait(0)), "the long way, and the short one")
		r, err := p.Reserve(acme)
		require.NoError(t, err)
		time.Sleep(r.Delay())
		require.NoError(t, r.Report(acme))
		synctest.Wait()
		require.Equal(t, []string{"goes (1) after 0s", "goes (1) after 0s"}, d.read())
	})
}

func TestHooksOfPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		d := new(diary)
		p := newPacer(t, pacer.Config{Store: store, Policies: []policies.Policy{policies.PerSecond(10).Named("peak")}, Hooks: []*hooks.Set{d.hooks()}})
		defer p.Close()
		other := newPacer(t, pacer.Config{Store: store, Policies: []policies.Policy{policies.PerSecond(10).Named("peak")}})
		require.NoError(t, fleet.Of(p).Resume(t.Context()))
		synctest.Wait()
		require.Empty(t, d.read(), "there was nothing to resume")
		require.NoError(t, other.Report(t.Context(), policies.Feedback{Wait: time.Second}))
		synctest.Wait()
		require.Equal(t, []string{"paused for 1s"}, d.read(), "though nobody sleeps here")
		time.Sleep(time.Second)
		require.NoError(t, p.Wait(t.Context()))
		var wg sync.WaitGroup
		wg.Go(func() { require.NoError(t, p.Wait(t.Context())) })
		synctest.Wait()
		d.read()
		require.NoError(t, other.Report(t.Context(), policies.Feedback{Wait: 5 * time.Second}), "somebody else")
		synctest.Wait()
		require.ElementsMatch(t, []string{"paused for 5s", "waits, paused, for (1), 5s"}, d.read())
		require.NoError(t, other.Report(t.Context(), policies.Feedback{Wait: 2 * time.Second}))
		synctest.Wait()
		require.Empty(t, d.read(), "a shorter one is no news")
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: 9 * time.Second, Policies: []string{"peak"}}))
		synctest.Wait()
		require.ElementsMatch(t, []string{"heeded answer of peak for 9s: 0", "paused peak for 9s", "waits, paused, for peak (1), 9s"}, d.read())
		require.NoError(t, fleet.Of(p).Resume(t.Context()))
		wg.Wait()
		synctest.Wait()
		lines := d.read()
		require.Subset(t, lines, []string{"resumed peak"})
		require.True(t, strings.HasPrefix(lines[len(lines)-1], "goes (1) after "), lines)
	})
}

func TestHooksOfQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, d := observedPacer(t, policies.InFlight(1).Named("one"))
		first, err := p.Acquire(t.Context())
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				r, err := p.Acquire(t.Context())
				require.NoError(t, err)
				time.Sleep(5 * time.Second)
				r.Release()
			})
			synctest.Wait()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		lines := d.read()
		require.Len(t, lines, 3, "%v: one for each that waits, however often it asks again", lines)
		require.Contains(t, lines[1], "is 0 behind for one")
		require.Contains(t, lines[2], "is 1 behind for one")
		first.Release()
		wg.Wait()
		synctest.Wait()
		lines = d.read()
		require.Contains(t, lines, "goes (1) after 10s one")
		require.Contains(t, lines, "goes (1) after 15s one")
		require.True(t, slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "is 0 behind for one") }), "it came forward: %v", lines)
	})
}

func TestHooksOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, backing := new(diary), newRemote(4)
		p := newPacer(t, pacer.Config{Store: backing, Processes: 4, Policies: []policies.Policy{policies.PerSecond(10)}, Hooks: []*hooks.Set{d.hooks()}})
		require.NoError(t, p.Wait(t.Context()))
		synctest.Wait()
		require.Equal(t, []string{"goes (1) after 0s"}, d.read())
		backing.set(errBroken, 0)
		time.Sleep(time.Second)
		require.NoError(t, p.Wait(t.Context()))
		synctest.Wait()
		require.Contains(t, d.read(), "fallback true of 4, 0s: "+store.ErrUnreachable.Error()+": connection refused")
		time.Sleep(2 * time.Second)
		backing.set(nil, 0)
		time.Sleep(time.Second)
		synctest.Wait()
		lines := d.read()
		require.True(t, slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "fallback false of 4, ") }), lines)
		require.Contains(t, lines, "heartbeat failed after 0s")
		backing.set(nil, time.Minute)
		require.NoError(t, p.Wait(t.Context()))
		synctest.Wait()
		require.Contains(t, d.read(), "reserve failed after 250ms", "at once, not when it answers at last")
		backing.set(nil, 0)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for _, line := range d.read() {
			require.NotContains(t, line, "reserve answered", "that there was no answer was logged already")
		}
		backing.forget()
		require.NoError(t, p.Wait(t.Context()))
		synctest.Wait()
		lines = d.read()
		require.True(t, slices.ContainsFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, "fallback true of 4, 0s: pacer: the store has forgotten")
		}), lines)
		require.NotContains(t, lines, "reserve failed after 0s", "it answered")
		require.NoError(t, p.Close())
	})
}

// A hook that hangs delays no call, no other hooks, and Close by a second.
func TestASlowHookHarmsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, slow := new(diary), make(chan struct{})
		dropped := int64(0)
		hung := &hooks.Set{Admitted: func(context.Context, hooks.Admitted) { <-slow }, Dropped: func(n int64) { dropped = n }}
		p := newPacer(t, pacer.Config{Policies: []policies.Policy{policies.PerSecond(1000)}, Hooks: []*hooks.Set{hung, d.hooks()}})
		start := time.Now()
		const calls = 8400
		for range calls {
			require.NoError(t, p.Wait(t.Context()))
		}
		require.Equal(t, (calls-1)*ms, time.Since(start))
		synctest.Wait()
		require.Len(t, d.read(), 3*calls-2, "the other hooks get everything")
		start = time.Now()
		require.NoError(t, p.Close())
		require.Equal(t, time.Second, time.Since(start))
		close(slow)
		synctest.Wait()
		require.Equal(t, int64(calls-1-8192), dropped, "one hung, 8,192 waited")
	})
}

// A hook that panics, or ends its goroutine, is called again the next time.
func TestAPanickingHookHarmsNobody(t *testing.T) { //nolint:paralleltest // it sets the default logger
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		called := 0
		p := newPacer(t, pacer.Config{
			Policies: []policies.Policy{policies.PerSecond(1000)},
			Hooks: []*hooks.Set{{Admitted: func(context.Context, hooks.Admitted) {
				if called++; called == 1 {
					panic("ouch")
				}
				if called == 2 {
					runtime.Goexit()
				}
			}}},
		})
		for range 5 {
			require.NoError(t, p.Wait(t.Context()))
		}
		require.NoError(t, p.Close())
		require.Equal(t, 5, called)
	})
	require.Contains(t, log.String(), "pacer: a hook or a logger panicked")
	require.Contains(t, log.String(), "panic=ouch")
	require.Contains(t, log.String(), "hooks_test.go")
}

func TestLogHooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		p := newPacer(t, pacer.Config{
			Policies: []policies.Policy{policies.PerMinute(1).Per("tenant").Named("m")},
			Hooks:    []*hooks.Set{hooks.Log(logger)},
		})
		ctx := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
		require.NoError(t, p.Wait(ctx))
		require.NoError(t, p.Wait(ctx))
		require.Error(t, p.Wait(ctx, pacer.MaxWait(0)))
		late, _ := book(t, p, pacer.Scope("tenant", "booked"), pacer.MaxWait(time.Hour))
		book(t, p, pacer.Scope("tenant", "booked"), pacer.MaxWait(time.Hour))
		time.Sleep(time.Second)
		require.True(t, later(t, p, late).Moved) // a booking that may not go yet is not refused
		require.NoError(t, p.Report(ctx, policies.Feedback{Wait: time.Second}))
		require.NoError(t, p.Close())
		require.Equal(t, strings.TrimLeft(`
level=INFO msg="headway: a call waits" upstream=test policy=m scope="tenant=acme" wait=1m0s paused=false
level=INFO msg="headway: a call that waited goes" upstream=test policy=m scope="tenant=acme" waited=1m0s
level=WARN msg="headway: a call is refused" upstream=test policy=m scope="tenant=acme" wait=1m0s error="pacer: upstream \"test\": policy \"m\" for tenant=acme: the next slot is 1m0s away, further than the longest wait allowed (0s): try again then, or let the call wait"
level=WARN msg="headway: paused" upstream=test policy=m scope="tenant=acme" for=1s
`, "\n"), log.String())
	})
}

// A stray refusal is no warning: nobody waits for it.
func TestLogHooksOfAStrayRefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := newPacer(t, pacer.Config{
			Policies: []policies.Policy{policies.AtMost(50, time.Second).Per("tenant").Named("peak")},
			Hooks:    []*hooks.Set{hooks.Log(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))},
		})
		ctx := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
		r, err := p.Acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, r.Report(ctx, policies.Feedback{Refused: true, Wait: time.Second}))
		require.NoError(t, p.Close())
		require.Contains(t, log.String(), `level=DEBUG msg="headway: a refusal widens the margin" upstream=test policy=peak scope="tenant=acme" by=8ms`)
		require.NotContains(t, log.String(), "level=WARN")
	})
}

func TestHooksThatAreNil(t *testing.T) {
	t.Parallel()
	_, err := pacer.New(pacer.Config{Upstream: "x", Hooks: []*hooks.Set{{}, nil}})
	var ce *pacer.ConfigError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, "pacer: Hooks[1] is nil: leave it out", err.Error())
}

// Hooks receive what refusals mean, stated or guessed.
func TestHooksOfRefusals(t *testing.T) {
	t.Parallel()
	stated := policies.Feedback{Refused: true, Certain: true, Wait: time.Minute, Source: "Retry-After"}
	bare := policies.Feedback{Refused: true, Certain: true}
	spent := policies.Feedback{Policies: []string{"daily"}, Remaining: policies.Reported(0), Source: "X-RateLimit"}
	for _, c := range []struct {
		f    policies.Feedback
		want hooks.FeedbackApplied
	}{
		{stated, hooks.FeedbackApplied{For: time.Minute, Source: "Retry-After"}}, {bare, hooks.FeedbackApplied{Source: hooks.SourceGuess}},
		{spent, hooks.FeedbackApplied{Policy: "daily", For: 15 * time.Minute, Source: hooks.SourceGuess}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var all []hooks.FeedbackApplied
			p := newPacer(t, pacer.Config{Policies: []policies.Policy{policies.Daily(9, time.UTC).Named("daily")}, Hooks: []*hooks.Set{{
				FeedbackApplied: func(_ context.Context, f hooks.FeedbackApplied) { all = append(all, f) },
			}}})
			defer p.Close()
			require.NoError(t, p.Do(t.Context(), func(context.Context) (policies.Reading, error) {
				return policies.Reading{Feedback: []policies.Feedback{c.f}}, nil
			}))
			synctest.Wait()
			c.want.Upstream, c.want.Kind = "test", store.NoteAnswer.String()
			require.Equal(t, []hooks.FeedbackApplied{c.want}, all)
		})
	}
}
