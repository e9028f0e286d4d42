package bookings_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/bookings"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

var errStore = errors.New("the store failed")

// A fake is a store in memory that fails or is overtaken on request.
type fake struct {
	*memstore.Store

	fails     error         // of Redeem
	overtaken func() string // the record that another process has written just before; nil if none has
	redeems   int
	epoch     error
}

func (f *fake) Redeem(ctx context.Context, upstream string, all []store.Booking) ([]store.Redemption, error) {
	f.redeems++
	if f.fails != nil {
		return nil, f.fails
	}
	if f.overtaken != nil {
		return []store.Redemption{{Result: store.BookingChanged, Record: f.overtaken()}}, nil
	}
	return f.Store.Redeem(ctx, upstream, all)
}

func (f *fake) Epoch() (store.Epoch, error) {
	if f.epoch != nil {
		return store.Epoch{}, f.epoch
	}
	return f.Store.Epoch()
}

// short makes short errors.
type short struct{}

func (short) Missing(policy, scope string) error { return fmt.Errorf("%s lacks %s", policy, scope) }

func (short) Excess(l *store.Limit, cost int64, _ time.Duration) error {
	return fmt.Errorf("%s: %d", l.Policy, cost)
}

func (short) Nested(l *store.Limit) error { return fmt.Errorf("nested in %s", l.Policy) }

// A process books and redeems in a store that it shares.
type process struct {
	*bookings.Bookings

	t *testing.T
}

func newProcess(t *testing.T, s store.Store, all ...policies.Policy) *process {
	t.Helper()
	r := &binding.Reader{Upstream: "api", MaxWait: time.Hour, MaxWeight: 100, Counts: true}
	r.Policies = binding.NewPolicies(&binding.Config{
		Upstream: "api", MaxPause: time.Hour, Declared: all, Changed: func(_, _ *binding.Set) {},
	})
	r.Dispatcher = dispatch.New(&dispatch.Config{
		Upstream: "api", Store: s, Given: s, Direct: true, Meter: usage.NewMeter(nil, false),
		MaxLate: time.Second,
	})
	r.Errors = short{}
	t.Cleanup(func() {
		r.Policies.Close()
		r.Dispatcher.Close()
		r.Dispatcher.Leases.Close()
		r.Dispatcher.Drain()
	})
	return &process{t: t, Bookings: &bookings.Bookings{
		Upstream: "api", Store: s, Calls: r, Early: 30 * time.Millisecond, Keep: time.Hour, MaxToken: 500,
	}}
}

// book books a call, which has its slot after a time.
func (p *process) book(after time.Duration, opts ...binding.Option) string {
	p.t.Helper()
	tok, wait, err := p.Book(p.t.Context(), opts, nil)
	require.NoError(p.t, err)
	require.Equal(p.t, after, wait)
	return tok
}

// redeem redeems a token, and returns the call that it is last made for.
func (p *process) redeem(tok string, attempt int64) (c *binding.Reservation, err error) {
	x, err := p.Open(p.t.Context(), tok, attempt, p.Early, func() *binding.Reservation {
		c = &binding.Reservation{}
		return c
	})
	if err == nil {
		err = x.Redeem(p.t.Context())
	}
	return c, err
}

func (p *process) cancel(tok string) error {
	x, err := p.Open(p.t.Context(), tok, 1, p.Early, func() *binding.Reservation { return &binding.Reservation{} })
	if err == nil {
		err = x.Cancel(p.t.Context())
	}
	return err
}

// later requires that a token may be redeemed after a time.
func (p *process) later(tok string, attempt int64, after time.Duration, moved bool) {
	p.t.Helper()
	_, err := p.redeem(tok, attempt)
	require.Equal(p.t, &bookings.LaterError{Wait: after, Moved: moved}, err)
}

// went requires that a token is redeemed, after a wait.
func (p *process) went(tok string, attempt int64, after time.Duration) {
	p.t.Helper()
	began := time.Now()
	c, err := p.redeem(tok, attempt)
	require.NoError(p.t, err)
	require.Equal(p.t, after, time.Since(began))
	require.True(p.t, c.View().Gone)
}

var ten = policies.PerSecond(10).Burst(1).Named("ten")

// perSecond returns two processes that share a store, with ten calls a second.
func perSecond(t *testing.T) (f *fake, one, other *process) {
	t.Helper()
	f = &fake{Store: memstore.New()}
	return f, newProcess(t, f, ten), newProcess(t, f, ten)
}

// A booking goes once, in its slot, wherever it is redeemed.
func TestABookingGoesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, one, other := perSecond(t)
		now := one.book(0)
		soon := one.book(100*time.Millisecond, binding.Option{Kind: binding.MaxWait, N: int64(200 * time.Millisecond)})
		other.went(now, 1, 0)
		other.later(soon, 1, 100*time.Millisecond, false)
		time.Sleep(70 * time.Millisecond)
		other.went(soon, 1, 30*time.Millisecond)
		for _, p := range []*process{one, other} {
			_, err := p.redeem(soon, 1)
			require.ErrorIs(t, err, dispatch.ErrSpent)
			require.ErrorIs(t, p.cancel(soon), dispatch.ErrSpent)
		}
		other.later(soon, 2, 100*time.Millisecond, false) // another attempt gets a slot of its own
		for i := range 5 {                                // it needs no other slot, however far that would be
			one.book(time.Duration(200+100*i) * time.Millisecond)
		}
		one.later(soon, 2, 100*time.Millisecond, false)
		time.Sleep(100 * time.Millisecond)
		other.went(soon, 2, 0)
		_, err := one.redeem(soon, 2)
		require.ErrorIs(t, err, dispatch.ErrSpent)
	})
}

// A late booking has another slot, which every process learns from the store.
func TestALateBookingMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, one, other := perSecond(t)
		first := one.book(0)
		one.book(100 * time.Millisecond)
		time.Sleep(time.Microsecond)
		other.later(first, 1, 200*time.Millisecond-time.Microsecond, true)
		one.later(first, 1, 200*time.Millisecond-time.Microsecond, false)
		require.NoError(t, one.cancel(first))
		one.book(200*time.Millisecond - time.Microsecond) // its slot was given back
	})
}

// Limits that account in another way than those that were charged get nothing back, and the booking another slot.
func TestABookingFollowsThePolicies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, one, other := perSecond(t)
		one.book(0)
		tok := one.book(100 * time.Millisecond)
		other.Calls.Policies.Declare([]policies.Policy{ten, policies.PerSecond(5).Burst(1).Named("five")})
		time.Sleep(50 * time.Millisecond)
		other.later(tok, 1, 50*time.Millisecond, true) // ten has given its slot back, and has it again
		time.Sleep(50 * time.Millisecond)
		other.went(tok, 1, 0)
		other.book(200 * time.Millisecond) // five is charged, too
	})
}

// A redemption that is always overtaken gives up, and gives back its charges.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, one, other := perSecond(t)
		tok := one.book(0)
		f.overtaken = func() string { return ".." }
		_, err := other.redeem(tok, 1)
		require.ErrorContains(t, err, "redeem: others change the booking all the time")
		require.Equal(t, 16, f.redeems)
		require.ErrorContains(t, other.cancel(tok), "all the time")
		for record, want := range map[string]error{".x": dispatch.ErrSpent, "": bookings.ErrExpired} {
			f.overtaken = func() string { return record }
			_, err = other.redeem(tok, 1)
			require.ErrorIs(t, err, want)
		}
		f.overtaken = func() string { return "nonsense" }
		_, err = other.redeem(tok, 1)
		require.ErrorContains(t, err, "redeem: the record of a booking is not what Book returned")
		f.overtaken = nil
		one.book(100 * time.Millisecond)
	})
}

// Only the store knows what became of a booking: without it nothing is booked or redeemed.
func TestAStoreThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, one, other := perSecond(t)
		tok := one.book(0)
		f.fails = errStore
		_, err := other.redeem(tok, 1)
		require.ErrorIs(t, err, errStore)
		require.ErrorIs(t, other.cancel(tok), errStore)
		f.fails, f.epoch = nil, errStore
		_, _, err = one.Book(t.Context(), nil, nil)
		require.ErrorIs(t, err, errStore)
		f.epoch = nil
		one.book(100 * time.Millisecond) // nothing was charged meanwhile
		other.went(tok, 1, 0)

		plain := newProcess(t, struct{ store.Store }{f}, ten)
		_, _, err = plain.Book(t.Context(), nil, nil)
		require.ErrorIs(t, err, store.ErrNoBookings)
		_, err = plain.redeem(tok, 1)
		require.ErrorIs(t, err, store.ErrNoBookings)
	})
}

// A booking holds no permit, and a redemption that may not go holds none either.
func TestPermitsOfABooking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{Store: memstore.New()}
		all := []policies.Policy{ten, policies.InFlight(1).Named("permits")}
		one, other := newProcess(t, f, all...), newProcess(t, f, all...)
		first, second := one.book(0), one.book(100*time.Millisecond)
		c, err := one.redeem(first, 1)
		require.NoError(t, err)
		_, err = other.redeem(second, 1)
		later, ok := errors.AsType[*bookings.LaterError](err)
		require.True(t, ok)
		refused, ok := errors.AsType[*dispatch.NotYetError](later.Refused)
		require.True(t, ok)
		require.Equal(t, "permits", refused.Limit.Policy)
		one.Calls.Dispatcher.Leases.Release(c.Lease())
		other.later(second, 1, 100*time.Millisecond, false)
		time.Sleep(100 * time.Millisecond)
		other.went(second, 1, 0)
	})
}

// A token carries what the call does, and the redeeming process adds nothing.
func TestWhatATokenCarries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{Store: memstore.New()}
		each := ten.Per("tenant").Burst(9)
		one, other := newProcess(t, f, each), newProcess(t, f, each)
		tok, _, err := one.Book(binding.WithScope(t.Context(), "tenant", "acme"), []binding.Option{{Kind: binding.CostOf, Name: "ten", N: 4}}, nil)
		require.NoError(t, err)
		c, err := other.redeem(tok, 1)
		require.NoError(t, err)
		a := c.Now()
		require.Equal(t, "acme", a.Scope("tenant"))
		require.EqualValues(t, 4, a.CostOption("ten").N)

		long := binding.Option{Kind: binding.Scope, Name: "note", Value: fmt.Sprint(make([]int, 300))}
		_, _, err = one.Book(t.Context(), []binding.Option{{Kind: binding.Scope, Name: "tenant", Value: "acme"}, long}, nil)
		require.ErrorContains(t, err, "Book is ", "the token would be too long")
		for range 5 { // and nothing was charged for it
			_, wait, err := one.Book(t.Context(), []binding.Option{{Kind: binding.Scope, Name: "tenant", Value: "acme"}}, nil)
			require.NoError(t, err)
			require.Zero(t, wait)
		}
		_, _, err = one.Book(t.Context(), []binding.Option{{Kind: binding.Scope, Name: "tenant", Value: "x"}, {Kind: binding.Keep, N: 1}}, nil)
		require.ErrorContains(t, err, "Keep is 1ns: ")
		_, err = one.redeem(tok, 0)
		require.ErrorContains(t, err, "Attempt is 0: ")
		other.Upstream = "other"
		_, err = other.redeem(tok, 1)
		require.ErrorContains(t, err, "token: is of another upstream")
		_, err = other.redeem("?", 1)
		require.ErrorContains(t, err, "token: is not what Book returned")
	})
}
