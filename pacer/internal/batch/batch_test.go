package batch_test

import (
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
	"github.com/headway-go/headway/policies/specs"
)

func stackOf(tenant int) *store.Stack {
	return &store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: "rate", Scope: strconv.Itoa(tenant)}}}
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
		c := batch.NewAnswered(batch.MaxSending, batch.FitRefunds, func(all []*batch.Refund) {
			mu.Lock()
			sending++
			most = max(most, sending)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			sending--
			n := 0
			for _, r := range all {
				n += len(r.Value.Grants) * len(r.Value.Stack.Limits)
				given += len(r.Value.Grants)
				if r.Value.Stack.Limits[0].Scope == "7" {
					r.Err = failing
				}
			}
			sizes = append(sizes, n)
		})
		grant := []store.Grant{{OK: true, Charges: []store.Charge{{From: 1, To: 2}}}}
		var wg sync.WaitGroup
		begun := time.Now()
		for i := range 2000 {
			wg.Go(func() {
				_, err := c.Do(t.Context(), batch.Refunds(stackOf(i%10), grant)...)
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
		c.Send(t.Context(), batch.Refunds(stackOf(0), grant)...)
		c.Wait()
		require.Equal(t, 2001, given)
	})
}

// Nothing is sent in more requests because those that send it have not begun yet.
func TestValuesOfAMomentFillTheirRequests(t *testing.T) {
	t.Parallel()
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			var sent atomic.Int64
			r := batch.New(4, func(all []int) int { return min(len(all), 10) }, func([]int) {
				sent.Add(1)
				time.Sleep(time.Millisecond)
			})
			for i := range 60 {
				go r.Add(i)
			}
			synctest.Wait()
			r.Wait()
			require.LessOrEqual(t, sent.Load(), int64(7), "six, if the first waits for no other")
		})
	}
}

// Redemptions of the same moment take a few requests, one at a time, each of which is bounded. Each caller learns its own outcome.
func TestRedemptionsShareRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		sending, most := 0, 0
		failing := errors.New("failing")
		r := batch.NewAnswered(1, batch.FitRedemptions, func(all []*batch.Redemption) {
			mu.Lock()
			sending++
			most = max(most, sending)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			sending--
			interval := all[0].Value.Limits[0].Spec.Interval
			for _, x := range all {
				require.Equal(t, interval, x.Value.Limits[0].Spec.Interval, "in one request, limits of a key are alike")
				if x.Answer.Record = x.Value.ID; x.Value.ID == "7" {
					x.Err = failing
				}
			}
			sizes = append(sizes, len(all))
		})
		limits := func(interval int64) []store.Limit {
			return []store.Limit{{Policy: "rate", Spec: specs.Spec{Interval: interval}}}
		}
		redeem := func(n int, b func(i int) store.Booking) {
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					b := b(i)
					b.ID = strconv.Itoa(i)
					answers, err := r.Do(t.Context(), b)
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
		answers, err := r.Do(t.Context(), store.Booking{ID: "1", Limits: limits(1)}, store.Booking{ID: "7", Limits: limits(1)})
		require.ErrorIs(t, err, failing)
		require.Nil(t, answers)
		r.Wait()
	})
}
