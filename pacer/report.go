package pacer

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Feedback is what an upstream said about its limits.
type Feedback struct {
	// RetryAfter asks that nothing goes for this long. It is capped by Config.MaxPause. 0 asks for nothing.
	RetryAfter time.Duration

	// Policies names the policies that the upstream meant, for the scopes of the call: Report pauses those,
	// and calls that they do not bind go on. Defaults to the widest scope that binds the call: the whole
	// upstream if any policy of the call's stack has no scope (or there are none), otherwise the policies
	// with the fewest scopes.
	Policies []string

	_ struct{}
}

// Report tells the store what the upstream said, for everyone who shares it. The context and options give the
// scopes of the call that was answered. Calls of this process that sleep, and whose slot falls inside the
// pause, give it back and reserve again behind it, in their order.
//
// It returns a [*ConfigError] for a negative time or an unknown policy, a [*ScopeError] if a named policy
// needs a scope that is not given, and a [*StoreError] if the store fails.
func (p *Pacer) Report(ctx context.Context, f Feedback, opts ...Option) error {
	if f.RetryAfter < 0 {
		return badDuration("Feedback.RetryAfter", f.RetryAfter)
	}
	if p.isClosed() {
		return ErrClosed
	}
	a, err := p.newAsk(ctx, opts)
	if err != nil {
		return err
	}
	stack, err := p.meant(&a, f.Policies)
	if err != nil {
		return err
	}
	if f.RetryAfter == 0 {
		return nil
	}
	d := min(f.RetryAfter, p.maxPause)
	notes := []Note{{Kind: NotePause, Limit: WholeUpstream, For: d}}
	for i := range stack.Limits {
		n := Note{Kind: NotePause, Limit: i, For: d}
		if i == 0 {
			notes[0] = n
		} else {
			notes = append(notes, n)
		}
	}
	now, _, err := p.store.Report(ctx, stack, notes)
	if err != nil {
		return p.storeError("report", err)
	}
	until := now + Instant(d.Microseconds())
	if caught := p.sleepers.pause(stack, until, d); len(caught) > 0 {
		p.move(ctx, caught)
	}
	return nil
}

// meant returns the limits that a pause is for: those named, or the widest that bind the call. No limits mean
// the whole upstream.
func (p *Pacer) meant(a *ask, names []string) (Stack, error) {
	stack := Stack{Upstream: p.upstream}
	if len(names) == 0 {
		stack.Limits = p.widest(a)
		return stack, nil
	}
	bound, err := p.bind(a)
	if err != nil {
		return stack, err
	}
	for _, name := range names {
		found := false
		for i := range bound {
			if bound[i].Policy == name {
				stack.Limits = append(stack.Limits, bound[i])
				found = true
			}
		}
		if !found {
			return stack, p.notBound(name)
		}
	}
	return stack, nil
}

func (p *Pacer) notBound(name string) error {
	if l := p.named(name); l != nil {
		return &ScopeError{Upstream: p.upstream, Policy: name, Scope: l.scopes[0]}
	}
	return &ConfigError{
		Field: "Feedback.Policies", Value: strconv.Quote(name),
		Reason: fmt.Sprintf("no policy of upstream %q has that name", p.upstream),
	}
}

// widest returns the limits with the fewest scopes that bind the call; none if that is the whole upstream.
func (p *Pacer) widest(a *ask) []Limit {
	bound, err := p.bind(a)
	if err != nil {
		return nil // a call that lacks a scope says nothing about one
	}
	fewest := 0
	var limits []Limit
	for i := range bound {
		n := len(p.named(bound[i].Policy).scopes)
		if n == 0 {
			return nil
		}
		if fewest == 0 || n < fewest {
			fewest, limits = n, nil
		}
		if n == fewest {
			limits = append(limits, bound[i])
		}
	}
	return limits
}
