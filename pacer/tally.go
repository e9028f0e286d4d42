package pacer

import (
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/store"
)

// count counts what a reservation's call spends, when it goes, in the second of its slot, or in the first second that
// was not reported to the store yet. The caller holds waiters.mu.
func (p *Pacer) count(r *Reservation) {
	if p.direct != nil && !p.looked.Load() {
		return
	}
	at := int64(r.grant[0].At)
	second := max(usage.SecondOf(at), p.wentSaid)
	for i := range r.stack.Limits {
		l := &r.stack.Limits[i]
		what := store.Second{Cost: r.cost(i)}
		if r.since != 0 && i == r.waitsFor() {
			what.Waits, what.Waited = 1, r.waited()
		}
		if of := p.byName[l.Policy]; of != nil {
			of.seen.went.Add(second, what)
		}
		if l.Scope != "" {
			p.topKeys.Add(l.Key(), r.cost(i), at)
		}
	}
}
