package bookings

import (
	"errors"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
)

// Names of store operations in errors.
const (
	OpBook   = "book"
	OpRedeem = "redeem"
)

// Bookings books and redeems calls of one upstream. Set its fields before use. It is safe for concurrent use.
type Bookings struct {
	Upstream string
	Store    store.Store
	Calls    *binding.Reader
	Early    time.Duration // how long before its slot a booking may be redeemed
	Keep     time.Duration // for how long after its slot, by default
	MaxToken int           // the length of the longest token, in bytes

	way dispatch.Way // a booking is redeemed so much sooner: the answer has to come in time
}

// Reasons of a bad token, besides [dispatch.ErrSpent].
var (
	ErrExpired = errors.New("pacer: the token has expired")
	ErrLost    = errors.New("pacer: the store has lost its data since the booking")
)

// A TokenError reports a bad token.
type TokenError struct{ Err error }

// Error implements error.
func (e *TokenError) Error() string { return "token: " + e.Err.Error() }

// Unwrap returns why it is not.
func (e *TokenError) Unwrap() error { return e.Err }

// A LaterError reports when a booking may be redeemed that may not go yet.
type LaterError struct {
	Wait     time.Duration // 0 if that is not known
	Slack    time.Duration // how much later than after Wait it may go
	Moved    bool          // the booking has another slot than before
	InFlight string        // the policy that has no permit left; "" if it is not that
	Refused  error         // of the call that requested the permits, if it was refused: it has Wait and InFlight
}

// Error implements error.
func (e *LaterError) Error() string { return "later" }

// isRefusal reports whether a limit refused a call.
func isRefusal(err error) bool {
	r, is := errors.AsType[*dispatch.NotYetError](err)
	return is && !r.NoShare
}

// AccountOf returns the account of a pool that made a booking; "" for a text that is not a token. A token of another account is an error.
func (s *Bookings) AccountOf(tok string, l *binding.Pool) (string, error) {
	t, err := parse(tok, s.MaxToken)
	if err != nil {
		return "", nil //nolint:nilerror // Redeem reports its mistake
	}
	for _, o := range slices.Backward(t.scopes) {
		if slices.Contains(l.Scopes, o.Name) && l.Account(o.Value) != nil {
			return o.Value, nil
		}
	}
	return "", &TokenError{errTokenPool}
}

// SlackOf returns the slack of a token's first slot; 0 for a text that is no token, or is longer than most bytes.
func SlackOf(tok string, most int) time.Duration {
	t, err := parse(tok, most)
	if err != nil {
		return 0
	}
	return t.slack
}

// booker returns the store if it keeps bookings.
func (s *Bookings) booker(op string) (store.Booker, error) {
	if b, ok := s.Store.(store.Booker); ok {
		return b, nil
	}
	return nil, &dispatch.StoreError{Op: op, Err: store.ErrNoBookings}
}
