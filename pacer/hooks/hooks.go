package hooks

import (
	"context"
	"log/slog"
	"time"

	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/internal/warnings"
	"github.com/headway-go/headway/pacer/store"
)

// A Set is functions that a Pacer calls when something happens, as in [net/http/httptrace]. Each is named after its event, and may be nil.
// Give sets to pacer.Config.Hooks. [Log] makes one that logs; package otelpacer makes one for OpenTelemetry.
//
// A hook runs in a goroutine of its own, never under a lock, and never in the goroutine of a call: a slow hook delays no call, no other set
// of hooks, and Close by at most a second. The hooks of one set are called one at a time, in order, so they need no locks of their own. A
// hook may run some time after its event: use the times in the event. If a set is so slow that thousands of events wait for it, further
// events are dropped, and Dropped receives how many. If a hook panics, slog's default logger logs that, and the next event calls it again.
//
// The contexts are those of the calls. Use only their values: they may have ended. A Pacer without hooks spends no time on events.
type Set struct {
	// Waiting is called when a call starts to wait, and again when a pause moves it or its position in a queue changes.
	Waiting func(context.Context, Waiting)
	// WaitDone is called when a waiting call is admitted or gives up.
	WaitDone func(context.Context, WaitDone)
	// Admitted is called for each call that is admitted, at once or after a wait. It is not called for a reservation that is neither waited
	// for nor reported or settled.
	Admitted func(context.Context, Admitted)
	// Answered is called by the first pacer.Reservation.Report of a call: the upstream has answered it, or it has failed.
	Answered func(context.Context, Answered)
	// Settled is called by pacer.Reservation.Settle, for each policy for which the call cost more or less than its charge.
	Settled func(context.Context, Settled)
	// Refused is called for each call that may not go. Nothing was charged. It is not called for a booking that is too early: see
	// pacer.TooEarly.
	Refused func(context.Context, Refusal)
	// Observed is called for each call that observed policies bind, when the store has replied how long they would have made it wait: see
	// policies.Policy.Observed. If the call would have waited for permits, Observed is called once more for each policy that counts calls
	// in flight. It is called some time after the call went.
	Observed func(context.Context, Observed)
	// NotObserved is called when n calls went without an observation and without a charge, because too many were pending or the store
	// failed.
	NotObserved func(n int64)
	// Paused is called when this process receives a pause, from whichever process, and Resumed when a pause is lifted by hand. A pause that
	// ends by itself is no event. With either of them set, a Pacer listens to its store from the start, and must be closed.
	Paused  func(Pause)
	Resumed func(Pause)
	// FeedbackApplied is called for each note that the store received because of an upstream's report to this process.
	FeedbackApplied func(context.Context, FeedbackApplied)
	// Failover is called when this process loses a shared store, and paces as Config.Outage defines, and when the store is back.
	Failover func(Failover)
	// StoreRequest is called after each operation of a shared store, with its duration and error.
	StoreRequest func(StoreRequest)
	// Dropped is called when the other hooks were too slow: n of their events were dropped.
	Dropped func(n int64)

	// LogsWarnings reports that Failover and FeedbackApplied log what a pacer.Config's logger would: a Pacer without a logger then logs no
	// warnings.
	LogsWarnings bool

	_ struct{}
}

// A Waiting is a call that waits, and what it waits for.
type Waiting struct {
	Upstream string
	Policy   string        // the policy that the call waits for; "" if the whole upstream is paused, or only NotBefore delays the call
	Scope    string        // its scopes and values, such as `tenant=acme`; "" for the whole upstream
	Cost     int64         // what the call costs that policy
	Paused   bool          // because the upstream answered "slow down"
	Queued   bool          // it is queued, and has no slot yet
	Ahead    int64         // its position, if Queued: how many calls are before it
	At       time.Time     // when this was known
	Wait     time.Duration // from At until it is admitted, as far as is known; if Queued, until it polls the store again

	_ struct{}
}

// A WaitDone is the end of a wait.
type WaitDone struct {
	Waiting // the wait, as the last Waiting event reported it

	Since time.Time     // when the call began to wait
	Took  time.Duration // how long it waited
	Err   error         // why the call is not admitted; nil if it is

	_ struct{}
}

// An Admitted is a call that may go now: its slot has come.
type Admitted struct {
	Upstream string
	Policy   string // the policy that made it wait; "" if none did
	Scope    string
	Cost     int64         // the call's own cost: see pacer.Cost
	Costs    []PolicyCost  // what each policy that binds it charged
	Waited   time.Duration // for how long; 0 if it was admitted at once
	Late     time.Duration // how much later than its slot it goes, without jitter; 0 if it did not wait for a slot

	_ struct{}
}

// An Answered is a call that the upstream has answered, or that has failed.
type Answered struct {
	Upstream string
	Took     time.Duration // since it was admitted

	_ struct{}
}

// A PolicyCost is what a call costs one policy: always one permit for a policy of calls in flight.
type PolicyCost struct {
	Policy string
	Scope  string // its scopes and values, such as `tenant=acme`; "" for the whole upstream
	Cost   int64

	_ struct{}
}

// A Settled is what a call actually cost one policy.
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
	Wait     time.Duration // as pacer.LimitError.Wait
	Err      error         // what its caller received: a *pacer.LimitError

	_ struct{}
}

// An Observed is a call that went, and what its observed policies would have done to it.
type Observed struct {
	Upstream string
	Policy   string        // the policy that would have delayed or refused it; "" if none would have, or the whole upstream is paused
	Scope    string        // its scopes and values, such as `tenant=acme`; "" for the whole upstream
	Cost     int64         // what the call costs that policy
	Paused   bool          // because the upstream answered "slow down"
	Wait     time.Duration // how long it would have waited; 0: not at all, or see InFlight
	InFlight bool          // all permits of the policy were taken: the call would have been queued for an unknown time, and Wait is 0
	Running  int64         // if InFlight: how many calls of this process run, this one included
	// Refused is the error that the call would have got; nil if it would have gone. It is a *pacer.LimitError, or a *pacer.ConfigError if
	// the options of the call do not suit its policies.
	Refused error

	_ struct{}
}

// A Pause is an interval without calls of a limit.
type Pause struct {
	Upstream string
	Policy   string // "" for the whole upstream
	Scope    string
	For      time.Duration // from now; 0 if it is lifted

	_ struct{}
}

// A FeedbackApplied is one note that the store received because of an upstream's report.
type FeedbackApplied struct {
	Upstream string
	Policy   string // "" for the whole upstream
	Scope    string
	Kind     string // "slow", "learn", "answer" or "stray"

	// For is a duration: with "learn" how long the limit is kept, with "answer" the time until there is more, 0 if the upstream does not
	// state it and the store guesses, with "stray" the policy's period.
	For time.Duration
	// Value is a number: with "learn" the emission interval of a rate in µs or the limit of a window, with "answer" how much is left, with
	// "stray" by how much the margin grows, in millionths of the period.
	Value int64
	// Source is where the upstream stated For, such as "Retry-After": [policies.Feedback].Source. It is [SourceGuess] if nothing is left
	// and the upstream does not state until when, as with a refusal without details.
	Source string
	// Long reports that the upstream states a wait of over an hour which is new to this process: the first of the limit, or one that ends
	// more than ten minutes after the last. [Log] and pacer.Config.Logger log it.
	Long bool

	_ struct{}
}

// SourceGuess is the Source of a guessed wait.
const SourceGuess = "guess"

// A Failover is the start or the end of an outage of the store, during which the process paces locally or waits for its first contact.
type Failover struct {
	Upstream  string
	On        bool          // the store is lost
	Never     bool          // it has never answered this process, and calls wait until it does: see Config.Processes
	Outage    string        // how calls are treated meanwhile, if not Never: "pace locally", "refuse calls" or "let through"
	Processes int           // how many processes share the limits; this one uses its share. 0 if Never
	Err       error         // the cause, if On
	For       time.Duration // how long it lasted, if not On

	// Dropped, at the end, is how many slots, and parts of their costs, could not be given back to the store: they stay charged until they
	// have passed. A process keeps up to 32,768 permits to give back when the store is there again; the rest stay taken until their leases
	// run out.
	Dropped int

	_ struct{}
}

// A StoreRequest is a completed operation of a store.
type StoreRequest struct {
	Upstream string
	Op       string // such as "reserve", "cancel", "report", "status", "heartbeat", "describe", "index", "redeem", "settings" or "ready"
	Calls    int    // how many calls the request reserved
	Took     time.Duration
	Err      error // nil if the store answered, even if it has lost its data: see Failover

	_ struct{}
}

// longWait is the shortest wait that is logged at level Info, to explain why nothing happens. While a limit binds, all calls wait for a
// while, and a line for each would be noise.
const longWait = 10 * time.Second

// Log returns hooks that log what happens, with structured fields: upstream, policy, scope, and times as durations. Pauses, stated waits of
// over an hour, refusals, failures of the store, failovers, and losses of events or observations are logged at level Warn; the end of a
// pause or a failover, waits of ten seconds or more, and refusals by observed policies, at level Info; everything else at level Debug,
// positions in queues included. If logger is nil, Log uses slog's default logger at the time of the call. Losses of a shared store and
// stated waits of over an hour are logged without these hooks, too: see pacer.Config.Logger.
func Log(logger *slog.Logger) *Set {
	if logger == nil {
		logger = slog.Default()
	}
	l := hookLog{logger}
	return &Set{
		Waiting: l.waiting, WaitDone: l.waitDone, Admitted: l.admitted, Refused: l.refused, Observed: l.observed, NotObserved: l.notObserved,
		Paused: l.paused, Resumed: l.resumed,
		FeedbackApplied: l.feedbackApplied, Failover: l.failover, StoreRequest: l.storeRequest, Dropped: l.dropped,
		LogsWarnings: true,
	}
}

type hookLog struct{ *slog.Logger }

// of returns the fields that name an event's limit.
func of(upstream, policy, scope string, more ...slog.Attr) []slog.Attr {
	attrs := []slog.Attr{slog.String("upstream", upstream)}
	if policy != "" {
		attrs = append(attrs, slog.String("policy", policy))
	}
	if scope != "" {
		attrs = append(attrs, slog.String("scope", scope))
	}
	return append(attrs, more...)
}

// levelOf returns the level for a wait of this length.
func levelOf(d time.Duration) slog.Level {
	if d >= longWait {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (l hookLog) waiting(ctx context.Context, s Waiting) {
	attrs := of(s.Upstream, s.Policy, s.Scope, slog.Duration("wait", s.Wait), slog.Bool("paused", s.Paused))
	if s.Queued {
		l.LogAttrs(ctx, slog.LevelDebug, "headway: a call is queued", append(attrs, slog.Int64("ahead", s.Ahead))...)
		return
	}
	l.LogAttrs(ctx, levelOf(s.Wait), "headway: a call waits", attrs...)
}

func (l hookLog) waitDone(ctx context.Context, s WaitDone) {
	attrs := of(s.Upstream, s.Policy, s.Scope, slog.Duration("waited", s.Took))
	if s.Err != nil {
		l.LogAttrs(ctx, levelOf(s.Took), "headway: a call that waited is not admitted", append(attrs, slog.Any("error", s.Err))...)
		return
	}
	l.LogAttrs(ctx, levelOf(s.Took), "headway: a call that waited goes", attrs...)
}

func (l hookLog) admitted(ctx context.Context, g Admitted) {
	if g.Waited == 0 {
		l.LogAttrs(ctx, slog.LevelDebug, "headway: a call starts at once", of(g.Upstream, "", "", slog.Int64("cost", g.Cost))...)
	}
}

func (l hookLog) refused(ctx context.Context, r Refusal) {
	l.LogAttrs(ctx, slog.LevelWarn, "headway: a call is refused",
		of(r.Upstream, r.Policy, r.Scope, slog.Duration("wait", r.Wait), slog.Any("error", r.Err))...)
}

func (l hookLog) observed(ctx context.Context, o Observed) {
	attrs := of(o.Upstream, o.Policy, o.Scope, slog.Duration("wait", o.Wait), slog.Bool("paused", o.Paused))
	switch {
	case o.Refused != nil:
		l.LogAttrs(ctx, slog.LevelInfo, "headway: an observed call would have been refused", append(attrs, slog.Any("error", o.Refused))...)
	case o.InFlight:
		l.LogAttrs(ctx, slog.LevelDebug, "headway: an observed call would have been queued", append(attrs, slog.Int64("running", o.Running))...)
	case o.Wait > 0:
		l.LogAttrs(ctx, levelOf(o.Wait), "headway: an observed call would have waited", attrs...)
	}
}

func (l hookLog) notObserved(n int64) {
	l.LogAttrs(context.Background(), slog.LevelWarn, "headway: calls went that were not observed", slog.Int64("calls", n))
}

func (l hookLog) paused(p Pause) {
	l.LogAttrs(context.Background(), slog.LevelWarn, "headway: paused", of(p.Upstream, p.Policy, p.Scope, slog.Duration("for", p.For))...)
}

func (l hookLog) resumed(p Pause) {
	l.LogAttrs(context.Background(), slog.LevelInfo, "headway: resumed", of(p.Upstream, p.Policy, p.Scope)...)
}

func (l hookLog) feedbackApplied(ctx context.Context, h FeedbackApplied) {
	if h.Long {
		warnings.LogWait(ctx, l.Logger, warnings.Wait{Upstream: h.Upstream, Policy: h.Policy, Scope: h.Scope, Source: h.Source, For: h.For})
	}
	if h.Kind == store.NoteStray.String() {
		by := time.Duration(h.Value) * h.For / 1_000_000
		l.LogAttrs(ctx, slog.LevelDebug, "headway: a refusal widens the margin", of(h.Upstream, h.Policy, h.Scope, slog.Duration("by", by))...)
		return
	}
	l.LogAttrs(ctx, slog.LevelDebug, "headway: the upstream reported something", of(h.Upstream, h.Policy, h.Scope,
		slog.String("kind", h.Kind), slog.Duration("for", h.For), slog.Int64("value", h.Value))...)
}

func (l hookLog) failover(f Failover) {
	warnings.LogChange(l.Logger, f.Upstream, f.Outage,
		failover.Change{Lost: f.On, Never: f.Never, Processes: f.Processes, For: f.For, Err: f.Err, Dropped: f.Dropped})
}

func (l hookLog) storeRequest(c StoreRequest) {
	if c.Err != nil {
		l.LogAttrs(context.Background(), slog.LevelWarn, "headway: the store failed",
			of(c.Upstream, "", "", slog.String("operation", c.Op), slog.Duration("took", c.Took), slog.Any("error", c.Err))...)
	}
}

func (l hookLog) dropped(n int64) {
	l.LogAttrs(context.Background(), slog.LevelWarn, "headway: hooks are too slow, events were dropped", slog.Int64("events", n))
}
