package binding

import (
	"context"
	"sync"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/telemetry"
)

// Requested is the request of a waiting call, which can be bound again when the policies change.
type Requested struct {
	Options []Option // storage for the options of the Ask: set before Read

	reader *Reader

	mu         sync.Mutex
	ask        Ask
	credential string    // of a pool, by which the call goes
	settling   *Settling // of a reservation: what its settlement has to know; nil if the call is not settled
}

// Read reads the Options of a call, as [Reader.Call] does.
func (k *Requested) Read(ctx context.Context, r *Reader) (Ask, error) {
	k.reader = r
	return r.Call(ctx, k.Options)
}

// Keep remembers how a call is bound.
func (k *Requested) Keep(a *Ask, s *Settling) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ask, k.settling = *a, s
}

// Forget clears it, except for the room for options.
func (k *Requested) Forget() {
	clear(k.Options)
	k.Options = k.Options[:0]
	k.reader, k.ask, k.settling = nil, Ask{}, nil
}

// Observes reports whether observed policies may bind the call.
func (k *Requested) Observes() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ask.Set.Observes
}

// Now returns the call as it is bound now.
func (k *Requested) Now() Ask {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ask
}

// Bound returns the policies that bind the call, and what its settlement needs.
func (k *Requested) Bound() (*Set, Settling) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ask.Set, *k.settling
}

// Bind implements [dispatch.Binder]. If a function of OverrideBy panics, the call stays bound as it is.
func (k *Requested) Bind() (b dispatch.Bound) {
	set := k.reader.Policies.Now()
	if !telemetry.Guard("a function of OverrideBy", func() { b = k.bind(set) }) {
		b = dispatch.Bound{}
	}
	b.Generation = set.Generation
	return b
}

func (k *Requested) bind(set *Set) (b dispatch.Bound) {
	k.mu.Lock()
	a, settles := k.ask, k.settling != nil
	k.mu.Unlock() // functions of the user may block
	a.Set, a.Which = set, Enforced
	if k.reader.place(&a) != nil {
		return b
	}
	var s *Settling
	if settles {
		s = new(Settling)
	}
	var err error
	b.Request, err = k.reader.Request(&a, nil, s)
	b.OK, b.Keep = err == nil, func() { k.Keep(&a, s) }
	return b
}

// A Reservation is a call that its caller sees: it has its slot, and room for the options that most calls have.
type Reservation struct {
	Requested
	dispatch.Call

	First Settling // by the policies that held when it was made
	few   [2]Option
}

// Init makes room for the options that most calls have.
func (c *Reservation) Init() { c.Options = c.few[:0] }

// Settling returns what the settlement of the call needs, and the policies that bind it.
func (c *Reservation) Settling() (*Set, Settling) {
	set, known := c.Bound()
	if c.Credential() != "" { // bound by one of several credentials
		a := c.Chosen()
		known = c.reader.settlingOf(&a)
	}
	return set, known
}
