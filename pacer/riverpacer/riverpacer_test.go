package riverpacer_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/testing/jobtest"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/riverpacer"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// callArgs are the arguments of a job that calls the upstream once.
type callArgs struct{}

func (callArgs) Kind() string { return "call" }

const (
	perSecond = 100
	burst     = 10 // a slack of 90 ms
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

// newClient returns a client whose jobs call the upstream. A test's intervals are shorter than River's defaults.
func newClient(pool *pgxpool.Pool, m *riverpacer.Middleware, work func(context.Context, *river.Job[callArgs]) error) *river.Client[pgx.Tx] {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(work))
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 25 * time.Millisecond,
		Logger:      slog.New(slog.DiscardHandler),
		Middleware:  []rivertype.Middleware{m},
		Queues:      map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 50}},
		RetryPolicy: soon{},
		Workers:     workers,
	})
	if err != nil {
		panic(err)
	}
	return client
}

// soon is a policy of retries that does not wait.
type soon struct{}

func (soon) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

// work is what a process of a fleet does: know has the address of Redis and how to connect to PostgreSQL.
func work(know string) {
	addr, url, _ := strings.Cut(know, " ")
	ctx := context.Background()
	pool := connect(ctx, url)
	p := newPacer(addr, policies.Rate(perSecond, time.Second).Burst(burst))
	if err := p.Ready(ctx); err != nil {
		panic(err)
	}
	m := riverpacer.New(p, riverpacer.ComesWithin(riverpacer.Lead), riverpacer.OnTurn(
		func(job *rivertype.JobRow, began time.Time, r *pacer.Reservation, err error) {
			if _, snoozed := errors.AsType[*river.JobSnoozeError](err); snoozed {
				err = nil
			}
			jobtest.Report(jobtest.Describe(strconv.FormatInt(job.ID, 10), began, r, err))
		}))
	client := newClient(pool, m, func(context.Context, *river.Job[callArgs]) error { return nil })
	if err := client.Start(ctx); err != nil {
		panic(err)
	}
	jobtest.AwaitStop()
	if err := client.Stop(ctx); err != nil {
		panic(err)
	}
}

// Jobs of a fleet that were booked when they were inserted: each goes once, none too early, and no policy is exceeded.
//
// Measured, with -tags measure: 10,000 jobs at 100/s over four processes.
func TestAFleetOfWorkers(t *testing.T) {
	jobs := measure.Length(300, 10_000)
	addr, url := redistest.Start(t).Addr, startPostgres(t)
	p := newPacer(addr, policies.Rate(perSecond, time.Second).Burst(burst))
	defer p.Close()
	pool := connect(t.Context(), url)
	defer pool.Close()
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)

	workers := jobtest.Start(t, 4, addr+" "+url)
	timers := measure.Watch()
	for left := jobs; left > 0; {
		var some []river.InsertManyParams
		for range min(left, 20) {
			tok, wait, err := p.Book(t.Context())
			require.NoError(t, err)
			some = append(some, river.InsertManyParams{Args: callArgs{}, InsertOpts: riverpacer.InsertOpts(tok, wait, nil, riverpacer.ComesWithin(riverpacer.Lead))})
		}
		_, err := client.InsertMany(t.Context(), some)
		require.NoError(t, err)
		left -= len(some)
	}
	workers.Await(jobs, time.Duration(jobs/perSecond)*time.Second)
	turns := workers.Stop()
	late := timers.Stop()
	f := jobtest.Judge(t, turns, jobs, perSecond, burst)
	t.Log(f)
	measure.Judge(t, late, 10*time.Millisecond, f.String(),
		f.Blocked <= 50*time.Millisecond && float64(f.Turns) <= 1.05*float64(jobs) && f.Rate >= 0.98*perSecond)
}

// A running is a client that works jobs in this process.
type running struct {
	*river.Client[pgx.Tx]

	p    *pacer.Pacer
	done <-chan *river.Event
}

// start starts a client with a server of each kind.
func start(t *testing.T, work func(context.Context, *river.Job[callArgs]) error, opts ...riverpacer.Option) *running {
	t.Helper()
	s := &running{p: newPacer(redistest.Start(t).Addr, policies.Rate(20, time.Second).Burst(1), policies.InFlight(3).Named("flying"),
		policies.Fixed(100, 1000*time.Hour).Named("all"))}
	pool := connect(t.Context(), startPostgres(t))
	s.Client = newClient(pool, riverpacer.New(s.p, opts...), work)
	done, stop := s.Subscribe(river.EventKindJobCompleted, river.EventKindJobCancelled)
	s.done = done
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() {
		require.NoError(t, s.Stop(context.Background()))
		stop()
		require.NoError(t, s.p.Close())
		pool.Close()
	})
	return s
}

// ended waits for the end of a job.
func (s *running) ended(t *testing.T) *rivertype.JobRow {
	t.Helper()
	select {
	case e := <-s.done:
		return e.Job
	case <-time.After(time.Minute):
		t.Fatal("no job ended")
		return nil
	}
}

func TestJobsWithoutATokenAreBooked(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var slots []store.Instant
	s := start(t, func(ctx context.Context, job *river.Job[callArgs]) error {
		r := riverpacer.Reservation(ctx)
		if r == nil {
			return errors.New("no reservation")
		}
		if strings.Contains(string(job.Metadata), `"snoozes"`) && riverpacer.Token(job.JobRow) == "" {
			return errors.New("it was snoozed, and its token is lost")
		}
		slot, _ := inside.Slot(r)
		mu.Lock()
		defer mu.Unlock()
		slots = append(slots, slot)
		return nil
	}, riverpacer.ComesWithin(0), riverpacer.WithOptions(func(*rivertype.JobRow) []pacer.BookOption { return []pacer.BookOption{pacer.MaxWait(time.Minute)} }))
	_, err := s.InsertMany(t.Context(), slices.Repeat([]river.InsertManyParams{{Args: callArgs{}}}, 8))
	require.NoError(t, err)
	for range 8 {
		require.Equal(t, 1, s.ended(t).Attempt, "snoozing is no attempt")
	}
	slices.Sort(slots)
	require.Len(t, slots, 8)
	for i := range slots[1:] {
		require.GreaterOrEqual(t, slots[i+1].Sub(slots[i]), 50*time.Millisecond)
	}
	require.Nil(t, riverpacer.Reservation(t.Context()))
}

// An attempt after a failure also goes, at a slot of its own; permits return in any case.
func TestAttempts(t *testing.T) {
	t.Parallel()
	var upstream func(context.Context) error
	s := start(t, func(ctx context.Context, _ *river.Job[callArgs]) error { return upstream(ctx) })
	client, url := jobtest.Upstream(t, s.p)
	upstream = func(ctx context.Context) error { return jobtest.Call(ctx, riverpacer.Reservation(ctx), client, url) }
	tok, wait, err := s.p.Book(t.Context())
	require.NoError(t, err)
	_, err = s.Insert(t.Context(), callArgs{}, riverpacer.InsertOpts(tok, wait, &river.InsertOpts{Metadata: []byte(`{"mine":1}`)}))
	require.NoError(t, err)
	job := s.ended(t)
	require.Equal(t, 3, job.Attempt)
	require.Equal(t, tok, riverpacer.Token(job))
	require.Contains(t, string(job.Metadata), `"mine"`)
	for n := range int64(3) {
		_, err = s.p.Redeem(t.Context(), tok, pacer.Attempt(n+1))
		require.ErrorIs(t, err, pacer.ErrSpent)
	}
	jobtest.AwaitCharged(t, s.p, 3)
}

// A job whose booking was cancelled does not go.
func TestCancelledJobs(t *testing.T) {
	t.Parallel()
	var went atomic.Int64
	s := start(t, func(context.Context, *river.Job[callArgs]) error {
		went.Add(1)
		return nil
	})
	tok, wait, err := s.p.Book(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.p.CancelBooking(t.Context(), tok))
	failed, stop := s.Subscribe(river.EventKindJobFailed)
	defer stop()
	opts := riverpacer.InsertOpts(tok, wait, &river.InsertOpts{MaxAttempts: 1})
	_, err = s.Insert(t.Context(), callArgs{}, opts)
	require.NoError(t, err)
	e := <-failed
	require.Contains(t, e.Job.Errors[0].Error, "redeemed or cancelled before")
	require.Zero(t, went.Load())
}

func TestInsertOpts(t *testing.T) {
	t.Parallel()
	require.Zero(t, riverpacer.InsertOpts("x", time.Second, nil).ScheduledAt, "River would look for it too late")
	given := river.InsertOpts{Queue: "q"}
	before := time.Now()
	far := riverpacer.InsertOpts("x", time.Hour, &given)
	require.WithinRange(t, far.ScheduledAt, before.Add(time.Hour-riverpacer.DefaultDelay), time.Now().Add(time.Hour-riverpacer.DefaultDelay))
	soon := riverpacer.InsertOpts("x", time.Hour, nil, riverpacer.ComesWithin(0))
	require.WithinRange(t, soon.ScheduledAt, before.Add(time.Hour-riverpacer.Lead), time.Now().Add(time.Hour-riverpacer.Lead))
	require.Equal(t, "q", far.Queue)
	require.Zero(t, given.ScheduledAt)
	require.Equal(t, "x", riverpacer.Token(&rivertype.JobRow{Metadata: far.Metadata}))
	require.Empty(t, riverpacer.Token(&rivertype.JobRow{Metadata: []byte(`[]`)}))
	require.Panics(t, func() { riverpacer.InsertOpts("x", 0, &river.InsertOpts{Metadata: []byte(`[]`)}) })
	require.Panics(t, func() { riverpacer.New(nil) })
}
