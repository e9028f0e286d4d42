package pacer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/feedback"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Report gives the store what the upstream reported, for every process that shares it. The context and options give
// the scopes of the call that was answered. It is for callers of Wait; if you keep a [Reservation], use
// [Reservation.Report] instead, which distinguishes the calls that are in flight.
//
// A Wait pauses the policies that f names, or the widest scope that binds the call, within f.Within. Calls that wait, in
// this process or another, and whose slot falls inside the pause, give it back and reserve again behind it, in their order.
// Report does not wait for that, if the store is shared: it returns when the store has applied the feedback. What f
// reports of a limit and of what is left of it tightens the policies until it is over; nothing that an upstream reports
// admits more than they do.
//
// Of what is reported before a shared store has answered this process for the first time, pauses reach it with the first
// contact.
//
// It returns a [*ConfigError] for a negative time or an unknown policy, a [*ScopeError] if a named policy needs a
// scope that is not given, and a [*StoreError] if the store fails.
func (p *Pacer) Report(ctx context.Context, f policies.Feedback, opts ...Option) error {
	if p.isClosed() {
		return ErrClosed
	}
	a, err := p.newAsk(ctx, opts)
	if err != nil {
		return err
	}
	bound, lacking := p.bind(&a, nil)
	if lacking != nil {
		bound = a.set.Bindable(a.lane, false, a.scope) // an answer to a call that lacks a scope is not about that scope
	}
	return p.apply(ctx, a.set, &feedback.Answer{Limits: bound, Partial: lacking != nil}, time.Now(), f)
}

// Report records that the upstream answered the call, and what it reported of limits. A refusal that is likely stray pauses
// nobody: it makes the margin of a limit wider, see [policies.Policy.Margin], and its own call has to wait for as long as
// the upstream said. Without feedback, it records that the upstream reported nothing, or that the call failed. It does
// what [Pacer.Report] does, and distinguishes calls that are in flight from those of other consumers, if the reservation
// was made with [Tracked]. Report once for each call, at any time after Wait.
func (r *Reservation) Report(ctx context.Context, fs ...policies.Feedback) error {
	now := time.Now()
	a := r.call.Answered(ctx, now)
	if r.pacer.isClosed() {
		return ErrClosed
	}
	set, _ := r.bound()
	if set.Observes {
		r.pacer.withObserved(&a, r.chosen())
	}
	return r.pacer.apply(ctx, set, &a, now, fs...)
}

// withObserved adds the limits that are observed to those that an answer is about.
func (p *Pacer) withObserved(a *feedback.Answer, k ask) {
	k.which = binding.All
	_, lacking := p.bind(&k, nil)
	a.Partial = lacking != nil
	limits := slices.Clone(a.Limits)
	for _, l := range k.set.Bindable(k.lane, false, k.scope) {
		if k.set.Named(l.Policy).Observed {
			limits = append(limits, l)
		}
	}
	a.Limits = limits
	if a.Grant != nil {
		g := *a.Grant
		g.Charges = append(slices.Clone(g.Charges), make([]store.Charge, max(0, len(limits)-len(g.Charges)))...)
		a.Grant = &g
	}
}

// apply gives the store what was reported of a call.
func (p *Pacer) apply(ctx context.Context, set *binding.Set, a *feedback.Answer, now time.Time, fs ...policies.Feedback) error {
	for i := range fs {
		if err := checkFeedback(&fs[i]); err != nil {
			return err
		}
	}
	return p.notApplied(p.reports.Apply(ctx, set.Rules, a, now, fs...))
}

func checkFeedback(f *policies.Feedback) error {
	switch {
	case f.Wait < 0:
		return badDuration("Feedback.Wait", f.Wait)
	case f.Window < 0:
		return badDuration("Feedback.Window", f.Window)
	case f.Reset < 0:
		return badDuration("Feedback.Reset", f.Reset)
	}
	return nil
}

// notApplied makes the error of feedback that names a policy that does not bind the call, or that the store did not receive; nil for none.
func (p *Pacer) notApplied(err error) error {
	if err == nil {
		return nil
	}
	unbound, ok := errors.AsType[*feedback.UnboundError](err)
	switch {
	case !ok:
		return p.storeError(opReport, err)
	case unbound.Scope != "":
		return &ScopeError{Upstream: p.upstream, Policy: unbound.Policy, Scope: unbound.Scope}
	}
	return &ConfigError{
		Field: "Feedback.Policies", Value: strconv.Quote(unbound.Policy),
		Reason: fmt.Sprintf("no policy of upstream %q has that name", p.upstream),
	}
}

// Resume lifts the pauses that hold a call with the scopes of the context and options: that of the whole upstream,
// and those of the policies that bind the call. It also forgets what the upstream said is left of their windows. Calls
// that wait behind them, in this process or another, reserve again. It returns the same errors as Report.
func (p *Pacer) Resume(ctx context.Context, opts ...Option) error {
	return p.undo(ctx, store.NoteResume, opts)
}

// Reset forgets all that is known of the policies that bind a call with the scopes of the context and options: what
// was charged, what was learned of them, and pauses, including that of the whole upstream. If the call is in no lane,
// it includes the policies of all lanes. It is for operators who know better than the accounts. Calls that wait keep
// their slots, or get earlier ones. No process brings back what was reset, even if the store forgets by itself later.
// It returns the same errors as Report.
func (p *Pacer) Reset(ctx context.Context, opts ...Option) error {
	return p.undo(ctx, store.NoteReset, opts)
}

// undo sends a note about each limit that could bind a call with these scopes, and about the whole upstream.
func (p *Pacer) undo(ctx context.Context, kind store.NoteKind, opts []Option) error {
	if p.isClosed() {
		return ErrClosed
	}
	a, err := p.newAsk(ctx, opts)
	if err != nil {
		return err
	}
	return p.notApplied(p.reports.Undo(ctx, kind, a.set.Bindable(a.lane, true, a.scope)))
}
