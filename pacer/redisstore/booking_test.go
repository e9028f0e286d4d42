package redisstore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// eager is a policy under which many bookings are due at once, for long.
func eager() policies.Policy { return policies.Fixed(10_000, 24*time.Hour) }

// Of the members of a fleet that redeem a token at the same time, one goes.
func TestATokenIsRedeemedOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var fleet []*pacer.Pacer
	for range 4 {
		fleet = append(fleet, member(t, server.Addr, eager(), policies.InFlight(100).Named("flying")))
	}
	for range 30 {
		tok, _, err := fleet[0].Book(t.Context())
		require.NoError(t, err)
		var wg sync.WaitGroup
		var mu sync.Mutex
		went := 0
		for i := range 8 {
			wg.Go(func() {
				r, err := fleet[i%len(fleet)].Redeem(t.Context(), tok, pacer.Early(time.Minute)) // its slot may be over, and another one far
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					r.Release()
					went++
				} else if !errors.Is(err, pacer.ErrSpent) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, went)
	}
	require.Eventually(t, func() bool {
		s, err := fleet[0].Status(t.Context())
		return err == nil && s.Policies[1].Remaining == 100
	}, patience, time.Millisecond, "those that did not go have no permits")
}

// Of the members of a fleet that redeem a late token at the same time, all get the same slot, and nothing is charged besides. The others,
// which did not write their slot down first, have given it back.
func TestALateTokenMovesOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var fleet []*pacer.Pacer
	for range 4 {
		fleet = append(fleet, member(t, server.Addr, policies.Rate(1, time.Minute).Burst(1)))
	}
	late, wait, err := fleet[0].Book(t.Context(), pacer.MaxWait(time.Hour))
	require.NoError(t, err)
	require.Zero(t, wait)
	require.NoError(t, fleet[0].Report(t.Context(), policies.Feedback{Wait: 10 * time.Minute})) // it covers the slot
	var wg sync.WaitGroup
	waits := make([]time.Duration, 8)
	for i := range waits {
		wg.Go(func() {
			var e *pacer.LimitError
			if _, err := fleet[i%len(fleet)].Redeem(t.Context(), late); !errors.As(err, &e) {
				t.Error(err)
				return
			}
			waits[i] = e.Wait.Round(time.Minute)
		})
	}
	wg.Wait()
	for _, wait := range waits {
		require.Equal(t, waits[0], wait, "%v", waits)
	}
	for next, i := 10*time.Minute, 0; i < 3; next += time.Minute {
		if next == waits[0] {
			continue
		}
		_, wait, err = fleet[2].Book(t.Context(), pacer.MaxWait(time.Hour))
		require.NoError(t, err)
		require.Equal(t, next, wait.Round(time.Minute), "one slot was taken behind the pause, by all of them: the one in %v", waits[0])
		i++
	}
}

// A late token goes at last, though its policy has no slack and answers are slow.
func TestALateTokenGoes(t *testing.T) {
	t.Parallel()
	p := member(t, redistest.Start(t).Addr, policies.Rate(20, time.Second).Burst(1))
	tok, _, err := p.Book(t.Context())
	require.NoError(t, err)
	for {
		r, err := p.Redeem(t.Context(), tok)
		if later, ok := errors.AsType[*pacer.LimitError](err); ok {
			<-time.After(later.Wait - pacer.RedeemEarly/2)
			continue
		}
		require.NoError(t, err)
		r.Release()
		break
	}
	_, err = p.Redeem(t.Context(), tok)
	require.ErrorIs(t, err, pacer.ErrSpent)
}

// A booking that another member cancels or moves is no sign of a store that lost its data.
func TestOthersGiveBookingsBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	list := []policies.Policy{policies.Rate(1, time.Minute).Burst(1), policies.Fixed(3, 24*time.Hour)}
	one, two := member(t, server.Addr, list...), member(t, server.Addr, list...)
	require.NoError(t, one.Wait(t.Context(), pacer.MaxWait(0)))
	for range 5 {
		tok, wait, err := one.Book(t.Context(), pacer.MaxWait(time.Hour))
		require.NoError(t, err)
		require.InDelta(t, time.Minute, wait, float64(30*time.Second))
		require.NoError(t, two.CancelBooking(t.Context(), tok))
	}
}

// 500 tokens that are redeemed at once, all of them covered by a pause, move in a few requests, and 500 others go in a few: no process
// takes the store for lost.
func TestManyTokensAtOnce(t *testing.T) {
	t.Parallel()
	const n = 500
	p := newCounted(t, redistest.Start(t).Addr, eager())
	all := func(do func(i int)) {
		var each sync.WaitGroup
		for i := range n {
			each.Go(func() { do(i) })
		}
		each.Wait()
	}
	books := func() []string {
		toks := make([]string, n)
		all(func(i int) {
			var err error
			toks[i], _, err = p.Book(t.Context())
			assert.NoError(t, err)
		})
		return toks
	}
	moved, toks := books(), books()
	p.since()
	all(func(i int) {
		r, err := p.Redeem(t.Context(), toks[i], pacer.Early(time.Hour)) // answers may have taken long
		if assert.NoError(t, err) {
			r.Release()
		}
	})
	went := p.since()["redeem"]
	require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Hour}))
	all(func(i int) {
		_, spent := p.Redeem(t.Context(), toks[i])
		_, err := p.Redeem(t.Context(), moved[i])
		later, isLater := errors.AsType[*pacer.LimitError](err)
		assert.True(t, errors.Is(spent, pacer.ErrSpent) && isLater && later.Moved, "%v, %v", spent, err)
	})
	put := p.since()["redeem"]
	t.Logf("%d requests to redeem %d tokens, and %d to redeem them again and move %d others", went, n, put, n)
	require.Less(t, went, n/2)
	require.Less(t, put, 2*n)
	p.steady(t)
}

// A token whose limit's key has a foreign value is refused, and others redeemed with it go.
func TestOneForeignKeyAmongMany(t *testing.T) {
	t.Parallel()
	const n = 50
	server := redistest.Start(t)
	p := member(t, server.Addr, eager().Named("tenant").Per("tenant"))
	toks, errs := make([]string, n), make([]error, n)
	for i := range n {
		var err error
		toks[i], _, err = p.Book(t.Context(), pacer.Scope("tenant", fmt.Sprint(i)))
		require.NoError(t, err)
	}
	require.NoError(t, server.Client().Set(t.Context(), "pacer:10:{test}:tenant:7", "foreign", time.Hour).Err())
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { _, errs[i] = p.Redeem(t.Context(), toks[i], pacer.Early(time.Hour)) })
	}
	all.Wait()
	for i, err := range errs {
		if i == 7 {
			require.ErrorIs(t, err, redisstore.ErrForeign)
		} else {
			require.NoError(t, err)
		}
	}
}

// Lost data includes the redemptions, so no earlier token is good.
func TestTokensOfLostData(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := member(t, server.Addr, eager())
	tok, _, err := p.Book(t.Context())
	require.NoError(t, err)
	used, _, err := p.Book(t.Context())
	require.NoError(t, err)
	_, err = p.Redeem(t.Context(), used, pacer.Early(time.Hour)) // its slot may be over, and another one far
	require.NoError(t, err)
	require.NoError(t, server.Client().FlushAll(t.Context()).Err())
	require.Eventually(t, func() bool { // the process reminds the store, and is back
		_, _, err := p.Book(t.Context())
		return err == nil
	}, patience, 10*time.Millisecond)
	for _, one := range []string{tok, used} {
		_, err = p.Redeem(t.Context(), one)
		require.ErrorIs(t, err, pacer.TokenLost)
		require.ErrorIs(t, p.CancelBooking(t.Context(), one), pacer.TokenLost)
	}
	var r *pacer.Reservation
	require.Eventually(t, func() bool { // it may be early while the process is on its way back
		r, err = p.Redeem(t.Context(), tok, pacer.Attempt(2))
		_, early := errors.AsType[*pacer.LimitError](err)
		return !early
	}, patience, 10*time.Millisecond)
	require.NoError(t, err, "a later attempt has nothing in the lost data")
	r.Release()
}

// A process without the store paces by itself, but neither books nor redeems, since no other would know.
func TestBookingsNeedTheStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := member(t, server.Addr, eager())
	tok, _, err := p.Book(t.Context())
	require.NoError(t, err)
	server.Stop()
	require.Eventually(t, func() bool { return p.Wait(t.Context()) == nil }, patience, time.Millisecond, "it paces by itself")
	var failed *pacer.StoreError
	_, _, err = p.Book(t.Context())
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "book", failed.Op)
	require.ErrorIs(t, err, pacer.ErrUnreachable)
	_, err = p.Redeem(t.Context(), tok)
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "redeem", failed.Op)
	require.ErrorIs(t, err, pacer.ErrUnreachable)
	require.ErrorIs(t, p.CancelBooking(t.Context(), tok), pacer.ErrUnreachable)
}

// A redeemed booking takes one key, which expires.
func TestWhatABookingTakesInRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := member(t, server.Addr, eager())
	keys := func() []string { return server.Client().Keys(t.Context(), "pacer:10:{test}/booking/*").Val() }
	tok, _, err := p.Book(t.Context(), pacer.Keep(time.Hour))
	require.NoError(t, err)
	require.Empty(t, keys())
	r, err := p.Redeem(t.Context(), tok, pacer.Early(time.Hour)) // its slot may be over, and another one far
	require.NoError(t, err)
	require.Len(t, keys(), 1)
	require.Less(t, server.Client().MemoryUsage(t.Context(), keys()[0]).Val(), int64(150))
	require.InDelta(t, time.Hour, server.Client().PTTL(t.Context(), keys()[0]).Val(), float64(2*time.Minute))
	at, _ := inside.Slot(r)
	require.Positive(t, at)
}

// A foreign value in place of a record is reported, and no job goes because of it.
func TestForeignRecords(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := member(t, server.Addr, eager())
	for _, foreign := range []string{"nonsense", "....", string(make([]byte, 5000))} {
		tok, _, err := p.Book(t.Context())
		require.NoError(t, err)
		_, err = p.Redeem(t.Context(), tok, pacer.Early(time.Hour)) // its slot may be over, and another one far
		require.NoError(t, err)
		keys := server.Client().Keys(t.Context(), "pacer:10:{test}/booking/*").Val()
		require.Len(t, keys, 1)
		require.NoError(t, server.Client().Set(t.Context(), keys[0], foreign, time.Hour).Err())
		_, err = p.Redeem(t.Context(), tok)
		require.Error(t, err)
		require.NoError(t, server.Client().Del(t.Context(), keys[0]).Err())
	}
}
