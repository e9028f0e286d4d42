//go:build measure

package riverpacer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/riverpacer"
	"github.com/headway-go/headway/policies"
)

// Two clients work the jobs of three tenants, booked when they were inserted, at the rate of the tighter limit: with River's defaults, and
// if they fetch more often.
func TestMeasureDefaults(t *testing.T) { //nolint:tparallel // when it measures, it is alone
	tenant := policies.PerSecond(5).Per("tenant").Named("each")
	for name, all := range map[string][]policies.Policy{
		"burst 1": {tenant.Burst(1)},
		"at most": {policies.AtMost(5, time.Second).Per("tenant")},
		"sliding": {policies.Sliding(5, time.Second).Per("tenant")},
		"shared":  {policies.PerSecond(12).Burst(1), tenant.Burst(1)},
		"stacked": {policies.PerSecond(12).Burst(16), tenant.Burst(7)},
	} {
		for _, poll := range []time.Duration{25 * time.Millisecond, time.Second} {
			t.Run(fmt.Sprint(name, " ", poll), func(t *testing.T) {
				t.Parallel()
				const jobs = 300
				ctx := t.Context()
				addr, url := redistest.Start(t).Addr, startPostgres(t)
				p := newPacer(addr, all...)
				defer p.Close()
				var mu sync.Mutex
				var turns, went int
				var first, last time.Time
				done := make(chan struct{})
				workers := river.NewWorkers()
				river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[callArgs]) error {
					mu.Lock()
					defer mu.Unlock()
					if last = time.Now(); went == 0 {
						first = last
					}
					if went++; went == jobs {
						close(done)
					}
					return nil
				}))
				var clients []interface {
					Stop(ctx context.Context) error
				}
				for range 2 {
					p := newPacer(addr, all...)
					defer p.Close()
					m := riverpacer.New(p, riverpacer.ComesWithin(poll+poll/4), riverpacer.OnTurn(func(_ *rivertype.JobRow, _ time.Time, _ *pacer.Reservation, err error) {
						if _, later := errors.AsType[*river.JobSnoozeError](err); err != nil && !later {
							t.Log(err)
						}
						mu.Lock()
						defer mu.Unlock()
						turns++
					}))
					pool := connect(ctx, url)
					defer pool.Close()
					client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
						FetchPollInterval: poll, Logger: slog.New(slog.DiscardHandler), Middleware: []rivertype.Middleware{m},
						Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 20}}, Workers: workers,
						FetchCooldown: min(poll, river.FetchCooldownDefault),
					})
					require.NoError(t, err)
					require.NoError(t, client.Start(ctx))
					clients = append(clients, client)
				}
				pool := connect(ctx, url)
				defer pool.Close()
				client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: slog.New(slog.DiscardHandler)})
				require.NoError(t, err)
				var should time.Duration // the time between the first slot and the last one
				began := time.Now()
				for i := range jobs {
					tok, wait, err := p.Book(ctx, pacer.Scope("tenant", strconv.Itoa(i%3)))
					require.NoError(t, err)
					should = max(should, time.Since(began)+wait)
					_, err = client.Insert(ctx, callArgs{}, riverpacer.InsertOpts(tok, wait, nil, riverpacer.ComesWithin(poll+poll/4)))
					require.NoError(t, err)
				}
				timers := measure.Watch()
				select {
				case <-done:
				case <-time.After(2 * time.Minute):
				}
				late := timers.Stop()
				for _, c := range clients {
					_ = c.Stop(context.Background())
				}
				mu.Lock()
				defer mu.Unlock()
				took := last.Sub(first)
				t.Logf("%d jobs went in %v, booked for %v: %.3f of the rate, %.3f moves a job", went, took, should, should.Seconds()/took.Seconds(), float64(turns)/jobs-1)
				measure.Judge(t, late, 10*time.Millisecond, "at the rate", went == jobs && 0.95*took.Seconds() <= should.Seconds() && turns <= 2*jobs)
			})
		}
	}
}
