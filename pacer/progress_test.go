package pacer_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A counter is a store that counts its requests.
type counter struct {
	*memstore.Store

	requests atomic.Int64
}

func (c *counter) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	if c.requests.Add(1) > 10_000 {
		panic("a call asks the store without end")
	}
	return c.Store.Reserve(ctx, stack, calls, grants)
}

// Each request for a waiting call gets it a slot, or halves the time until its slot: that may be further away than the windows of another
// limit are known.
func TestEveryRequestGetsOn(t *testing.T) {
	t.Parallel()
	every, fixed, hourly := policies.Every, policies.Fixed, policies.Hourly(100, time.UTC)
	const day = 24 * time.Hour
	for _, c := range []struct {
		name  string
		stack []policies.Policy
		calls int
		last  time.Duration // when the last one goes
		most  int64
		pause time.Duration

		after, resume time.Duration // when the pause begins, and ends
		opts          []pacer.Option
	}{
		{name: "a far rate beside hours", stack: []policies.Policy{hourly, every(100 * time.Hour)}, calls: 2, last: 100 * time.Hour, most: 5},
		{name: "a year beside hours", stack: []policies.Policy{every(365 * day), hourly}, calls: 3, last: 730 * day, most: 25},
		{name: "months beside hours", stack: []policies.Policy{hourly, policies.Monthly(1, time.UTC)}, calls: 3, last: 60 * day, most: 15},
		{name: "weeks beside hours", stack: []policies.Policy{policies.Hourly(1, time.UTC), fixed(3, 7*day)}, calls: 10, last: 19 * day, most: 25},
		{name: "a sliding week beside hours", stack: []policies.Policy{hourly, policies.Sliding(10, 7*day)}, calls: 25, last: 338*time.Hour + 24*time.Minute, most: 30},
		{name: "an exact week beside hours", stack: []policies.Policy{hourly, policies.AtMost(10, 7*day).Burst(10).Skew(0)}, calls: 25, last: 14 * day, most: 30},
		{name: "dear calls", stack: []policies.Policy{hourly, every(time.Hour).Burst(90)}, calls: 3, last: 180 * time.Hour, most: 10, opts: []pacer.Option{pacer.Cost(90)}},
		{name: "permits", stack: []policies.Policy{hourly, every(100 * time.Hour), policies.InFlight(5)}, calls: 3, last: 200 * time.Hour, most: 12},
		{name: "a pause", stack: []policies.Policy{hourly, every(time.Second)}, calls: 10, last: 100*time.Hour + 9*time.Second, most: 16, pause: 100 * time.Hour},
		{name: "a pause that ends", stack: []policies.Policy{hourly, every(time.Second)}, calls: 10, last: time.Hour + 9*time.Second, most: 16, pause: 100 * time.Hour, resume: time.Hour},
		{name: "a pause of those that wait", stack: []policies.Policy{hourly, every(10 * time.Second)}, calls: 4, last: 100*time.Hour + 25*time.Second, most: 16, pause: 100 * time.Hour, after: 5 * time.Second},
		{name: "with permits", stack: []policies.Policy{hourly, every(10 * time.Second), policies.InFlight(5)}, calls: 4, last: 100*time.Hour + 25*time.Second, most: 25, pause: 100 * time.Hour, after: 5 * time.Second},
		{name: "until it ends", stack: []policies.Policy{hourly, every(10 * time.Second)}, calls: 4, last: time.Hour + 20*time.Second, most: 16, pause: 100 * time.Hour, after: 5 * time.Second, resume: time.Hour},
		{name: "no common divisor", stack: []policies.Policy{fixed(7, time.Second), fixed(11, 1700*ms), every(130 * ms)}, calls: 100, last: 15 * time.Second, most: 110},
		{name: "no common divisor, dear", stack: []policies.Policy{fixed(7, time.Second), fixed(11, 1700*ms), fixed(13, 2300*ms)}, calls: 60, last: 32700 * ms, most: 70, opts: []pacer.Option{pacer.Cost(3)}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &counter{Store: memstore.New()}
			p := newPacer(t, pacer.Config{Store: s, Policies: c.stack, MaxWait: pacer.Forever, MaxPause: 1000 * time.Hour})
			defer p.Close()
			var all sync.WaitGroup
			start := time.Now()
			if c.pause > 0 {
				time.AfterFunc(c.after, func() { assert.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: c.pause})) })
				synctest.Wait()
			}
			if c.resume > 0 {
				time.AfterFunc(c.resume, func() { assert.NoError(t, fleet.Of(p).Resume(t.Context())) })
			}
			for range c.calls {
				all.Go(func() {
					assert.NoError(t, p.Do(t.Context(), func(context.Context) (policies.Reading, error) { return policies.Reading{}, nil }, c.opts...), c.name)
				})
				synctest.Wait()
			}
			all.Wait()
			assert.LessOrEqual(t, s.requests.Load(), c.most, c.name)
			assert.InDelta(t, c.last, time.Since(start), float64(time.Second), c.name)
		})
	}
}
