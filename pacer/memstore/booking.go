package memstore

import (
	"context"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/pacer/store"
)

var _ store.Booker = (*Store)(nil)

// bookings are the records of bookings. The lock of the Store guards them.
type bookings struct {
	byID map[bookingKey]*record
	ring ring[*record] // all of them
}

type bookingKey struct{ upstream, id string }

type record struct {
	key   bookingKey
	text  string
	until int64
}

// text returns a record; "" without one.
func (b *bookings) text(key bookingKey, now int64) string {
	if r := b.byID[key]; r != nil && now <= r.until {
		return r.text
	}
	return ""
}

// set keeps a record, drops some expired ones, and reports whether there is room.
func (b *bookings) set(key bookingKey, text string, until, now, most int64) bool {
	n := evictBeside
	if int64(len(b.ring.all)) >= most {
		n = roomKeys
	}
	b.ring.walk(n, func(r *record) bool {
		gone := r.until+evictGrace <= now
		if gone {
			delete(b.byID, r.key)
		}
		return gone
	})
	if r := b.byID[key]; r != nil {
		r.text, r.until = text, until
		return true
	}
	if int64(len(b.ring.all)) >= most {
		return false
	}
	if b.byID == nil {
		b.byID = make(map[bookingKey]*record)
	}
	r := &record{key, text, until}
	b.byID[key] = r
	b.ring.all = append(b.ring.all, r)
	return true
}

// Epoch implements [store.Booker]: the epoch of this store began with it.
func (m *Store) Epoch() (store.Epoch, error) { return m.epoch, nil }

// Booked implements [store.Booker].
func (m *Store) Booked(store.Stack, store.Grant) {}

// Redeem implements [store.Redeemer].
func (m *Store) Redeem(_ context.Context, upstream string, all []store.Booking) ([]store.Redemption, error) {
	answers := make([]store.Redemption, len(all))
	for i := range all {
		stack := store.Stack{Upstream: upstream, Limits: all[i].Limits}
		r, changes, err := m.redeem(&stack, &all[i])
		m.notify(stack.Upstream, changes)
		if err != nil {
			return nil, err
		}
		answers[i] = r
	}
	return answers, nil
}

// redeem also returns what to notify listeners of.
func (m *Store) redeem(stack *store.Stack, b *store.Booking) (r store.Redemption, changes []store.Change, err error) {
	var o opened
	entries, err := m.open(nil, &o, stack, 0, false)
	if err != nil {
		return r, nil, err
	}
	defer m.close(&o)
	r.Now = store.Instant(o.now)
	paused := int64(0)
	for i := range entries {
		if a, ok := entries[i].Account.(*engine.Allowance); ok {
			paused = max(paused, a.Paused())
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := bookingKey{stack.Upstream, b.ID}
	text := m.bookings.text(key, o.now)
	if check(&r, b, text, m.epoch, store.Instant(paused)); r.Result != store.BookingDone || text == b.Next {
		return r, nil, nil
	}
	if !m.bookings.set(key, b.Next, o.now+engine.MicrosUp(b.Keep), o.now, m.keys.most) {
		return store.Redemption{}, nil, ErrFull
	}
	for i, c := range b.Refund {
		entries[i].Cancel(o.now, engine.Charge(c))
		changes = append(changes, woken(entries[i].Next(o.now, 0))...)
	}
	return r, append(changes, resumed(stack, entries, o.now)...), nil
}

// check checks the conditions of a change of a record, which is text, and sets in r the first that does not hold.
func check(r *store.Redemption, b *store.Booking, text string, epoch store.Epoch, paused store.Instant) {
	switch {
	case !b.Epoch.IsZero() && b.Epoch.Began != epoch.Began:
		r.Result = store.BookingLost
	case text == b.Next:
		r.Result = store.BookingDone
	case text != b.Known:
		r.Result, r.Record = store.BookingChanged, text
	case text == "" && b.Expires > 0 && r.Now > b.Expires:
		r.Result = store.BookingExpired
	case b.Window == nil:
		r.Result = store.BookingDone
	default:
		if r.Result = b.Window.IsOpen(r.Now, paused); r.Result == store.BookingPaused {
			r.Until = paused
		}
	}
}
