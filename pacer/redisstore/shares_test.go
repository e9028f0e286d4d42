package redisstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	mixes "github.com/headway-go/headway/pacer/internal/testing/shares"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
)

// A view is a store of a real server for calls in virtual time. Its requests are made outside of the bubble, and the server takes the time from
// the bubble, where none passes meanwhile. All channels are made outside.
type view struct {
	is   store.Store
	now  atomic.Int64
	work chan func()
	idle chan chan struct{} // where the end of a request is announced
}

func newView(t *testing.T) *view {
	t.Helper()
	const requests = 64 // at once
	v := &view{work: make(chan func()), idle: make(chan chan struct{}, requests)}
	v.is = redisstore.NewAt(redistest.Shared(t).Client(), func() store.Instant { return store.Instant(v.now.Load()) })
	for range requests {
		v.idle <- make(chan struct{})
	}
	go func() {
		for f := range v.work {
			f()
		}
	}()
	t.Cleanup(func() { close(v.work) })
	return v
}

func (v *view) do(f func()) {
	done, now := <-v.idle, time.Now().UnixMicro()
	v.work <- func() {
		v.now.Store(max(v.now.Load(), now))
		f()
		done <- struct{}{}
	}
	<-done
	v.idle <- done
}

func (v *view) Reserve(_ context.Context, s store.Stack, calls []store.Call, grants []store.Grant) (err error) {
	v.do(func() { err = v.is.Reserve(context.Background(), s, calls, grants) }) //nolint:contextcheck // it leaves the bubble of the caller
	return err
}

func (v *view) Cancel(_ context.Context, s store.Stack, grants []store.Grant) (err error) {
	v.do(func() { err = v.is.Cancel(context.Background(), s, grants) }) //nolint:contextcheck // it leaves the bubble of the caller
	return err
}

func (v *view) Report(_ context.Context, s store.Stack, notes []store.Note) (now store.Instant, changed int, err error) {
	v.do(func() { now, changed, err = v.is.Report(context.Background(), s, notes) }) //nolint:contextcheck // it leaves the bubble of the caller
	return now, changed, err
}

func (v *view) Status(_ context.Context, s store.Stack) (status store.StackStatus, err error) {
	v.do(func() { status, err = v.is.Status(context.Background(), s) }) //nolint:contextcheck // it leaves the bubble of the caller
	return status, err
}

// Parties of random mixes have their shares from a server, too: see the test of this name of package pacer.
func TestSharesOfRandomMixes(t *testing.T) {
	t.Parallel()
	for _, kind := range []mixes.Kind{mixes.Rate, mixes.Exact, mixes.Fixed, mixes.Sliding} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var all mixes.Figure
			from := uint64(0)
			if kind == mixes.Sliding {
				from = 2 // which has intervals to judge
			}
			for seed := range uint64(extent(1, 17)) {
				seed += from
				v := newView(t)
				synctest.Test(t, func(t *testing.T) {
					m := mixes.New(kind, seed, false)
					var fleet []*pacer.Pacer
					for range 2 {
						p, err := pacer.New(pacer.Config{Upstream: fmt.Sprint("shares-", kind, seed), Store: v, MaxWait: pacer.Forever, Policies: m.Policies()})
						require.NoError(t, err)
						defer p.Close()
						fleet = append(fleet, p)
					}
					all.Add(m.Play(t, fleet).Judge())
				})
			}
			t.Log(all.String())
			if kind == mixes.Fixed || kind == mixes.Sliding {
				require.LessOrEqual(t, mixes.Quantile(all.Floor, 1), 0.05)
				return
			}
			require.LessOrEqual(t, mixes.Quantile(all.Short, 1), 0.05)
		})
	}
}
