package pacer

import (
	"sync"

	"github.com/headway-go/headway/pacer/store"
)

// spares are reservations of plain Waits that are over. Their callers never saw them, so they can serve again, for
// the same Pacer.
type spares struct {
	off  bool      // the store is one that could keep what it is given
	pool sync.Pool // of *spare
}

// fewLimits is the most limits that a stack usually has: up to this many, no allocation is needed.
const fewLimits = store.MaxAdmission

// A spare is a reservation and room for its limits.
type spare struct {
	Reservation

	limits [fewLimits]store.Limit
}

// get returns a reservation for a call whose caller will not see it.
func (s *spares) get() *spare {
	if one, ok := s.pool.Get().(*spare); ok {
		return one
	}
	return new(spare)
}

// put takes back the reservation of a call that went at its first slot. No other goroutine has it any more:
//
//   - The store answered, and neither a store in memory nor the member in front of a shared one touches calls, grants or
//     limits after that: work that goes on has copies.
//   - It has left the waiters. Code that looks at waiters holds their lock, takes copies along, and marks what it wants to
//     move, or may, as caught. A reservation that was ever caught is not put back: the slot that it had may still be on its
//     way to the store.
//   - It was not given back, so that no grant of it is owed to the store.
//   - No Report or Settle can come, because the caller has no handle.
func (s *spares) put(one *spare) {
	if s.off || one.caught {
		return
	}
	*one = spare{}
	s.pool.Put(one)
}
