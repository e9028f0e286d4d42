package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
)

// recorder notes events.
type recorder struct {
	mu  sync.Mutex
	all []string
}

func (r *recorder) addf(format string, a ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, fmt.Sprintf(format, a...))
}

func (r *recorder) Waiting(_ context.Context, w *dispatch.Wait) {
	r.addf("waiting %s paused=%t queued=%t ahead=%d for %s", name(w.Limit), w.Paused, w.Queued, w.Ahead, w.For.Round(ms))
}

func (r *recorder) WaitDone(_ context.Context, last *dispatch.Wait, _ time.Time, took time.Duration, err error) {
	r.addf("done %s took %s: %v", name(last.Limit), took.Round(ms), err)
}

func (r *recorder) Admitted(_ context.Context, call *store.Call, _ []store.Limit, limit *store.Limit, waited, late time.Duration) {
	r.addf("admitted %d %s waited %s", call.Cost, name(limit), waited.Round(ms))
	if late > 0 {
		r.addf("late %s", late)
	}
}

func (r *recorder) Answered(_ context.Context, took time.Duration) {
	r.addf("answered after %s", took.Round(ms))
}

func (r *recorder) Refused(_ context.Context, err error) { r.addf("refused: %v", err) }

func (r *recorder) PausesChanged(news []store.Change) { r.addf("pauses %d", len(news)) }

// name returns a limit's name.
func name(l *store.Limit) string {
	if l == nil {
		return "-"
	}
	return l.Policy
}

// Events contain what a call waits for, once for each change of it.
func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := &fake{gap: 100 * ms}, &recorder{}
		r := newRig(t, s, func(c *dispatch.Config) { c.Events = e })
		_, err := r.wait(t.Context(), "", request(rate))
		require.NoError(t, err)
		done := make(chan error)
		go func() { _, err := r.wait(t.Context(), "", request(rate)); done <- err }()
		time.Sleep(50 * ms)
		pause := s.pause(time.Second)
		r.Changed(t.Context(), []store.Change{pause})
		synctest.Wait()
		r.Changed(t.Context(), []store.Change{pause})
		require.NoError(t, <-done)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*ms, cancel)
		_, err = r.wait(ctx, "", request(rate))
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, []string{
			"admitted 1 - waited 0s",
			"waiting limit paused=false queued=false ahead=0 for 100ms",
			"pauses 1",
			"waiting limit paused=true queued=false ahead=0 for 1s",
			"pauses 0",
			"done limit took 1.05s: <nil>",
			"admitted 1 limit waited 1.05s",
			"waiting limit paused=false queued=false ahead=0 for 100ms",
			"done limit took 20ms: context canceled",
			"refused: context canceled",
		}, e.all)
	})
}

// The way to the store does not make a call late that may go at once.
func TestEventsOfAStoreFarAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &recorder{}
		r := newRig(t, &fake{gap: 100 * ms, way: 10 * ms}, func(c *dispatch.Config) { c.Events = e })
		_, err := r.wait(t.Context(), "", request(rate))
		require.NoError(t, err)
		require.Equal(t, []string{"admitted 1 - waited 0s"}, e.all)
	})
}

// A queued call that polls repeatedly emits nothing until its position changes.
func TestEventsOfAQueuedCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := &fake{gap: 100 * ms, way: 10 * ms, permits: 1, held: map[int64]bool{7: true}, queue: []int64{8}}, &recorder{}
		r := newRig(t, s, func(c *dispatch.Config) { c.Events = e })
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3500*ms, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.queue = s.queue[1:]
		})
		time.AfterFunc(6500*ms, cancel)
		_, err := r.wait(ctx, "", request(inFlight))
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, []string{
			"waiting permits paused=false queued=true ahead=1 for 1s",
			"waiting permits paused=false queued=true ahead=0 for 1s",
			"done permits took 6.49s: context canceled",
			"refused: context canceled",
		}, e.all)
	})
}
