package pacer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/bookings"
)

// Of bookings.
const (
	// RedeemEarly is how long before its slot a booking may be redeemed: [Pacer.Redeem] waits for the rest. Have a queue wake the job a
	// little later than that before the slot.
	RedeemEarly = 30 * time.Millisecond
	// DefaultKeep is for how long after its slot a booking may be redeemed, unless [Keep] sets another time.
	DefaultKeep = time.Hour
)

// MaxToken is the length of the longest token that [Pacer.Book] returns, in bytes. Most have about 100 to 200.
const MaxToken = 2048

// Keep sets for how long after its slot a booking may be redeemed: [Pacer.Book] alone heeds it. It is rounded up to a second, and from a
// second to 30 days. The store remembers for as long what became of a booking that was redeemed, in about 130 bytes. Defaults to
// [DefaultKeep], an hour.
func Keep(d time.Duration) Option { return Option{binding.Option{Kind: binding.Keep, N: int64(d)}} }

// Attempt says which attempt of the job this is, from 1: [Pacer.Redeem] and [Pacer.CancelBooking] alone heed it. Each attempt goes once.
// The first one has the slot that was booked, each other one gets a slot when it is redeemed, whenever that is: that it was redeemed is
// remembered for as long as [Keep] says from then on. Defaults to 1.
func Attempt(n int64) Option { return Option{binding.Option{Kind: binding.Attempt, N: n}} }

// SlackOf returns how long after its slot a booking may be redeemed, as [Pacer.Book] booked it: for a queue that cannot run a job at an exact
// time. It returns 0 for a text that is no token. See also LaterError.Slack.
func SlackOf(tok string) time.Duration { return bookings.SlackOf(tok, MaxToken) }

// Book charges the earliest slot at which the call may go, and returns it as a token: a short text to keep with a job, for whichever
// process is to run it. Nothing of the call stays in this process. wait is how long from now until the slot: have the queue wake the job
// up to [RedeemEarly] before that, and then call [Pacer.Redeem] with the token.
//
// The options and the context say what the call carries, as for [Pacer.Reserve]; [MaxWait] is how far away the slot may be, and holds
// again if the booking has to move. Defaults to Config.MaxWait. The context's deadline bounds the booking, not the slot.
//
// A booking takes no permit: Redeem takes it. In a lane, a booking takes the earliest slot that the part of the lane has left; it is not
// queued behind calls that wait. Policies with fair shares cannot be booked.
//
// Book returns the same errors as Reserve; a [*ConfigError] for a call that a policy with fair shares binds, and for scope values with
// which the token would be longer than [MaxToken]; and a [*StoreError] if the store is out of reach, whatever Config.Outage is, or keeps
// no bookings: a slot that only this process knows of cannot be redeemed by another one.
func (p *Pacer) Book(ctx context.Context, opts ...Option) (tok string, wait time.Duration, err error) {
	return p.book(ctx, opts, nil)
}

// book is Book for a call by any one of the credentials of a pool; nil: for any other call.
func (p *Pacer) book(ctx context.Context, opts []Option, l *binding.Pool) (tok string, wait time.Duration, err error) {
	if tok, wait, err = p.bookings.Book(ctx, optionsOf(nil, opts), l); err != nil {
		err = p.toUser(err)
		p.refused(ctx, err)
	}
	return tok, wait, err
}

// Redeem uses a booking, in whichever process has its token. If it is time for its slot, Redeem returns its reservation, as [Pacer.Acquire]
// does: go now, and call [Reservation.Release] when the call is over. If a paced client makes the call, see [WithReservation]. It waits for
// [RedeemEarly] at most, or for [MaxWait], and never for a slot that is further away. Otherwise it returns
//
//   - a [*LaterError]: redeem the same token later. If the slot is past, if a pause covers it, or if the policies have changed since, the
//     booking has got another slot, which the store knows: the token stays the same;
//   - a [*LimitError] if the booking needs another slot, and it is further away than its MaxWait allows. It has none then, and you may
//     redeem the token later;
//   - a [*TokenError] if the token was redeemed or cancelled before, has expired, is of data that the store has lost, or is no token;
//   - a [*StoreError] if the store does not answer, whatever Config.Outage is: only the store knows whether the token was redeemed. It may
//     have been by this call, if its answer was lost. Then a later attempt of the job needs [Attempt];
//   - a [*ConfigError] or a [*ScopeError] if the call cannot be bound by the policies of this process, ErrClosed, or the context's error.
//
// A token is redeemed once, by whichever process is first: the store sees to that. A call may go from its slot on until the slack is
// over, both by the store's clock, so that no policy is exceeded, however late a queue wakes its jobs.
//
// Redeem heeds two options: [Attempt], and [MaxWait], which is how long Redeem itself may wait for the slot, or for the slot to which the
// booking moves: for a queue that looks at its jobs only every few seconds, and must run them so much earlier. Nothing is
// spent, and no permit is taken, until shortly before the slot. All other options give a *ConfigError: the token has what the call carries.
func (p *Pacer) Redeem(ctx context.Context, tok string, opts ...Option) (*Reservation, error) {
	var r *Reservation
	x, err := p.redemption(ctx, tok, opts, binding.MaxWait, func() *binding.Reservation {
		r = &Reservation{pacer: p}
		return &r.call
	})
	if err != nil {
		return nil, err
	}
	if err := p.toUser(x.Redeem(ctx)); err != nil {
		p.refused(ctx, err)
		return nil, err
	}
	r.goes(ctx)
	return r, nil
}

// CancelBooking gives the slot of a booking back, so that another call can have it, and spends the token. What is past of the slot stays
// charged. It returns a [*TokenError] that matches [ErrSpent] if the booking was redeemed or cancelled before, and otherwise the errors
// of [Pacer.Redeem] about the token and the store.
func (p *Pacer) CancelBooking(ctx context.Context, tok string, opts ...Option) error {
	x, err := p.redemption(ctx, tok, opts, binding.Attempt, func() *binding.Reservation { return new(binding.Reservation) })
	if err != nil {
		return err
	}
	return p.toUser(x.Cancel(ctx))
}

// redemption reads a token, which it uses with some options: Attempt, and one other kind.
func (p *Pacer) redemption(ctx context.Context, tok string, opts []Option, other binding.Kind, reserve func() *binding.Reservation) (*bookings.Redemption, error) {
	attempt, patience := int64(1), RedeemEarly
	for _, o := range opts {
		switch o.is.Kind { //nolint:exhaustive // the others are not for a booking
		case binding.Attempt:
			attempt = o.is.N
		case other:
			if o.is.N < 0 {
				return nil, &ConfigError{Field: "MaxWait", Value: time.Duration(o.is.N).String(), Reason: "must not be negative"}
			}
			patience = max(RedeemEarly, min(time.Duration(o.is.N), Forever))
		default:
			return nil, &ConfigError{Field: "Redeem", Value: "an option", Reason: "is not Attempt or MaxWait: all others are those of Book, and in the token"}
		}
	}
	x, err := p.bookings.Open(ctx, tok, attempt, patience, reserve)
	return x, p.toUser(err)
}

// A TokenError reports that a token is not good. It matches [ErrRefused], and one of [ErrSpent], [ErrBadToken], [ErrTokenExpired] and
// [ErrTokenLost]. Nothing was charged. No later Redeem of the same attempt will do better: see [Attempt].
type TokenError struct {
	Upstream string
	Err      error

	_ struct{}
}

// Error implements error.
func (e *TokenError) Error() string {
	text := fmt.Sprintf("pacer: upstream %q: the token ", e.Upstream)
	switch {
	case errors.Is(e.Err, ErrSpent):
		return text + "was redeemed or cancelled before: one booking is one call; a later attempt of the job needs Attempt, another job a Book of its own"
	case errors.Is(e.Err, ErrTokenExpired):
		return text + "has expired: book again, or Keep bookings for longer"
	case errors.Is(e.Err, ErrTokenLost):
		return text + "is of data that the store has lost, so nobody knows whether it was redeemed: book again if the job has not run"
	}
	return text + e.Err.Error()
}

// Unwrap returns the cause.
func (e *TokenError) Unwrap() error { return e.Err }

// Is matches [ErrRefused].
func (e *TokenError) Is(target error) bool {
	return target == ErrRefused || target == ErrBadToken && !errors.Is(e.Err, ErrSpent) && !errors.Is(e.Err, ErrTokenExpired) && !errors.Is(e.Err, ErrTokenLost)
}

// A LaterError is what [Pacer.Redeem] returns for a booking that may not go now: have the queue wake the job again after Wait, or up to
// [RedeemEarly] sooner, and redeem the same token then. It matches [ErrRefused] and [ErrNotYet].
type LaterError struct {
	Upstream string
	Wait     time.Duration // until the slot, above 0
	Slack    time.Duration // for how much longer than Wait the call may be made
	Moved    bool          // the booking has another slot than before: it was redeemed too late, a pause covers its slot, or policies have changed
	InFlight string        // the policy that has no permit left; "" if it is not that. Then Wait is a tenth of a second

	_ struct{}
}

// Error implements error.
func (e *LaterError) Error() string {
	switch {
	case e.InFlight != "":
		return fmt.Sprintf("pacer: upstream %q: policy %q: all of its permits are taken: redeem the token again in %s", e.Upstream, e.InFlight, round(e.Wait))
	case e.Moved:
		return fmt.Sprintf("pacer: upstream %q: the booking was moved to another slot: redeem the token again in %s", e.Upstream, round(e.Wait))
	}
	return fmt.Sprintf("pacer: upstream %q: too early: redeem the token again in %s", e.Upstream, round(e.Wait))
}

// Is implements the matching described at [LaterError].
func (e *LaterError) Is(target error) bool { return target == ErrRefused || target == ErrNotYet }

// RetryAfter returns Wait, at least a millisecond.
func (e *LaterError) RetryAfter() time.Duration { return max(e.Wait, leastRetry) }
