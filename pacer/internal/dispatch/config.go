package dispatch

import (
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Timeout bounds the store's operations that go on when the context of a call ends: giving slots back, and moving behind a pause.
const Timeout = 5 * time.Second

// A Config says whose calls wait, and for what.
type Config struct {
	Upstream string
	Store    store.Store  // charges the calls
	Given    store.Store  // the store below the Member, if there is one; otherwise the Store
	Member   store.Member // the Store, if it stands in front of a shared one; nil otherwise
	Direct   bool         // the Store answers in no time

	Jitter  time.Duration // by how much a call goes later than its slot, at most
	MaxLate time.Duration // how late after its slot and its slack a call may go

	Leases *leases.Leases // of the permits of calls in flight
	Meter  *usage.Meter   // counts what calls spend

	Events Events // nil if there are no hooks

	// Reread is called when what operators have set may have changed; nil if a Member looks after that.
	Reread func()
	// Reported is called with the names of limits of which others say that nothing is left, before that is heeded.
	Reported func(policies []string)
}

// A Request is what a call requests.
type Request struct {
	Limits   []store.Limit // that bind it
	Call     store.Call    // but for ID and Reach
	HasQueue bool          // one of the limits has a queue in the store
	WillWait bool          // the owner waits until the call may go: it is queued in the process until its slot is near
	Tracked  bool          // its answer will be reported
	Untried  bool          // the store was not asked yet whether the call may go at once

	Binder     Binder // binds the call anew when other policies hold; nil for one that does not wait
	Generation int64  // of the policies by which it is bound
}

// times returns a call that costs as much as n do that are as requested, and goes now or not at all.
func (r *Request) times(n int64) store.Call {
	c := r.Call
	c.MaxWait, c.Costs = 0, slices.Clone(c.Costs)
	if c.Cost > policies.MaxLimit/n { // of a call that no limit binds by it
		c.Cost = policies.MaxLimit
	} else {
		c.Cost *= n
	}
	for i := range c.Costs {
		c.Costs[i] *= n
	}
	return c
}

// The policies of a Pacer may change while calls wait. Then each of them is bound anew. A call whose limits are the same is left alone. Of
// the others, those that hold slots give them back and reserve again, in the order of their slots, and the rest wait in the queues of their
// new stacks, in the order in which they came. Until the first have their new slots, no call of their queues asks, so that nobody overtakes
// them. A call that the new policies cannot bind, because it lacks a scope, keeps the limits that it has. Changes that come meanwhile wait,
// and then count as one.

// A Binder binds a call to the policies that hold now.
type Binder interface {
	// Bind returns how the policies that hold now bind the call. It is called under no lock: it calls functions of the user.
	Bind() Bound
}

// Bound is how a call is bound anew.
type Bound struct {
	Request // what it requests now, in memory of its own; of the Generation alone if it is not OK

	OK   bool   // it can be bound
	Keep func() // has its Binder remember it; called under the lock of Dispatcher if the call is bound so
}
