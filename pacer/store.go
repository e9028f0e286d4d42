package pacer

import (
	"context"
	"fmt"
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

	// Report heeds notes about limits of the stack, in order, and tells every [Listener] of pauses and resumptions. It
	// returns when it did so, and how many of the notes of the kinds Slow, Learn and Remaining made a difference.
	Report(ctx context.Context, stack Stack, notes []Note) (now Instant, changed int, err error)

	// Status looks at a stack without changing anything.
	Status(ctx context.Context, stack Stack) (StackStatus, error)
}

// A Shared is a [Store] that other processes use, too, and that can be out of reach, or forget. A [Pacer] watches over
// it: see [Config].Outage. Every operation is given a context that ends when the Pacer does not wait any longer.
//
// A store whose operations are sure to end when their contexts do may say so by a method Punctual() bool. A Pacer then asks
// it in the goroutine of the call, where it otherwise needs another one to be able to leave in time.
//
// A store that has forgotten what it knew, or whose clock has stepped back, says so once it is asked to reserve by
// somebody who knows better: see [Stack].Era and [ForgotError].
type Shared interface {
	Store

	// ReserveAll is Reserve for several stacks of one upstream, in order, in one request. Era and Told are those of the
	// first stack. A limit that several of the stacks have in common has the same Spec in all of them. The last grants may be
	// [Grant].Deferred.
	ReserveAll(ctx context.Context, batches []Batch) error

	// CancelAll is Cancel for several stacks of one upstream, in order, in one request: Calls is not used. A limit that several
	// of the stacks have in common has the same Spec in all of them.
	CancelAll(ctx context.Context, batches []Batch) error

	// Pauses is Status of which nothing is asked but Now and what is Paused: it takes little, however much is charged.
	Pauses(ctx context.Context, stack Stack) (StackStatus, error)

	// Heartbeat says that a process is there, and returns what the store knows of the upstream.
	Heartbeat(ctx context.Context, upstream string, b Heartbeat) (Membership, error)

	// Fault says what an error that the store returned means.
	Fault(err error) Fault
}

// A Batch is calls that carry the same stack, and room for as many grants: see [Store].Reserve.
type Batch struct {
	Stack  Stack
	Calls  []Call
	Grants []Grant

	_ struct{}
}

// A Heartbeat is what a process says of itself from time to time.
type Heartbeat struct {
	ID   string        // of the process, at random
	TTL  time.Duration // for how long it is there if nothing else is heard of it; 0: it leaves
	Now  Instant       // the latest store time that it was told; 0: none
	Keep time.Duration // for how long an account of the upstream can matter
	// Gather is for how long a process that was without the store waits for the others that were; 0 if it was not. The
	// first one that says so sets the time for all.
	Barrier time.Duration

	_ struct{}
}

// A Membership is the answer to a [Heartbeat].
type Membership struct {
	Now     Instant
	Epoch   int64   // which incarnation of the store's data this is: see [Incarnation]
	Alive   int     // how many processes are there
	Rank    int     // how many of them came before this one
	Barrier Instant // until when processes that were without the store wait for each other

	_ struct{}
}

// Incarnation returns when the data of an era came into being. Eras of one incarnation differ by deliberate resets.
func Incarnation(era int64) int64 { return era - era%1000 }

// A Fault is what an error of a [Shared] means.
type Fault uint8

// Faults.
const (
	// Unreachable: the store did not answer, or cannot answer anybody now.
	Unreachable Fault = iota
	// Denied: the store does not let this process in.
	Denied
	// Unfit: it is about this one stack, such as a key that holds something else. The store works.
	Unfit
)

// A ForgotError is what a [Shared] returns if it is not in the era of the stack, or its clock is more than a second
// before [Stack].Told. Nothing was charged.
type ForgotError struct{ Epoch int64 } // the era in which it is; 0 for none

// Error implements error.
func (e *ForgotError) Error() string {
	return fmt.Sprintf("pacer: the store has forgotten what it knew, or its clock has stepped back (era %d)", e.Epoch)
}

// A Notifier is a [Store] that can tell about pauses as they are reported, so that those who sleep already heed
// them, too. Without it a pause reaches only new calls and those of the process that reported it.
type Notifier interface {
	// Listen calls heard for each change of the upstream's limits from now on, by any process that shares the store,
	// and for each time when some of them may have been missed. It does not block, and calls heard from one goroutine
	// at a time, until stop returns.
	Listen(upstream string, heard func(News)) (stop func())
}

// An Exchanger is a [Store] that grants slots by itself while it is without the one that others share. When it has that back,
// it says so by a [Change] of the kind [Resync].
type Exchanger interface {
	// Exchangeable reports whether a grant is such a slot and still to come: it is to be exchanged for one of the shared store.
	Exchangeable(g *Grant) bool
}

// News is what a [Notifier] tells.
type News struct {
	Missed  bool // connected, for the first time or again: what was said before is not known
	Changes []Change

	_ struct{}
}

// A Change of a limit concerns those who sleep already.
type Change struct {
	Kind          ChangeKind
	Policy, Scope string // of a [Limit]; both "": the whole upstream
	Now           Instant
	Until         Instant // when a pause ends
	ID            int64   // of a call that is called

	_ struct{}
}

// A ChangeKind says what a [Change] is.
type ChangeKind uint8

// Kinds of changes.
const (
	// Paused: slots before Until are not good any more.
	Paused ChangeKind = iota + 1
	// Resumed: a pause was lifted or a limit reset, and slots may be had earlier.
	Resumed
	// Slowed: an adaptive rate has slowed down, and slots that were granted are too close to each other.
	Slowed
	// Wake: a call that stands in line is to ask again now.
	Wake
	// EpochBegan: an era of the store's data has begun. Whoever knows another one is to look at once.
	EpochBegan
	// Resync: this process was without its store and has it back. What it granted by itself, an [Exchanger] says, is exchanged.
	Resync
)

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

	// Of a [Shared], for Reserve: the era that the caller knows, 0 for none, and the latest store time that it was told.
	Epoch    int64
	LastSeen Instant

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
	Costs     []int64       // for each limit of the stack, each at least 1; nil: Cost for all
	Tracked   bool          // on its way until a [NoteRemaining] says that it was answered
	NotBefore time.Duration // the slot is no earlier than this from now
	MaxWait   time.Duration // grant no slot that is further away

	// Of a call that a limit binds which is not given far ahead: places in flight, lanes and fair shares. See [Grant].InLine.
	ID     int64   // of this call, at random; 0 for all others
	Since  Instant // when it first asked, which is its place in line; 0: now
	Flow   int64   // by whom fair shares are counted, from 1
	Weight int64   // of the flow, from 1
	// Reach is how long before its slot the call may get it: it asks again so long before, and the answer has to be there in
	// time. Less than 40 ms counts as 40 ms.
	Reach time.Duration
	Held  []Charge // of a slot that it was granted without its places: given back first
	Slot  Instant  // that slot: it gets no earlier one

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

	// InLine says that the call is not granted, and stands in line for limit Binds, behind Ahead others: it is charged
	// nothing. It is to ask again at At, with the same ID and Since, or earlier, if a [Change] calls it.
	Queued bool
	Ahead  int64

	// Deferred says that nothing was decided: the call is to be asked for again. Only [Shared.ReserveAll] leaves calls so, the
	// last of a request that would keep the store busy for too long, and never all of them.
	Deferred bool

	// Local says that this process granted the slot by itself, while its store was out of reach: nobody else knows of it.
	Local bool
	// Receipt is what the store that granted the slot needs besides Charges, to take it back. It means nothing to others, who keep it
	// with the grant.
	Receipt any

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
// stores of this module use an interval of virtual time [From, To) for a rate, zero if it was lent to a lane, and the begin
// of a bucket and a cost for a window, negative if the call is tracked. Seen is how much a window's bucket then held. Of
// leases, From is the call's ID, and To 1 if it has its place. A call that was granted without one, because its slot is not
// near, asks for it shortly before, with Held set.
type Charge struct{ From, To, Seen int64 }

// A Note is something that a store is to heed about one limit of a stack.
type Note struct {
	Kind  NoteKind
	Limit int // index into the stack's limits; [WholeUpstream] for pauses, resumptions and resets of all

	For       time.Duration // Pause, Learn: from now on; Remaining: until there is more; 0: not known
	At        Instant       // Slow: the slot of the call that was refused; 0: now. Renew: when the call began
	Value     int64         // Learn: the emission interval in µs of a rate, or the limit of a window; 0: no longer. Renew, Release: the call's ID
	Remaining int64         // Remaining: what the upstream still admits
	Bucket    int64         // Remaining: Charge.From of the call that was answered, of a window; 0: not known
	Done      int64         // Remaining: the cost of tracked calls of that bucket now known to have reached the upstream before it answered
	Charge    Charge        // Settle: of the call. Claim: what is remembered; To of a window is what its bucket held at least
	Cost      int64         // Settle: what it was charged
	Actual    int64         // Settle: what it really cost

	Local bool // Settle: the grant was [Grant].Local

	_ struct{}
}

// WholeUpstream as Note.Limit is not a limit but the whole upstream.
const WholeUpstream = -1

// A NoteKind says what a [Note] is about.
type NoteKind uint8

// Kinds of notes. Their numbers go over the wire.
const (
	// NotePause lets nothing go for a time. It never shortens a pause.
	NotePause NoteKind = iota + 1
	// NoteResume ends a pause.
	NoteResume
	// NoteSlow slows an adaptive rate down.
	NoteSlow
	// NoteLearn lowers a limit for a time.
	NoteLearn
	// NoteRemaining tightens a limit to what the upstream still admits. It never loosens one.
	NoteRemaining
	// NoteSettle gives back, or charges, the difference between what a call was charged and what it really cost.
	NoteSettle
	// NoteClaim says that something was charged, as far as the caller remembers. It charges what is missing of it.
	NoteClaim
	// NoteReset forgets all that is known of a limit, or the pause of the whole upstream. With it, and with NoteResume, a
	// [Shared] begins a new era, so that nobody brings back what was forgotten on purpose.
	NoteReset
	// NoteRenew says that a call runs, so that it counts for the length of a lease from now on, even if it has no place any
	// more.
	NoteRenew
	// NoteRelease gives back the place of a call that is over, or the place in line of one that has left.
	NoteRelease
)

// String returns what a note does, in a word.
func (k NoteKind) String() string {
	words := [...]string{"", "pause", "resume", "slow", "learn", "remaining", "settle", "claim", "reset", "renew", "release"}
	if k < NotePause || int(k) >= len(words) {
		return fmt.Sprintf("NoteKind(%d)", k)
	}
	return words[k]
}

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
	Pace      int64   // as it is now, learned and adapted: the emission interval of a rate in µs, the limit of a window or of leases
	Queued    int64   // calls that stand in line

	_ struct{}
}
