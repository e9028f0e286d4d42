package batch_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

var errOverdue = errors.New("overdue")

// sender is a store that takes its time, and grants a slot to each call.
type sender struct {
	takes   time.Duration
	decides int // calls of a request; 0 for all
	panics  bool

	slots   atomic.Int64
	dropped atomic.Int64 // callers that received no answer, because the generation ended

	mu     sync.Mutex
	sent   []int // calls of each request
	most   int   // requests on the wire
	now    int
	back   []store.Grant
	backAt time.Time
}

func (s *sender) Send(_ context.Context, r *batch.Request) {
	s.mu.Lock()
	s.sent = append(s.sent, r.Calls)
	s.now++
	s.most = max(s.most, s.now)
	takes := s.takes
	s.mu.Unlock()
	time.Sleep(takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	if s.panics {
		panic("a hook of its client")
	}
	n := 0
	for i := range r.Batches {
		b := &r.Batches[i]
		for j := range b.Calls {
			if n++; s.decides > 0 && n > s.decides {
				b.Grants[j] = store.Grant{Deferred: true}
				continue
			}
			at := s.slots.Add(1)
			b.Grants[j] = store.Grant{OK: true, At: store.Instant(at), Charges: []store.Charge{{From: at, To: at + 1}}}
		}
		r.Errs = append(r.Errs, nil)
	}
}

func (s *sender) GiveBack(_ *store.Stack, grants []store.Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back, s.backAt = append(s.back, grants...), time.Now()
}

func (s *sender) Overdue(calls int) error {
	if calls == 0 {
		s.dropped.Add(1)
	}
	return errOverdue
}

func stackOf(tenant int) *store.Stack {
	return &store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: "rate", Scope: strconv.Itoa(tenant)}}}
}

// reserve has n callers reserve one call each, and returns their slots and errors when all have an answer.
func reserve(t *testing.T, b *batch.Reservations, n int, stack func(i int) *store.Stack) (slots []store.Instant, errs []error) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			grants := make([]store.Grant, 1)
			err := b.Reserve(t.Context(), stack(i), []store.Call{{Cost: 1}}, grants)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else {
				slots = append(slots, grants[0].At)
			}
		})
	}
	wg.Wait()
	slices.Sort(slots)
	return slots, errs
}

func requireEachOnce(t *testing.T, slots []store.Instant, n int) {
	t.Helper()
	require.Len(t, slices.Compact(slots), n)
}

// Calls that come while one of the same stack is on the wire go together in the next request.
func TestCallsThatComeMeanwhileShareARequest(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &sender{takes: 10 * time.Millisecond}
			b := batch.New(s, time.Second, direct)
			slots, errs := reserve(t, b, 100, func(int) *store.Stack { return stackOf(0) })
			require.Empty(t, errs)
			requireEachOnce(t, slots, 100)
			require.Equal(t, []int{1, 99}, s.sent)
			b.Close()
		})
	}
}

// Calls of other stacks are on the wire at the same time, but not in any number.
func TestFewRequestsAreOnTheWire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sender{takes: 10 * time.Millisecond}
		b := batch.New(s, time.Second, false)
		slots, errs := reserve(t, b, 1000, stackOf)
		require.Empty(t, errs)
		requireEachOnce(t, slots, 1000)
		require.Equal(t, 4, s.most)
		require.LessOrEqual(t, slices.Max(s.sent), batch.MaxCalls)
		require.LessOrEqual(t, len(s.sent), 20)
		b.Close()
	})
}

// What the store leaves undecided is asked for again, in requests of the size that it decides.
func TestDeferredCallsAreRequestedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sender{takes: 10 * time.Millisecond, decides: 20}
		b := batch.New(s, time.Second, false)
		slots, errs := reserve(t, b, 200, func(int) *store.Stack { return stackOf(0) })
		require.Empty(t, errs)
		requireEachOnce(t, slots, 200)
		require.Less(t, slices.Max(s.sent[2:]), 40, "of what the store decides")
		b.Close()
	})
}

// A caller who does not wait any longer gets its answer in time, and what it is granted later is given back, once.
func TestWhatComesTooLateIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sender{takes: 5 * time.Second}
		b := batch.New(s, time.Second, false)
		start := time.Now()
		slots, errs := reserve(t, b, 10, func(int) *store.Stack { return stackOf(0) })
		require.Empty(t, slots)
		require.Len(t, errs, 10)
		require.ErrorIs(t, errs[0], errOverdue)
		require.Equal(t, 2*time.Second, time.Since(start), "one request on the wire, and the next one")
		b.Close()
		require.Len(t, s.back, 1, "of the one that was sent; the others never were")
		require.Equal(t, 5*time.Second, s.backAt.Sub(start))
		require.Equal(t, []int{1}, s.sent)
	})
}

// When a generation ends, nobody waits for what is on the wire, and new calls do not wait behind it.
func TestAGenerationEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sender{takes: 5 * time.Second}
		b := batch.New(s, 10*time.Second, false)
		gone := b.Gone()
		start := time.Now()
		time.AfterFunc(time.Second, b.Restart)
		_, errs := reserve(t, b, 10, func(int) *store.Stack { return stackOf(0) })
		require.Len(t, errs, 10)
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, int64(10), s.dropped.Load())
		<-gone
		s.mu.Lock()
		s.takes = time.Millisecond
		s.mu.Unlock()
		slots, errs := reserve(t, b, 1, func(int) *store.Stack { return stackOf(0) })
		require.Empty(t, errs)
		require.Len(t, slots, 1)
		require.Equal(t, time.Second+time.Millisecond, time.Since(start))
		b.Close()
		require.Len(t, s.back, 1)
	})
}

// A sender that panics in a caller's goroutine fails its own request, and nobody waits for ever.
func TestAPanicFailsItsRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sender{panics: true}
		b := batch.New(s, time.Second, true)
		require.Panics(t, func() { _ = b.Reserve(t.Context(), stackOf(0), make([]store.Call, 1), make([]store.Grant, 1)) })
		s.panics = false
		require.NoError(t, b.Reserve(t.Context(), stackOf(0), make([]store.Call, 1), make([]store.Grant, 1)))
		b.Close()
		require.ErrorIs(t, b.Reserve(t.Context(), stackOf(0), make([]store.Call, 1), make([]store.Grant, 1)), store.ErrClosed)
	})
}

// Thousands of grants that are given back at the same time take a few requests, each of which is bounded, and some of which are on their way
// at the same time; Wait waits for them.
func TestCancelsShareRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		given, sending, most := 0, 0, 0
		failing := errors.New("failing")
		c := batch.NewCancels(func(all []*batch.Refund) []error {
			mu.Lock()
			sending++
			most = max(most, sending)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			sending--
			n := 0
			errs := make([]error, len(all))
			for i, r := range all {
				n += len(r.Grants) * len(r.Stack.Limits)
				given += len(r.Grants)
				if r.Stack.Limits[0].Scope == "7" {
					errs[i] = failing
				}
			}
			sizes = append(sizes, n)
			return errs
		})
		grant := []store.Grant{{OK: true, Charges: []store.Charge{{From: 1, To: 2}}}}
		var wg sync.WaitGroup
		begun := time.Now()
		for i := range 2000 {
			wg.Go(func() {
				err := c.GiveBack(batch.Refunds(t.Context(), stackOf(i%10), grant))
				if i%10 == 7 {
					require.ErrorIs(t, err, failing)
				} else {
					require.NoError(t, err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 2000, given)
		require.LessOrEqual(t, slices.Max(sizes), 128)
		require.Less(t, len(sizes), 60)
		require.Equal(t, 4, most)
		require.LessOrEqual(t, time.Since(begun), 160*time.Millisecond, "a fourth of the requests, one after the other")
		c.Add(batch.Refunds(t.Context(), stackOf(0), grant))
		c.Wait()
		require.Equal(t, 2001, given)
	})
}

// Redemptions of the same moment take a few requests, one at a time, each of which is bounded. Each caller learns its own outcome.
func TestRedemptionsShareRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		sending, most := 0, 0
		failing := errors.New("failing")
		r := batch.NewRedemptions(func(all []*batch.Redemption) {
			mu.Lock()
			sending++
			most = max(most, sending)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			sending--
			interval := all[0].Booking.Limits[0].Spec.Interval
			for _, x := range all {
				require.Equal(t, interval, x.Booking.Limits[0].Spec.Interval, "in one request, limits of a key are alike")
				if x.Answer.Record = x.Booking.ID; x.Booking.ID == "7" {
					x.Err = failing
				}
			}
			sizes = append(sizes, len(all))
		})
		limits := func(interval int64) []store.Limit {
			return []store.Limit{{Policy: "rate", Spec: policies.Spec{Interval: interval}}}
		}
		redeem := func(n int, b func(i int) store.Booking) {
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					b := b(i)
					b.ID = strconv.Itoa(i)
					answers, err := r.Redeem(t.Context(), []store.Booking{b})
					if i == 7 {
						require.ErrorIs(t, err, failing)
						return
					}
					require.NoError(t, err)
					require.Equal(t, b.ID, answers[0].Record)
				})
			}
			wg.Wait()
		}
		for _, c := range []struct {
			b      func(i int) store.Booking
			within int // bookings of a request
		}{
			{func(int) store.Booking { return store.Booking{Limits: limits(1)} }, 127},
			{func(int) store.Booking { return store.Booking{Limits: limits(1), Refund: make([]store.Charge, 1)} }, 63},
			{func(i int) store.Booking { return store.Booking{Limits: limits(int64(i))} }, 1},
		} {
			sizes, most = nil, 0
			redeem(1000, c.b)
			require.Equal(t, c.within, slices.Max(sizes))
			require.LessOrEqual(t, len(sizes), 2+1000/c.within)
			require.Equal(t, 1, most)
		}
		answers, err := r.Redeem(t.Context(), []store.Booking{{ID: "1", Limits: limits(1)}, {ID: "7", Limits: limits(1)}})
		require.ErrorIs(t, err, failing)
		require.Nil(t, answers)
		r.Wait()
	})
}
