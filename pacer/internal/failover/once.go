package failover

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// operations number the operations of this process that must not be done twice. An operation whose answer was lost may have been done: it
// is sent again with its number, and then a store that has done it does nothing.
type operations struct {
	mu   sync.Mutex
	by   string
	last int64
	open map[int64]struct{} // those of which it is not known whether they were done
}

// begin numbers an operation.
func (o *operations) begin() *store.Once {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil {
		o.open = make(map[int64]struct{})
	}
	o.last++
	o.open[o.last] = struct{}{}
	return o.once(o.last)
}

// again starts an operation once more.
func (o *operations) again(number int64) *store.Once {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.once(number)
}

// once describes an operation. The caller holds mu.
func (o *operations) once(number int64) *store.Once {
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

// counts reports whether it matters how often a store heeds notes.
func counts(notes []store.Note) bool {
	return slices.ContainsFunc(notes, func(n store.Note) bool { return n.Kind == store.NoteSettle })
}

// stale reports whether a store may have forgotten by now whether it has done an operation.
func stale(since time.Time) bool { return time.Since(since) > store.OnceTTL*3/4 }
