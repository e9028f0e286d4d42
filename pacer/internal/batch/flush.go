package batch

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/deadline"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
)

// begin begins a flush with a first call. The caller holds mu.
func (g *generation) begin(p *pending, timeout time.Duration) *flush {
	var f *flush
	if n := len(g.freeFlushes); n > 0 {
		f, g.freeFlushes = g.freeFlushes[n-1], g.freeFlushes[:n-1]
	} else {
		f = &flush{Request: Request{generation: g}, places: make(map[uint64]int)}
	}
	g.flushes++
	f.add(g, p, timeout)
	return f
}

// add takes a call along, unless its stack is on the wire. From then on its caller waits for as long as the store may take. The
// caller of add holds mu.
func (f *flush) add(g *generation, p *pending, timeout time.Duration) bool {
	i, found := f.places[p.hash]
	switch {
	case found && !f.Batches[i].Stack.Alike(&p.stack), !found && g.wire[p.hash]:
		return false
	case !found:
		i = len(f.Batches)
		f.places[p.hash], g.wire[p.hash] = i, true
		if f.Batches = f.Batches[:min(i+1, cap(f.Batches))]; len(f.Batches) == i {
			f.Batches = append(f.Batches, store.Batch{})
		}
		// The flush may last longer than the caller waits, so it has copies of everything.
		b := &f.Batches[i]
		b.Stack.Upstream, b.Stack.Limits, b.Calls = p.stack.Upstream, append(b.Stack.Limits[:0], p.stack.Limits...), b.Calls[:0]
		if i > 0 {
			f.charges += len(p.stack.Limits)
		}
	}
	b := &f.Batches[i]
	f.entries = append(f.entries, entry{pending: p, batch: i, at: len(b.Calls)})
	calls := p.calls[p.sure:]
	f.Calls, f.charges = f.Calls+len(calls), f.charges+len(calls)*len(p.stack.Limits)
	for _, c := range calls {
		c.Costs = slices.Clone(c.Costs)
		b.Calls = append(b.Calls, c)
	}
	p.state = sent
	p.timer.Reset(timeout)
	return true
}

// next takes along what waits, as far as its stacks are not on the wire; it returns false if there is nothing. The caller holds mu.
func (f *flush) next(g *generation, timeout time.Duration) bool {
	kept := g.waiting[:0]
	for i, p := range g.waiting {
		if f.Calls > 0 && (f.Calls+len(p.calls) > g.load || f.charges+len(p.calls)*len(p.stack.Limits) > maxCharges) {
			kept = append(kept, g.waiting[i:]...)
			break
		}
		if !f.add(g, p, timeout) {
			kept = append(kept, p)
		}
	}
	clear(g.waiting[len(kept):])
	g.waiting = kept
	return len(f.entries) > 0
}

// run sends one request after the other, until nothing waits to be sent.
func (b *Reservations) run(g *generation, f *flush) {
	defer b.running.Done()
	for more := true; more; more = g.proceed(f, b.timeout) {
		if !telemetry.Guard("a store", func() { b.send(g, f) }) {
			f.fail()
		}
		b.answer(g, f)
	}
}

// fail sets the errors of a request at which the store, or a hook of its client, panicked.
func (f *flush) fail() {
	f.Errs = f.Errs[:0]
	for range f.Batches {
		f.Errs = append(f.Errs, store.ErrUnreachable)
	}
}

// lead sends a first request in the caller's own goroutine, which saves it two switches to another one. What waits meanwhile is none
// of its business.
func (b *Reservations) lead(g *generation, f *flush) {
	done := false
	defer func() {
		if !done { // the store panics: that is the caller's, but nobody else must wait for it
			f.fail()
			b.answer(g, f)
		}
		if g.proceed(f, b.timeout) {
			go b.run(g, f)
		} else {
			b.running.Done()
		}
	}()
	b.send(g, f)
	done = true
	b.answer(g, f)
}

// proceed makes a flush ready for the next request, or ends it if there is nothing to send.
func (g *generation) proceed(f *flush, timeout time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for hash := range f.places {
		delete(g.wire, hash)
	}
	clear(f.places)
	clear(f.entries)
	f.entries, f.Batches, f.Errs, f.Calls, f.charges = f.entries[:0], f.Batches[:0], f.Errs[:0], 0, 0
	if f.next(g, timeout) {
		return true
	}
	g.flushes--
	g.freeFlushes = append(g.freeFlushes, f)
	return false
}

// send asks the store.
func (b *Reservations) send(g *generation, f *flush) {
	for i := range f.Batches {
		one := &f.Batches[i]
		n := len(one.Calls)
		one.Grants = slices.Grow(one.Grants[:0], n)[:n]
	}
	ctx, cancel := b.context(f.entries[0].ctx, g)
	defer cancel()
	g.mu.Lock()
	g.latest = ctx
	for i := range f.entries {
		f.entries[i].request = ctx
	}
	g.mu.Unlock()
	b.sender.Send(ctx, &f.Request)
}

// answer gives the callers their answers, and gives back what was granted to those who have gone.
func (b *Reservations) answer(g *generation, f *flush) {
	g.mu.Lock()
	if f.Errs[0] == nil {
		g.answered = time.Now()
	}
	g.loaded(f)
	var gone []entry
	var again []*pending
	for i := range f.entries {
		e := &f.entries[i]
		switch {
		case e.state == abandoned:
			gone = append(gone, *e)
		case f.grant(e):
			e.state, e.reported = answered, true
		default:
			e.state = waiting
			again = append(again, e.pending)
		}
	}
	g.waiting = append(again, g.waiting...)
	g.mu.Unlock()
	for i := range f.entries {
		if e := &f.entries[i]; e.reported { // the others may be abandoned meanwhile
			e.done <- struct{}{}
		}
	}
	for _, e := range gone {
		if f.Errs[e.batch] == nil {
			one := &f.Batches[e.batch]
			b.sender.GiveBack(&one.Stack, granted(one.Grants[e.at:e.at+len(e.calls)-e.sure]))
		}
	}
}

// loaded sees to it that the next request carries no more calls than the store decides. The caller holds mu.
func (g *generation) loaded(f *flush) {
	decided := 0
	for i := range f.Batches {
		if f.Errs[i] != nil {
			return
		}
		n := len(f.Batches[i].Grants)
		for n > 0 && f.Batches[i].Grants[n-1].Deferred {
			n--
		}
		decided += n
	}
	switch {
	case decided < f.Calls:
		g.load = max(minCalls, decided)
	case decided >= g.load:
		g.load = min(MaxCalls, g.load+g.load/4)
	}
}

// grant gives a call what the store answered. It returns false if some of it is to be asked for again.
func (f *flush) grant(e *entry) bool {
	if e.err = f.Errs[e.batch]; e.err != nil {
		return true
	}
	grants := f.Batches[e.batch].Grants[e.at:]
	for i := range e.grants[e.sure:] {
		to, from := &e.grants[e.sure], &grants[i]
		if from.Deferred {
			return false
		}
		charges := append(to.Charges[:0], from.Charges...) //nolint:gocritic // the grant's own room
		*to = *from
		to.Charges = charges
		e.sure++
	}
	return true
}

// context returns the context of a request that is made for a caller, and maybe others: none that ends with the caller.
func (b *Reservations) context(values context.Context, g *generation) (*deadline.Context, context.CancelFunc) {
	if b.direct {
		return deadline.Ending(values, b.timeout, Longest(b.timeout))
	}
	ctx := &requestContext{Context: values, life: g.life}
	return deadline.New(ctx, b.timeout, Longest(b.timeout)), func() {} //nolint:contextcheck // it has the caller's values
}

// A requestContext has a caller's values, but not its end.
type requestContext struct {
	context.Context //nolint:containedctx // for its values

	life context.Context //nolint:containedctx // ends when nobody waits for the request any more
}

// Done implements [context.Context].
func (c *requestContext) Done() <-chan struct{} { return c.life.Done() }

// Err implements [context.Context].
func (c *requestContext) Err() error { return c.life.Err() }
