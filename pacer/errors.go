package pacer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer/internal/bookings"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

var (
	// ErrRefused matches every [*LimitError]: this call may not go. Nothing was charged. A retry loop must not treat it as a failure of the
	// upstream.
	ErrRefused = errors.New("pacer: refused")
	// ErrNotYet matches a [*LimitError] of a call that may go later: see [RetryAfter].
	ErrNotYet = errors.New("pacer: not yet")
	// ErrSpent is returned by Wait on a [Reservation] that was used or cancelled before, and by Settle on one that was settled before: one
	// charge is one call. It also matches a [*LimitError] for [TokenSpent].
	ErrSpent = dispatch.ErrSpent
	// ErrUnreachable matches the [*StoreError] of a store that did not answer within [Config].StoreTimeout, or that was not called because
	// it had just failed to answer.
	ErrUnreachable = store.ErrUnreachable
	// ErrClosed is returned by a closed [Pacer], and by the waits that Close interrupts, whose slots were given back.
	ErrClosed = store.ErrClosed
)

// A Reason is why a call may not go. It is an error: errors.Is(err, pacer.TooCostly) reports whether it is the reason of a [*LimitError].
type Reason string

// Reasons of calls that may go later: their errors match [ErrNotYet].
const (
	// TooFar is the reason of a call whose slot is further away than it may wait.
	TooFar Reason = "too far"
	// Paused is the reason of a call that the upstream, or an operator, has stopped until LimitError.Until, or for which too little is left.
	Paused Reason = "paused"
	// NoPermit is the reason of a call that found all permits of a policy taken, LimitError.Limit of them.
	NoPermit Reason = "no permit"
	// Queued is the reason of a queued call whose turn did not come in time. If it was queued for a permit, LimitError.Limit is the number
	// of permits, and the error matches NoPermit, too.
	Queued Reason = "queued"
	// NoCredential is the reason of a call of a [Pool] without a credential in use: each was left ([Pool.Leave]), as package transport does
	// after a 401.
	NoCredential Reason = "no credential" //nolint:gosec // its text states that there is none
	// TooEarly is the reason of a booking that may not go yet: have the queue wake the job again after LimitError.Wait, or up to
	// [RedeemEarly] sooner, and redeem the same token then.
	TooEarly Reason = "too early"
)

// Reasons of calls that waiting does not help.
const (
	// TooCostly is the reason of a call that costs more than the policy ever admits at once, LimitError.Limit.
	TooCostly Reason = "too costly"
	// NoScope is the reason of a call without a scope that the policy needs: LimitError.Scope is its name.
	NoScope Reason = "no scope"
	// WaitsForItself is the reason of a call that was made inside other calls that hold every permit of a policy: it would wait for a
	// permit that only their end returns. This is a mistake in the program, and does not depend on other calls. If other calls hold some of
	// the permits, the call waits, for at most MaxWait.
	WaitsForItself Reason = "waits for itself"
	// BadToken is the reason for a text that is no token of this upstream.
	BadToken Reason = "bad token"
	// TokenSpent is the reason for a booking that was redeemed or cancelled before. A later attempt of the job needs [Attempt].
	TokenSpent Reason = "token spent"
	// TokenLost is the reason for a booking that may have been redeemed: it has expired (see [Keep]), or the store has lost its data.
	TokenLost Reason = "token lost"
)

// Error implements error.
func (r Reason) Error() string { return "pacer: " + string(r) }

// A LimitError reports that a call may not go, why, which policy refused it, and what to do. Nothing was charged.
//
// errors.Is matches it with [ErrRefused]; with [ErrNotYet], if the call may go later; with its [Reason]; and with what its Err is. This
// also works through *url.Error.
type LimitError struct {
	Upstream string
	Reason   Reason
	Policy   string        // the policy that refused the call; "" if the whole upstream is paused, or only NotBefore is too late
	Scope    string        // its scopes and values, such as `tenant=acme`; "" for the whole upstream; for NoScope, the name of the missing one
	Cost     int64         // of the call
	Limit    int64         // for TooCostly, the highest cost that the policy admits at once; of permits, their number; otherwise 0
	Until    time.Time     // if Paused, by the store's clock
	Source   string        // if Paused, where the upstream stated that, such as "Retry-After"; "" if an operator did, or only to other processes: the Status of package fleet names it
	Wait     time.Duration // how long until it could go, as far as is known; 0 if it is not: see RetryAfter
	MaxWait  time.Duration // the longest wait that was allowed
	Waited   time.Duration // how much of MaxWait had passed when a pause or queued calls ruled the call out
	Ahead    int64         // how many calls were before it, as last reported: queued, or, if Paused, with slots after Until
	Slack    time.Duration // of a booking: for how much longer than Wait the call may be made
	Moved    bool          // the booking has another slot than before: it was redeemed too late, a pause covers its slot, or policies have changed
	Err      error         // context.DeadlineExceeded if MaxWait is what the context's deadline left; of BadToken, what is wrong with it

	about   bool // Wait is an estimate from the calls of this process that already wait and the pace at which they go
	atLeast bool // the slot may be later: all windows of a calendar policy within MaxWait are full, or all of the next 61

	_ struct{}
}

// Error implements error.
func (e *LimitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pacer: upstream %q", e.Upstream)
	if e.Policy != "" {
		fmt.Fprintf(&b, ": policy %q", e.Policy)
	}
	if e.Scope != "" && e.Reason != NoScope {
		fmt.Fprintf(&b, " for %s", e.Scope)
	}
	e.reason(&b)
	return b.String()
}

// reason writes why the call is refused, and what to do.
func (e *LimitError) reason(b *strings.Builder) {
	switch e.Reason { //nolint:exhaustive // the others: the text names what the call waits for
	case TooCostly:
		fmt.Fprintf(b, ": a call of cost %d can never start, because the policy admits at most %d at once: split the call, or raise the policy's burst or limit",
			e.Cost, e.Limit)
	case NoScope:
		fmt.Fprintf(b, " is per %s, and the call carries no %s: give it pacer.Scope(%q, value), or its context pacer.With, or make the policy Optional",
			e.Scope, e.Scope, e.Scope)
	case WaitsForItself:
		fmt.Fprintf(b, ": the call was made inside calls that hold %s, so it would wait for itself: "+
			"make it when they are over, let it share a permit with pacer.Nested(), or raise the limit", e.permits())
	case NoCredential:
		fmt.Fprintf(b, ": no credential of the pool is in use, because the upstream accepts none: replace them, or try again in %s", round(e.Wait))
	case TooEarly:
		switch {
		case e.Policy != "":
			b.WriteString(": all of its permits are taken")
		case e.Moved:
			b.WriteString(": the booking was moved to another slot")
		default:
			b.WriteString(": too early")
		}
		fmt.Fprintf(b, ": redeem the token again in %s", round(e.Wait))
	case BadToken:
		fmt.Fprintf(b, ": the token %v", e.Err)
	case TokenSpent:
		b.WriteString(": the token was redeemed or cancelled before: one booking is one call; a later attempt of the job needs Attempt, another job a Book of its own")
	case TokenLost:
		fmt.Fprintf(b, ": the token %v", e.Err)
	case NoPermit, Queued:
		e.queued(b)
		b.WriteString(" for longer than ")
		e.advise(b)
	default:
		e.pause(b)
		about := ""
		switch {
		case e.about:
			about = "about "
		case e.atLeast:
			about = "at least "
		}
		fmt.Fprintf(b, ": the next slot is %s%s away, further than ", about, round(e.Wait))
		if e.atLeast && e.Wait <= e.MaxWait-e.Waited {
			b.WriteString("can be reserved ahead (61 windows): try again when some of these calls have started")
			break
		}
		e.advise(b)
	}
}

// permits writes how many there are.
func (e *LimitError) permits() string {
	if e.Limit == 1 {
		return "its only permit"
	}
	return fmt.Sprintf("all of its %d permits", e.Limit)
}

// queued writes what the call waited for.
func (e *LimitError) queued(b *strings.Builder) {
	switch {
	case e.Limit == 1:
		b.WriteString(": its only permit is taken")
	case e.Limit > 1:
		fmt.Fprintf(b, ": %s are taken", e.permits())
	default:
		b.WriteString(": it was not the call's turn")
	}
	switch {
	case e.Reason != Queued:
	case e.Ahead == 0:
		b.WriteString(", with no queued call before this one,")
	case e.Ahead == 1:
		b.WriteString(", with 1 queued call before this one,")
	default:
		fmt.Fprintf(b, ", with %d queued calls before this one,", e.Ahead)
	}
}

// pause writes until when the call is paused, and by what.
func (e *LimitError) pause(b *strings.Builder) {
	if e.Reason != Paused {
		return
	}
	fmt.Fprintf(b, ": paused until %s", e.Until.UTC().Format(time.DateTime))
	if e.Source != "" {
		fmt.Fprintf(b, " by %s", e.Source)
	}
	if e.Ahead > 0 {
		fmt.Fprintf(b, ", with %d before this one", e.Ahead)
	}
}

// advise writes what bounded the wait, and what to do.
func (e *LimitError) advise(b *strings.Builder) {
	when, or := "then", inside.RaiseMaxWait
	if e.Wait == 0 {
		when = "later"
	}
	if e.MaxWait == 0 {
		or = "let the call wait"
	}
	switch left := max(0, e.MaxWait-e.Waited); {
	case errors.Is(e.Err, context.DeadlineExceeded):
		fmt.Fprintf(b, "the context's deadline (%s left): try again %s, or give the call more time", round(left), when)
	case round(left) != round(e.MaxWait):
		fmt.Fprintf(b, "what is left (%s) of the longest wait allowed (%s): try again %s, or %s", round(left), round(e.MaxWait), when, or)
	default:
		fmt.Fprintf(b, "the longest wait allowed (%s): try again %s, or %s", round(e.MaxWait), when, or)
	}
}

// round makes a duration readable, and rounds it up.
func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return (d + 100*time.Millisecond - 1).Truncate(100 * time.Millisecond)
	case d > 10*time.Millisecond:
		return (d + 100*time.Microsecond - 1).Truncate(100 * time.Microsecond)
	}
	return d
}

// Is implements the matching described at [LimitError].
func (e *LimitError) Is(target error) bool {
	switch target {
	case ErrRefused:
		return true
	case ErrNotYet:
		switch e.Reason {
		case TooCostly, NoScope, WaitsForItself, BadToken, TokenSpent, TokenLost:
			return false
		case TooFar, Paused, NoPermit, Queued, NoCredential, TooEarly:
		}
		return true
	case ErrSpent:
		return e.Reason == TokenSpent
	case NoPermit:
		return e.Reason == NoPermit || e.Reason == Queued && e.Limit > 0
	case e.Reason:
		return true
	}
	return errors.Is(e.Err, target)
}

// Bounds of the waits that RetryAfter returns.
const (
	leastRetry   = time.Millisecond       // if it is known when the call could go
	unknownRetry = 100 * time.Millisecond // if it is not
)

// RetryAfter returns how long to sleep before you try a call again that was refused with err: a [*LimitError] that matches [ErrNotYet].
// That is its Wait if known, and otherwise, as without a permit, a tenth of a second. It is never 0, so a loop that sleeps for it cannot
// spin. It returns false for every other error: do not try again because of it.
func RetryAfter(err error) (time.Duration, bool) {
	e, ok := errors.AsType[*LimitError](err)
	switch {
	case !ok || !e.Is(ErrNotYet):
		return 0, false
	case e.Wait <= 0:
		return unknownRetry, true
	}
	return max(e.Wait, leastRetry), true
}

// A ConfigError reports which setting or argument is wrong and what to do about it. Stores return it, too, so it is declared there.
type ConfigError = store.ConfigError

// A StoreError reports that a store operation failed. The call may have been charged: do not make it. It matches [ErrUnreachable] if the
// store is out of reach and Config.Outage is [RefuseCalls], or this process cannot pace without it. It matches [context.DeadlineExceeded] if
// the context's deadline ended the wait for it.
type StoreError struct {
	Upstream  string
	Op        string // "reserve", "cancel", "report", "status", "index", "book", "redeem", "set", "settings" or "ready"
	NoContact bool   // of a call: the store has never answered this process, which therefore does not know how large the fleet is
	NoShare   bool   // of a call: the store is out of reach, and has not known this process for long enough for a share of the limits
	Err       error

	_ struct{}
}

// The operations of a [StoreError], besides those of package inside.
const (
	opReserve = dispatch.OpReserve
	opCancel  = "cancel"
	opStatus  = "status"
	opReady   = "ready"
)

// Error implements error.
func (e *StoreError) Error() string {
	if e.Op == opReady {
		return fmt.Sprintf("pacer: upstream %q: the store is not ready: %v", e.Upstream, e.Err)
	}
	advice := ""
	switch {
	case (e.Op == bookings.OpBook || e.Op == bookings.OpRedeem) && errors.Is(e.Err, store.ErrUnreachable):
		advice = ": see that it can be reached: no process can book or redeem by itself"
	case e.NoContact:
		advice = ": check its address, the network and what its ACL allows, or set Config.Processes, or Config.Outage to LetThrough, to start without it"
	case e.NoShare:
		advice = ": see that it can be reached, or set Config.Processes, or Config.Outage to LetThrough, to go on at once"
	case errors.Is(e.Err, store.ErrUnreachable):
		advice = ": see that it can be reached, or set Config.Outage to PaceLocally to go on without it"
	}
	return fmt.Sprintf("pacer: upstream %q: the store failed to %s: %v%s", e.Upstream, e.task(), e.Err, advice)
}

// task returns what the operation does, to follow "failed to".
func (e *StoreError) task() string {
	switch e.Op {
	case opReserve, bookings.OpBook:
		return e.Op + " a slot"
	case opCancel:
		return "cancel a reservation"
	case inside.OpReport:
		return "record what was reported"
	case opStatus:
		return "read the status"
	case inside.OpIndex:
		return "list the processes"
	case bookings.OpRedeem:
		return "redeem the token"
	case inside.OpSet:
		return "change the settings"
	case inside.OpSettings:
		return "read the settings"
	}
	return e.Op
}

// Unwrap returns the store's error.
func (e *StoreError) Unwrap() error { return e.Err }

// notYet makes the error of a call that may not go yet.
func (p *Pacer) notYet(r *dispatch.NotYetError) error {
	if r.NoShare {
		return p.storeError(opReserve, store.ErrNoShare)
	}
	e := &LimitError{
		Upstream: p.upstream, Reason: TooFar, Cost: r.Cost, Wait: r.For, about: r.About, atLeast: r.AtLeast, MaxWait: r.MaxWait, Waited: r.Waited, Ahead: r.Ahead,
	}
	if r.ByDeadline {
		e.Err = context.DeadlineExceeded
	}
	if r.Paused {
		e.Reason = Paused
	}
	if l := r.Limit; l != nil {
		e.Policy, e.Scope = readings.PolicyOf(l.Policy), p.set().Describe(l)
		if r.Paused {
			e.Until, e.Source = time.UnixMicro(int64(r.Until)), p.reports.Memory.Source(l.Key(), r.Until)
		}
		if l.Spec.Algorithm == specs.Concurrency && !r.Paused {
			e.Reason, e.Limit, e.Wait = NoPermit, l.Spec.Limit, 0
		}
	}
	if r.Queued {
		e.Reason, e.Wait = Queued, 0
	}
	return e
}

// refusals implements [binding.Errors].
type refusals struct{ *Pacer }

// Missing implements [binding.Errors].
func (p refusals) Missing(policy, scope string) error {
	return &LimitError{Upstream: p.upstream, Reason: NoScope, Policy: policy, Scope: scope}
}

// Excess implements [binding.Errors].
func (p refusals) Excess(l *store.Limit, cost int64, maxWait time.Duration) error {
	return &LimitError{
		Upstream: p.upstream, Policy: l.Policy, Scope: p.set().Describe(l), Cost: cost, Limit: l.Spec.Limit, Reason: TooCostly, MaxWait: maxWait,
	}
}

// Nested implements [binding.Errors].
func (p refusals) Nested(l *store.Limit) error {
	return &LimitError{Upstream: p.upstream, Reason: WaitsForItself, Policy: l.Policy, Scope: p.set().Describe(l), Limit: l.Spec.Limit}
}

func (p *Pacer) storeError(op string, err error) error {
	return &StoreError{
		Upstream: p.upstream, Op: op, NoContact: errors.Is(err, store.ErrNoContact), NoShare: errors.Is(err, store.ErrNoShare), Err: err,
	}
}

// toUser converts an error of a package below; any other stays as it is.
func (p *Pacer) toUser(err error) error {
	switch e := err.(type) { //nolint:errorlint // they are as they were made
	case *dispatch.StoreError:
		return p.storeError(e.Op, e.Err)
	case *dispatch.NotYetError:
		return p.notYet(e)
	case *bookings.TokenError:
		return p.badToken(e)
	case *bookings.LaterError:
		return p.later(e)
	case interface{ Unwrap() []error }:
		var all []error
		for _, one := range e.Unwrap() {
			all = append(all, p.toUser(one))
		}
		return errors.Join(all...)
	}
	return err
}

// later makes the error of a booking that may not go yet.
func (p *Pacer) later(l *bookings.LaterError) error {
	e := &LimitError{Upstream: p.upstream, Reason: TooEarly, Policy: l.InFlight, Wait: max(l.Wait, leastRetry), Slack: l.Slack, Moved: l.Moved}
	if refused, ok := errors.AsType[*LimitError](p.toUser(l.Refused)); ok {
		e.Policy = refused.Policy
		e.Wait, _ = RetryAfter(refused)
	} else if l.InFlight != "" {
		e.Wait = unknownRetry
	}
	return e
}

// badToken makes the error of a bad token. No later Redeem of the same attempt will do better.
func (p *Pacer) badToken(t *bookings.TokenError) error {
	e := &LimitError{Upstream: p.upstream, Reason: BadToken, Err: t.Err}
	switch {
	case errors.Is(t.Err, ErrSpent):
		e.Reason = TokenSpent
	case errors.Is(t.Err, bookings.ErrExpired):
		e.Reason, e.Err = TokenLost, errors.New("has expired: book again, or Keep bookings for longer")
	case errors.Is(t.Err, bookings.ErrLost):
		e.Reason, e.Err = TokenLost, errors.New("is of data that the store has lost, so nobody knows whether it was redeemed: book again if the job has not run")
	}
	return e
}
