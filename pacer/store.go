package pacer

import (
	"context"
	"math"
	"time"

	"github.com/headway-go/headway/policies"
)

// A Store keeps the accounts of policies and decides when a call may go. All processes that share a store
// share its limits and its clock. [NewMemoryStore] serves one process, package redisstore a fleet; a store of
// your own must pass package storetest.
//
// Most users never call a Store: they give one to [Config] and use the [Pacer].
type Store interface {
	// Reserve finds and charges a slot for each of the calls, in order, and says so in grants, which is as
	// long as calls. All calls carry the same stack, and the limits of the stack are those that hold from now
	// on. A call whose wait would exceed its MaxWait is not granted and changes nothing. Costs are from 1 to
	// the smallest Spec.Limit of the stack; NotBefore and MaxWait are not negative.
	//
	// If Reserve returns an error, the grants mean nothing, and no call may go. The error is as it came: a
	// Pacer wraps it into a [*StoreError].
	Reserve(ctx context.Context, stack Stack, calls []Call, grants []Grant) error

	// Cancel gives back what grants of this stack were charged. What is past is not given back, since nobody
	// could use it.
	Cancel(ctx context.Context, stack Stack, grants []Grant) error

	// Pause lets nothing go for d from now on, and returns when that ends: for each limit of the stack, or
	// for the whole upstream if the stack has no limits. It never shortens a pause.
	Pause(ctx context.Context, stack Stack, d time.Duration) (until Instant, err error)

	// Status looks at a stack without changing anything.
	Status(ctx context.Context, stack Stack) (StackStatus, error)
}

// An Instant is a point in store time: microseconds since the Unix epoch by the store's clock. Instants of
// one store compare; they must not be mixed with this machine's clock.
type Instant int64

// Sub returns the duration t − u; one that is too long for a Duration becomes the longest.
func (t Instant) Sub(u Instant) time.Duration {
	const most = Instant(math.MaxInt64 / time.Microsecond)
	return time.Duration(max(-most, min(most, t-u))) * time.Microsecond
}

// A Stack names the limits that bind one call.
type Stack struct {
	Upstream string  // see [Config]
	Limits   []Limit // in the order of the policies

	_ struct{}
}

// A Limit is one policy for one scope value.
type Limit struct {
	Policy string        // the policy's name: see [policies.ValidName]
	Scope  string        // the value of its scopes; "" for the whole upstream. Escaped and bounded: see [EscapeScope]
	Spec   policies.Spec // its numbers, as they are now

	_ struct{}
}

// A Call is one call that asks for a slot.
type Call struct {
	Cost      int64
	NotBefore time.Duration // the slot is no earlier than this from now
	MaxWait   time.Duration // grant no slot that is further away

	_ struct{}
}

// A Grant is a store's answer to a [Call].
type Grant struct {
	OK    bool          // granted and charged
	Now   Instant       // when the store decided
	At    Instant       // the slot; if not OK, when it would have been
	Slack time.Duration // how much later than At the call may go

	// Binds is the index of the limit that decided At, or BindsNothing or BindsUpstream.
	Binds int
	// Paused says that Binds names a limit because it is paused.
	Paused bool

	// Charges is what each limit of the stack was charged. It means something to the store alone.
	Charges []Charge

	_ struct{}
}

// Values of [Grant].Binds that are no index.
const (
	BindsNothing  = -1 // the call may go when it asked to
	BindsUpstream = -2 // the whole upstream is paused
)

// Wait returns how long after the decision the slot is.
func (g *Grant) Wait() time.Duration { return g.At.Sub(g.Now) }

// A Charge is what a reservation took from one account, in two integers whose meaning is the store's. The
// stores of this module use an interval of virtual time [From, To) for a rate, and the begin of a bucket and
// a cost for a window.
type Charge struct{ From, To int64 }

// A StackStatus is a stack seen at one instant.
type StackStatus struct {
	Now    Instant
	Paused Instant // the whole upstream is paused until then; 0 if it is not
	Limits []LimitStatus

	_ struct{}
}

// A LimitStatus is one limit of a stack seen at one instant.
type LimitStatus struct {
	Remaining int64   // calls of cost 1 that may go now
	Next      Instant // the first slot for a call of cost 1
	Backlog   int64   // cost charged to slots after now
	Paused    Instant // nothing goes before; 0 if not paused

	_ struct{}
}
