package pacer

import (
	"context"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/bookings"
)

// RedeemEarly is how long before its slot a booking may be redeemed: [Pacer.Redeem] waits for the rest. Have a queue wake the job a little
// later than that. [Early] sets another time.
const RedeemEarly = 30 * time.Millisecond

const (
	defaultKeep = time.Hour // for how long after its slot a booking may be redeemed
	maxToken    = 2048      // the length of the longest token, in bytes
)

// Keep sets how long after its slot a booking may be redeemed, rounded up to a second, from a second to 30 days. The store remembers a
// redeemed booking as long, in about 130 bytes. Defaults to an hour.
func Keep(d time.Duration) BookOption { return option{binding.Option{Kind: binding.Keep, N: int64(d)}} }

// An Attempt is the number of a job's attempt, from 1. Each attempt goes once. The first has the booked slot; each later one gets a slot
// when it is redeemed. [Keep] sets how long the redemption is remembered. Defaults to 1.
type Attempt int64

func (Attempt) redeem() {}

// Early sets how long [Pacer.Redeem] itself may wait for the slot, or for a later one to which the booking moves: for a queue that reads
// its jobs only every few seconds, and must run them so much earlier. Nothing is spent, and no permit is taken, until shortly before the
// slot. Defaults to [RedeemEarly], its least value.
func Early(d time.Duration) RedeemOption { return early(d) }

type early time.Duration

func (early) redeem() {}

// SlackOf returns how long after its slot a booking may be redeemed without moving: for a queue that cannot run a job at an exact time. It
// returns 0 for a text that is not a token. See also LimitError.Slack.
func SlackOf(tok string) time.Duration { return bookings.SlackOf(tok, maxToken) }

// Book charges the earliest slot at which the call may go, and returns it as a token: a short text to keep with a job, for any process to
// redeem. Most tokens have 100 to 200 bytes; none has more than 2,048. Nothing of the call stays in this process. wait is how long from now
// until the slot: have the queue wake the job up to [RedeemEarly] before that, and then call [Pacer.Redeem] with the token.
//
// The options and the context describe the call, as for [Pacer.Reserve]; [MaxWait] bounds how far away the slot may be, also if the booking
// has to move. Defaults to Config.MaxWait. The context's deadline bounds the booking, not the slot.
//
// A booking takes no permit: Redeem takes it. In a lane, a booking takes the earliest slot that the lane's part has left; it is not queued
// behind waiting calls. Policies with fair shares cannot be booked.
//
// Book returns the same errors as Reserve; a [*ConfigError] for a call that a policy with fair shares binds, and for scope values with
// which the token would be too long; and a [*StoreError] if the store is out of reach, whatever Config.Outage is, or keeps no bookings:
// another process could not redeem a slot that only this one knows.
func (p *Pacer) Book(ctx context.Context, opts ...BookOption) (tok string, wait time.Duration, err error) {
	return p.book(ctx, opts, nil)
}

// book is Book, for a call by any credential of a pool if there is one.
func (p *Pacer) book(ctx context.Context, opts []BookOption, l *binding.Pool) (tok string, wait time.Duration, err error) {
	if tok, wait, err = p.bookings.Book(ctx, optionsOf(nil, opts), l); err != nil {
		err = p.toUser(err)
		p.refused(ctx, err)
	}
	return tok, wait, err
}

// Redeem uses a booking. When it is time for its slot, Redeem returns its reservation, as [Pacer.Acquire] does: go now, and call
// [Reservation.Release] when the call is over. If a paced client makes the call, see [WithReservation]. It waits for [RedeemEarly] at most,
// or for [Early], and never for a slot that is further away. Otherwise it returns
//
//   - a [*LimitError] for [TooEarly]: redeem the same token later. If the slot is past, if a pause covers it, or if the policies have
//     changed since, the booking has got another slot, which the store knows: the token stays the same;
//   - one for another reason that matches [ErrNotYet] if the booking needs another slot, and it is further away than its MaxWait allows. It
//     has none then, and you may redeem the token later;
//   - one for [TokenSpent], [TokenLost] or [BadToken]: no later Redeem of the same attempt will do better;
//   - a [*StoreError] if the store does not answer, whatever Config.Outage is: only the store knows whether the token was redeemed. It may
//     have been by this call, if its answer was lost. Then a later attempt of the job needs [Attempt];
//   - a [*ConfigError], or a [*LimitError] for [NoScope], if the policies of this process cannot bind the call, ErrClosed, or the context's
//     error.
//
// A token is redeemed once, by the first process. A call may go from its slot on until the slack is over, both by the store's clock, so no
// policy is exceeded, however late a queue wakes its jobs.
func (p *Pacer) Redeem(ctx context.Context, tok string, opts ...RedeemOption) (*Reservation, error) {
	attempt, patience := Attempt(1), RedeemEarly
	for _, o := range opts {
		switch o := o.(type) {
		case Attempt:
			attempt = o
		case early:
			if o < 0 {
				return nil, badDuration("Early", time.Duration(o))
			}
			patience = max(RedeemEarly, min(time.Duration(o), Forever))
		}
	}
	var r *Reservation
	x, err := p.redemption(ctx, tok, attempt, patience, func() *binding.Reservation {
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

// CancelBooking gives the slot of a booking back, so that another call can have it, and spends the token for the attempt. The elapsed part
// of the slot stays charged. The attempt defaults to 1; of several, the last counts.
//
// It returns a [*LimitError] for [TokenSpent] if the attempt was redeemed or cancelled before, and otherwise the errors of [Pacer.Redeem]
// about the token and the store.
func (p *Pacer) CancelBooking(ctx context.Context, tok string, attempt ...Attempt) error {
	n := Attempt(1)
	if len(attempt) > 0 {
		n = attempt[len(attempt)-1]
	}
	x, err := p.redemption(ctx, tok, n, RedeemEarly, func() *binding.Reservation { return new(binding.Reservation) })
	if err != nil {
		return err
	}
	return p.toUser(x.Cancel(ctx))
}

// redemption reads a token.
func (p *Pacer) redemption(ctx context.Context, tok string, attempt Attempt, patience time.Duration, reserve func() *binding.Reservation) (*bookings.Redemption, error) {
	x, err := p.bookings.Open(ctx, tok, int64(attempt), patience, reserve)
	return x, p.toUser(err)
}
