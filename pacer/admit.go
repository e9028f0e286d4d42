package pacer

import (
	"context"

	"github.com/headway-go/headway/pacer/store"
)

// goesAtOnce charges a call that need not wait, and reports whether it did. It is a fast path for the most common
// request to a store in memory: see [store.Direct]. A pause that this process received is in the store already.
func (p *Pacer) goesAtOnce(ctx context.Context, a *ask) bool {
	if p.direct == nil || p.hasQueues || a.tracked || a.byPolicy || a.notBefore > 0 || p.queues.waiting.Load() > 0 {
		return false
	}
	call := store.Admission{Cost: a.cost}
	for i := range p.limits {
		l := &p.limits[i]
		scope, missing := l.scope(a)
		if missing != "" && l.optional {
			continue
		}
		if missing != "" || a.cost > l.Spec.Limit || call.Len == store.MaxAdmission {
			return false
		}
		call.Limits[call.Len] = store.Bound{Limit: l.prepared, Scope: scope}
		call.Len++
	}
	if call.Len == 0 || !p.direct.Admit(call) {
		return false
	}
	p.admittedNow(ctx, a.cost)
	return true
}
