package batch

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/deadline"
	"github.com/headway-go/headway/pacer/store"
)

// Bounds of requests.
const (
	// MaxCalls is how many calls are enough for one request, so that no run of the store's program takes long. If the store leaves
	// some of them undecided all the same, the next requests carry as many as it decided, but no fewer than minCalls.
	MaxCalls = 256
	minCalls = 16
	// maxFlushes bounds how many requests of one process are on the wire, for different stacks. Beyond, calls wait, too.
	maxFlushes = 4
	// maxCharges is how many charges of accounts, and different accounts, are enough for one request, so that no run of the store's
	// program takes longer than two milliseconds: each of them takes Redis some microseconds.
	maxCharges = 256
)

// Longest returns how long a request may take that has to connect first, by how long others may take.
func Longest(timeout time.Duration) time.Duration { return 4 * timeout }

// A Sender knows the store.
type Sender interface {
	// Send asks the store for all batches of a request, in one, fills in their grants, and sets the error of each.
	Send(ctx context.Context, r *Request)

	// GiveBack has grants given back whose callers have gone. It does not wait.
	GiveBack(stack *store.Stack, grants []store.Grant)

	// Overdue returns the error for a caller that stops waiting. calls is how many calls got no answer in time; 0 if they stop waiting
	// because the generation has ended.
	Overdue(calls int) error
}

// A Request is what is on the wire.
type Request struct {
	Batches []store.Batch
	Errs    []error // of each batch
	Calls   int     // of all batches

	generation *generation
}

// Dropped reports whether nobody waits for the answer any more.
func (r *Request) Dropped() bool { return r.generation.life.Err() != nil }

// Reservations batches reservations of one process.
type Reservations struct {
	sender  Sender
	timeout time.Duration
	direct  bool // the sender's requests end when their contexts do
	seed    maphash.Seed
	running sync.WaitGroup // flushes

	mu      sync.Mutex
	current *generation
	closed  bool
}

// New returns one whose sender answers within a timeout. If direct is set, its requests are sure to end when their contexts do, and the
// first of a flush is sent in the caller's own goroutine.
func New(sender Sender, timeout time.Duration, direct bool) *Reservations {
	return &Reservations{sender: sender, timeout: timeout, direct: direct, seed: maphash.MakeSeed(), current: newGeneration()}
}

// Restart ends the generation: nobody waits for what is under way.
func (b *Reservations) Restart() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current.end()
	b.current = newGeneration()
}

// Gone returns a channel that is closed when the present generation ends.
func (b *Reservations) Gone() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current.life.Done()
}

// Close takes no more calls, and waits until those that were taken are answered.
func (b *Reservations) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
	b.mu.Lock()
	b.current.end()
	b.mu.Unlock()
}

// A generation is the reservations that wait to be sent, and what is on the wire, for as long as the store is not lost.
type generation struct {
	life context.Context //nolint:containedctx // a caller that still waits when it ends need not
	end  context.CancelFunc

	mu      sync.Mutex
	waiting []*pending
	wire    map[uint64]bool // stacks
	flushes int
	load    int // how many calls the next request carries at most
	// answered is when the store last did so.
	answered time.Time
	latest   *deadline.Context // of the request that was sent last; nil for none
	// Not in use, kept for what they have allocated. They hold timers and channels, and so they are this process's.
	freeCalls   []*pending
	freeFlushes []*flush
}

// A pending is what one caller wants to have reserved. All of it but done and timer is under generation.mu until it is answered.
type pending struct {
	ctx    context.Context //nolint:containedctx // it lives as long as the call
	stack  store.Stack
	hash   uint64 // of the stack
	calls  []store.Call
	grants []store.Grant
	sure   int // so many of the grants are decided
	err    error
	state  pendingState
	done   chan struct{} // tells its caller that it is answered
	timer  *time.Timer

	request *deadline.Context // that it was sent with; nil before
}

type pendingState uint8

const (
	waiting   pendingState = iota // to be sent
	sent                          // with a flush, which has copied the calls
	answered                      // its caller gets the answer
	abandoned                     // its caller has gone
)

// A flush is a goroutine that sends one request after the other, for as long as something waits to be sent.
type flush struct {
	Request

	entries []entry
	places  map[uint64]int // by the stack's hash, the index of the batch
	charges int
}

// An entry says where a pending's calls are: those of a batch from an index on.
type entry struct {
	*pending

	batch, at int
	reported  bool // its caller is to be notified
}

func newGeneration() *generation {
	g := &generation{wire: make(map[uint64]bool), load: MaxCalls}
	g.life, g.end = context.WithCancel(context.Background())
	return g
}

// Reserve has calls reserved by the store, together with others that wait meanwhile. It returns what Overdue does if there is no
// answer in time. What is granted after that is given back.
func (b *Reservations) Reserve(ctx context.Context, stack *store.Stack, calls []store.Call, grants []store.Grant) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return store.ErrClosed
	}
	b.running.Add(1) // until the calls are on their way
	g := b.current
	b.mu.Unlock()

	hash := stack.Hash(b.seed)
	g.mu.Lock()
	p := g.pending()
	p.ctx, p.stack, p.hash, p.calls, p.grants, p.sure, p.err, p.state, p.request = ctx, *stack, hash, calls, grants, 0, nil, waiting, nil
	if g.flushes < maxFlushes && !g.wire[p.hash] {
		f := g.begin(p, b.timeout)
		g.mu.Unlock()
		if b.direct {
			b.lead(g, f) //nolint:contextcheck // it has the call's
		} else {
			go b.run(g, f) //nolint:contextcheck // it has the calls'
		}
	} else {
		p.timer.Reset(2 * b.timeout) // the request on the wire, and the next one
		g.waiting = append(g.waiting, p)
		g.mu.Unlock()
		b.running.Done() // a flush is under way, and takes this along
	}
	if overdue, dropped := b.await(g, p); overdue && g.abandon(p) {
		b.giveBack(p)
		if dropped {
			return b.sender.Overdue(0)
		}
		return b.sender.Overdue(len(calls)) // p is lost: its flush may still have it
	} else if overdue {
		<-p.done
		p.timer.Stop()
	}
	err := p.err
	if err != nil {
		b.giveBack(p)
	}
	p.ctx, p.stack, p.calls, p.grants = nil, store.Stack{}, nil, nil
	g.mu.Lock()
	g.freeCalls = append(g.freeCalls, p)
	g.mu.Unlock()
	return err
}

// await waits for an answer. It reports whether there was none in time, and whether that is because the generation has ended.
func (b *Reservations) await(g *generation, p *pending) (overdue, dropped bool) {
	for {
		select {
		case <-p.done:
			p.timer.Stop()
			return false, false
		case <-g.life.Done():
			return true, true
		case <-p.timer.C:
			if !g.comes(p, b.timeout) {
				return true, g.life.Err() != nil
			}
		}
	}
}

// comes reports whether a call waits because there are many, and the store answers, or because the store connects.
func (g *generation) comes(p *pending, timeout time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	request := p.request
	if p.state == waiting {
		request = g.latest
	}
	if request != nil && p.state <= sent {
		if left := request.Left(); left > 0 { // the store connects
			p.timer.Reset(min(left, timeout))
			return true
		}
	}
	if p.state != waiting || time.Since(g.answered) > timeout {
		return false
	}
	p.timer.Reset(timeout)
	return true
}

// pending returns one that is not in use. The caller holds mu.
func (g *generation) pending() *pending {
	if n := len(g.freeCalls); n > 0 {
		p := g.freeCalls[n-1]
		g.freeCalls = g.freeCalls[:n-1]
		return p
	}
	p := &pending{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	p.timer.Stop()
	return p
}

// abandon makes a call one that nobody waits for; it returns false if it is answered already.
func (g *generation) abandon(p *pending) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch p.state {
	case answered:
		return false
	case waiting:
		g.waiting = slices.DeleteFunc(g.waiting, func(other *pending) bool { return other == p })
	case sent, abandoned:
	}
	p.state = abandoned
	return true
}

// giveBack has given back what a call was granted that is to have all of its grants or none.
func (b *Reservations) giveBack(p *pending) {
	if p.sure > 0 {
		b.sender.GiveBack(&p.stack, granted(p.grants[:p.sure]))
	}
}

// granted returns the grants that are charged.
func granted(grants []store.Grant) []store.Grant {
	return slices.DeleteFunc(slices.Clone(grants), func(g store.Grant) bool { return !g.OK })
}
