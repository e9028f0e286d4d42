package failover

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// Reservations gather while others of the same stack are on the wire, and go together in the next request. One whose stack
// is not on the wire goes at once, so that gathering never adds a wait, as long as few requests are on the wire.
const (
	// maxFlights bounds how many requests of one Pacer are on the wire, for different stacks. Beyond, they gather, too.
	maxFlights = 4
	// maxLoad is how many calls are enough for one request, so that no run of the store's program takes long. If the store leaves
	// some of them undecided all the same, the next requests carry as many as it decided, but no fewer than minLoad.
	MaxCalls = 256
	minLoad  = 16
)

// gathering is the reservations that wait to be sent, and what is on the wire, for as long as the process is together with
// its fleet. What hangs when it loses the store is in nobody's way when it has come back.
type gathering struct {
	life context.Context //nolint:containedctx // whoever still waits when it ends need not
	end  context.CancelFunc

	mu      sync.Mutex
	waiting []*parcel
	wire    map[uint64]bool // stacks
	flights int
	load    int // how many calls the next request carries at most
	// answered is when the store last did so.
	answered time.Time
	// Not in use, kept for what they have allocated. They hold timers and channels, and so they are this Pacer's.
	empty  []*parcel
	hangar []*flight
}

// A parcel is what one caller wants to have reserved. All of it but done and timer is under gathering.mu until it is
// delivered.
type parcel struct {
	ctx    context.Context //nolint:containedctx // it lives as long as the call
	stack  store.Stack
	hash   uint64 // of the stack
	calls  []store.Call
	grants []store.Grant
	sure   int // so many of the grants are decided
	err    error
	state  parcelState
	done   chan struct{} // tells its caller that it is delivered
	timer  *time.Timer
}

type parcelState uint8

const (
	waiting   parcelState = iota // to be sent
	aboard                       // of a flight, which has copied the calls
	delivered                    // its caller gets the answer
	abandoned                    // its caller has gone
)

// A flight is a goroutine that sends one request after the other, for as long as something waits to be sent.
type flight struct {
	seats   []seat
	batches []store.Batch
	errs    []error        // of each batch
	places  map[uint64]int // by the stack's hash, the index of the batch
	calls   int
	charges int
	era     int64 // that the store was asked in
}

// A seat says where a parcel's calls are: those of a batch from an index on.
type seat struct {
	*parcel

	batch, at int
	answered  bool // its caller is to be told
}

func newGathering() *gathering {
	g := &gathering{wire: make(map[uint64]bool), load: MaxCalls}
	g.life, g.end = context.WithCancel(context.Background())
	return g
}

// comes reports whether a parcel that waits to be sent is only kept waiting by how many there are: the store answers.
func (g *gathering) comes(p *parcel, timeout time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.state != waiting || time.Since(g.answered) > timeout {
		return false
	}
	p.timer.Reset(timeout)
	return true
}

// parcel returns one that is not in use. The caller holds mu.
func (g *gathering) parcel() *parcel {
	if n := len(g.empty); n > 0 {
		p := g.empty[n-1]
		g.empty = g.empty[:n-1]
		return p
	}
	p := &parcel{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	p.timer.Stop()
	return p
}

// begin begins a flight with a first parcel. The caller holds mu.
func (g *gathering) begin(p *parcel, timeout time.Duration) *flight {
	var f *flight
	if n := len(g.hangar); n > 0 {
		f, g.hangar = g.hangar[n-1], g.hangar[:n-1]
	} else {
		f = &flight{places: make(map[uint64]int)}
	}
	g.flights++
	f.board(g, p, timeout)
	return f
}

// board takes a parcel aboard, unless its stack is on the wire. From then on its caller waits for as long as the store may
// take. The caller of board holds mu.
func (f *flight) board(g *gathering, p *parcel, timeout time.Duration) bool {
	i, found := f.places[p.hash]
	switch {
	case found && !f.batches[i].Stack.Same(&p.stack), !found && g.wire[p.hash]:
		return false
	case !found:
		i = len(f.batches)
		f.places[p.hash], g.wire[p.hash] = i, true
		if f.batches = f.batches[:min(i+1, cap(f.batches))]; len(f.batches) == i {
			f.batches = append(f.batches, store.Batch{})
		}
		// The flight may last longer than the caller waits, so it has copies of everything.
		b := &f.batches[i]
		b.Stack.Upstream, b.Stack.Limits, b.Calls = p.stack.Upstream, append(b.Stack.Limits[:0], p.stack.Limits...), b.Calls[:0]
		if i > 0 {
			f.charges += len(p.stack.Limits)
		}
	}
	b := &f.batches[i]
	f.seats = append(f.seats, seat{parcel: p, batch: i, at: len(b.Calls)})
	calls := p.calls[p.sure:]
	f.calls, f.charges = f.calls+len(calls), f.charges+len(calls)*len(p.stack.Limits)
	for _, c := range calls {
		c.Costs = slices.Clone(c.Costs)
		b.Calls = append(b.Calls, c)
	}
	p.state = aboard
	p.timer.Reset(timeout)
	return true
}

// next takes what has gathered aboard, as far as its stacks are not on the wire; it returns false if there is nothing. The
// caller holds mu.
func (f *flight) next(g *gathering, timeout time.Duration) bool {
	kept := g.waiting[:0]
	for i, p := range g.waiting {
		if f.calls > 0 && (f.calls+len(p.calls) > g.load || f.charges+len(p.calls)*len(p.stack.Limits) > maxCharges) {
			kept = append(kept, g.waiting[i:]...)
			break
		}
		if !f.board(g, p, timeout) {
			kept = append(kept, p)
		}
	}
	clear(g.waiting[len(kept):])
	g.waiting = kept
	return len(f.seats) > 0
}

// abandon makes a parcel one that nobody waits for; it returns false if it is delivered already.
func (g *gathering) abandon(p *parcel) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch p.state {
	case delivered:
		return false
	case waiting:
		g.waiting = slices.DeleteFunc(g.waiting, func(other *parcel) bool { return other == p })
	case aboard, abandoned:
	}
	p.state = abandoned
	return true
}

// proceed makes a flight ready for the next request, or ends it if there is nothing to send.
func (g *gathering) proceed(f *flight, timeout time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for hash := range f.places {
		delete(g.wire, hash)
	}
	clear(f.places)
	clear(f.seats)
	f.seats, f.batches, f.errs, f.calls, f.charges = f.seats[:0], f.batches[:0], f.errs[:0], 0, 0
	if f.next(g, timeout) {
		return true
	}
	g.flights--
	g.hangar = append(g.hangar, f)
	return false
}

// judge returns the error of an operation as one of the Pacer's. If the store cannot be asked, it is not asked again soon.
func (g *gathering) judge(w *Store, err error) error {
	if !w.isFailure(err) {
		return err
	}
	_ = g.trip(w, err)
	return unreachable(err)
}

// trip notes that the store has failed, unless that is known already: the process may have come back meanwhile.
//
// It reports whether it did.
func (g *gathering) trip(w *Store, err error) bool {
	if g.life.Err() != nil {
		return false
	}
	done, resting := w.breaker.Allow()
	if resting == nil {
		done(err)
	}
	return resting == nil
}

// loaded sees to it that the next request carries no more calls than the store decides. The caller holds mu.
func (g *gathering) loaded(f *flight) {
	decided := 0
	for i := range f.batches {
		if f.errs[i] != nil {
			return
		}
		n := len(f.batches[i].Grants)
		for n > 0 && f.batches[i].Grants[n-1].Deferred {
			n--
		}
		decided += n
	}
	switch {
	case decided < f.calls:
		g.load = max(minLoad, decided)
	case decided >= g.load:
		g.load = min(MaxCalls, g.load+g.load/4)
	}
}

// answer gives a parcel what the store answered. It returns false if some of it is to be asked for again.
func (f *flight) answer(s *seat) bool {
	if s.err = f.errs[s.batch]; s.err != nil {
		return true
	}
	grants := f.batches[s.batch].Grants[s.at:]
	for i := range s.grants[s.sure:] {
		to, from := &s.grants[s.sure], &grants[i]
		if from.Deferred {
			return false
		}
		charges := append(to.Charges[:0], from.Charges...) //nolint:gocritic // the grant's own room
		*to = *from
		to.Charges = charges
		s.sure++
	}
	return true
}

// granted returns the grants that are charged.
func granted(grants []store.Grant) []store.Grant {
	return slices.DeleteFunc(slices.Clone(grants), func(g store.Grant) bool { return !g.OK })
}

// An errand is the context of an operation for others: it has a caller's values, but not its end.
type errand struct {
	context.Context //nolint:containedctx // for its values

	life     context.Context //nolint:containedctx // ends when nobody waits for the operation any more
	deadline time.Time
}

// Deadline implements [context.Context].
func (e *errand) Deadline() (time.Time, bool) { return e.deadline, true }

// Done implements [context.Context].
func (e *errand) Done() <-chan struct{} { return e.life.Done() }

// Err implements [context.Context].
func (e *errand) Err() error { return e.life.Err() }

// send has calls reserved by the store, together with others that gather meanwhile. It returns an ErrUnreachable if there
// is no answer in time. What is granted after that is given back.
func (w *Store) send(ctx context.Context, stack *store.Stack, calls []store.Call, grants []store.Grant) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return store.ErrClosed
	}
	w.asking.Add(1) // until the calls are on their way
	g := w.gathering
	w.mu.Unlock()

	hash := stack.Hash(w.seed)
	g.mu.Lock()
	p := g.parcel()
	p.ctx, p.stack, p.hash, p.calls, p.grants, p.sure, p.err, p.state = ctx, *stack, hash, calls, grants, 0, nil, waiting
	if g.flights < maxFlights && !g.wire[p.hash] {
		f := g.begin(p, w.timeout)
		g.mu.Unlock()
		if w.punctual {
			w.lead(g, f) //nolint:contextcheck // it has the parcel's
		} else {
			go w.fly(g, f) //nolint:contextcheck // it has the parcels'
		}
	} else {
		p.timer.Reset(2 * w.timeout) // the request on the wire, and the next one
		g.waiting = append(g.waiting, p)
		g.mu.Unlock()
		w.asking.Done() // a flight is under way, and takes this along
	}

	err := error(nil)
	for again := true; again; {
		again = false
		select {
		case <-p.done:
			p.timer.Stop()
		case <-g.life.Done():
			err = w.overdue()
		case <-p.timer.C:
			if again = g.comes(p, w.timeout); !again {
				err = w.overdue()
			}
		}
	}
	if err != nil && g.abandon(p) {
		w.refund(p) //nolint:contextcheck // no flight writes to it any more, and nobody waits for that
		if g.trip(w, err) {
			w.asked("reserve", len(calls), time.Now().Add(-w.timeout), err)
		}
		return err // the parcel is lost: its flight may still have it
	}
	if err != nil {
		<-p.done
		p.timer.Stop()
	}
	if err = p.err; err != nil {
		w.refund(p) //nolint:contextcheck // nobody waits for that
	}
	p.ctx, p.stack, p.calls, p.grants = nil, store.Stack{}, nil, nil
	g.mu.Lock()
	g.empty = append(g.empty, p)
	g.mu.Unlock()
	return err
}

// fly sends one request after the other, until nothing waits to be sent.
func (w *Store) fly(g *gathering, f *flight) {
	defer w.asking.Done()
	for more := true; more; more = g.proceed(f, w.timeout) {
		w.carry(g, f)
		w.deliver(g, f)
	}
}

// lead sends a first request in the caller's own goroutine, which saves it two switches to another one. What has gathered
// meanwhile is none of its business.
func (w *Store) lead(g *gathering, f *flight) {
	answered := false
	defer func() {
		if !answered { // the store panics, or a hook of its client: that is the caller's, but nobody else must wait for it
			for range f.batches {
				f.errs = append(f.errs, store.ErrUnreachable)
			}
			w.deliver(g, f)
		}
		if g.proceed(f, w.timeout) {
			go w.fly(g, f)
		} else {
			w.asking.Done()
		}
	}()
	w.carry(g, f)
	answered = true
	w.deliver(g, f)
}

// carry asks the store.
func (w *Store) carry(g *gathering, f *flight) {
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	f.era = w.era.Load()
	told := store.Instant(w.told.Load())
	for i := range f.batches {
		b := &f.batches[i]
		b.Stack.Epoch, b.Stack.LastSeen = f.era, told
		n := len(b.Calls)
		b.Grants = slices.Grow(b.Grants[:0], n)[:n]
	}
	ctx, cancel := w.errand(f.seats[0].ctx, g)
	defer cancel()
	began := time.Now()
	f.errs = append(f.errs, g.judge(w, w.store.ReserveAll(ctx, f.batches)))
	if g.life.Err() == nil { // otherwise it was told already that there was no answer
		w.asked("reserve", f.calls, began, f.errs[0])
	}
	if len(f.batches) > 1 && f.errs[0] != nil && w.unfit(f.errs[0]) {
		// One of them is at fault, and the others shall not suffer from it.
		f.errs = f.errs[:0]
		for i := range f.batches {
			f.errs = append(f.errs, g.judge(w, w.store.ReserveAll(ctx, f.batches[i:i+1])))
		}
	}
	for i := range f.batches {
		if i == len(f.errs) {
			f.errs = append(f.errs, f.errs[0])
		}
	}
}

// deliver gives the callers their answers, and gives back what was granted to those who have gone.
func (w *Store) deliver(g *gathering, f *flight) {
	for i := range f.batches {
		if f.errs[i] == nil {
			f.errs[i] = w.received(&f.batches[i])
		}
	}
	g.mu.Lock()
	if f.errs[0] == nil {
		g.answered = time.Now()
	}
	g.loaded(f)
	var gone []seat
	var again []*parcel
	for i := range f.seats {
		s := &f.seats[i]
		switch {
		case s.state == abandoned:
			gone = append(gone, *s)
		case f.answer(s):
			s.state, s.answered = delivered, true
		default:
			s.state = waiting
			again = append(again, s.parcel)
		}
	}
	g.waiting = append(again, g.waiting...)
	g.mu.Unlock()
	for i := range f.seats {
		if s := &f.seats[i]; s.answered { // the others may be abandoned meanwhile
			s.done <- struct{}{}
		}
	}
	w.giveUp(f, gone)
}

// giveUp has given back what was granted to callers who have gone. Nobody waits for that. In another era there is nothing to
// give back.
func (w *Store) giveUp(f *flight, gone []seat) {
	if f.era != w.era.Load() {
		return
	}
	for _, s := range gone {
		if f.errs[s.batch] != nil {
			continue
		}
		b := &f.batches[s.batch]
		w.begin(refunds(context.Background(), &b.Stack, granted(b.Grants[s.at:s.at+len(s.calls)-s.sure])))
	}
}

// refund has given back what a parcel was granted that is to have all of its grants or none.
func (w *Store) refund(p *parcel) {
	w.begin(refunds(context.Background(), &p.stack, granted(p.grants[:p.sure])))
}

// received remembers what a store granted. It returns a ForgotError if that shows that the store has lost something.
func (w *Store) received(b *store.Batch) error {
	if w.known.lost(&b.Stack, b.Grants) {
		ctx, cancel := context.WithTimeout(context.Background(), w.timeout)
		defer cancel()
		b.Grants = slices.DeleteFunc(b.Grants, func(g store.Grant) bool { return !g.OK })
		_ = w.store.Cancel(ctx, b.Stack, b.Grants)
		return &store.ForgotError{}
	}
	w.known.granted(&b.Stack, b.Grants)
	for i := range b.Grants {
		if at := int64(b.Grants[i].At); b.Grants[i].OK && at > w.latest.Load() {
			w.latest.Store(at) // races do not matter: one of the late ones is enough
		}
	}
	if len(b.Grants) > 0 {
		w.heardNow(b.Grants[0].Now)
	}
	return nil
}

// errand returns the context of an operation that is made for a caller, and maybe others: the Pacer gives no context that
// ends with the caller.
func (w *Store) errand(values context.Context, g *gathering) (context.Context, context.CancelFunc) {
	if w.punctual {
		return context.WithTimeout(values, w.timeout)
	}
	return &errand{Context: values, life: g.life, deadline: time.Now().Add(w.timeout)}, func() {}
}
