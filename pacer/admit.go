package pacer

import (
	"context"
	"sync"

	"github.com/headway-go/headway/pacer/internal/waiters"
	"github.com/headway-go/headway/pacer/store"
)

// goesAtOnce charges a call that need not wait, and reports whether it did. It is a fast path for the most common
// request to a store in memory: see [store.Direct]. A pause that this process received is in the store already.
func (p *Pacer) goesAtOnce(ctx context.Context, a *ask) bool {
	if p.direct == nil || a.set.Observes || a.set.Free || a.set.HasQueues || a.set.Varies || a.tracked || a.byPolicy || a.notBefore > 0 || p.waiters.Queued() > 0 {
		return false
	}
	call := store.Admission{Cost: a.cost}
	for i := range a.set.Limits {
		l := &a.set.Limits[i]
		scope, missing := l.ScopeOf(a.scope)
		if missing != "" && l.Optional {
			continue
		}
		if missing != "" || a.cost > l.Spec.Limit || call.Len == store.MaxAdmission {
			return false
		}
		call.Limits[call.Len] = store.Bound{Limit: l.Prepared, Scope: scope}
		call.Len++
	}
	if call.Len == 0 || !p.direct.Admit(call) {
		return false
	}
	if p.telemetry != nil {
		waitEvents{p}.Admitted(ctx, &store.Call{Cost: a.cost}, a.set.Bindable(a.lane, false, a.scope), nil, 0, 0)
	}
	return true
}

// spares are calls of plain Waits that are over. Their callers never saw them, so they can serve again, for the same
// Pacer.
type spares struct {
	off  bool      // the store is one that could keep what it is given
	pool sync.Pool // of *spare
}

// A spare is a call and room for its limits.
type spare struct {
	asked
	call   waiters.Call
	limits [store.MaxAdmission]store.Limit
}

// get returns a call whose caller will not see it.
func (s *spares) get() *spare {
	if one, ok := s.pool.Get().(*spare); ok {
		return one
	}
	return new(spare)
}

// put takes back a call that went at its first slot, if no other goroutine can have it any more. No Report or Settle
// can come, because the caller has no handle.
func (s *spares) put(one *spare) {
	if s.off || !one.call.IsReusable() {
		return
	}
	one.forget()
	one.call, one.limits = waiters.Call{}, [store.MaxAdmission]store.Limit{}
	s.pool.Put(one)
}
