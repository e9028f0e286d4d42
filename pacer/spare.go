package pacer

import (
	"sync"

	"github.com/headway-go/headway/pacer/store"
)

// spares are reservations of plain Waits that are over: their callers never saw them, so they can serve again. They are one
// Pacer's.
type spares struct {
	off  bool      // the store is one that could keep what it is given
	pool sync.Pool // of *spare
}

// fewLimits is how many limits a stack has as a rule, at most: for so many, nothing needs to be allocated.
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

// put takes back the reservation of a call that went at its first slot. Nobody else has it any more:
//   - The store answered, and neither one in memory nor the watch over a shared one touches calls, grants or limits after
//     that: what goes on without us has copies.
//   - It has left the sleepers. Who looks at those does so under their lock, takes copies along, and marks what it wants to
//     move, or may, as caught. What was ever caught is not put back: the slot that it had may still be on its way to the store.
//   - It was not given back, so that no grant of it is owed to the store.
//   - No Report or Settle can come, for want of a handle.
func (s *spares) put(one *spare) {
	if s.off || one.caught {
		return
	}
	*one = spare{}
	s.pool.Put(one)
}
