package dispatch

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A Dispatcher has the calls of a process on their way to their slots. Everything about them is under one lock, which only its methods
// take. It is safe for concurrent use.
type Dispatcher struct {
	Config
	counts

	Leases *leases.Leases // of the permits of calls in flight

	made   time.Time               // a little earlier, so that no call waits since 0
	way    Way                     // the round trip to the store
	clock  storeClock              // the store's
	news   subscription            // see Listen
	closed chan struct{}           // closed under mu
	busy   sync.WaitGroup          // calls that wait, and goroutines that move them. Add to it under mu, unless closed
	moves  *batch.Requests[func()] // see later

	mu sync.Mutex
	state
}

// counts are read under no lock.
type counts struct {
	queued  atomic.Int64 // calls in all queues
	entered atomic.Int64 // calls that came
	changes atomic.Int64 // how often this process received changes; added to under mu
}

// A state is guarded by mu.
type state struct {
	asleep
	plan

	queues  queues
	looks   []*queue // that have changed, and whose first calls may need a request: see look
	asks    asks
	changed knowledge
	owed    debts
	flying  map[int64]int64 // the cost of calls that went and are not answered, and whose answers will be reported, by generation
}

// asleep are the calls whose owners wait, from when they enter a queue or begin to wait until they have gone or have got nothing.
type asleep struct {
	waiting map[*Call]struct{}
	byID    map[int64]*Call // of them, those that may be in the store's queue
}

// A plan holds which policies bind the calls.
type plan struct {
	declared   int64         // the generation of the policies that hold
	generation int64         // of those that hold for the calls that wait
	replanning bool          // the former are about to hold for them, too: see replan
	frozen     bool          // no queue makes requests, because stale calls move
	arrival    store.Instant // of the last call that was bound anew
}

// IsClosed reports whether Close was called.
func (s *Dispatcher) IsClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// sinceMade returns an instant in the windows' time, counted from when the Dispatcher was made; 0 for instants before that.
func (s *Dispatcher) sinceMade(at time.Time) time.Duration { return max(0, at.Sub(s.made)) }

// A Call is one call on its way to its slot: see the package's drawing. Its zero value is ready for [Dispatcher.Reserve]. Then it is safe
// for concurrent use.
type Call struct {
	set *Dispatcher
	wanted

	// The rest is under the lock of the Dispatcher from when the call is handed out.
	flags
	holding
	place
	noted

	room [store.FewLimits]store.Charge // for the grant's charges, to save an allocation
}

// wanted is what a call wants, and what binds it.
type wanted struct {
	ctx        context.Context //nolint:containedctx // for its values
	stack      store.Stack
	request    [1]store.Call // to the store
	latest     time.Time     // no later slot will do; zero for Forever
	notBefore  time.Time     // the call wants to go no earlier
	arrived    time.Time
	came       int64  // how many came to the queues of this process before it
	binder     Binder // binds it anew; nil if nobody does
	generation int64  // of the policies by which it was bound last
	anew       *Bound // its new binding; nil if it has none
}

// flags describe a call. Small fields are adjacent, which keeps a Call small: most calls make one.
type flags struct {
	state      callState
	byDeadline bool // latest comes from the context's deadline
	caught     bool // it was moved, or may be: goroutines other than its owner may still look at it
	woken      bool // it was woken while it is moving
	tracked    bool // the answer will be reported
	answered   bool // the answer was reported
	paid       bool // the cost was settled
	free       bool // no limit binds it, and there was no request: see Free
	waits      bool // it is one of those that wait
}

// holding is what a call has in the store.
type holding struct {
	grant     [1]store.Grant
	requested time.Time     // when the slot was requested, which is no earlier than this plus the grant's wait
	known     int64         // how many changes this process had received by then: the store knew of them. See outdated
	due       time.Time     // when to go: the slot and jitter
	lease     *leases.Lease // its permits; nil if it has none
	assumed   int64         // for how many microseconds it will probably have them, if they are shared
	choices   *choices      // that it has besides the one that binds it; nil if it has none, or no slot
	err       error         // why it got nothing
}

// A place is where a call is in its process, and how its owner is woken.
type place struct {
	queue  *queue        // that holds it, or whose window has its slot, until the slot comes; nil if none
	moving chan struct{} // closed when a move that is under way is done; nil if none is
	wake   chan struct{} // wakes its owner when it was moved; nil before it waits
}

// noted is what the owner of a call, and hooks, know of its wait.
type noted struct {
	since   time.Duration // when it began to wait, since the Dispatcher was made; 0 if it did not
	went    time.Duration // when it went, since the Dispatcher was made; only if there are hooks
	counted int64         // the second in which Meter has it; 0 if it has not
	binding binding       // what it waits for
	emitted *emitted      // what hooks received of the wait; nil if there are no hooks, or it does not wait
}

type callState uint8

// The states of the package's drawing. A call that is moving, from requeue to its queue or for a poll, stays reserved meanwhile.
const (
	reserved  callState = iota // has a slot, or a position in the store's queue
	queued                     // is in the queue of its process, and has nothing
	asked                      // likewise: a request of its queue carries it
	used                       // has gone
	givenBack                  // what it had was given back, or it got nothing: see err
)

// inQueue reports whether the call is in the queue of its process. The caller holds mu.
func (c *Call) inQueue() bool { return c.state == queued || c.state == asked }

// isStale reports whether a call must be bound anew, by other limits than it has. The caller holds mu.
func (c *Call) isStale() bool { return c.anew != nil }

// isOld reports whether the policies of a generation have not bound a call yet. The caller holds mu.
func (c *Call) isOld(generation int64) bool { return c.generation < generation && c.binder != nil }

// limit returns the limit with this index; nil if there is none.
func (c *Call) limit(i int) *store.Limit {
	if i < 0 || i >= len(c.stack.Limits) {
		return nil
	}
	return &c.stack.Limits[i]
}

// hasPermits reports whether the call has its permits, if it needs any. A call that is let through needs none.
func (c *Call) hasPermits() bool {
	if g := &c.grant[0]; g.Local && g.Receipt == nil {
		return true
	}
	for i, charge := range c.grant[0].Charges {
		if charge.To == 0 && c.stack.Limits[i].Spec.Algorithm == specs.Concurrency {
			return false
		}
	}
	return true
}

// signal wakes the owner of a call, which looks at what has changed.
func (c *Call) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// catch marks a call as moving. The goroutine that catches a call must move it.
func (c *Call) catch() { c.moving, c.caught = make(chan struct{}), true }

// moved wakes the owner of a call that is no longer moving.
func (c *Call) moved() {
	close(c.moving)
	c.moving = nil
	c.signal()
}

// choices are what a call has besides the choice that binds it.
type choices struct {
	limits []store.Limit
	costs  []int64
	anyOf  [][]int
	kept   uint64
	chosen int
}

// queues are the queues of a process, one for each stack.
type queues struct {
	seed    maphash.Seed
	byStack map[uint64]*queue
	swept   int                 // how many queues there were after idle ones were last removed
	pools   map[*queue]struct{} // those whose calls have choices and are queued in the store
	polls   map[*queue]struct{} // those whose calls may wait for room in a window with parts
}

// A queue holds the waiting calls of one stack that cost about the same. It has no lock: the Dispatcher has.
type queue struct {
	hash   uint64
	limits []store.Limit
	all    *atomic.Int64 // calls in all queues
	outlook
	deferral

	line    []*Call // calls that have nothing, in order of arrival
	out     []*Call // calls that have left the line, for a slot to come or for the store's queue, and have not gone yet, in order
	ask     ask     // of its first calls
	carried []*Call // by a request that is under way, for that
	asking  bool    // its first calls have a request, or are about to
	changed bool    // see look
}

// outlook describes the next slots of a queue.
type outlook struct {
	window   Window
	timer    *time.Timer // starts a request when the furthest slot comes within reach
	last     store.Grant // the last answer, and what binds the calls that have to wait
	lastCost int64       // what its call costs; 0 if that differs from limit to limit
	groups   bool        // its slots come in groups: see least

	most time.Duration // how far ahead its calls get slots; 0: any
}

// A deferral is of a stack with a limit that is granted only shortly before the slot: its calls leave the queue for the store's queue.
type deferral struct {
	deferred bool
	passes   bool // the process passes permits on
	alone    bool // its calls need nothing but permits
	inOrder  bool // its calls are queued for permits, in order of arrival
	inStore  StoreQueue
	idle     []*leases.Lease // permits to be passed on, kept until a call of out has its answer
}

// A pause can arrive between the moment when the store granted a slot and the moment when its owner begins to wait. So an owner that
// begins to wait looks at the pauses, and a pause looks at the calls that wait, under one lock. All comparisons are between instants of the
// store's clock.

// knowledge is what this process received of limits; of all of them, by the empty key.
type knowledge map[store.Key]changed

// changed is what this process received of a limit. News may overtake each other, and the answer to a request.
type changed struct {
	until store.Instant // when the pause ends; 0 if none is known
	since store.Instant // when the store decided on that pause
	ended store.Instant // when it decided on a resumption after that
	pause int64         // the pause was this change
	again int64         // the latest change after which slots must be requested anew
}

// A subscription receives changes that other processes report.
type subscription struct {
	once sync.Once
	stop func() // nil if there is none
}

// An ask is calls of one stack about which the store must decide.
type ask struct {
	ctx   context.Context //nolint:containedctx // for its values
	queue *queue          // whose first calls these are: as many as its window allows when the request is made. Nil: it is one call
	stack store.Stack
	hash  uint64 // of the stack
	call  *store.Call
	grant *store.Grant // the answer to the call
	err   error
	done  chan struct{} // signals the answer

	hasPermits bool // the call has its permits: its request need not wait for one under way
}

// asks are those that wait for a request, and those under way.
type asks struct {
	punctual bool // requests end in time by themselves
	waiting  []*ask
	wire     map[uint64]bool // stacks of requests under way, but for calls that have their permits
	under    int             // requests under way
	over     sync.Cond       // of Dispatcher.mu: one of them is answered
	load     int             // how many calls the next request carries at most
	spare    []*request      // not in use, kept for what they have allocated
}

// A request is one run of the store's program, for one ask or several.
type request struct {
	began   time.Time
	asks    []carried
	batches []store.Batch
	errs    []error        // of the batches
	places  map[uint64]int // by the stack's hash, the index of the batch
	wired   []uint64       // the hashes of stacks of which no other request is under way
	calls   int
	charges int
}

// carried is where an ask's calls are that a request carries: those of a batch from one index to another.
type carried struct {
	*ask

	batch, from, to int
}
