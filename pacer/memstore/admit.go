package memstore

import (
	"sync/atomic"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/pacer/store"
)

// prepared implements [store.Prepared].
type prepared struct {
	store.Limit

	upstream string
	place    location                // without the scope
	account  *account                // if the limit has no scope: guarded by the shard; nil if not known
	page     atomic.Pointer[[]int64] // of the calendar: today's, so to speak
}

// admitted is a limit that binds a call, and the location of its account.
type admitted struct {
	*prepared

	scope string
	at    location
}

// bounds returns the bounds of the windows that a call that goes now needs; nil without a calendar.
func (l *prepared) bounds(now int64) []int64 {
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

// Prepare implements [store.Direct].
func (m *Store) Prepare(upstream string, l *store.Limit) store.Prepared {
	return &prepared{Limit: *l, upstream: upstream, place: m.keys.of(upstream, l.Policy)}
}

// Admit implements [store.Direct]. It makes the same decision as Reserve, with the same engine and accounts, but allocates nothing for the
// result, because nothing waits or is given back.
//
// It reads the clock once, when all accounts are locked, and the call goes at that instant: it cannot be early, and deadlines do not
// matter.
func (m *Store) Admit(a store.Admission) bool {
	var (
		on  [store.MaxAdmission]admitted
		set shardSet
	)
	for i := range a.Len {
		l, ok := a.Limits[i].Limit.(*prepared)
		if !ok {
			return false
		}
		one := &on[i]
		one.prepared, one.scope, one.at = l, a.Limits[i].Scope, m.keys.scoped(l.place, a.Limits[i].Scope)
		set |= one.at.set()
	}
	now, ok := m.admit(set, on[:a.Len], engine.Call{Cost: a.Cost, Kept: a.Kept})
	m.keys.sweep(now)
	return ok
}

// admit charges a call if all of its limits let it go now, and no call is queued for them. An empty queue has no turns to keep.
func (m *Store) admit(set shardSet, on []admitted, c engine.Call) (now int64, ok bool) {
	k := &m.keys
	k.lock(set)
	defer k.unlock(set)
	now = m.clock()
	var (
		room    [store.MaxAdmission]engine.Entry
		charges [store.MaxAdmission]engine.Charge
	)
	entries := room[:len(on)]
	for i := range on {
		e, l := &entries[i], on[i].prepared
		e.Limit.Spec, e.Limit.Bounds = &l.Spec, l.bounds(now)
		one := m.account(&on[i], &e.Limit, now)
		if one == nil {
			return now, false
		}
		if e.Account = one.Account; e.IsQueuedFor() {
			return now, false
		}
	}
	g, _ := engine.Reserve(now, entries, c, charges[:0])
	return now, g.OK
}

// account returns the account of a limit, whose shard is locked; nil if none fits. A limit without a scope always has the same one, unless
// it was evicted, and needs no search.
func (m *Store) account(b *admitted, limit *engine.Limit, now int64) *account {
	l := b.prepared
	if b.scope == "" && l.account != nil && !l.account.gone && l.account.Serves(limit, now, true) {
		return l.account
	}
	key := keyOf(l.upstream, &l.Limit, b.scope)
	one := m.keys.at(b.at).get(b.at.hash, &key)
	if one == nil || !one.Serves(limit, now, true) {
		return nil
	}
	if b.scope == "" {
		l.account = one
	}
	return one
}
