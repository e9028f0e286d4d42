package faulttest_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// A request is a client's request to a store: whichever of its fields is not nil, or the status.
type request struct {
	stack  store.Stack
	calls  []store.Call
	cancel []store.Grant
	notes  []store.Note
}

// An answer is a store's whole answer to a request. A Cancel has none.
type answer struct {
	grants  []store.Grant
	now     store.Instant // of a report
	changed int
	status  store.StackStatus
}

// ask sends the request to a store. The clients use theirs, and the model the memory store.
func (r *request) ask(ctx context.Context, backing store.Store) (a answer, err error) {
	switch {
	case r.calls != nil:
		a.grants = make([]store.Grant, len(r.calls))
		err = backing.Reserve(ctx, r.stack, r.calls, a.grants)
	case r.cancel != nil:
		err = backing.Cancel(ctx, r.stack, r.cancel)
	case r.notes != nil:
		a.now, a.changed, err = backing.Report(ctx, r.stack, r.notes)
	default:
		a.status, err = backing.Status(ctx, r.stack)
	}
	return a, err
}

// An operation is one request, its answer, and when that was.
type operation struct {
	request
	answer

	client       int
	called, done time.Duration // since the history began, by the monotonic clock that all clients share
	at           store.Instant // store time
	earlier      int           // how many operations of the history have an earlier store time
}

// wrote reports whether the operation can have changed anything.
func (op *operation) wrote() bool {
	return op.cancel != nil || op.notes != nil || slices.ContainsFunc(op.grants, func(g store.Grant) bool { return g.OK })
}

// A history is what some clients did to one upstream that nobody had used before.
type history []*operation

// sequence puts the history in the order of store time, and counts for each operation how many are earlier.
func (h history) sequence() {
	slices.SortStableFunc(h, func(a, b *operation) int { return cmp.Compare(a.at, b.at) })
	for i, op := range h {
		op.earlier = i
		if i > 0 && h[i-1].at == op.at {
			op.earlier = h[i-1].earlier
		}
	}
}

// overlapping counts the operations that were under way while another client's was.
func (h history) overlapping() int {
	n := 0
	for i, a := range h {
		for j, b := range h {
			if i != j && a.called <= b.done && b.called <= a.done {
				n++
				break
			}
		}
	}
	return n
}

// String lists the limits, and the operations in the order in which they are.
func (h history) String() string {
	var b strings.Builder
	listed := make(map[string]bool)
	for _, op := range h {
		for i := range op.stack.Limits {
			l := &op.stack.Limits[i]
			if name := limitName(l); !listed[name] {
				listed[name] = true
				s := &l.Spec
				fmt.Fprintf(&b, "%s: %+v, adapts %+v\n", name, *s, s.Adapt)
			}
		}
	}
	for _, op := range h {
		fmt.Fprintf(&b, "%9.3f ms  client %d, %.3f to %.3f ms: %s → %s\n", millis(op.at.Sub(h[0].at)), op.client,
			millis(op.called), millis(op.done), op.requested(), op.describe(op.at))
	}
	return b.String()
}

func limitName(l *store.Limit) string { return strings.TrimSuffix(l.Policy+":"+l.Scope, ":") }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// requested describes a request. Instants are as they are: they stand in other lines, too.
func (r *request) requested() string {
	var limits []string
	for i := range r.stack.Limits {
		limits = append(limits, limitName(&r.stack.Limits[i]))
	}
	on := fmt.Sprintf(" on [%s]", strings.Join(limits, " "))
	switch {
	case r.calls != nil:
		var calls []string
		for _, c := range r.calls {
			calls = append(calls, fmt.Sprintf("cost %d%v, not before %v, within %v", c.Cost, c.Costs, c.NotBefore, c.MaxWait))
		}
		return "reserve" + on + " " + strings.Join(calls, "; ")
	case r.cancel != nil:
		var charges []string
		for _, g := range r.cancel {
			charges = append(charges, fmt.Sprint(g.Charges))
		}
		return "cancel" + on + " " + strings.Join(charges, "; ")
	case r.notes != nil:
		return "report" + on + " " + fmt.Sprintf("%+v", r.notes)
	}
	return "status" + on
}

// describe renders an answer that was given at some store time.
func (a *answer) describe(now store.Instant) string {
	switch {
	case a.grants != nil:
		var grants []string
		for _, g := range a.grants {
			word := "refused"
			if g.OK {
				word = "granted"
			}
			if g.Now != now {
				word += fmt.Sprintf(" at %v after its now,", g.Now.Sub(now))
			}
			grants = append(grants, fmt.Sprintf("%s a wait of %v, slack %v, bound by %d, paused=%d, charges %v", word, g.Wait(), g.Slack, g.Binds, g.Paused, g.Charges))
		}
		return strings.Join(grants, "; ")
	case a.now != 0:
		return fmt.Sprintf("%d changed", a.changed)
	case a.status.Now != 0:
		return fmt.Sprintf("%+v", a.status)
	}
	return "done"
}
