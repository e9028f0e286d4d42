package failover

import (
	"errors"
	"sync"

	"github.com/headway-go/headway/pacer/store"
)

// operations number the reports of this process that charge something. One whose answer was lost is repeated with its number, and then a
// store that has heeded it does nothing.
type operations struct {
	mu   sync.Mutex
	by   string
	last int64
	open map[int64]struct{} // those of which it is not known whether they were done
}

// begin numbers an operation.
func (o *operations) begin() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	o.open[o.last] = struct{}{}
	return o.last
}

// of describes an operation.
func (o *operations) of(number int64) *store.Once {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.last
	for n := range o.open {
		known = min(known, n)
	}
	return &store.Once{By: o.by, Number: number, Known: known}
}

// end records that an operation is not sent again.
func (o *operations) end(number int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, number)
}

// unsure reports whether the operation of an error may have been done.
func unsure(err error) bool {
	return errors.Is(err, store.ErrUnreachable) && !errors.Is(err, errResting)
}

// charges reports whether a note charges something: to heed it twice would charge that twice.
func charges(n *store.Note) bool { return n.Kind == store.NoteSettle && n.Actual > n.Cost }
