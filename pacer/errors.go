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
	"github.com/headway-go/headway/policies"
)

var (
	// ErrRefused matches every error that means "this call may not go": [*LimitError], [*ScopeError], [*NestedError] and
	// [*CredentialError]. Nothing was charged. A retry loop must not treat it as a failure of the upstream.
	ErrRefused = errors.New("pacer: refused")
	// ErrNotYet matches a [*LimitError] of a call that may go later.
	ErrNotYet = errors.New("pacer: not yet")
	// ErrNever matches a [*LimitError] of a call that can never start: it costs more than a policy ever admits at once.
	ErrNever = errors.New("pacer: never")
	// ErrSpent is returned by Wait on a [Reservation] that was used or cancelled before: one charge is one call.
	ErrSpent = dispatch.ErrSpent
	// ErrSettled is returned by Settle on a [Reservation] that was settled before: the first settlement counts.
	ErrSettled = dispatch.ErrSettled
	// ErrUnreachable matches the [*StoreError] of a store that did not answer within [Config].StoreTimeout, or that the Pacer did not ask
	// because it failed to answer shortly before.
	ErrUnreachable = store.ErrUnreachable
	// ErrNoContact matches the [*StoreError] of a store that has never answered this process, so that the process does not know how many
	// others there are: see [Config].Processes. Such an error matches ErrUnreachable, too.
	ErrNoContact = store.ErrNoContact
	// ErrNoShare matches the [*StoreError] of a process that lost its store a few seconds after it joined the fleet. Other processes may not
	// count it yet, so it has no share of the limits: see [Config].Processes. Such an error matches ErrUnreachable, too.
	ErrNoShare = store.ErrNoShare
	// ErrClosed is returned by a [Pacer] that was closed, and by the waits that Close interrupts. The slots of those
	// waits were given back.
	ErrClosed = store.ErrClosed
)

// A LimitError reports that a call may not go, which policy refused it, and what to do. Nothing was charged.
//
// errors.Is matches it with [ErrRefused]; with [ErrNotYet] or [ErrNever]; and, if the context's deadline was the reason, with
// [context.DeadlineExceeded]. This also works through *url.Error.
type LimitError struct {
	Upstream string
	Policy   string        // the policy that refused the call; "" if the whole upstream is paused, or only NotBefore is too late
	Scope    string        // its scopes and values, such as `tenant=acme`; "" for the whole upstream
	Cost     int64         // of the call
	Limit    int64         // if Never, the highest cost that the policy admits at once; if InFlight, the number of permits; otherwise 0
	Never    bool          // waiting does not help
	Paused   bool          // because of what the upstream or an operator said: until Until, not so much is left
	Until    time.Time     // if Paused, by the store's clock
	Source   string        // if Paused, where the upstream stated that, such as "Retry-After"; "" if an operator did, or only to other processes: the Status of package fleet names it
	Wait     time.Duration // how long until it could go, as far as is known; 0 (unknown) if Never, Queued or InFlight: see RetryAfter
	About    bool          // Wait is an estimate from the calls of this process that already wait and the pace at which they go
	AtLeast  bool          // the slot may be later: all windows of a calendar policy within MaxWait are full, or all of the next 61
	MaxWait  time.Duration // the longest wait that was allowed
	Waited   time.Duration // how much of MaxWait had passed when a pause or queued calls ruled the call out
	Deadline bool          // MaxWait is what the context's deadline left
	InFlight bool          // all permits of a policy that counts calls in flight were taken
	Queued   bool          // the call was queued, and its turn did not come in time
	Ahead    int64         // how many calls were before it, as last reported: queued, or, if Paused, with slots after Until

	_ struct{}
}

// Error implements error.
func (e *LimitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pacer: upstream %q", e.Upstream)
	if e.Policy != "" {
		fmt.Fprintf(&b, ": policy %q", e.Policy)
	}
	if e.Scope != "" {
		fmt.Fprintf(&b, " for %s", e.Scope)
	}
	e.reason(&b)
	return b.String()
}

// reason writes why the call is refused, and what to do.
func (e *LimitError) reason(b *strings.Builder) {
	switch {
	case e.Never:
		fmt.Fprintf(b, ": a call of cost %d can never start, because it admits at most %d at once: split the call, or raise the policy's burst or limit",
			e.Cost, e.Limit)
	case e.InFlight || e.Queued:
		switch {
		case e.InFlight && e.Limit == 1:
			b.WriteString(": its only permit is taken")
		case e.InFlight:
			fmt.Fprintf(b, ": all of its %d permits are taken", e.Limit)
		default:
			b.WriteString(": it was not the call's turn")
		}
		switch {
		case e.Queued && e.Ahead == 0:
			b.WriteString(", with no queued call before this one,")
		case e.Queued && e.Ahead == 1:
			b.WriteString(", with 1 queued call before this one,")
		case e.Queued:
			fmt.Fprintf(b, ", with %d queued calls before this one,", e.Ahead)
		}
		b.WriteString(" for longer than ")
		e.advise(b)
	default:
		e.pause(b)
		about := ""
		switch {
		case e.About:
			about = "about "
		case e.AtLeast:
			about = "at least "
		}
		fmt.Fprintf(b, ": the next slot is %s%s away, further than ", about, round(e.Wait))
		if e.AtLeast && e.Wait <= e.MaxWait-e.Waited {
			b.WriteString("can be reserved ahead (61 windows): try again when some of these calls have started")
			break
		}
		e.advise(b)
	}
}

// pause writes until when the call is paused, and by what.
func (e *LimitError) pause(b *strings.Builder) {
	if !e.Paused {
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
	switch left := max(0, e.MaxWait-e.Waited); {
	case e.Deadline:
		fmt.Fprintf(b, "the context's deadline (%s left): try again later, or give the call more time", round(left))
	case e.Waited > 0:
		fmt.Fprintf(b, "what is left (%s) of the longest wait allowed (%s): try again after it, or raise MaxWait", round(left), round(e.MaxWait))
	default:
		fmt.Fprintf(b, "the longest wait allowed (%s): try again after it, or raise MaxWait", round(e.MaxWait))
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
	case ErrNever:
		return e.Never
	case ErrNotYet:
		return !e.Never
	case context.DeadlineExceeded:
		return e.Deadline
	}
	return false
}

// What RetryAfter returns at least.
const (
	leastRetry   = time.Millisecond       // if it is known when the call could go
	unknownRetry = 100 * time.Millisecond // if it is not
)

// RetryAfter returns how long to sleep before you try again: Wait, if that is known, and otherwise a tenth of a second, for a call that
// had no permit or whose turn had not come. It is never 0 for a call that may go later, so a loop that sleeps for RetryAfter cannot spin.
// It is 0 for a call that can never start: do not try again.
func (e *LimitError) RetryAfter() time.Duration {
	switch {
	case e.Never:
		return 0
	case e.Wait <= 0:
		return unknownRetry
	}
	return max(e.Wait, leastRetry)
}

// Timeout reports whether the context's deadline was the reason, as net.Error does.
func (e *LimitError) Timeout() bool { return e.Deadline }

// A ScopeError reports that a call does not carry a scope which a policy needs. It matches [ErrRefused]. Nothing was
// charged.
type ScopeError struct {
	Upstream string
	Policy   string
	Scope    string // the name of the missing scope

	_ struct{}
}

// Error implements error.
func (e *ScopeError) Error() string {
	return fmt.Sprintf("pacer: upstream %q: policy %q is per %s, and the call carries no %s: "+
		"give it pacer.Scope(%q, value), or its context pacer.With, or make the policy Optional",
		e.Upstream, e.Policy, e.Scope, e.Scope, e.Scope)
}

// Is matches [ErrRefused].
func (e *ScopeError) Is(target error) bool { return target == ErrRefused }

// A NestedError reports that a call was made inside other calls that hold every permit of a policy that the call needs. It would wait for
// a permit that is returned only when these outer calls are over. It matches [ErrRefused], and neither [ErrNotYet] nor [ErrNever].
// Nothing was charged.
//
// This is a mistake in the program, and does not depend on other calls. If the outer calls hold some of the permits and other calls hold
// the rest, the call waits, for at most MaxWait.
type NestedError struct {
	Upstream string
	Policy   string
	Scope    string // its scopes and values, such as `tenant=acme`; "" for the whole upstream
	Limit    int64  // how many permits the policy has, all of which outer calls hold

	_ struct{}
}

// Error implements error.
func (e *NestedError) Error() string {
	scope, permits := "", "its only permit"
	if e.Scope != "" {
		scope = " for " + e.Scope
	}
	if e.Limit > 1 {
		permits = fmt.Sprintf("all of its %d permits", e.Limit)
	}
	return fmt.Sprintf("pacer: upstream %q: policy %q%s: the call was made inside calls that hold %s, so it would wait for itself: "+
		"make it when they are over, let it share a permit with pacer.Nested() or pacer.With(ctx, pacer.Nested()), or raise the limit",
		e.Upstream, e.Policy, scope, permits)
}

// Is matches [ErrRefused].
func (e *NestedError) Is(target error) bool { return target == ErrRefused }

// A CredentialError reports that no credential of a [Pool] is in use: each was left ([Pool.Leave]), as package transport does if the upstream
// answers 401. It matches [ErrRefused], and neither [ErrNotYet] nor [ErrNever]. Nothing was charged.
type CredentialError struct {
	Upstream string
	Wait     time.Duration // how long until the first of them is used again

	_ struct{}
}

// Error implements error.
func (e *CredentialError) Error() string {
	return fmt.Sprintf("pacer: upstream %q: no credential of the pool is in use, because the upstream accepts none: replace them, or try again in %s",
		e.Upstream, round(e.Wait))
}

// Is matches [ErrRefused].
func (e *CredentialError) Is(target error) bool { return target == ErrRefused }

// A ConfigError reports which setting or argument is wrong and what to do about it. Stores return it, too, so it is declared there.
type ConfigError = store.ConfigError

// A StoreError reports that a store operation failed. Whether the call was charged is not known: do not make it. It matches
// [ErrUnreachable] if the store is out of reach and Config.Outage is [RefuseCalls], and as well [ErrNoContact] if the store has never
// answered this process, or [ErrNoShare] if this process has no share yet. It matches [context.DeadlineExceeded] if the context's deadline
// ended the wait for it.
type StoreError struct {
	Upstream string
	Op       string // "reserve", "cancel", "report", "status", "index", "book", "redeem", "set", "settings" or "ready"
	Err      error

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
	case errors.Is(e.Err, store.ErrNoContact):
		advice = ": check its address, the network and what its ACL allows, or set Config.Processes, or Config.Outage to LetThrough, to start without it"
	case errors.Is(e.Err, store.ErrNoShare):
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

var (
	// ErrBadToken matches a [*TokenError] of a text that is no token of this upstream.
	ErrBadToken = errors.New("pacer: not a token")
	// ErrTokenExpired matches a [*TokenError] of a booking that may have been redeemed so long ago that the store has forgotten it: see [Keep].
	ErrTokenExpired = bookings.ErrExpired
	// ErrTokenLost matches a [*TokenError] of a booking that the store has lost with all its data: nobody knows whether it was redeemed.
	ErrTokenLost = bookings.ErrLost
)

// notYet makes the error of a call that may not go yet.
func (p *Pacer) notYet(r *dispatch.NotYetError) error {
	if r.NoShare {
		return p.storeError(opReserve, store.ErrNoShare)
	}
	e := &LimitError{
		Upstream: p.upstream, Cost: r.Cost, Paused: r.Paused, Wait: r.For, About: r.About, AtLeast: r.AtLeast, MaxWait: r.MaxWait, Waited: r.Waited,
		Deadline: r.ByDeadline, Queued: r.Queued, Ahead: r.Ahead,
	}
	if l := r.Limit; l != nil {
		e.Policy, e.Scope = readings.PolicyOf(l.Policy), p.set().Describe(l)
		if r.Paused {
			e.Until, e.Source = time.UnixMicro(int64(r.Until)), p.reports.Memory.Source(l.Key(), r.Until)
		}
		if l.Spec.Algorithm == policies.Concurrency && !r.Paused {
			e.InFlight, e.Limit, e.Wait = true, l.Spec.Limit, 0
		}
	}
	if r.Queued {
		e.Wait = 0
	}
	return e
}

// refusals implements [binding.Errors].
type refusals struct{ *Pacer }

// Missing implements [binding.Errors].
func (p refusals) Missing(policy, scope string) error {
	return &ScopeError{Upstream: p.upstream, Policy: policy, Scope: scope}
}

// Excess implements [binding.Errors].
func (p refusals) Excess(l *store.Limit, cost int64, maxWait time.Duration) error {
	return &LimitError{
		Upstream: p.upstream, Policy: l.Policy, Scope: p.set().Describe(l), Cost: cost, Limit: l.Spec.Limit, Never: true, MaxWait: maxWait,
	}
}

// Nested implements [binding.Errors].
func (p refusals) Nested(l *store.Limit) error {
	return &NestedError{Upstream: p.upstream, Policy: l.Policy, Scope: p.set().Describe(l), Limit: l.Spec.Limit}
}

func (p *Pacer) storeError(op string, err error) error {
	return &StoreError{Upstream: p.upstream, Op: op, Err: err}
}

// toUser makes an error of a package below one of users; any other stays as it is.
func (p *Pacer) toUser(err error) error {
	switch e := err.(type) { //nolint:errorlint // they are as they were made
	case *dispatch.StoreError:
		return p.storeError(e.Op, e.Err)
	case *dispatch.NotYetError:
		return p.notYet(e)
	case *bookings.TokenError:
		return &TokenError{Upstream: p.upstream, Err: e.Err}
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
	e := &LaterError{Upstream: p.upstream, Wait: max(l.Wait, leastRetry), Slack: l.Slack, Moved: l.Moved, InFlight: l.InFlight}
	if refused, ok := errors.AsType[*LimitError](p.toUser(l.Refused)); ok {
		e.InFlight, e.Wait = refused.Policy, refused.RetryAfter()
	} else if l.InFlight != "" {
		e.Wait = unknownRetry
	}
	return e
}
