package asynqpacer_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/asynqpacer"
	"github.com/headway-go/headway/pacer/internal/testing/jobtest"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

const (
	perSecond = 100
	burst     = 140 // a slack of 1.39 seconds
)

// newPacer returns a pacer of a fleet.
func newPacer(addr string, all ...policies.Policy) *pacer.Pacer {
	s, err := redisstore.New(redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true}))
	if err != nil {
		panic(err)
	}
	p, err := pacer.New(pacer.Config{Upstream: "api", Store: s, Policies: all, MaxWait: pacer.Forever, StoreTimeout: 30 * time.Second})
	if err != nil {
		panic(err)
	}
	return p
}

// newServer returns a server. A test's intervals are shorter than asynq's defaults.
func newServer(addr string) *asynq.Server {
	return asynq.NewServer(asynq.RedisClientOpt{Addr: addr}, asynq.Config{
		Concurrency:              50,
		RetryDelayFunc:           asynqpacer.RetryDelay(func(int, error, *asynq.Task) time.Duration { return 0 }),
		IsFailure:                asynqpacer.IsFailure(nil),
		DelayedTaskCheckInterval: 25 * time.Millisecond,
		TaskCheckInterval:        10 * time.Millisecond,
		LogLevel:                 asynq.FatalLevel,
	})
}

// work is what a process of a fleet does.
func work(addr string) {
	p := newPacer(addr, policies.Rate(perSecond, time.Second).Burst(burst))
	if err := p.Ready(context.Background()); err != nil {
		panic(err)
	}
	server := newServer(addr)
	mux := asynq.NewServeMux()
	mux.Use(asynqpacer.MiddlewareWith(p, func(ctx context.Context, began time.Time, r *pacer.Reservation, err error) {
		if _, later := errors.AsType[*pacer.LimitError](err); later {
			err = nil
		}
		id, _ := asynq.GetTaskID(ctx)
		jobtest.Report(jobtest.Describe(id, began, r, err))
	}))
	mux.HandleFunc("call", func(context.Context, *asynq.Task) error { return nil })
	if err := server.Start(mux); err != nil {
		panic(err)
	}
	jobtest.AwaitStop()
	server.Shutdown()
}

// Tasks of a fleet: each goes once, none too early, and no policy is exceeded.
//
// Measured, with -tags measure: 10,000 tasks at 100/s over four processes.
func TestAFleetOfWorkers(t *testing.T) {
	tasks := measure.Length(400, 10_000)
	addr := redistest.Start(t).Addr
	p := newPacer(addr, policies.Rate(perSecond, time.Second).Burst(burst))
	defer p.Close()
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: addr})
	defer client.Close()
	workers := jobtest.Start(t, 4, addr)
	timers := measure.Watch()
	for i := range tasks {
		tok, wait, err := p.Book(t.Context())
		require.NoError(t, err)
		_, err = client.Enqueue(asynqpacer.NewTask("call", nil, tok, wait, asynq.TaskID(strconv.Itoa(i)), asynqpacer.ComesWithin(40*time.Millisecond)))
		require.NoError(t, err)
	}
	workers.Await(tasks, time.Duration(tasks/perSecond)*time.Second)
	turns := workers.Stop()
	late := timers.Stop()
	f := jobtest.Judge(t, turns, tasks, perSecond, burst)
	t.Log(f)
	measure.Judge(t, late, 10*time.Millisecond, f.String(),
		f.Blocked <= 50*time.Millisecond && float64(f.Turns) <= 1.05*float64(tasks) && f.Rate >= 0.98*perSecond)
}

// An attempt after a failure also goes, at a slot of its own; permits return in any case; being put back is no attempt.
func TestAttempts(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr
	p := newPacer(addr, policies.Rate(20, time.Second).Burst(60), policies.InFlight(3).Named("flying"),
		policies.Fixed(100, 1000*time.Hour).Named("all"))
	defer p.Close()
	upstream, url := jobtest.Upstream(t, p)
	done := make(chan int, 10)
	mux := asynq.NewServeMux()
	mux.Use(asynqpacer.Middleware(p))
	mux.HandleFunc("call", func(ctx context.Context, _ *asynq.Task) error {
		if asynqpacer.Reservation(ctx) == nil {
			return errors.New("no reservation")
		}
		if err := jobtest.Call(ctx, asynqpacer.Reservation(ctx), upstream, url); err != nil {
			return err
		}
		failures, _ := asynq.GetRetryCount(ctx)
		done <- failures
		return nil
	})
	server := newServer(addr)
	require.NoError(t, server.Start(mux))
	defer server.Shutdown()
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: addr})
	defer client.Close()
	tok, wait, err := p.Book(t.Context(), pacer.NotBefore(2*time.Second))
	require.NoError(t, err)
	_, err = client.Enqueue(asynqpacer.NewTask("call", nil, tok, wait, asynq.ProcessIn(0), asynqpacer.ComesWithin(0))) // too early
	require.NoError(t, err)
	require.Equal(t, 2, <-done)
	for n := range int64(3) {
		_, err = p.Redeem(t.Context(), tok, pacer.Attempt(n+1))
		require.ErrorIs(t, err, pacer.ErrSpent)
	}
	jobtest.AwaitCharged(t, p, 3)
	require.Nil(t, asynqpacer.Reservation(t.Context()))
}

func TestTasksWithoutAToken(t *testing.T) {
	t.Parallel()
	p, err := pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.PerSecond(1)}})
	require.NoError(t, err)
	defer p.Close()
	h := asynqpacer.Middleware(p)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { panic("it must not go") }))
	err = h.ProcessTask(t.Context(), asynq.NewTask("call", nil))
	require.ErrorIs(t, err, asynqpacer.ErrNoToken)
	require.ErrorIs(t, err, asynq.SkipRetry)
	require.Panics(t, func() { asynqpacer.Middleware(nil) })
	require.Equal(t, "x", asynqpacer.Token(asynqpacer.NewTask("call", nil, "x", 0)))
}

func TestDelays(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_795_000_000, 300_000_000)
	for wait, want := range map[time.Duration]struct{ slack, none time.Duration }{
		0: {}, pacer.RedeemEarly: {}, pacer.RedeemEarly + 1: {slack: 700 * time.Millisecond},
		700*time.Millisecond + pacer.RedeemEarly:     {slack: 700 * time.Millisecond},
		700*time.Millisecond + pacer.RedeemEarly + 1: {slack: 1700 * time.Millisecond},
		2700*time.Millisecond - 1:                    {slack: 2700 * time.Millisecond}, // and without a slack, it would come too late
		2700 * time.Millisecond:                      {2700 * time.Millisecond, 700 * time.Millisecond},
	} {
		require.Equal(t, want.slack, asynqpacer.Due(now, wait, 3*time.Second, 2*time.Second), wait)
		require.Equal(t, want.none, asynqpacer.Due(now, wait, 0, 2*time.Second), wait)
	}
	later, other := &pacer.LimitError{Reason: pacer.TooEarly, Wait: time.Hour}, errors.New("other")
	delay := asynqpacer.RetryDelay(func(n int, _ error, _ *asynq.Task) time.Duration { return time.Duration(n) })
	require.Equal(t, time.Duration(7), delay(7, other, nil))
	require.InDelta(t, time.Hour-asynqpacer.DefaultDelay, delay(7, later, asynq.NewTask("call", nil)), float64(time.Second))
	require.Positive(t, asynqpacer.RetryDelay(nil)(1, other, nil))
	require.False(t, asynqpacer.IsFailure(nil)(later))
	require.True(t, asynqpacer.IsFailure(nil)(other))
	require.False(t, asynqpacer.IsFailure(func(error) bool { return false })(other))
}
