package pacer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/testing/faulty"
	"github.com/headway-go/headway/policies"
)

// A caller that sleeps Delay, goes and has deferred a Cancel does not give back what it has used, however long the call took.
func TestADeferredCancelKeepsWhatWasUsed(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]policies.Policy{
		"a rate": policies.PerSecond(5), "a burst": policies.PerSecond(5).Burst(5), "a fixed window": policies.Fixed(5, time.Second),
		"a sliding window": policies.Sliding(5, time.Second), "an exact window": policies.AtMost(5, time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, err := pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{policy}})
				require.NoError(t, err)
				defer closing(t, p)
				call := func() {
					r, err := p.Reserve(t.Context())
					require.NoError(t, err)
					defer func() { require.NoError(t, r.Cancel(t.Context())) }()
					time.Sleep(r.Delay())
					time.Sleep(time.Millisecond) // the call
				}
				began := time.Now()
				for range 100 {
					call()
				}
				require.GreaterOrEqual(t, time.Since(began), 18*time.Second, "100 calls went where 5 a second may")
			})
		})
	}
}

// An unused slot is returned although its time has come, if the caller marks it so.
func TestNotUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.Fixed(10, time.Minute), policies.InFlight(1)}})
		require.NoError(t, err)
		defer closing(t, p)
		left := func() int64 {
			s, err := p.Status(t.Context())
			require.NoError(t, err)
			return s.Policies[0].Remaining
		}
		reserve := func() *pacer.Reservation {
			r, err := p.Reserve(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Second)
			return r
		}
		r := reserve()
		require.NoError(t, r.NotUsed(t.Context()))
		require.NoError(t, r.NotUsed(t.Context()), "twice gives back once")
		require.Equal(t, int64(10), left())
		require.ErrorIs(t, r.Wait(t.Context()), pacer.ErrSpent)

		r = reserve()
		require.NoError(t, r.Cancel(t.Context()))
		require.NoError(t, r.NotUsed(t.Context()), "it was used")
		require.Equal(t, int64(9), left())

		r = reserve() // its permit has come back
		require.NoError(t, r.Wait(t.Context()))
		require.NoError(t, r.NotUsed(t.Context()), "it has gone")
		require.Equal(t, int64(8), left())
		_, err = p.Acquire(t.Context(), pacer.MaxWait(0))
		require.ErrorIs(t, err, pacer.ErrNotYet)
		r.Release()
	})
}

// A Cancel during a Wait gives the slot back even if it has come: Wait has not let the call go.
func TestACancelWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.Every(time.Minute)}, Jitter: pacer.NoJitter})
		require.NoError(t, err)
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r, err := p.Reserve(t.Context())
		require.NoError(t, err)
		var waited error
		go func() { waited = r.Wait(t.Context()) }()
		time.Sleep(time.Second)
		require.NoError(t, r.Cancel(t.Context()))
		synctest.Wait()
		require.ErrorIs(t, waited, pacer.ErrSpent)
		next, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.Less(t, next.Delay(), time.Minute)
	})
}

// A call that wants to go later still does when its slot moves.
func TestNotBeforeOutlivesAMove(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]func(ctx context.Context, p *pacer.Pacer) error{
		"a resumption": func(ctx context.Context, p *pacer.Pacer) error { return fleet.Of(p).Resume(ctx) },
		"a pause and a resumption": func(ctx context.Context, p *pacer.Pacer) error {
			if err := p.Report(ctx, policies.Feedback{Wait: time.Hour}); err != nil {
				return err
			}
			time.Sleep(100 * time.Millisecond)
			return fleet.Of(p).Resume(ctx)
		},
		"a slow-down": func(ctx context.Context, p *pacer.Pacer) error {
			return p.Report(ctx, policies.Feedback{Refused: true})
		},
		"a reset": func(ctx context.Context, p *pacer.Pacer) error { return fleet.Of(p).Reset(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, err := pacer.New(pacer.Config{Upstream: "api", MaxPause: 2 * time.Hour, MaxWait: pacer.Forever, Policies: []policies.Policy{policies.PerSecond(10).Adaptive(policies.Adaptation{})}})
				require.NoError(t, err)
				defer closing(t, p)
				began := time.Now()
				r, err := p.Reserve(t.Context(), pacer.NotBefore(5*time.Second))
				require.NoError(t, err)
				done := make(chan error)
				go func() { done <- r.Wait(t.Context()) }()
				time.Sleep(300 * time.Millisecond)
				require.NoError(t, event(t.Context(), p))
				require.NoError(t, <-done)
				require.GreaterOrEqual(t, time.Since(began), 5*time.Second)
				require.Less(t, time.Since(began), 6*time.Second)
			})
		})
	}
}

// A waiting call uses the slot of a reservation before it that was not waited for, however shortly before it was given back.
func TestASlotThatIsGivenBackLate(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.PerSecond(20)}, Jitter: pacer.NoJitter}
			if shared {
				c.Store = faulty.New()
			}
			p, err := pacer.New(c)
			require.NoError(t, err)
			defer closing(t, p)
			require.NoError(t, p.Wait(t.Context()))
			r, err := p.Reserve(t.Context())
			require.NoError(t, err)
			began := time.Now()
			waited := make(chan error)
			go func() { waited <- p.Wait(t.Context()) }()
			time.Sleep(r.Delay() - time.Millisecond)
			require.NoError(t, r.Cancel(t.Context()))
			require.NoError(t, <-waited)
			require.LessOrEqual(t, time.Since(began), 50*time.Millisecond)
		})
	}
}

// A slot by a key of a pool is not passed on to a call that has the limits of that key and no others, and such a call still gives its own back.
func TestASlotOfAPoolIsNotPassedOnToOthers(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.PerSecond(20).Per("key")}, Jitter: pacer.NoJitter}
			if shared {
				c.Store = faulty.New()
			}
			p := opened(t, c)
			pool := newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}}...)
			for range 2 {
				_, err := pool.Acquire(t.Context())
				require.NoError(t, err)
			}
			r, err := pool.Reserve(t.Context())
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			waited := make(chan error)
			for _, id := range []string{"a", "b"} {
				go func() { waited <- p.Wait(ctx, pacer.Scope("key", id)) }()
			}
			synctest.Wait()
			require.NoError(t, r.NotUsed(t.Context()))
			cancel()
			for _, id := range []string{"a", "b"} {
				require.ErrorIs(t, <-waited, context.Canceled)
				time.Sleep(time.Second)
				s, err := p.Status(t.Context(), pacer.Scope("key", id))
				require.NoError(t, err)
				require.EqualValues(t, 1, s.Policies[0].Remaining)
			}
		})
	}
}
