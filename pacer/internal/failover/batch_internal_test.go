package failover

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/store"
)

// slowCancels is a store that takes its time to take slots back.
type slowCancels struct {
	store.Shared

	given chan []store.Batch
}

func (s *slowCancels) CancelAll(_ context.Context, batches []store.Batch) error {
	time.Sleep(100 * time.Millisecond)
	s.given <- batches
	return nil
}

func (*slowCancels) Fault(error) store.Fault { return store.Unreachable }

// Who waits for an answer that has come does not wait until what was granted to others, who have gone, is given back: that is
// one request.
func TestAnswersComeFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backing := &slowCancels{given: make(chan []store.Batch, 10)}
		w := New(backing, &Config{Upstream: "api", Timeout: time.Second})
		w.state.Store(together)
		g, f := w.gathering, &flight{places: make(map[uint64]int)}
		stack := store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: "one"}}}
		stack.Limits[0].Spec.Algorithm, stack.Limits[0].Spec.Interval = 1, 1000
		var parcels []*parcel
		for range 10 {
			p := g.parcel()
			p.ctx, p.stack, p.hash, p.calls, p.grants = t.Context(), stack, stack.Hash(w.seed), make([]store.Call, 1), make([]store.Grant, 1)
			require.True(t, f.board(g, p, time.Hour))
			parcels = append(parcels, p)
		}
		now := time.Now().UnixMicro()
		for i := range parcels {
			from := now + int64(i)*1000
			f.batches[0].Grants = append(f.batches[0].Grants, store.Grant{
				OK: true, Now: store.Instant(now), At: store.Instant(from), Binds: store.BindsNothing, Charges: []store.Charge{{From: from, To: from + 1000}},
			})
		}
		f.errs = []error{nil}
		for i := 1; i < len(parcels); i += 2 {
			require.True(t, g.abandon(parcels[i]))
		}
		start := time.Now()
		w.deliver(g, f)
		for i := 0; i < len(parcels); i += 2 {
			<-parcels[i].done
		}
		require.Zero(t, time.Since(start))
		back := <-backing.given
		require.Len(t, back, 1)
		require.Len(t, back[0].Grants, 5, "in one request")
		require.Equal(t, now+1000, back[0].Grants[0].Charges[0].From)
		w.cancels.close()
		require.Empty(t, backing.given)
		require.Empty(t, w.known.keys[store.Key{Policy: "one"}].own.without(now, now+10_000))
		g.end()
	})
}
