package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// A loop that tries, sleeps for RetryAfter and tries again does not spin, whatever the call waits for, and is admitted soon after it could
// be.
func TestALoopThatSleepsForRetryAfter(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]policies.Policy{
		"a permit": policies.InFlight(1), "a lane": policies.PerSecond(10).Lane("batch", 50), "a fair share": policies.InFlight(1).Fair("tenant"),
		"a rate": policies.PerSecond(10), "a window": policies.Sliding(1, time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, err := pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{policy}})
				require.NoError(t, err)
				defer closing(t, p)
				ctx := pacer.With(pacer.With(t.Context(), pacer.Scope("tenant", "acme")), pacer.Lane("batch"))
				first, err := p.Acquire(ctx)
				require.NoError(t, err)
				time.AfterFunc(5*time.Second, first.Release)
				begin, requested, went := time.Now(), 0, 0
				for time.Since(begin) < 10*time.Second {
					requested++
					r, err := p.Reserve(ctx, pacer.MaxWait(0))
					if err == nil {
						went++
						require.NoError(t, r.Wait(ctx))
						r.Release()
						if policy.Spec().Algorithm == specs.Concurrency {
							break // there is a permit from now on
						}
						continue
					}
					var limit *pacer.LimitError
					require.ErrorAs(t, err, &limit)
					require.Positive(t, retryAfter(limit))
					time.Sleep(retryAfter(limit))
					if requested > 1000 {
						break
					}
				}
				require.LessOrEqual(t, requested-went, 200, "it asks more often than every 50 ms")
				require.Positive(t, went)
			})
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  pacer.LimitError
		want time.Duration
	}{
		"a slot":        {pacer.LimitError{Wait: time.Hour}, time.Hour},
		"a slot soon":   {pacer.LimitError{Wait: time.Microsecond}, time.Millisecond},
		"a permit":      {pacer.LimitError{Reason: pacer.NoPermit, Limit: 3}, 100 * time.Millisecond},
		"a queue":       {pacer.LimitError{Reason: pacer.Queued, Ahead: 4}, 100 * time.Millisecond},
		"nothing known": {pacer.LimitError{Err: context.DeadlineExceeded}, 100 * time.Millisecond},
		"a credential":  {pacer.LimitError{Reason: pacer.NoCredential, Wait: time.Minute}, time.Minute},
		"a booking":     {pacer.LimitError{Reason: pacer.TooEarly, Wait: time.Second}, time.Second},
		"a scope":       {pacer.LimitError{Reason: pacer.NoScope}, 0},
		"a token":       {pacer.LimitError{Reason: pacer.TokenSpent}, 0},
		"itself":        {pacer.LimitError{Reason: pacer.WaitsForItself}, 0},
		"never":         {pacer.LimitError{Reason: pacer.TooCostly}, 0},
	} {
		wait, later := pacer.RetryAfter(fmt.Errorf("wrapped: %w", &c.err))
		require.Equal(t, c.want, wait, name)
		require.Equal(t, c.want > 0, later, name)
		require.Equal(t, c.want > 0, errors.Is(&c.err, pacer.ErrNotYet), name)
	}
}

// An error states no shorter wait than there is: its reader tries again after it.
func TestAWaitIsRoundedUp(t *testing.T) {
	t.Parallel()
	for wait, text := range map[time.Duration]string{
		10*time.Second + time.Millisecond: "10.1s", 11*time.Millisecond + time.Microsecond: "11.1ms", 5 * time.Microsecond: "5µs", time.Minute: "1m0s",
	} {
		require.Contains(t, (&pacer.LimitError{Wait: wait}).Error(), "the next slot is "+text+" away")
	}
}
