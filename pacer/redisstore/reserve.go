package redisstore

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Reserve implements [store.Store].
func (s *Store) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	return store.InParts(grants, func(done int) error {
		return s.ReserveAll(ctx, []store.Batch{{Stack: stack, Calls: calls[done:], Grants: grants[done:]}})
	}, func(all []store.Grant) { _ = s.Cancel(context.WithoutCancel(ctx), stack, all) })
}

// ReserveAll implements [store.Shared]: one script, which reads and writes every account once, and stops early if the work takes too long.
func (s *Store) ReserveAll(ctx context.Context, batches []store.Batch) error {
	if len(batches) == 0 {
		return nil
	}
	upstream := batches[0].Stack.Upstream
	limits, refs := union(batches)
	var reach time.Duration
	for i := range batches {
		reach = max(reach, store.ReachOf(batches[i].Calls))
	}
	first := &batches[0].Stack
	r, now, err := s.ask(ctx, scripts.Reserve, upstream, limits, knowledge{first.Epoch, first.LastSeen}.add, reach, func(r *request) {
		if c := batches[0].Calls; len(batches) == 1 && len(c) == 1 && plain(&c[0]) {
			r.numbers(engine.Micros(c[0].MaxWait))
			return
		}
		for i := range batches {
			r.calls(refs.of(i), batches[i].Calls)
		}
	})
	if err != nil {
		return err
	}
	deferred := false
	for i := range batches {
		b := &batches[i]
		deferred = r.grants(b, now, i == 0, deferred)
		for j := range b.Grants {
			b.Grants[j].Bound(b.Stack.Limits, &b.Calls[j], reach)
		}
	}
	return r.done()
}

// owned lists, for each of several stacks, which of all limits are its own, from 1. It is nil for one stack.
type owned [][]int64

// of returns the limits of the stack at i; nil for those of the one before, or for all.
func (o owned) of(i int) []int64 {
	if o == nil || i > 0 && slices.Equal(o[i], o[i-1]) {
		return nil
	}
	return o[i]
}

// union returns the different limits of some stacks, and which of them each stack owns.
func union(batches []store.Batch) ([]store.Limit, owned) {
	if len(batches) == 1 {
		return batches[0].Stack.Limits, nil
	}
	type name struct{ policy, scope string }
	var limits []store.Limit
	places := make(map[name]int64)
	refs := make(owned, len(batches))
	for i := range batches {
		refs[i] = make([]int64, 0, len(batches[i].Stack.Limits))
		for j := range batches[i].Stack.Limits {
			l := &batches[i].Stack.Limits[j]
			at := places[name{l.Policy, l.Scope}]
			if at == 0 {
				limits = append(limits, *l)
				at = int64(len(limits))
				places[name{l.Policy, l.Scope}] = at
			}
			refs[i] = append(refs[i], at)
		}
	}
	return limits, refs
}

// calls adds calls as runs of equal ones. The limits of the first are refs: see binding.
func (r *request) calls(refs []int64, calls []store.Call) {
	for i := 0; i < len(calls); {
		c, n := &calls[i], 1
		for i+n < len(calls) && alike(c, &calls[i+n]) {
			n++
		}
		r.binding(refs)
		refs = nil
		cost, flags := c.Cost, int64(0)
		if c.Costs != nil {
			cost = 0
		}
		if c.AnyOf != nil {
			flags += numbers.AnyOf
		}
		if c.ID != 0 {
			flags += numbers.MayQueue
		}
		if c.Kept != 0 {
			flags += numbers.Keeps
		}
		r.numbers(int64(n), cost, engine.MicrosUp(c.NotBefore), engine.Micros(c.MaxWait), flags)
		r.numbers(c.Costs...)
		if c.Kept != 0 {
			r.numbers(int64(c.Kept)) //nolint:gosec // a stack has fewer limits than a float has bits
		}
		if c.AnyOf != nil {
			r.choices(c, i > 0 && sameChoices(c, &calls[i-1]))
		}
		if c.ID != 0 {
			r.numbers(c.ID, int64(c.Since), c.Flow, c.Weight, int64(c.Slot), engine.Micros(c.Reach), int64(len(c.Held)))
			for _, held := range c.Held {
				r.numbers(held.From, held.To, held.Made)
			}
			r.numbers(int64(len(c.Owed)))
			r.numbers(c.Owed...)
		}
		i += n
	}
}

// binding adds the limits that bind what follows: refs, from 1; nil for those of before, or all.
func (r *request) binding(refs []int64) {
	if refs == nil {
		r.numbers(0)
		return
	}
	r.numbers(int64(len(refs)) + 1)
	r.numbers(refs...)
}

// choices adds a call's choices, unless the run before had the same, and its preferred one.
func (r *request) choices(c *store.Call, asBefore bool) {
	if asBefore {
		r.numbers(0)
	} else {
		r.numbers(int64(len(c.AnyOf)))
		for _, choice := range c.AnyOf {
			r.numbers(int64(len(choice)))
			for _, i := range choice {
				r.numbers(int64(i) + 1)
			}
		}
	}
	r.numbers(int64(c.First) + 1)
}

// sameChoices reports whether two calls of a stack have the same choices, at the same costs.
func sameChoices(a, b *store.Call) bool {
	return a.Costs == nil && b.Costs == nil && slices.EqualFunc(a.AnyOf, b.AnyOf, slices.Equal)
}

// plain reports whether a call has nothing but its MaxWait.
func plain(c *store.Call) bool {
	return c.Cost == 1 && c.Costs == nil && c.NotBefore == 0 && c.ID == 0 && c.AnyOf == nil && c.Kept == 0
}

// alike reports whether two calls request the same.
func alike(a, b *store.Call) bool {
	return a.ID == 0 && b.ID == 0 && a.Costs == nil && b.Costs == nil && a.Cost == b.Cost && a.NotBefore == b.NotBefore && a.MaxWait == b.MaxWait &&
		a.First == b.First && a.Kept == b.Kept && slices.EqualFunc(a.AnyOf, b.AnyOf, slices.Equal)
}

// grants reads the answers to the calls of a batch: see reserve.lua. After the end of the reply, calls are deferred, except the first of a
// request. It reports whether there were any.
func (r *reply) grants(b *store.Batch, now int64, first, deferred bool) bool {
	for i := 0; i < len(b.Grants); {
		if deferred = deferred || len(r.values) == 0 && r.err == nil && (!first || i > 0); deferred {
			for j := i; j < len(b.Grants); j++ {
				b.Grants[j] = store.Grant{Deferred: true, Binds: store.BindsNothing, Charges: b.Grants[j].Charges[:0]}
			}
			return true
		}
		choice, limits := r.choice(b, i)
		rest := int64(len(b.Grants) - i)
		n := r.upTo(-rest, rest)
		if r.err != nil {
			return false
		}
		g := &b.Grants[i]
		*g = store.Grant{OK: n >= 0, Now: store.Instant(now), At: store.Instant(now), Binds: store.BindsNothing, Charges: g.Charges[:0], Choice: choice}
		if n <= 0 {
			g.Queued = n == 0 && b.Calls[i].ID != 0 && r.negate()
			g.Binds = b.Calls[i].LimitOf(choice, r.binds(limits))
			if g.Queued {
				g.OK, g.At, g.Ahead = false, r.instant(), r.count()
				i++
				continue
			}
			g.At, g.Paused = store.Instant(r.upTo(0, maxRefused)), r.instant()
		}
		if n < 0 {
			for range -n {
				refused := *g
				refused.Charges = b.Grants[i].Charges[:0]
				b.Grants[i] = refused
				i++
			}
			continue
		}
		g.Slack = time.Duration(r.upTo(-1, maxInstant)) * time.Microsecond
		g.Charges = append(g.Charges, make([]store.Charge, len(b.Stack.Limits))...)
		for k := range limits {
			j := b.Calls[i].LimitOf(choice, k)
			g.Charges[j] = r.charge(&b.Stack.Limits[j], now)
		}
		if n == 0 {
			i++
			continue
		}
		bound := g.Slack
		for k := range int(n) {
			follow(&b.Stack, g, &b.Grants[i+k], int64(k), bound)
		}
		i += int(n)
	}
	return false
}

// choice reads which choice binds a call, and its number of limits; all of them if the call has no choices.
func (r *reply) choice(b *store.Batch, i int) (choice, limits int) {
	choices := b.Calls[i].AnyOf
	if choices == nil {
		return 0, len(b.Stack.Limits)
	}
	choice = int(r.upTo(1, int64(len(choices))))
	if r.err != nil {
		return 0, 0
	}
	return choice - 1, len(choices[choice-1])
}

// charge reads what a limit charged.
func (r *reply) charge(l *store.Limit, now int64) store.Charge {
	c := store.Charge{From: r.upTo(-maxInstant, maxInstant), To: r.upTo(-maxInstant, maxInstant)}
	if c.To != 0 {
		c.Made = now
	}
	if l.Spec.Algorithm == specs.Window {
		c.Seen = r.count()
	}
	return c
}

// follow fills in the grant of the k-th of some calls that go now, after the first.
func follow(stack *store.Stack, first, g *store.Grant, k int64, bound time.Duration) {
	charges := g.Charges[:0]
	slack := bound
	for j, c := range first.Charges {
		switch stack.Limits[j].Spec.Algorithm {
		case specs.Window:
			c.Seen += k * c.To
		case specs.Allowance:
		case specs.GCRA, specs.Concurrency:
			length := c.To - c.From
			c.From += k * length
			c.To += k * length
			if late := max(0, store.Instant(c.From).Sub(first.At)); slack < 0 || late < slack {
				slack = late
			}
		}
		charges = append(charges, c)
	}
	if k > 0 {
		*g = *first
	}
	g.Charges, g.Slack = charges, slack
}
