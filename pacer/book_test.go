package pacer_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// booking returns pacers of some processes that share a store, with a bubble's clock.
func booking(t *testing.T, n int, all ...policies.Policy) []*pacer.Pacer {
	t.Helper()
	shared := memstore.New()
	var ps []*pacer.Pacer
	for range n {
		p, err := pacer.New(pacer.Config{Upstream: "api", Policies: all, Store: shared, MaxWait: pacer.Forever})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		ps = append(ps, p)
	}
	return ps
}

// book books a call, which must have a slot.
func book(t *testing.T, p *pacer.Pacer, opts ...pacer.BookOption) (tok string, wait time.Duration) {
	t.Helper()
	tok, wait, err := p.Book(t.Context(), opts...)
	require.NoError(t, err)
	return tok, wait
}

// later redeems a token that may not go now, and returns why.
func later(t *testing.T, p *pacer.Pacer, tok string, opts ...pacer.RedeemOption) *pacer.LimitError {
	t.Helper()
	r, err := p.Redeem(t.Context(), tok, opts...)
	require.Nil(t, r)
	var e *pacer.LimitError
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, pacer.ErrNotYet)
	require.ErrorIs(t, err, pacer.ErrRefused)
	require.Positive(t, retryAfter(e))
	return e
}

// redeemed redeems a token whose time has come.
func redeemed(t *testing.T, p *pacer.Pacer, tok string, opts ...pacer.RedeemOption) *pacer.Reservation {
	t.Helper()
	r, err := p.Redeem(t.Context(), tok, opts...)
	require.NoError(t, err)
	require.ErrorIs(t, r.Wait(t.Context()), pacer.ErrSpent)
	return r
}

// spent requires that a token is not good any more.
func spent(t *testing.T, p *pacer.Pacer, tok string, why error, opts ...pacer.RedeemOption) {
	t.Helper()
	_, err := p.Redeem(t.Context(), tok, opts...)
	var e *pacer.LimitError
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, pacer.ErrRefused)
}

var perSecond = policies.Rate(10, time.Second).Burst(1)

func TestSlackOfABooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 1, policies.Rate(10, time.Second).Burst(4))
		var toks []string
		for range 8 {
			tok, _ := book(t, ps[0])
			toks = append(toks, tok)
		}
		time.Sleep(400 * time.Millisecond) // the fifth one's slot is at 100 ms, and it may go until 400 ms
		redeemed(t, ps[0], toks[4])
		require.True(t, later(t, ps[0], toks[0]).Moved)
	})
}

func TestPausedBookingsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 2, perSecond, policies.Fixed(3, time.Hour))
		book(t, ps[0])
		tok, _ := book(t, ps[0])
		other, _ := book(t, ps[0])
		require.NoError(t, ps[0].Report(t.Context(), policies.Feedback{Wait: time.Second}))
		time.Sleep(100 * time.Millisecond)
		e := later(t, ps[1], tok)
		require.True(t, e.Moved)
		require.Equal(t, 900*time.Millisecond, e.Wait, "the quota's share was given back")
		time.Sleep(e.Wait)
		redeemed(t, ps[1], tok)
		require.True(t, later(t, ps[1], other).Moved)
		time.Sleep(100 * time.Millisecond)
		redeemed(t, ps[1], other)
		require.Error(t, ps[1].Wait(t.Context(), pacer.MaxWait(0)))
	})
}

// A pause that comes while Redeem waits for the rest moves the booking, too: Redeem does not wait behind it.
func TestPausedWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 1, perSecond)
		book(t, ps[0])
		tok, wait := book(t, ps[0])
		time.Sleep(wait - 30*time.Millisecond)
		go func() {
			time.Sleep(10 * time.Millisecond)
			_ = ps[0].Report(context.Background(), policies.Feedback{Wait: time.Second})
		}()
		began := time.Now()
		e := later(t, ps[0], tok)
		require.Equal(t, 10*time.Millisecond, time.Since(began))
		require.True(t, e.Moved)
		require.Equal(t, time.Second, e.Wait)
		time.Sleep(e.Wait)
		redeemed(t, ps[0], tok)
		spent(t, ps[0], tok, pacer.ErrSpent)
	})
}

// A Redeem whose context ends while it waits has not used the booking.
func TestRedeemGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 1, perSecond)
		book(t, ps[0])
		tok, wait := book(t, ps[0])
		time.Sleep(wait - 30*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := ps[0].Redeem(ctx, tok)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		redeemed(t, ps[0], tok)
		require.Equal(t, 100*time.Millisecond, mustSlot(t, ps[0]).Round(time.Millisecond), "one slot was used")
	})
}

// mustSlot returns how far away the next slot is.
func mustSlot(t *testing.T, p *pacer.Pacer) time.Duration {
	t.Helper()
	err := p.Wait(t.Context(), pacer.MaxWait(0))
	var e *pacer.LimitError
	require.ErrorAs(t, err, &e)
	return e.Wait
}

func TestCancelledBookings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 2, perSecond, policies.Fixed(2, time.Hour))
		book(t, ps[0])
		tok, _ := book(t, ps[0])
		require.NoError(t, ps[1].CancelBooking(t.Context(), tok))
		spent(t, ps[0], tok, pacer.ErrSpent)
		require.ErrorIs(t, ps[0].CancelBooking(t.Context(), tok), pacer.ErrSpent)
		_, wait := book(t, ps[0])
		require.Equal(t, 100*time.Millisecond, wait, "another one has the slot, and its share of the quota")
		again, wait := book(t, ps[0])
		require.Greater(t, wait, time.Minute, "cancelling twice gave it back once")

		time.Sleep(wait)
		redeemed(t, ps[1], again)
		require.ErrorIs(t, ps[1].CancelBooking(t.Context(), again), pacer.ErrSpent)
	})
}

func TestCancelAMovedBooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 2, perSecond)
		tok, _ := book(t, ps[0])
		book(t, ps[0])
		time.Sleep(time.Millisecond)
		require.True(t, later(t, ps[1], tok).Moved)
		require.NoError(t, ps[0].CancelBooking(t.Context(), tok))
		_, wait := book(t, ps[0])
		require.Equal(t, 199*time.Millisecond, wait)
		spent(t, ps[1], tok, pacer.ErrSpent)
	})
}

func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 2, perSecond)
		tok, _ := book(t, ps[0], pacer.Cost(1), pacer.MaxWait(time.Second))
		redeemed(t, ps[0], tok)
		spent(t, ps[1], tok, pacer.ErrSpent, pacer.Attempt(1))
		e := later(t, ps[1], tok, pacer.Attempt(2))
		require.Equal(t, 100*time.Millisecond, e.Wait)
		require.False(t, e.Moved)
		require.Equal(t, 100*time.Millisecond, later(t, ps[0], tok, pacer.Attempt(2)).Wait, "it has a slot by now")
		for range 30 {
			book(t, ps[1]) // another slot, which it does not need, would be too far
		}
		time.Sleep(100 * time.Millisecond)
		redeemed(t, ps[0], tok, pacer.Attempt(2))
		spent(t, ps[1], tok, pacer.ErrSpent, pacer.Attempt(2))
		time.Sleep(24 * time.Hour)
		redeemed(t, ps[0], tok, pacer.Attempt(3)) // whenever that is
		spent(t, ps[1], tok, pacer.ErrSpent, pacer.Attempt(3))
	})
}

func TestExpiredBookings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 1, perSecond)
		tok, _ := book(t, ps[0], pacer.Keep(time.Minute))
		same, _ := book(t, ps[0], pacer.Keep(time.Minute))
		unused, _ := book(t, ps[0], pacer.Keep(time.Minute))
		time.Sleep(time.Minute - time.Second)
		redeemed(t, ps[0], tok)
		time.Sleep(time.Second)
		time.Sleep(time.Microsecond)
		spent(t, ps[0], tok, pacer.ErrSpent)
		redeemed(t, ps[0], same)
		time.Sleep(10 * time.Minute)
		spent(t, ps[0], tok, pacer.TokenLost) // and not "go"
		spent(t, ps[0], same, pacer.TokenLost)
		spent(t, ps[0], unused, pacer.TokenLost)
	})
}

// A store without bookings does not know which were redeemed, so nothing is charged.
func TestStoresThatKeepNoBookings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tok, _ := book(t, booking(t, 1, perSecond)[0])
		p, err := pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{perSecond}, Store: struct{ store.Store }{memstore.New()}})
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		_, _, err = p.Book(t.Context())
		require.ErrorIs(t, err, store.ErrNoBookings)
		_, err = p.Redeem(t.Context(), tok)
		require.ErrorIs(t, err, store.ErrNoBookings)
		require.ErrorIs(t, p.CancelBooking(t.Context(), tok), store.ErrNoBookings)
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
	})
}

// A redemption is remembered until its token expires.
func TestSpentForAsLongAsItIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 1, perSecond)
		tok, _ := book(t, ps[0], pacer.Keep(10*time.Minute))
		redeemed(t, ps[0], tok)
		for range 10 {
			spent(t, ps[0], tok, pacer.ErrSpent)
			time.Sleep(time.Minute)
		}
		spent(t, ps[0], tok, pacer.ErrSpent)
	})
}

func TestBookingsNeedTheDataOfTheirStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tok, _ := book(t, booking(t, 1, perSecond)[0])
		time.Sleep(time.Second)
		spent(t, booking(t, 1, perSecond)[0], tok, pacer.TokenLost)
	})
}

func TestWhatABookingCarries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 2,
			policies.Rate(10, time.Second).Burst(10).Named("api"),
			policies.Fixed(100, time.Minute).Named("tokens").Per("tenant"),
			policies.InFlight(1),
		)
		ctx := pacer.With(t.Context(), pacer.Scope("tenant", "a b/c"))
		tok, wait, err := ps[0].Book(ctx, pacer.Cost(2), pacer.CostOf("tokens", 60))
		require.NoError(t, err)
		require.Zero(t, wait)
		other, wait, err := ps[0].Book(ctx, pacer.Cost(2), pacer.EstimateOf("tokens", 60, policies.Learned{}))
		require.NoError(t, err)
		require.Greater(t, wait, 59*time.Second, "both cost the tenant 60 of 100")
		_, wait, err = ps[0].Book(pacer.With(ctx, pacer.Scope("tenant", "d")), pacer.CostOf("tokens", 60))
		require.NoError(t, err)
		require.Zero(t, wait)

		r := redeemed(t, ps[1], tok)
		require.NoError(t, r.Settle(t.Context(), policies.Cost{Policy: "tokens", N: 10}), "the rest is given back")
		_, wait, err = ps[0].Book(ctx, pacer.CostOf("tokens", 10))
		require.NoError(t, err)
		require.Zero(t, wait)
		time.Sleep(time.Minute + 20*time.Second)
		e := later(t, ps[0], other)
		require.Equal(t, "in-flight", e.Policy)
		require.Equal(t, 100*time.Millisecond, e.Wait)
		r.Release()
		r = redeemed(t, ps[0], other)
		_, err = ps[1].TryAcquire(ctx)
		require.ErrorIs(t, err, pacer.ErrNotYet, "it has the permit")
		r.Release()
		r, err = ps[1].TryAcquire(ctx)
		require.NoError(t, err)
		r.Release()
	})
}

// A booking that is not redeemed after all has no permit.
func TestNoPermitIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 1, policies.Rate(10, time.Second).Burst(1), policies.InFlight(1))
		book(t, ps[0])
		tok, _ := book(t, ps[0])
		require.Empty(t, later(t, ps[0], tok).Policy)
		require.NoError(t, ps[0].CancelBooking(t.Context(), tok))
		spent(t, ps[0], tok, pacer.ErrSpent)
		time.Sleep(time.Second)
		r, err := ps[0].TryAcquire(t.Context())
		require.NoError(t, err)
		r.Release()
	})
}

func TestBookingsOfALane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 2, policies.Rate(10, time.Second).Burst(2).Lane("bulk", 50))
		var last string
		for i := range 4 {
			tok, wait := book(t, ps[0], pacer.Lane("bulk"))
			require.Equal(t, time.Duration(i)*200*time.Millisecond, wait, "half of the rate")
			last = tok
		}
		for range 4 {
			_, wait := book(t, ps[0])
			require.LessOrEqual(t, wait, 800*time.Millisecond, "the other half")
		}
		time.Sleep(600 * time.Millisecond)
		redeemed(t, ps[1], last)
	})
}

func TestFairSharesAreNotBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 1, policies.Rate(10, time.Second).Fair("tenant"))
		_, _, err := ps[0].Book(t.Context(), pacer.Scope("tenant", "a"))
		var e *pacer.ConfigError
		require.ErrorAs(t, err, &e)
		require.Equal(t, "Book", e.Field)
	})
}

func TestBookingWithoutLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{perSecond.Observed()}})
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		for range 3 {
			tok, wait := book(t, p)
			require.Zero(t, wait)
			redeemed(t, p, tok)
			spent(t, p, tok, pacer.ErrSpent)
		}
	})
}

func TestBadBookings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 1, perSecond.Per("tenant"))
		var config *pacer.ConfigError
		_, _, err := ps[0].Book(t.Context(), pacer.Scope("tenant", strings.Repeat("x", 2048)))
		require.ErrorAs(t, err, &config)
		for _, d := range []time.Duration{0, -1, 31 * 24 * time.Hour} {
			_, _, err = ps[0].Book(t.Context(), pacer.Scope("tenant", "a"), pacer.Keep(d))
			require.ErrorAs(t, err, &config)
			require.Equal(t, "Keep", config.Field)
		}
		var scope *pacer.LimitError
		_, _, err = ps[0].Book(t.Context())
		require.ErrorAs(t, err, &scope)
		_, _, err = ps[0].Book(t.Context(), pacer.Scope("tenant", "a"), pacer.Cost(2))
		require.ErrorIs(t, err, pacer.TooCostly)
		tok, wait := book(t, ps[0], pacer.Scope("tenant", strings.Repeat("x", 1000)))
		require.Zero(t, wait)
		tok2, wait := book(t, ps[0], pacer.Scope("tenant", strings.Repeat("x", 1000)))
		require.Equal(t, 100*time.Millisecond, wait)
		_, err = ps[0].Redeem(t.Context(), tok, pacer.Attempt(0))
		require.ErrorAs(t, err, &config)
		redeemed(t, ps[0], tok)
		_, wait, err = ps[0].Book(t.Context(), pacer.Scope("tenant", "b"), pacer.MaxWait(0))
		require.NoError(t, err)
		require.Zero(t, wait)
		_, _, err = ps[0].Book(t.Context(), pacer.Scope("tenant", "b"), pacer.MaxWait(time.Millisecond))
		require.ErrorIs(t, err, pacer.ErrNotYet)

		other, err := pacer.New(pacer.Config{Upstream: "other", Policies: []policies.Policy{perSecond}})
		require.NoError(t, err)
		defer other.Close()
		spent(t, other, tok2, pacer.BadToken)
		require.NoError(t, other.Close())
		_, _, err = other.Book(t.Context())
		require.ErrorIs(t, err, pacer.ErrClosed)
	})
}

// A booking that would have to wait longer than it may has no slot, and may be redeemed later.
func TestBookingBeyondItsMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 1, perSecond)
		tok, _ := book(t, ps[0], pacer.MaxWait(50*time.Millisecond))
		book(t, ps[0])
		time.Sleep(time.Millisecond)
		_, err := ps[0].Redeem(t.Context(), tok)
		var e *pacer.LimitError
		require.ErrorAs(t, err, &e)
		require.Equal(t, 199*time.Millisecond, e.Wait)
		time.Sleep(e.Wait)
		redeemed(t, ps[0], tok)
		spent(t, ps[0], tok, pacer.ErrSpent)
	})
}

// A queue that looks at its jobs every few seconds runs them early. Redeem waits up to MaxWait for the slot, wherever the booking moves,
// and redeems nothing before.
func TestRedeemWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := booking(t, 2, perSecond, policies.InFlight(1).Named("permits"))
		began := time.Now()
		one, _ := book(t, ps[0])
		two, wait := book(t, ps[0], pacer.NotBefore(3*time.Second))
		require.Equal(t, 3*time.Second, wait)
		require.Equal(t, 3*time.Second, later(t, ps[1], two, pacer.Early(3*time.Second-time.Millisecond)).Wait)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			r := redeemed(t, ps[1], two, pacer.Early(5*time.Second), pacer.Attempt(1))
			require.Equal(t, 4100*time.Millisecond, time.Since(began), "it was moved behind the pause")
			r.Release()
		})
		time.Sleep(time.Second)
		require.NoError(t, ps[0].Report(t.Context(), policies.Feedback{Wait: 3 * time.Second, Policies: []string{"per-second"}}))
		r := redeemed(t, ps[0], one, pacer.Early(time.Minute)) // late: it moves, too, and the permit is free
		require.Equal(t, 4*time.Second, time.Since(began))
		r.Release()
		waiting.Wait()

		three, _ := book(t, ps[0], pacer.NotBefore(time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := ps[1].Redeem(ctx, three, pacer.Early(pacer.Forever))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		waiting.Go(func() {
			_, err := ps[1].Redeem(t.Context(), three, pacer.Early(pacer.Forever))
			require.ErrorIs(t, err, pacer.ErrClosed)
		})
		synctest.Wait()
		require.NoError(t, ps[1].Close())
		waiting.Wait()
		require.NoError(t, ps[0].CancelBooking(t.Context(), three), "nothing was spent")

		var config *pacer.ConfigError
		_, err = ps[0].Redeem(t.Context(), three, pacer.Early(-1))
		require.ErrorAs(t, err, &config)
		require.Zero(t, pacer.SlackOf("no token"))
		require.Zero(t, pacer.SlackOf(three))
		slack := booking(t, 1, policies.Rate(10, time.Second).Burst(5))[0]
		for range 5 {
			book(t, slack)
		}
		four, _ := book(t, slack)
		require.Equal(t, 400*time.Millisecond, pacer.SlackOf(four))
		require.Equal(t, 400*time.Millisecond, later(t, slack, four).Slack)
		five, _ := book(t, slack, pacer.NotBefore(time.Second))
		waiting.Go(func() { redeemed(t, slack, five, pacer.Early(time.Second)).Release() })
		time.Sleep(799 * time.Millisecond)
		require.Positive(t, later(t, slack, five).Wait)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		spent(t, slack, five, pacer.ErrSpent) // with a margin for a machine that is busy
		waiting.Wait()
	})
}
