package store

import (
	"context"
	"errors"
	"regexp"
	"time"
)

// A Redeemer is a [Store] that keeps records of bookings. A booking is a slot that [Store].Reserve has charged and no process holds: it is
// kept elsewhere until a process redeems it.
//
// A record is a short text whose meaning only the Pacer knows. It exists from the first Redeem on, so a booking that is never redeemed
// takes no room.
type Redeemer interface {
	// Redeem changes the records of some bookings of one upstream, in order, and returns the result of each. It replaces a record in one
	// step, if the record is the one that the caller knows and all conditions hold. Otherwise it changes nothing of that booking.
	//
	// If Redeem returns an error, some of the changes may have been made. The caller may repeat the request, which returns BookingDone for
	// those. A request has at most [MaxBookings]; limits with the same key are the same in all of them.
	Redeem(ctx context.Context, upstream string, all []Booking) ([]Redemption, error)
}

// A Booker is a [Redeemer] whose slots may be booked.
type Booker interface {
	Redeemer

	// Epoch returns the epoch in which slots are granted now, or why nothing can be booked: [ErrNoBookings], or an error that matches
	// [ErrUnreachable].
	Epoch() (Epoch, error)

	// Booked is called after a slot that this process was granted has been booked: from then on any process may give it back.
	Booked(stack Stack, g Grant)
}

// ErrNoBookings is returned by a wrapper if the store inside is no [Redeemer].
var ErrNoBookings = errors.New("pacer: the store keeps no bookings: see store.Redeemer")

// A Booking is a change of a record. Its conditions are checked in the order of the fields; the [Redemption] names the first that does not
// hold.
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

// A Window is when a slot may be used: from From to Until, inclusive, unless the upstream or a limit of the booking is paused beyond both
// At and now.
type Window struct {
	From, At, Until Instant

	_ struct{}
}

// A Redemption is the answer to a [Booking].
type Redemption struct {
	Result BookingResult
	Now    Instant // when the store decided
	Record string  // of BookingChanged: the present record, "" for none
	Until  Instant // of BookingPaused: when the pause ends

	_ struct{}
}

// A BookingResult reports that a record was replaced, or why not.
type BookingResult uint8

// Results. Their numbers go over the wire.
const (
	// BookingDone: the record is Next.
	BookingDone BookingResult = iota + 1
	// BookingLost: the store has lost its data since the booking was made. The outcome is unknown.
	BookingLost
	// BookingChanged: the record is another one.
	BookingChanged
	// BookingExpired: there is no record, and one that existed may be forgotten.
	BookingExpired
	// BookingPaused: a pause covers the slot.
	BookingPaused
	// BookingEarly: it is before From.
	BookingEarly
	// BookingLate: it is after Until.
	BookingLate
)

// MaxBookings bounds the bookings of a request, so that no script runs for long.
const MaxBookings = 128

// MaxRecord is the length of the longest record, in bytes.
const MaxRecord = 4096

// ValidBooking reports whether an ID can name a booking: 1 to 64 letters, digits, '-', '_' or '.'.
func ValidBooking(id string) bool { return bookingGrammar.MatchString(id) }

var bookingGrammar = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// IsOpen reports whether the slot may be used now, and why not.
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
