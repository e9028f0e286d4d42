package memstore

import (
	"time"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/pacer/store"
)

// chosen grants a call one of its choices, or queues it for one. It appends the charges to room, and also returns which queued calls to
// wake.
func chosen(c *store.Call, now int64, entries []engine.Entry, ask engine.Call, room []store.Charge) (of store.Grant, called []int64) {
	choices := make([]engine.Choice, len(c.AnyOf))
	for k, indexes := range c.AnyOf {
		choices[k].Kept = c.KeptOf(indexes)
		for _, i := range indexes {
			choices[k].Stack = append(choices[k].Stack, entries[i])
			if c.Costs != nil {
				choices[k].Costs = append(choices[k].Costs, c.Costs[i])
			}
		}
	}
	var (
		k     int
		g     engine.Grant
		taken []engine.Charge
	)
	if c.ID == 0 {
		k, g, taken = engine.ReserveAny(now, choices, c.First, ask)
	} else {
		k, g, taken, called = engine.ReserveAnyQueued(now, entries, choices, c.First, ask, nil)
	}
	of = store.Grant{
		OK: g.OK, Now: store.Instant(now), At: store.Instant(g.At), Slack: time.Duration(g.Slack) * time.Microsecond,
		Binds: c.LimitOf(k, g.Binds), Paused: store.Instant(g.Paused), Charges: room, Choice: k, Queued: g.Queued, Ahead: g.Ahead,
	}
	if g.OK {
		of.Charges = append(of.Charges, make([]store.Charge, len(entries))...)
	}
	for j, charge := range taken {
		if charge.To != 0 {
			charge.Made = now
		}
		of.Charges[c.AnyOf[k][j]] = store.Charge(charge)
	}
	return of, called
}
