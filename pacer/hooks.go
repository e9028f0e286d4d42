package pacer

import (
	"context"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// Hooks are functions that a [Pacer] calls when something happens, in the manner of net/http/httptrace: those that are set,
// and no others. Give them to [Config].Hooks. [LogHooks] makes a set that logs; package otelpacer one for OpenTelemetry.
//
// A hook runs in a goroutine of its own, never under a lock, and never in the goroutine of a call: one that is slow delays no
// call, no other set of hooks, and not even Close by more than a second. The hooks of one set are called one at a time, in
// order, so they need no locks of their own. What has happened since is not known to them: times are in what they are given.
// If a set is so slow that thousands of events wait for it, further ones are dropped, and Dropped says how many. A hook that
// panics is logged by slog's default logger, and called again the next time.
//
// Contexts are those of the calls, for their values: they may have ended. Without hooks, calls pay nothing for them.
type Hooks struct {
	// Sleeps is called when a call goes to sleep, and again when what it waits for has changed: it was moved behind a pause,
	// or has come forward in a line.
	Sleeps func(context.Context, Sleep)
	// Slept is called when a call that slept goes, or has given up.
	Slept func(context.Context, Slept)
	// Goes is called for each call that goes: at once, or after a sleep. Of a [Reservation] that is neither waited for nor
	// reported or settled, it is not known.
	Goes func(context.Context, Going)
	// Refused is called for each call that may not go. Nothing was charged.
	Refused func(context.Context, Refusal)
	// Paused is called when this process hears of a pause, whoever reported it, and Resumed when one is lifted by hand. One
	// that is over by itself is not told. With either of them set, a Pacer listens to its store from the start, and must be
	// closed.
	Paused  func(Pause)
	Resumed func(Pause)
	// Heeded is called for each thing that an upstream said to this process and that was told to the store.
	Heeded func(context.Context, Heeding)
	// Fallback is called when this process loses a [store.Shared] and paces as Config.Outage says, and when it has it back.
	Fallback func(Fallback)
	// Asked is called after each operation of a [store.Shared], with its duration and error.
	Asked func(StoreCall)
	// Dropped is called when the other hooks were too slow: so many of their calls were left out.
	Dropped func(n int64)

	_ struct{}
}

// A Sleep is what a call waits for.
type Sleep struct {
	Upstream string
	Policy   string        // which binds; "" if the whole upstream is paused, or for NotBefore alone
	Scope    string        // its scopes and values, such as `tenant=acme`; "" for the whole upstream
	Cost     int64         // what the call costs that policy
	Paused   bool          // because the upstream said "slow down"
	InLine   bool          // it stands in line, and has no slot yet
	Ahead    int64         // how many calls stand before it, if InLine
	At       time.Time     // when that was known
	Wait     time.Duration // from then until it goes, as things are; if InLine, until it asks again

	_ struct{}
}

// A Slept is a sleep that is over.
type Slept struct {
	Sleep // as it was last

	Since time.Time     // when the call went to sleep
	Took  time.Duration // how long it slept
	Err   error         // why it does not go; nil: it goes

	_ struct{}
}

// A Going is a call that goes.
type Going struct {
	Upstream string
	Policy   string // which made it wait; "" if none did
	Scope    string
	Cost     int64         // as the call has it: see [Cost]
	Waited   time.Duration // how long it slept; 0: it went at once

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

// A Heeding is one thing that an upstream said, as it was told to the store.
type Heeding struct {
	Upstream string
	Policy   string // "" for the whole upstream
	Scope    string
	Kind     store.NoteKind // NotePause, NoteSlow, NoteLearn, NoteRemaining
	For      time.Duration  // of a pause: how long; of what was learned: until when it is believed; of what remains: until there is more
	Value    int64          // of what was learned: the emission interval in µs of a rate, or the limit of a window; of what remains: how much

	_ struct{}
}

// A Fallback is the start or the end of a time without the store.
type Fallback struct {
	Upstream  string
	On        bool          // the store is lost
	Outage    Outage        // what becomes of calls meanwhile
	Processes int           // of how many processes this one takes its share
	Err       error         // why, if On
	For       time.Duration // how long it lasted, if not On

	_ struct{}
}

// A StoreCall is an operation of a store.
type StoreCall struct {
	Upstream string
	Op       string // "reserve", "cancel", "report", "status", "beat", "describe" or "index"
	Calls    int    // how many calls were reserved together
	Took     time.Duration
	Err      error // nil: it answered. That it has forgotten what it knew is an answer, too: see Fallback

	_ struct{}
}
