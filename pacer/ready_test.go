package pacer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// readier is a remote that knows whether it is ready.
type readier struct {
	*remote

	requested []string
	err       error
}

func (r *readier) Ready(ctx context.Context, upstream string) error {
	r.requested = append(r.requested, upstream)
	if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 10*time.Second {
		return errors.New("no bound")
	}
	return r.err
}

var _ store.Readier = (*readier)(nil)

// A Pacer's Ready returns its store's result, whatever the state of the process is, and changes nothing.
func TestReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := pacer.New(pacer.Config{Upstream: "memory", Policies: []policies.Policy{policies.PerSecond(1)}})
		require.NoError(t, err)
		require.NoError(t, p.Ready(t.Context()), "a store in memory is always ready")
		closing(t, p)
		require.ErrorIs(t, p.Ready(t.Context()), pacer.ErrClosed)

		r := &readier{remote: newRemote(1)}
		p, err = pacer.New(pacer.Config{Upstream: "api", Store: r, Policies: []policies.Policy{policies.PerSecond(1)}})
		require.NoError(t, err)
		require.NoError(t, p.Ready(t.Context()))
		r.err = errBroken
		err = p.Ready(t.Context())
		require.ErrorIs(t, err, errBroken)
		require.EqualError(t, err, `pacer: upstream "api": the store is not ready: connection refused`)
		require.Equal(t, []string{"api", "api"}, r.requested)
		require.Zero(t, r.count(), "nobody joins the fleet by asking")
		closing(t, p)
		require.ErrorIs(t, p.Ready(t.Context()), pacer.ErrClosed)

		plain := newRemote(1) // no Readier: it gets a plain request
		p, err = pacer.New(pacer.Config{Upstream: "api", Store: plain})
		require.NoError(t, err)
		defer closing(t, p)
		require.NoError(t, p.Ready(t.Context()))
		plain.set(errBroken, 0)
		err = p.Ready(t.Context())
		require.ErrorIs(t, err, errBroken)
		require.ErrorIs(t, err, pacer.ErrUnreachable)
		plain.set(errDenied, 0)
		err = p.Ready(t.Context())
		require.ErrorIs(t, err, errDenied)
		require.NotErrorIs(t, err, pacer.ErrUnreachable, "it has answered")
		plain.set(nil, time.Hour)
		require.ErrorIs(t, p.Ready(t.Context()), pacer.ErrUnreachable)
	})
}
