package pacer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/faulty"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// distant is a store with a clock of its own, whose answers take a while after it has decided.
type distant struct {
	store.Store

	begin time.Time
	takes time.Duration
	slow  atomic.Int64 // the clock runs slower than this machine's by one in so many
	step  atomic.Int64 // by how much it has stepped, in µs
}

func newDistant() *distant {
	d := &distant{begin: time.Now()}
	d.Store = memstore.New(memstore.WithClock(d.now))
	return d
}

func (d *distant) now() store.Instant {
	passed := time.Since(d.begin).Microseconds()
	if slow := d.slow.Load(); slow > 0 {
		passed -= passed / slow
	}
	return store.Instant(1_700_000_000_000_000 + passed + d.step.Load())
}

func (d *distant) Reserve(ctx context.Context, s store.Stack, calls []store.Call, grants []store.Grant) error {
	defer time.Sleep(d.takes)
	return d.Store.Reserve(ctx, s, calls, grants)
}

// late lets a call wait and returns how late after its slot it goes, by the store's clock: every call's slot is a second
// after the one before.
func (d *distant) late(t *testing.T, p *pacer.Pacer, last *store.Instant) time.Duration {
	t.Helper()
	require.NoError(t, p.Wait(t.Context()))
	*last += 1_000_000
	return d.now().Sub(*last)
}

// A slow answer does not make a call late, once another one was fast; and whatever the store's clock does, no call is early.
func TestSlowAnswersMakeNoCallLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		slow  int64
		step  time.Duration
		early time.Duration // by so much a call may go early
		late  time.Duration
	}{
		"exact":             {},
		"slow":              {slow: 2000, early: 500 * time.Microsecond}, // while it sleeps for a second
		"fast":              {slow: -2000},
		"stepped back":      {step: -90 * time.Millisecond, late: 200 * time.Millisecond},
		"stepped back less": {step: -10 * time.Millisecond, late: 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDistant()
				d.slow.Store(c.slow)
				p, err := pacer.New(pacer.Config{Upstream: "api", Store: d, Policies: []policies.Policy{policies.Every(time.Second)}})
				require.NoError(t, err)
				defer closing(t, p)
				last := d.now()
				require.NoError(t, p.Wait(t.Context()))
				d.late(t, p, &last)
				d.takes = 200 * time.Millisecond
				d.step.Store(c.step.Microseconds())
				for range 5 {
					late := d.late(t, p, &last)
					require.GreaterOrEqual(t, late, -c.early, "never early")
					require.LessOrEqual(t, late, max(c.late, 2*time.Millisecond), "not by the 200 ms of the answer")
					d.takes = 0
					time.Sleep(time.Millisecond)
				}
			})
		})
	}
}

// A process that starts when the store's clock has stepped back sees charges far ahead, until one that has seen the time before reports it.
// Then its calls do not wait any longer for the slots that they got.
func TestAStepBackHoldsUpNoNewProcess(t *testing.T) {
	t.Parallel()
	for name, list := range map[string][]policies.Policy{
		"a rate":             {policies.PerSecond(10)},
		"a rate and permits": {policies.PerSecond(10), policies.InFlight(3)},
		"a lane":             {policies.PerSecond(10).Lane("batch", 50)},
		"AtMost":             {policies.AtMost(10, time.Second).Burst(3)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := faulty.New()
				call := func(p *pacer.Pacer, n int) {
					for range n {
						r, err := p.Acquire(t.Context())
						require.NoError(t, err)
						r.Release()
					}
				}
				config := pacer.Config{Upstream: "api", Store: s, Policies: list, MaxWait: 2 * time.Hour}
				old, err := pacer.New(config)
				require.NoError(t, err)
				defer closing(t, old)
				call(old, 20)
				s.Step(-time.Hour)
				began := time.Now()
				young, err := pacer.New(config)
				require.NoError(t, err)
				defer closing(t, young)
				call(young, 5)
				require.Less(t, time.Since(began), 10*time.Second)
			})
		})
	}
}
