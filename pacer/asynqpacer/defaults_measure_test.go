//go:build measure

package asynqpacer_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/asynqpacer"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/policies"
)

// Two servers with asynq's defaults process the tasks of three tenants, booked when they were enqueued, at the rate of the tighter limit.
func TestMeasureDefaults(t *testing.T) { //nolint:tparallel // when it measures, it is alone
	tenant := policies.PerSecond(5).Per("tenant").Named("each")
	for name, one := range map[string]struct {
		workers int // 0: as many as processors
		all     []policies.Policy
	}{
		"burst 1": {0, []policies.Policy{tenant.Burst(1)}},
		"at most": {0, []policies.Policy{policies.AtMost(5, time.Second).Per("tenant")}},
		"sliding": {10, []policies.Policy{policies.Sliding(5, time.Second).Per("tenant")}},
		"shared":  {0, []policies.Policy{policies.PerSecond(12).Burst(1), tenant.Burst(1)}},
		"stacked": {0, []policies.Policy{policies.PerSecond(12).Burst(16), tenant.Burst(7)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const tasks = 450
			addr := redistest.Start(t).Addr
			p := newPacer(addr, one.all...)
			defer p.Close()
			client := asynq.NewClient(asynq.RedisClientOpt{Addr: addr})
			defer client.Close()
			var mu sync.Mutex
			var turns, went int
			var first, last time.Time
			done := make(chan struct{})
			for range 2 {
				p := newPacer(addr, one.all...)
				defer p.Close()
				mux := asynq.NewServeMux()
				mux.Use(asynqpacer.MiddlewareWith(p, func(_ context.Context, _ time.Time, _ *pacer.Reservation, err error) {
					if _, later := errors.AsType[*pacer.LimitError](err); err != nil && !later {
						t.Log(err)
					}
					mu.Lock()
					defer mu.Unlock()
					turns++
				}))
				mux.HandleFunc("call", func(context.Context, *asynq.Task) error {
					mu.Lock()
					defer mu.Unlock()
					if last = time.Now(); went == 0 {
						first = last
					}
					if went++; went == tasks {
						close(done)
					}
					return nil
				})
				server := asynq.NewServer(asynq.RedisClientOpt{Addr: addr}, asynq.Config{
					Concurrency: one.workers, RetryDelayFunc: asynqpacer.RetryDelay(nil), IsFailure: asynqpacer.IsFailure(nil), LogLevel: asynq.FatalLevel,
				})
				require.NoError(t, server.Start(mux))
				defer server.Shutdown()
			}
			var should time.Duration // the time between the first slot and the last one
			began := time.Now()
			for i := range tasks {
				tok, wait, err := p.Book(t.Context(), pacer.Scope("tenant", strconv.Itoa(i%3)))
				require.NoError(t, err)
				should = max(should, time.Since(began)+wait)
				_, err = client.Enqueue(asynqpacer.NewTask("call", nil, tok, wait))
				require.NoError(t, err)
			}
			timers := measure.Watch()
			select {
			case <-done:
			case <-time.After(5 * time.Minute):
				t.Errorf("%d of %d tasks went", went, tasks)
			}
			late := timers.Stop()
			mu.Lock()
			defer mu.Unlock()
			took := last.Sub(first)
			t.Logf("%d tasks went in %v, booked for %v: %.3f of the rate, %.3f moves a task", went, took, should, should.Seconds()/took.Seconds(), float64(turns)/tasks-1)
			measure.Judge(t, late, 10*time.Millisecond, "at the rate", 0.95*took.Seconds() <= should.Seconds() && turns <= 2*tasks)
		})
	}
}
