package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A look at the limits of waiters does not meet calls that serve as others by then.
func TestTheLimitsOfWaitersAreCopies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(&Config{Store: memstore.New(), Direct: true, MaxLate: time.Second, Meter: usage.NewMeter(nil, false)})
		one := policies.PerSecond(1)
		room := [1]store.Limit{{Policy: one.Name(), Scope: "acme", Spec: one.Spec()}}
		r := &Request{Limits: room[:], Call: store.Call{Cost: 1, MaxWait: store.Forever}, WillWait: true}
		var first, second Call
		require.NoError(t, s.Reserve(t.Context(), &first, r))
		require.NoError(t, first.Wait(t.Context()))
		require.NoError(t, s.Reserve(t.Context(), &second, r))
		go func() { _ = second.Wait(t.Context()) }()
		synctest.Wait()
		limits := s.limits(9)
		require.Len(t, limits, 1)
		time.Sleep(2 * time.Second)
		require.Empty(t, s.limits(9))
		room[0] = store.Limit{} // as if it served another call
		require.Equal(t, "acme", limits[0].Scope)
	})
}

// If the call that is next gives up, the one after it makes the request.
func TestTheFirstCallGivesUp(t *testing.T) {
	t.Parallel()
	s := New(&Config{})
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queueFor(1, []store.Limit{{Policy: "limit"}}, false)
	all := [2]*Call{{set: s, wanted: wanted{came: 1}}, {set: s, wanted: wanted{came: 2}}}
	for _, c := range all {
		q.enqueue(c)
	}
	s.admit(q)
	require.ErrorIs(t, s.refuse(q, all[0], store.ErrClosed), store.ErrClosed)
	r := s.nextRequest()
	require.NotNil(t, r)
	require.Equal(t, []*Call{all[1]}, q.carried)
	s.answerAll(q, r.batches[0].Calls, nil, r.began, store.ErrClosed)
	s.admitAll()
	require.True(t, q.isIdle(), "nothing is left behind")
}

// After Close, a permit that was kept for other calls goes back to the store under no lock of the Dispatcher: the store may be slow.
func TestPermitsGoBackUnderNoLock(t *testing.T) {
	t.Parallel()
	limits := []store.Limit{{Policy: "permits", Spec: policies.InFlight(1).Spec()}}
	var s *Dispatcher
	var q *queue
	kept := true // at first
	s = New(&Config{})
	s.Leases = leases.New(leases.Config{
		Report: func([]readings.Report, bool) {
			free := s.mu.TryLock()
			require.True(t, free)
			s.mu.Unlock()
		},
		PassOn: func(*leases.Lease) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !kept {
				s.retire(q) // as thaw may
			}
			return kept
		},
	})
	q = s.queueFor(1, limits, true)
	f := s.Leases.Take(1, limits, 1, time.Now(), leases.Passing{})
	s.Leases.Release(f)
	q.idle, kept = append(q.idle, f), false
	s.Close()
	s.Leases.Close()
	require.Empty(t, s.Leases.Held())
}

// A stack that shares its hash with another one has a queue of its own, and keeps it.
func TestStacksOfOneHashHaveQueues(t *testing.T) {
	t.Parallel()
	s := New(&Config{})
	s.mu.Lock()
	defer s.mu.Unlock()
	one, two := []store.Limit{{Policy: "one"}}, []store.Limit{{Policy: "two"}}
	q, other := s.queueFor(1, one, false), s.queueFor(1, two, false)
	require.NotSame(t, q, other)
	require.Same(t, q, s.queueFor(1, one, false))
	require.Same(t, other, s.queueFor(1, two, false))
	require.Same(t, other, s.queueFor(other.hash, two, false), "as a permit that is passed on names it")
	s.sweepQueues()
	require.Empty(t, s.queues.byStack)
}

// Calls have their places in a queue by when they came, in whatever order they enter it and leave it.
func TestALineIsInOrderOfArrival(t *testing.T) {
	t.Parallel()
	s := New(&Config{})
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queueFor(1, []store.Limit{{Policy: "limit"}}, false)
	all := make([]*Call, 6)
	for i := range all {
		all[i] = &Call{set: s, wanted: wanted{came: int64(i)}}
	}
	for _, i := range []int{4, 1, 5, 0, 3, 2} {
		q.insert(all[i])
	}
	require.Equal(t, all, q.line)
	for _, i := range []int{0, 3, 5} { // the first, one between others, and the last
		q.remove(all[i])
	}
	require.Equal(t, []*Call{all[1], all[2], all[4]}, q.line)
	q.insert(all[3])
	require.Equal(t, []*Call{all[1], all[2], all[3], all[4]}, q.line)
	require.Equal(t, int64(4), s.Queued())
	for _, i := range []int{4, 3, 2, 1} {
		q.takeOut(all[i])
	}
	require.Equal(t, []*Call{all[1], all[2], all[3], all[4]}, q.out, "as are those that have left the line")
}
