package asynqpacer_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/asynqpacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
)

// A model is asynq's queue as its forwarder and its processor use it, with asynq's defaults, in virtual time.
type model struct {
	store    *memstore.Store
	policies []policies.Policy

	mu      sync.Mutex
	pending []*modelTask
	delayed []*modelTask
	returns int // how often tasks were put back
	most    int // and how often the one that was put back most
}

// A modelTask is a task in a model.
type modelTask struct {
	*asynq.Task

	id      string
	due     int64 // in Unix seconds
	returns int   // how often it was put back
}

// newPacer returns a pacer of a fleet.
func (m *model) newPacer(t *testing.T) *pacer.Pacer {
	t.Helper()
	p, err := pacer.New(pacer.Config{Upstream: "api", Policies: m.policies, Store: m.store, MaxWait: pacer.Forever})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func (m *model) enqueue(task *asynq.Task, opts []asynq.Option) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := &modelTask{Task: task}
	var in time.Duration
	for _, o := range opts {
		switch v := o.Value().(type) {
		case string:
			one.id = v
		case time.Duration:
			in = v
		}
	}
	if in > 0 {
		m.delay(one, in)
	} else {
		m.pending = append(m.pending, one)
	}
}

func (m *model) delay(one *modelTask, in time.Duration) {
	one.due = time.Now().Add(in).Unix()
	m.delayed = append(m.delayed, one)
}

// forward makes tasks pending that are due, every five seconds.
func (m *model) forward(ctx context.Context) {
	for after := rand.N(5 * time.Second); sleep(ctx, after); after = 5 * time.Second {
		m.mu.Lock()
		slices.SortFunc(m.delayed, func(a, b *modelTask) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.id, b.id)) })
		for len(m.delayed) > 0 && m.delayed[0].due <= time.Now().Unix() {
			m.pending, m.delayed = append(m.pending, m.delayed[0]), m.delayed[1:]
		}
		m.mu.Unlock()
	}
}

// process lets workers process pending tasks, for which an idle worker looks every second on average.
func (m *model) process(ctx context.Context, workers int, h asynq.Handler) {
	var busy sync.WaitGroup
	defer busy.Wait()
	free := make(chan struct{}, workers)
	for ctx.Err() == nil {
		free <- struct{}{}
		m.mu.Lock()
		if len(m.pending) == 0 {
			m.mu.Unlock()
			sleep(ctx, time.Second/2+rand.N(time.Second))
			<-free
			continue
		}
		one := m.pending[0]
		m.pending = m.pending[1:]
		m.mu.Unlock()
		busy.Go(func() {
			if err := h.ProcessTask(ctx, one.Task); err != nil && ctx.Err() == nil {
				m.mu.Lock()
				m.returns++
				one.returns++
				m.most = max(m.most, one.returns)
				m.delay(one, asynqpacer.RetryDelay(nil)(0, err, one.Task))
				m.mu.Unlock()
			}
			<-free
		})
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// With asynq's defaults, tasks that were booked go at the rate of the tighter limit, whatever its slack, and hardly one is put back. It
// takes as many workers as calls that may start at once. Slots that pass while there are no servers, or before these first look, are lost.
func TestTasksWithoutASlack(t *testing.T) {
	t.Parallel()
	tenant := policies.PerSecond(5).Per("tenant").Named("each")
	for name, all := range map[string][]policies.Policy{
		"burst 1":      {tenant.Burst(1)},
		"at most":      {policies.AtMost(5, time.Second).Per("tenant")},
		"sliding":      {policies.Sliding(5, time.Second).Per("tenant")},
		"shared":       {policies.PerSecond(12).Burst(1), tenant.Burst(1)},
		"with a slack": {policies.PerSecond(12).Burst(16), tenant.Burst(7)},
	} {
		for _, one := range []struct {
			workers int // of each of two servers
			late    time.Duration
		}{{2, 0}, {20, 0}, {20, 10 * time.Second}} {
			if name == "sliding" && one.workers == 2 {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d workers, %v late", name, one.workers, one.late), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					const tasks = 3 * 100
					m := &model{store: memstore.New(), policies: all}
					p := m.newPacer(t)
					began := time.Now()
					var should, took time.Duration
					for i := range tasks {
						tok, wait, err := p.Book(t.Context(), pacer.Scope("tenant", strconv.Itoa(i%3)))
						require.NoError(t, err)
						should = max(should, wait)
						m.enqueue(asynqpacer.NewTask("call", nil, tok, wait), asynqpacer.Options(time.Now(), tok, wait, asynqpacer.DefaultDelay))
					}
					if one.late > 0 {
						time.Sleep(one.late)
						should += one.late + asynqpacer.DefaultDelay
					}
					ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
					defer stop()
					var went atomic.Int64
					call := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
						if went.Add(1) == tasks {
							took = time.Since(began)
							stop()
						}
						time.Sleep(20 * time.Millisecond)
						return nil
					})
					var servers sync.WaitGroup
					for range 2 {
						h := asynqpacer.Middleware(m.newPacer(t))(call)
						servers.Go(func() { m.forward(ctx) })
						servers.Go(func() { m.process(ctx, one.workers, h) })
					}
					servers.Wait()
					t.Logf("%d tasks went in %v, booked for %v; %.3f were put back, %d times at most", went.Load(), took, should, float64(m.returns)/tasks, m.most)
					require.Equal(t, int64(tasks), went.Load())
					require.LessOrEqual(t, 0.95*took.Seconds(), should.Seconds())
					require.LessOrEqual(t, m.most, 1)
				})
			})
		}
	}
}
