package pacer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

func TestAPauseOfOneTenantLeavesTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// All policies are per tenant: so is a "slow down" that names none.
		p := newPacer(t, limits(policies.PerSecond(10).Per("tenant"), policies.PerMinute(100).Burst(50).Per("tenant", "user").Optional()))
		a, b := pacer.With(t.Context(), pacer.Scope("tenant", "a")), pacer.With(t.Context(), pacer.Scope("tenant", "b"))
		require.NoError(t, p.Report(a, policies.Feedback{Wait: time.Second}))
		require.NoError(t, p.Wait(b, pacer.MaxWait(0)))
		err := p.Wait(a, pacer.MaxWait(0))
		var le *pacer.LimitError
		require.ErrorAs(t, err, &le)
		require.Equal(t, pacer.Paused, le.Reason)
		require.Equal(t, "tenant=a", le.Scope)
		require.Equal(t, time.Second, le.Wait)

		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: 3 * time.Second}), "a call without scopes speaks for the upstream")
		require.ErrorIs(t, p.Wait(b, pacer.MaxWait(0)), pacer.ErrNotYet)
	})
}

func TestAPauseOfANamedPolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(1000).Named("all"), policies.PerSecond(1000).Per("endpoint").Optional().Named("endpoint")))
		export := pacer.Scope("endpoint", "export")
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Second, Policies: []string{"endpoint"}}, export))
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		time.Sleep(10 * ms)
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("endpoint", "other"), pacer.MaxWait(0)))
		time.Sleep(10 * ms)
		require.ErrorIs(t, p.Wait(t.Context(), export, pacer.MaxWait(0)), pacer.ErrNotYet)
		var se *pacer.LimitError
		require.ErrorAs(t, p.Report(t.Context(), policies.Feedback{Wait: time.Second, Policies: []string{"endpoint"}}), &se)
	})
}

func TestAPauseIsCapped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{MaxPause: 10 * time.Second})
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: 999_999_999 * time.Second}))
		start := time.Now()
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}

// gate is a store that can hold back the answer to Reserve.
type gate struct {
	store.Store
	hold chan struct{}
}

func (g *gate) Reserve(ctx context.Context, s store.Stack, c []store.Call, grants []store.Grant) error {
	err := g.Store.Reserve(ctx, s, c, grants)
	if g.hold != nil {
		<-g.hold
	}
	return err
}

func TestCancelWhileMoving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &gate{Store: memstore.New()}
		c := limits(policies.PerSecond(10))
		c.Store = store
		p := newPacer(t, c)
		require.NoError(t, p.Wait(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		got, reported := make(chan error), make(chan error)
		go func() { got <- p.Wait(ctx) }()
		synctest.Wait()
		store.hold = make(chan struct{})
		go func() { reported <- p.Report(t.Context(), policies.Feedback{Wait: time.Second}) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(store.hold)
		require.NoError(t, <-reported)
		require.ErrorIs(t, <-got, context.Canceled)
		synctest.Wait() // the slot is given back after Wait has returned
		start := time.Now()
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, time.Second, time.Since(start), "the new slot was given back, too")
	})
}

// late is a store whose answer to Reserve comes late, and that gives up when its context ends, like a client
// that is configured to.
type late struct{ store.Store }

func (l late) Reserve(ctx context.Context, s store.Stack, c []store.Call, grants []store.Grant) error {
	err := l.Store.Reserve(ctx, s, c, grants)
	time.Sleep(100 * ms)
	if ctx.Err() != nil {
		return ctx.Err() // the charge stays in the store
	}
	return err
}

// A context that ends during a request to the store must not leave a charge behind.
func TestAContextThatEndsWhileTheStoreIsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := limits(policies.Every(time.Hour))
		c.Store = late{memstore.New()}
		p := newPacer(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		require.ErrorIs(t, p.Wait(ctx), context.DeadlineExceeded)
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(50*ms, cancel)
		_, err := p.Reserve(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)), "the one slot of this hour is still there")
	})
}
