package pacer

import (
	"context"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// Hooks are functions that a [Pacer] calls when something happens, as in net/http/httptrace. It calls those that are
// set. Each has the name of its event. Set them in [Config].Hooks. [LogHooks] makes a set that logs; package
// otelpacer makes one for OpenTelemetry.
//
// A hook runs in a goroutine of its own, never under a lock, and never in the goroutine of a call: a slow hook delays
// no call, no other set of hooks, and not even Close by more than a second. The hooks of one set are called one at a
// time, in order, so they need no locks of their own. A hook may run some time after its event: the event has the
// times. If a set is so slow that thousands of events wait for it, further events are dropped, and Dropped receives
// how many. A hook that panics is logged by slog's default logger, and called again the next time.
//
// Contexts are those of the calls, for their values: they may have ended. Without hooks, calls pay nothing for them.
type Hooks struct {
	// Waiting is called when a call begins to wait, and again when what it waits for has changed: it was moved behind
	// a pause, or its position in a queue has changed.
	Waiting func(context.Context, Waiting)
	// WaitDone is called when a call that waited is admitted, or has given up.
	WaitDone func(context.Context, WaitDone)
	// Admitted is called for each call that is admitted: at once, or after a wait. It is not called for a
	// [Reservation] that is neither waited for nor reported or settled.
	Admitted func(context.Context, Admitted)
	// Answered is called by the first [Reservation.Report] of a call: the upstream has answered it, or it has failed.
	Answered func(context.Context, Answered)
	// Settled is called by [Reservation.Settle], for each policy that the call cost more or less than it was charged.
	Settled func(context.Context, Settled)
	// Refused is called for each call that may not go. Nothing was charged.
	Refused func(context.Context, Refusal)
	// Observed is called for each call that observed policies bind, when the store has said how long they would have made it wait: see
	// [Observe]. For a call of which permits would have been taken it is called once more for each policy of calls in flight. It is
	// called some time after the call went.
	Observed func(context.Context, Observed)
	// NotObserved is called when n calls went of which that is not known, and which were not charged: too many were pending, or the
	// store failed.
	NotObserved func(n int64)
	// Paused is called when this process receives a pause, whichever process reported it, and Resumed when a pause is
	// lifted by hand. A pause that ends by itself is no event. With either of them set, a Pacer listens to its store
	// from the start, and must be closed.
	Paused  func(Pause)
	Resumed func(Pause)
	// FeedbackApplied is called for each note that the store received because of what an upstream reported to this
	// process.
	FeedbackApplied func(context.Context, FeedbackApplied)
	// Failover is called when this process loses a [store.Shared] and paces as Config.Outage defines, and when it has
	// it back.
	Failover func(Failover)
	// StoreRequest is called after each operation of a [store.Shared], with its duration and error.
	StoreRequest func(StoreRequest)
	// Dropped is called when the other hooks were too slow: n of their events were dropped.
	Dropped func(n int64)

	logsFailover bool // Failover logs: nobody else needs to

	_ struct{}
}

// A Waiting is a call that waits, and what it waits for.
type Waiting struct {
	Upstream string
	Policy   string        // the policy that binds; "" if the whole upstream is paused, or only NotBefore holds the call
	Scope    string        // its scopes and values, such as `tenant=acme`; "" for the whole upstream
	Cost     int64         // what the call costs that policy
	Paused   bool          // because the upstream answered "slow down"
	Queued   bool          // it is queued, and has no slot yet
	Ahead    int64         // its position, if Queued: how many calls are before it
	At       time.Time     // when this was known
	Wait     time.Duration // from At until it is admitted, as things are; if Queued, until it asks again

	_ struct{}
}

// A WaitDone is a wait that is over.
type WaitDone struct {
	Waiting // the wait as last emitted

	Since time.Time     // when the call began to wait
	Took  time.Duration // how long it waited
	Err   error         // why the call is not admitted; nil if it is

	_ struct{}
}

// An Admitted is a call that goes: it has its slot, and the slot has come.
type Admitted struct {
	Upstream string
	Policy   string // the policy that made it wait; "" if none did
	Scope    string
	Cost     int64         // the call's own cost: see [Cost]
	Costs    []PolicyCost  // what it is charged by each policy that binds it
	Waited   time.Duration // for how long; 0 if it was admitted at once
	Late     time.Duration // how much later than its slot it goes, jitter not included; 0 if it did not have to wait for one

	_ struct{}
}

// An Answered is a call that is over, as far as its answer is concerned.
type Answered struct {
	Upstream string
	Took     time.Duration // since it was admitted

	_ struct{}
}

// A PolicyCost is what a call costs one policy; of calls in flight, one permit.
type PolicyCost struct {
	Policy string
	Scope  string // its scopes and values, such as `tenant=acme`; "" for the whole upstream
	Cost   int64

	_ struct{}
}

// A Settled is what a call really cost one policy.
type Settled struct {
	Upstream string
	PolicyCost
	Charged int64 // what the policy charged when the call was admitted

	_ struct{}
}

// A Refusal is a call that may not go.
type Refusal struct {
	Upstream string
	Policy   string // "" if the whole upstream is paused
	Scope    string
	Wait     time.Duration // as [LimitError].Wait
	Err      error         // the *LimitError, *ScopeError or *NestedError that its caller received

	_ struct{}
}

// An Observed is a call that went although policies bind it that are observed, and what they would have done to it.
type Observed struct {
	Upstream string
	Policy   string        // the policy that would have made it wait, or would have refused it; "" if none, or the whole upstream is paused
	Scope    string        // its scopes and values, such as `tenant=acme`; "" for the whole upstream
	Cost     int64         // what the call costs that policy
	Paused   bool          // because the upstream answered "slow down"
	Wait     time.Duration // how long it would have waited; 0: not at all, or see InFlight
	InFlight bool          // all permits of the policy were taken: it would have been queued. For how long is not known: Wait is 0
	Running  int64         // if InFlight: how many calls of this process run, this one included
	// Refused is what the call would have been refused with; nil if it would have gone: a *LimitError, a *ScopeError, or a *ConfigError
	// of a call that is not asked for as its policies need it.
	Refused error

	_ struct{}
}

// A Pause is a limit whose calls may not go for a time.
type Pause struct {
	Upstream string
	Policy   string // "" for the whole upstream
	Scope    string
	For      time.Duration // from now; 0 if it is lifted

	_ struct{}
}

// A FeedbackApplied is one note of what an upstream reported, as the store received it.
type FeedbackApplied struct {
	Upstream string
	Policy   string // "" for the whole upstream
	Scope    string
	Kind     store.NoteKind // NotePause, NoteSlow, NoteLearn, NoteRemaining, NoteStray
	For      time.Duration  // of a pause: how long; of a learned limit: how long it is kept; of what remains: until there is more; of a stray refusal: the period
	Value    int64          // of a learned limit: the emission interval in µs of a rate, or the limit of a window; of what remains: how much; of a stray refusal: by how much the margin grows, in millionths of the period

	_ struct{}
}

// A Failover is the start or the end of a time without the store, in which a process paces locally, or waits for its first contact.
type Failover struct {
	Upstream  string
	On        bool          // the store is lost
	Never     bool          // it has never answered this process, and calls wait for that: see Config.Processes
	Outage    Outage        // what becomes of calls meanwhile, if not Never
	Processes int           // the number of processes that share the limits: this one takes its share; 0 if Never
	Err       error         // the cause, if On
	For       time.Duration // how long it lasted, if not On

	// Dropped is how many slots that were to be given back to the store, and notes, were too many to keep until it was back, if not On:
	// the slots stay charged until they are past, and permits until their leases run out. A process keeps up to 32,768.
	Dropped int

	_ struct{}
}

// A StoreRequest is an operation of a store that is over.
type StoreRequest struct {
	Upstream string
	Op       string // "reserve", "cancel", "report", "status", "heartbeat", "describe" or "index"
	Calls    int    // how many calls the request reserved
	Took     time.Duration
	Err      error // nil if the store answered. That it has forgotten its data is an answer, too: see Failover

	_ struct{}
}
