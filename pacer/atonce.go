package pacer

import (
	"context"

	"github.com/headway-go/headway/pacer/internal/engine"
)

// goesAtOnce charges a call that need not wait, and reports whether it did. It is a short way for what is asked most often of
// a store that is at hand: the same question to the same engine, for the same accounts, but nothing is allocated to
// remember the answer, since there is nothing to wait for and nothing to give back. Whatever is not plain (a call that
// must wait, a key that is new, an error) changes nothing and is left to the long way.
//
// The clock is read once, when all accounts are locked, and the call goes at that instant: it cannot be early, and a
// deadline plays no part. A pause of which this process heard is in the store already.
func (p *Pacer) goesAtOnce(ctx context.Context, a *ask) bool {
	m := p.memory
	if m == nil || p.late || a.tracked || a.byPolicy || a.notBefore > 0 || p.queues.waiting.Load() > 0 {
		return false
	}
	var (
		room   [fewLimits]bound
		on     = room[:0]
		shards shardSet
	)
	for i := range p.limits {
		l := &p.limits[i]
		scope, missing := l.scope(a)
		if missing != "" && l.optional {
			continue
		}
		if missing != "" || a.cost > l.Spec.Limit {
			return false
		}
		one := bound{limit: l, scope: scope, place: m.keys.scoped(l.place, scope)}
		on, shards = append(on, one), shards|one.place.set()
	}
	if len(on) == 0 {
		return false
	}
	now, ok := p.chargeNow(shards, on, a.cost)
	m.keys.sweep(now)
	if ok {
		p.goesNow(ctx, a.cost)
	}
	return ok
}

// bound is a limit that binds a call, and where its account is.
type bound struct {
	*limit

	scope string
	place place
}

// chargeNow charges a call if all of its limits let it go now.
func (p *Pacer) chargeNow(shards shardSet, on []bound, cost int64) (now int64, ok bool) {
	m := p.memory
	k := &m.keys
	k.lock(shards)
	defer k.unlock(shards)
	now = m.clock()
	var (
		room    [fewLimits]engine.Entry
		charges [fewLimits]engine.Charge
	)
	entries := room[:0]
	for i := range on {
		one := p.account(&on[i])
		if one == nil {
			return now, false
		}
		l := on[i].limit
		entries = append(entries, engine.Entry{Account: one.Account, Limit: engine.Limit{Spec: &l.Spec, Bounds: l.bounds(now)}})
	}
	g, _ := engine.Reserve(now, m.pause(p.upstream, now), entries, engine.Call{Cost: cost}, charges[:0])
	if g.OK && p.looked.Load() {
		for i := range on {
			p.countNow(&on[i], now, cost)
		}
	}
	return now, g.OK
}

// countNow counts what went of a limit, whose shard is locked, for those who look: see Pacer.Fleet.
func (p *Pacer) countNow(b *bound, now, cost int64) {
	c := &b.seen.counts[b.place.shard%shards]
	if *c == nil {
		*c = new(count)
	}
	(*c).add(now, cost)
	if b.scope != "" {
		p.account(b).recent.add(cost, now)
	}
}

// account returns the account of a limit, whose shard is locked; nil if there is none that fits. That of a limit without
// a scope is always the same, unless it was evicted, and need not be looked for.
func (p *Pacer) account(b *bound) *account {
	l := b.limit
	if l.account != nil && !l.account.gone {
		return l.account
	}
	one := p.memory.keys.at(b.place).get(b.place.hash, &memoryKey{p.upstream, l.Policy, b.scope})
	if one == nil || !engine.Keeps(one.Account, l.Spec.Algorithm) {
		return nil
	}
	if len(l.scopes) == 0 {
		l.account = one
	}
	return one
}

// bounds returns the bounds of the limit's windows as far as a call that goes now needs them; nil if it has no calendar.
func (l *limit) bounds(now int64) []int64 {
	if l.Spec.Calendar == nil {
		return nil
	}
	page := l.page.Load()
	if page == nil || now < (*page)[1] || now >= (*page)[2] { // not in its second window, which is where it begins to serve
		b := l.Spec.Calendar.Bounds(now, now)
		page = &b
		l.page.Store(page)
	}
	return *page
}
