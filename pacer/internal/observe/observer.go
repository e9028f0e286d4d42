package observe

import (
	"context"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/store"
)

// Bounds of observation, in each process.
const (
	// maxPending bounds the calls that wait for their request. Further ones are lost.
	maxPending = 8192
	// maxVirtual bounds the future slots. Further calls are lost until some have come.
	maxVirtual = 32_768
	// MaxWait is how far ahead slots are charged. A call that would wait for longer is reported as refused.
	MaxWait = time.Hour
	// maxAsking bounds the concurrent requests.
	maxAsking = 4
	// maxSettling bounds the settlements under way. Further ones are lost: calls then keep their first charge.
	maxSettling = 1024
)

// Config is what an Observer needs from its Pacer.
type Config struct {
	Upstream string
	Store    store.Store
	Member   store.Member    // the store, if it is one; nil otherwise
	Direct   bool            // the store is in memory: calling it takes no time
	Timeout  time.Duration   // of a request to a store that does not bound its requests itself
	Meter    *usage.Meter    // counts the calls that go
	Calls    *binding.Reader // binds calls: see Observe
	Events   Events
}

// Events receive what observed policies would have done to calls, with the calls' contexts.
type Events interface {
	// Predicted receives the store's answer about a call.
	Predicted(ctx context.Context, one *Observation, g *store.Grant)
	// WouldRefuse is called with the error of a call that would have been refused before a request to the store.
	WouldRefuse(ctx context.Context, err error)
	// WouldQueue is called for a call that would have been queued for a permit, while running calls of this process run.
	WouldQueue(ctx context.Context, policy, scope string, running int64)
	// NotObserved is called with the number of calls that were dropped.
	NotObserved(n int64)
}

// An Observer has the calls of a Pacer that observed policies bind. Make one with [New]. It is safe for concurrent use.
type Observer struct {
	Config

	life context.Context //nolint:containedctx // of requests that belong to no call
	busy sync.WaitGroup  // goroutines

	requests *batch.Requests[*Observation] // of pending calls

	mu       sync.Mutex
	closed   bool
	epoch    int64 // how often the policies were enforced: slots of before are given back
	pending  int
	settling int
	virtual  []*Observation // with slots to come, by these
	running  map[store.Key]int64
}

// New returns an Observer.
func New(c *Config) *Observer {
	o := &Observer{Config: *c, life: context.Background()}
	o.requests = batch.New(maxAsking, fit, o.askShared)
	return o
}

// An Observation is what observed policies would have done to one call; nil if none binds it. Set the exported fields before
// [Observation.Ask], and not afterwards.
type Observation struct {
	Limits []store.Limit
	Call   store.Call
	Delay  time.Duration    // when it goes, if not at once
	Ends   bool             // the context's deadline bounds its wait
	Free   []store.Limit    // that the call cost nothing at first
	Learns []binding.Lesson // the lessons of its costs

	of    *Observer
	ctx   context.Context //nolint:containedctx // for its values
	set   *binding.Set    // that binds it
	epoch int64

	// The Observer's lock guards the fields below.
	permits []store.Key
	state   state
	grant   store.Grant
	counted int64               // the second in which the meter has it
	actual  *binding.Settlement // what the call really cost; nil if that is not known
}

// New returns the observation of a call that goes after a delay. Then call [Observation.Ask].
func (o *Observer) New(ctx context.Context, delay time.Duration) *Observation {
	return &Observation{of: o, ctx: ctx, Delay: delay}
}

type state uint8

const (
	isPending state = iota
	isRefused       // or lost: it holds only its permits
	isVirtual       // its slot is in the future
	isPast
	isOver // given back, or settled
)
