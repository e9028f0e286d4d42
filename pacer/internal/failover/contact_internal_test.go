package failover

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A Nobody is a process that has no calls, no reports, and one policy at most.
type Nobody struct{ Policy policies.Policy }

func (n Nobody) PolicyOf(*store.Limit) policies.Policy            { return n.Policy }
func (Nobody) Read(*store.Settings)                               {}
func (Nobody) SetFair([]string)                                   {}
func (Nobody) Permits() []readings.Report                         { return nil }
func (Nobody) About(store.Instant, bool) (store.About, func(int)) { return store.About{}, func(int) {} }
func (Nobody) Requested(string, int, time.Duration, error)        {}
func (Nobody) Resumed([]store.Change)                             {}
func (Nobody) FailedOver(Change)                                  {}

// A process that loses the store again while it returns is local with an absence, or not at all: calls without a share wait for its end.
func TestWhoIsLocalIsAbsent(t *testing.T) {
	t.Parallel()
	w := New(nil, &Config{Upstream: "api", Mode: Local, InForce: Nobody{}, Owner: Nobody{}})
	returned := make(chan struct{})
	var fails sync.WaitGroup
	fails.Go(func() {
		for lost := errors.New("lost"); ; {
			select {
			case <-returned:
				return
			default:
				w.fallBack(lost, 1)
			}
		}
	})
	defer fails.Wait()
	defer close(returned)
	for range 10_000 {
		w.barrier.Store(1) // it is past
		_, err := w.join(t.Context())
		require.NoError(t, err)
		w.contact.mu.Lock()
		is, away := w.state.Load(), w.away.Load()
		w.contact.mu.Unlock()
		if !assert.False(t, is == local && away == nil) {
			return
		}
	}
}

// A call that found the store lost, and is granted locally only when the process is back, does not keep the next absence from beginning behind
// what the store has granted since.
func TestEachAbsenceBeginsBehindTheStore(t *testing.T) {
	t.Parallel()
	policy := policies.Every(time.Second).Named("rate")
	w := New(nil, &Config{Upstream: "api", Mode: Local, Processes: 1, InForce: Nobody{policy}, Owner: Nobody{}})
	w.goBack()
	stack := store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: "rate", Spec: policy.Spec()}}}
	local := func() store.Grant {
		b := store.Batch{Stack: stack, Calls: []store.Call{{Cost: 1, MaxWait: time.Hour}}}
		require.NoError(t, w.reserveLocally(t.Context(), &b, true))
		require.True(t, b.Grants[0].OK)
		return b.Grants[0]
	}
	local()
	now := w.Now()
	at := now.Add(time.Minute)
	w.operations.ledger.Granted(&stack, []store.Grant{{OK: true, Now: now, At: at, Charges: []store.Charge{{From: int64(at), To: int64(at.Add(time.Second))}}}})
	w.fallBack(errors.New("lost"), now)
	require.GreaterOrEqual(t, local().At, at.Add(time.Second))
}
