package standin

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Limits that do not depend on the plan.
const (
	endpointLimit     = 100 // List Tickets and Update Ticket, per minute
	endpointLimitHigh = 300 // with 2,500 calls per minute
	ticketLimit       = 30  // updates of one ticket by one user
	ticketPeriod      = 10 * time.Minute
)

// sweepAt is how many users and tickets an account remembers before it looks for expired ones.
const sweepAt = 1000

// An operation is a call's kind for the limits.
type operation int

const (
	opOther operation = iota
	opList
	opUpdate
)

// An editor is a user and a ticket. Each pair has a limit.
type editor struct {
	user   string
	ticket int64
}

// An account is one customer of Zendesk's: limits, tickets and a record.
type account struct {
	all     *window
	peak    *window // nil: no spike guard
	list    *window
	update  *window
	edits   map[editor]*window
	sweep   int // how many edits there are before the next sweep
	changes map[int64]Ticket
	record  record
}

func newAccount(limit, peak int) *account {
	endpoint := endpointLimit
	if limit >= highVolume {
		endpoint = endpointLimitHigh
	}
	a := &account{
		all:     &window{name: "account", limit: limit, period: time.Minute},
		list:    &window{name: "tickets-index", limit: endpoint, period: time.Minute},
		update:  &window{name: "tickets-update", limit: endpoint, period: time.Minute},
		edits:   map[editor]*window{},
		sweep:   sweepAt,
		changes: map[int64]Ticket{},
		record:  record{refusedBy: map[string]int{}},
	}
	if peak > 0 {
		a.peak = &window{name: "peak", limit: peak, period: time.Second}
	}
	return a
}

// binding returns the limits of a call.
func (a *account) binding(op operation, by editor, now time.Time) []*window {
	ws := []*window{a.all}
	if a.peak != nil {
		ws = append(ws, a.peak)
	}
	switch op {
	case opList:
		ws = append(ws, a.list)
	case opUpdate:
		ws = append(ws, a.update, a.edit(by, now))
	case opOther:
	}
	return ws
}

// edit returns the limit of a user and a ticket.
func (a *account) edit(by editor, now time.Time) *window {
	if w, ok := a.edits[by]; ok {
		return w
	}
	if len(a.edits) >= a.sweep {
		for e, w := range a.edits {
			if w.expire(now); len(w.calls) == 0 {
				delete(a.edits, e)
			}
		}
		a.sweep = 2*len(a.edits) + sweepAt
	}
	w := &window{name: "ticket", limit: ticketLimit, period: ticketPeriod}
	a.edits[by] = w
	return w
}

// admit counts a call, or returns how long to wait and which limit has no room. All limits admit it, or none counts it.
func (a *account) admit(ws []*window, now time.Time) (wait time.Duration, by string) {
	for _, w := range ws {
		if d := w.wait(now); d > wait {
			wait, by = d, w.name
		}
	}
	if wait > 0 {
		return wait, by
	}
	for _, w := range ws {
		w.add(now)
	}
	return 0, ""
}

// describe writes the headers with the state of the limits.
func (a *account) describe(h http.Header, ws []*window, now time.Time) {
	limit, left := strconv.Itoa(a.all.limit), strconv.Itoa(a.all.remaining())
	h.Set("X-Rate-Limit", limit)
	h.Set("X-Rate-Limit-Remaining", left)
	// Zendesk sends these three in lower case; over HTTP that makes no difference.
	h.Set("Ratelimit-Limit", limit)
	h.Set("Ratelimit-Remaining", left)
	h.Set("Ratelimit-Reset", strconv.Itoa(seconds(a.all.resets(now))))

	var tightest *window // of the endpoint's limits
	for _, w := range ws {
		if w != a.all && w != a.peak && (tightest == nil || w.remaining() < tightest.remaining()) {
			tightest = w
		}
	}
	if tightest == nil {
		return
	}
	name := "Zendesk-RateLimit-tickets-index"
	if tightest != a.list {
		name = "Zendesk-RateLimit-tickets-update"
	}
	h.Set(name, fmt.Sprintf("total=%d; remaining=%d; resets=%d", tightest.limit, tightest.remaining(), seconds(tightest.resets(now))))
}
