package pacer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Report passes what the upstream reported to the store, for every process that shares it. The context and options give the scopes of the
// calls that it is about. Use it for what you learn outside of a call, such as from a status page, or for the answer to a call of
// [Pacer.Wait]. It does not know which call was answered: each refusal pauses, and of answers that overtake each other the one with the
// least left counts until the reset. [Pacer.Do] and [Reservation.Report] know, and so use more of a limit.
//
// If f.Wait is set, Report pauses the policies that f names, or else those with the widest scope that bind the call, within f.Within.
// Waiting calls of any process whose slot falls inside the pause give their slot back and reserve again behind the pause, in their order.
// With a shared store, Report does not wait for that: it returns when the store has applied the feedback. Feedback of what is left until a
// reset binds calls that start before the reset, of the policy that f is about or, if it fits none, of the whole upstream; it never admits
// more than the policies do. After the reset one call goes first; the others follow when it is answered, or one every 100 ms.
//
// Before a shared store has answered this process for the first time, reports are dropped, except pauses, which reach the store at the
// first contact.
//
// It returns a [*ConfigError] for a negative time or an unknown policy, a [*LimitError] for [NoScope] if a named policy needs a scope that
// is not given, and a [*StoreError] if the store fails.
func (p *Pacer) Report(ctx context.Context, f policies.Feedback, opts ...ScopeOption) error {
	a, err := p.newAsk(ctx, optionsOf(nil, opts))
	if err != nil {
		return err
	}
	bound, lacking := p.calls.Bind(&a, nil)
	if lacking != nil {
		bound = a.Bindable(false) // an answer to a call that lacks a scope is not about that scope
	}
	a.CarryAll(ctx)
	answer := &readings.Answer{Limits: bound, Partial: lacking != nil, Flying: p.dispatcher.Flying(), Scopes: &a}
	if answer.Flying == 0 { // calls by Wait, whose answers nobody reports otherwise
		answer.Blind = a.Cost
	}
	return p.apply(ctx, a.Set, answer, time.Now(), f)
}

// Report records that the upstream answered the call, and what it reported of limits. It does what [Pacer.Report] does, and more: it knows
// which calls are under way, if they were made with [Tracked]. With a shared store, a good answer that leaves more than 8 goes to the store
// with others within a second, and Report does not wait for that. A refusal that is probably stray pauses nothing: it widens the margin of
// a limit (see [policies.Policy.Margin]), and only the refused call waits as long as the upstream requested. Any other refusal pauses the
// limits that it concerns, for the requested wait, or else for a guess. If the upstream refused a call of a [Pool] and requested no wait,
// and named no policy of others, the limits of the call's credential are paused: for a second, and twice as long after each further refusal
// in a row, up to a minute. Without feedback, Report records that the upstream reported nothing, or that the call failed. Report each call,
// at any time after Wait. Report again what you learn later of the same answer, such as from the end of a long body.
func (r *Reservation) Report(ctx context.Context, fs ...policies.Feedback) error {
	now := time.Now()
	a := r.call.Answered(ctx, now)
	if r.pacer.isClosed() {
		return ErrClosed
	}
	set, _ := r.call.Bound()
	fs = r.pool.backOff(set, &a, r.Credential(), now, fs)
	if set.Observes {
		r.pacer.withObserved(&a, r.call.Chosen())
	}
	if len(fs) > 0 {
		k := r.call.Chosen()
		a.Scopes = &k
	}
	return r.pacer.apply(ctx, set, &a, now, fs...)
}

// withObserved adds the observed limits to those that an answer is about.
func (p *Pacer) withObserved(a *readings.Answer, k binding.Ask) {
	k.Which = binding.All
	_, lacking := p.calls.Bind(&k, nil)
	a.Partial = lacking != nil
	limits := slices.Clone(a.Limits)
	for _, l := range k.Bindable(false) {
		if slices.ContainsFunc(k.Set.All, func(of binding.Limit) bool { return of.Policy == l.Policy && of.Observed }) {
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

// apply passes a report about a call to the store.
func (p *Pacer) apply(ctx context.Context, set *binding.Set, a *readings.Answer, now time.Time, fs ...policies.Feedback) error {
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

// notApplied returns the error for feedback that names a policy that does not bind the call, or that did not reach the store; nil if there
// is none.
func (p *Pacer) notApplied(err error) error {
	if err == nil {
		return nil
	}
	unbound, ok := errors.AsType[*readings.UnboundError](err)
	switch {
	case !ok:
		return p.storeError(inside.OpReport, err)
	case unbound.Scope != "":
		return &LimitError{Upstream: p.upstream, Reason: NoScope, Policy: unbound.Policy, Scope: unbound.Scope}
	}
	return &ConfigError{
		Field: "Feedback.Policies", Value: strconv.Quote(unbound.Policy),
		Reason: fmt.Sprintf("no policy of upstream %q has that name", p.upstream),
	}
}
