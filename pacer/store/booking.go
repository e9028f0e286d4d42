package store

import (
	"context"
	"errors"
	"regexp"
	"time"
)

// A Redeemer is a [Store] that keeps what became of bookings. A booking is a slot that [Store].Reserve has charged and that no process
// holds: it is written down elsewhere, until a process redeems it.
//
// A store keeps one record of each booking: a short text that means something to the Pacer alone. There is none before the first
// Redeem, so a booking that nobody redeems takes no room.
type Redeemer interface {
	// Redeem changes the records of some bookings of one upstream, in order, and returns what became of each. It replaces a record in one
	// step, if it is what the caller knows and all conditions hold. Otherwise it changes nothing of that booking.
	//
	// If Redeem returns an error, any of the changes may have been made. The caller may request them again: those that were made are
	// BookingDone then. Limits of the same key are alike in all bookings of a request, and a Pacer requests [MaxBookings] at most.
	Redeem(ctx context.Context, upstream string, all []Booking) ([]Redemption, error)
}

// A Booker is a [Redeemer] that reserves slots which may be booked.
type Booker interface {
	Redeemer

	// Epoch returns the epoch in which slots are granted from now on, or why nothing can be booked: [ErrNoBookings], or an error that
	// matches [ErrUnreachable].
	Epoch() (Epoch, error)

	// Booked is called when a slot that this process was granted has been booked: from then on any process may give it back.
	Booked(stack Stack, g Grant)
}

// ErrNoBookings is the error of what stands in front of a store that is no [Redeemer].
var ErrNoBookings = errors.New("pacer: the store keeps no bookings: see store.Redeemer")

// A Booking is a change of the record of a booking.
//
// The conditions are checked in the order of the fields. The first that does not hold is the [Redemption].
type Booking struct {
	ID      string        // of the booking: see [ValidBooking]
	Limits  []Limit       // that it was charged to; may be none
	Epoch   Epoch         // the store's data must be of the epoch that began when this one did; zero for any
	Known   string        // the record must be this one; "" if there must be none. One that is Next already is as good
	Expires Instant       // if there is no record, it must not be later than this; 0: at any time
	Window  *Window       // if not nil, it must be time for the slot
	Refund  []Charge      // given back: one for each limit, or nil
	Next    string        // the record from now on, not empty and at most [MaxRecord] long
	Keep    time.Duration // for how long it is kept, above 0

	_ struct{}
}

// A Window is when a slot may be used: from From until Until, both included, unless the upstream or a limit of the booking is paused until
// after At and until after now.
type Window struct {
	From, At, Until Instant

	_ struct{}
}

// A Redemption is the answer to a [Booking].
type Redemption struct {
	Result BookingResult
	Now    Instant // when the store decided
	Record string  // of BookingChanged: the record that there is, "" for none
	Until  Instant // of BookingPaused: when the pause ends

	_ struct{}
}

// A BookingResult is whether a record was replaced, or why not.
type BookingResult uint8

// Results. Their numbers go over the wire.
const (
	// BookingDone: the record is Next.
	BookingDone BookingResult = iota + 1
	// BookingLost: the store has lost its data since the booking was made. The outcome is unknown.
	BookingLost
	// BookingChanged: the record is another one.
	BookingChanged
	// BookingExpired: there is no record, and if there was one it may be forgotten.
	BookingExpired
	// BookingPaused: a pause covers the slot.
	BookingPaused
	// BookingEarly: it is before From.
	BookingEarly
	// BookingLate: it is after Until.
	BookingLate
)

// MaxBookings is how many bookings a Pacer changes in one request at most, so that no run of a store's program takes long.
const MaxBookings = 128

// MaxRecord is the length of the longest record, in bytes.
const MaxRecord = 4096

// ValidBooking reports whether an ID can name a booking: 1 to 64 letters, digits, '-', '_' or '.'.
func ValidBooking(id string) bool { return bookingGrammar.MatchString(id) }

var bookingGrammar = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// IsOpen reports whether it is time for the slot, and if not why.
func (w *Window) IsOpen(now, paused Instant) BookingResult {
	switch {
	case paused > max(now, w.At):
		return BookingPaused
	case now < w.From:
		return BookingEarly
	case now > w.Until:
		return BookingLate
	}
	return BookingDone
}
