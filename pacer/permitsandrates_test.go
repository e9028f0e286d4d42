package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// Permits that all share and a rate of each tenant bind at once: together, calls use what the narrower of the two admits, however
// long they take, and whether or not the rate has a burst. A permit comes back at any time, and the slots that other calls of the tenant
// have without permits must not be in the way of the call that gets it.
func TestPermitsAndRatesThatBindTogether(t *testing.T) {
	t.Parallel()
	for name, rate := range map[string]policies.Policy{
		"a rate": policies.PerSecond(2), "a burst of 1": policies.PerSecond(2).Burst(1),
		"a small window": policies.AtMost(2, time.Second).Skew(0), "a window": policies.AtMost(20, 10*time.Second).Skew(0),
	} {
		for _, ms := range extent([]int64{505}, []int64{450, 500, 505, 600, 700}) {
			takes := time.Duration(ms) * time.Millisecond
			t.Run(fmt.Sprint(name, ", ", takes), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { testPermitsAndRates(t, rate.Per("tenant"), takes) })
			})
		}
	}
}

// testPermitsAndRates has twenty tenants of two calls a second share permits, through one process.
func testPermitsAndRates(t *testing.T, rate policies.Policy, takes time.Duration) {
	t.Helper()
	const permits, tenants, perSecond, workers = 25, 20, 2, 4
	const before, lasts = 5 * time.Second, 42 * time.Second
	p := newPacer(t, limits(policies.InFlight(permits), rate))
	ctx, cancel := context.WithTimeout(t.Context(), before+lasts)
	defer cancel()
	var calls atomic.Int64
	var working sync.WaitGroup
	start := time.Now()
	for i := range tenants * workers {
		working.Go(func() {
			for {
				r, err := p.Acquire(ctx, pacer.Scope("tenant", fmt.Sprint(i%tenants)), pacer.MaxWait(pacer.Forever))
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					return
				}
				if time.Since(start) >= before {
					calls.Add(1)
				}
				time.Sleep(takes)
				r.Release()
			}
		})
	}
	working.Wait()
	admits := min(tenants*perSecond, permits/takes.Seconds())
	used := float64(calls.Load()) / lasts.Seconds() / admits
	t.Logf("%d calls, %.1f %% of what both limits admit", calls.Load(), 100*used)
	if used < 0.985 {
		t.Errorf("only %.1f %% of what both limits admit", 100*used)
	}
}
