package bookings

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/waiters"
	"github.com/headway-go/headway/pacer/store"
)

// Operations of the store, as errors name them.
const (
	OpBook   = "book"
	OpRedeem = "redeem"
)

// Bookings books and redeems calls of one upstream. Its fields are set before it is used. It is safe for concurrent use.
type Bookings struct {
	Upstream string
	Store    store.Store
	Calls    *binding.Reader
	Early    time.Duration // how long before its slot a booking may be redeemed
	Keep     time.Duration // for how long after its slot, unless its options say it
	MaxToken int           // the length of the longest token, in bytes

	// Await waits until the store has answered this process for the first time, for as long as a call may wait.
	Await func(ctx context.Context, a *binding.Ask) (waited time.Duration, err error)
	// Now estimates the store's time.
	Now    func() store.Instant
	Errors Errors

	way waiters.Way // a booking is redeemed so much sooner: the store is to be asked in time
}

// Errors make the errors of users.
type Errors struct {
	Store func(op string, err error) error // of a store that fails
	Token func(err error) error            // of a token that is not good
	Later func(l Later) error              // of a booking that may not go yet
	// Refused returns what the error of a call says that was refused by a limit; false for any other error.
	Refused func(err error) (r Refused, ok bool)

	Lost, Expired, Spent error // why a token is not good
}

// Later says when a booking may be redeemed that may not go yet.
type Later struct {
	Wait     time.Duration // 0 if that is not known
	Slack    time.Duration // how much later than after Wait it may go
	Moved    bool          // the booking has another slot than before
	InFlight string        // the policy that has no permit left; "" if it is not that
}

// Refused is a call that was refused by a limit.
type Refused struct {
	Policy     string
	RetryAfter time.Duration
}

// AccountOf returns the account of a pool by which a booking is; "" for a text that is no token. A token that is by none of the pool's
// accounts is an error.
func (s *Bookings) AccountOf(tok string, l *binding.Pool) (string, error) {
	t, err := parse(tok, s.MaxToken)
	if err != nil {
		return "", nil //nolint:nilerror // Redeem says what is wrong with it
	}
	for _, o := range slices.Backward(t.scopes) {
		if slices.Contains(l.Scopes, o.Name) && l.Account(o.Value) != nil {
			return o.Value, nil
		}
	}
	return "", s.Errors.Token(errTokenPool)
}

// SlackOf returns the slack of the slot that a token was given; 0 for a text that is no token of at most so many bytes.
func SlackOf(tok string, most int) time.Duration {
	t, err := parse(tok, most)
	if err != nil {
		return 0
	}
	return t.slack
}

// booker returns the store, if it keeps bookings.
func (s *Bookings) booker(op string) (store.Booker, error) {
	if b, ok := s.Store.(store.Booker); ok {
		return b, nil
	}
	return nil, s.Errors.Store(op, store.ErrNoBookings)
}
