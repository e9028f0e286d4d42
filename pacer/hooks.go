package pacer

import (
	"context"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// Hooks are functions that a [Pacer] calls when something happens, in the manner of net/http/httptrace: those that are set,
// and no others. Each has the name of its event. Give them to [Config].Hooks. [LogHooks] makes a set that logs; package otelpacer one
// for OpenTelemetry.
//
// A hook runs in a goroutine of its own, never under a lock, and never in the goroutine of a call: one that is slow delays no
// call, no other set of hooks, and not even Close by more than a second. The hooks of one set are called one at a time, in
// order, so they need no locks of their own. What has happened since is not known to them: times are in their events.
// If a set is so slow that thousands of events wait for it, further ones are dropped, and Dropped says how many. A hook that
// panics is logged by slog's default logger, and called again the next time.
//
// Contexts are those of the calls, for their values: they may have ended. Without hooks, calls pay nothing for them.
type Hooks struct {
	// Waiting is called when a call begins to wait, and again when what it waits for has changed: it was moved behind a pause,
	// or its position in a queue has changed.
	Waiting func(context.Context, Waiting)
	// WaitDone is called when a call that waited is admitted, or has given up.
	WaitDone func(context.Context, WaitDone)
	// Admitted is called for each call that is admitted: at once, or after a wait. Of a [Reservation] that is neither waited for nor
	// reported or settled, it is not known.
	Admitted func(context.Context, Admitted)
	// Refused is called for each call that may not go. Nothing was charged.
	Refused func(context.Context, Refusal)
	// Paused is called when this process receives a pause, whichever process reported it, and Resumed when one is lifted by hand. One
	// that is over by itself is no event. With either of them set, a Pacer listens to its store from the start, and must be
	// closed.
	Paused  func(Pause)
	Resumed func(Pause)
	// FeedbackApplied is called for each note that the store received because of what an upstream reported to this process.
	FeedbackApplied func(context.Context, FeedbackApplied)
	// Failover is called when this process loses a [store.Shared] and paces as Config.Outage says, and when it has it back.
	Failover func(Failover)
	// StoreRequest is called after each operation of a [store.Shared], with its duration and error.
	StoreRequest func(StoreRequest)
	// Dropped is called when the other hooks were too slow: so many of their events were left out.
	Dropped func(n int64)

	_ struct{}
}

// A Waiting is a call that waits, and what for.
type Waiting struct {
	Upstream string
	Policy   string        // which binds; "" if the whole upstream is paused, or for NotBefore alone
	Scope    string        // its scopes and values, such as `tenant=acme`; "" for the whole upstream
	Cost     int64         // what the call costs that policy
	Paused   bool          // because the upstream said "slow down"
	Queued   bool          // it is queued, and has no slot yet
	Ahead    int64         // its position, if Queued: how many calls are before it
	At       time.Time     // when that was known
	Wait     time.Duration // from then until it is admitted, as things are; if Queued, until it asks again

	_ struct{}
}

// A WaitDone is a wait that is over.
type WaitDone struct {
	Waiting // as it was last

	Since time.Time     // when the call began to wait
	Took  time.Duration // how long it waited
	Err   error         // why it is not admitted; nil: it is

	_ struct{}
}

// An Admitted is a call that goes: it has its slot, and that has come.
type Admitted struct {
	Upstream string
	Policy   string // which made it wait; "" if none did
	Scope    string
	Cost     int64         // as the call has it: see [Cost]
	Waited   time.Duration // for how long; 0: it was admitted at once

	_ struct{}
}

// A Refusal is a call that may not go.
type Refusal struct {
	Upstream string
	Policy   string // "" if the whole upstream is paused
	Scope    string
	Wait     time.Duration // as [LimitError].Wait
	Err      error         // the *LimitError or *ScopeError that its caller got

	_ struct{}
}

// A Pause is a limit of which nothing goes for a time.
type Pause struct {
	Upstream string
	Policy   string // "" for the whole upstream
	Scope    string
	For      time.Duration // from now; 0 if it is lifted

	_ struct{}
}

// A FeedbackApplied is one thing that an upstream reported, as the store received it.
type FeedbackApplied struct {
	Upstream string
	Policy   string // "" for the whole upstream
	Scope    string
	Kind     store.NoteKind // NotePause, NoteSlow, NoteLearn, NoteRemaining
	For      time.Duration  // of a pause: how long; of what was learned: until when it is believed; of what remains: until there is more
	Value    int64          // of what was learned: the emission interval in µs of a rate, or the limit of a window; of what remains: how much

	_ struct{}
}

// A Failover is the start or the end of a time without the store, in which a process paces by itself.
type Failover struct {
	Upstream  string
	On        bool          // the store is lost
	Outage    Outage        // what becomes of calls meanwhile
	Processes int           // of how many processes this one takes its share
	Err       error         // why, if On
	For       time.Duration // how long it lasted, if not On

	_ struct{}
}

// A StoreRequest is an operation of a store that is over.
type StoreRequest struct {
	Upstream string
	Op       string // "reserve", "cancel", "report", "status", "beat", "describe" or "index"
	Calls    int    // how many calls were reserved together
	Took     time.Duration
	Err      error // nil: it answered. That it has forgotten what it knew is an answer, too: see Failover

	_ struct{}
}
