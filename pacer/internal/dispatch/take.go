package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

const (
	// maxUnits is up to how many units are asked for as so many calls. More are asked for in portions.
	maxUnits = 256
	// MaxTakes is how many requests Take makes at most.
	MaxTakes = 4
)

// Take charges as many calls as may go now that are all like the one requested, at most n, and returns how many. If none may, it returns
// what the first would have to wait for; it returns 0 and no error if other policies hold by then. They wait for nothing, so that no call of the process passes a permit on to them.
//
// One request does as a rule: the store decides each of its calls by what those before have left. So many calls of one unit each would
// take a store in memory long if they were a million. Of more than a few hundred, the first is a call of one unit, and each of the others
// costs half of what is still missing, down to one unit again: any number can be made of them, each of them once, the largest first.
// If the last one, of one unit, is refused, then nothing more may go now. If it is not, what is free is in pieces, none of which holds a
// large portion, and Take asks again. The first one is there because a window that holds nothing admits a call of any cost.
func (s *Dispatcher) Take(ctx context.Context, r *Request, n int64) (taken int64, err error) {
	stack := store.Stack{Upstream: s.Upstream, Limits: r.Limits}
	most, counts := min(n, policies.MaxLimit), false
	for i := range r.Limits {
		switch l := &r.Limits[i]; l.Spec.Algorithm { //nolint:exhaustive // the others count what calls cost
		case policies.Concurrency: // a call has one permit, whatever it costs
			most, counts = min(most, l.Spec.Limit), true
		case policies.Allowance: // one call goes first, and one more each 100 ms, whatever they cost
			counts = true
		default:
			most = min(most, l.Spec.Limit/r.Call.CostOf(i))
		}
	}
	for range MaxTakes {
		got, more, err := s.takeOnce(ctx, r, stack, portions(most-taken, r.HasQueue, counts))
		if taken += got; err != nil && taken == 0 {
			return 0, err
		}
		if err != nil || !more || taken == most {
			return taken, nil //nolint:nilerr // what was taken before is the caller's, whatever becomes of the rest
		}
	}
	return taken, nil
}

// portions returns how many units each call of a request has that is to take n. A call that may be queued takes the store longer. One that
// counts while it is in flight has a permit, however many units it has, so it has one.
func portions(n int64, queues, counts bool) []int64 {
	if n <= maxUnits && !queues || counts {
		return slices.Repeat([]int64{1}, int(min(n, maxUnits)))
	}
	all := []int64{1}
	for left := n - 1; left > 0; left -= all[len(all)-1] {
		all = append(all, max(1, left/2))
	}
	return all
}

// takeOnce asks the store once for calls of so many units each, and reports whether there may be more. If none may go, it returns why.
func (s *Dispatcher) takeOnce(ctx context.Context, r *Request, stack store.Stack, units []int64) (got int64, more bool, err error) {
	calls, grants := make([]store.Call, len(units)), make([]store.Grant, len(units))
	for i, n := range units {
		calls[i] = r.times(n)
		if r.HasQueue {
			calls[i].ID, calls[i].Reach = newID(), s.way.Lead()
		}
	}
	requested := time.Now()
	if err := s.reserve(ctx, &stack, calls, grants); err != nil {
		return 0, false, err
	}
	var granted []store.Grant
	for i := range grants {
		if grants[i].OK {
			got += units[i]
			granted = append(granted, grants[i])
		}
	}
	if len(granted) == 0 {
		first := &Call{set: s, wanted: wanted{stack: stack}}
		first.request[0], first.grant[0] = calls[0], grants[0]
		return 0, false, s.notYet(first)
	}
	s.lock()
	isOld := r.Generation < s.declared // the answer has brought other policies
	s.unlock()
	if err := ctx.Err(); err != nil || isOld {
		s.giveBack(ctx, stack, granted)
		return 0, false, err
	}
	for i := range grants {
		if grants[i].OK && r.HasQueue {
			s.Leases.LetRunOut(s.Leases.Take(calls[i].ID, r.Limits, grants[i].At, requested, leases.Passing{}))
		}
	}
	s.emitTaken(ctx, r.times(got), &stack, granted[0].At)
	return got, grants[len(grants)-1].OK, nil
}

// Freed counts and emits that n calls go that no limit binds.
func (s *Dispatcher) Freed(ctx context.Context, cost, n int64) {
	r := Request{Call: store.Call{Cost: cost}}
	s.emitTaken(ctx, r.times(n), &store.Stack{}, 0)
}
