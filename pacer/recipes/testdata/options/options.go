// Package options gives functions options that mean nothing to them. Each line that ends in "wrong" does not compile, and no other line
// fails: a test builds it.
package options

import (
	"context"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

func calls(ctx context.Context, p *pacer.Pacer, pool *pacer.Pool) {
	keep, attempt, early := pacer.Keep(time.Minute), pacer.Attempt(2), pacer.Early(time.Second)
	maxWait, notBefore := pacer.MaxWait(time.Second), pacer.NotBefore(time.Second)
	cost, costOf, tracked := pacer.Cost(2), pacer.CostOf("tokens", 2), pacer.Tracked()
	scope, lane, weight, caller, nested := pacer.Scope("tenant", "acme"), pacer.Lane("batch"), pacer.Weight(2), pacer.Caller("sync"), pacer.Nested()
	work := func(context.Context, *pacer.Reservation) (n int, reading policies.Reading, err error) { return }

	// A call that may wait.
	_ = p.Wait(ctx, scope, lane, weight, caller, nested, cost, costOf, tracked, maxWait, notBefore)
	_ = p.Wait(ctx, keep)    // wrong
	_ = p.Wait(ctx, attempt) // wrong
	_, _ = p.Reserve(ctx, scope, cost, maxWait)
	_, _ = p.Reserve(ctx, keep) // wrong
	_, _ = p.Acquire(ctx, scope, cost, maxWait)
	_, _ = p.Acquire(ctx, early) // wrong
	_, _ = pool.Acquire(ctx, scope, cost, maxWait)
	_, _ = pool.Acquire(ctx, keep) // wrong
	var n int
	n, _ = pacer.Do(ctx, p, work, scope, cost, maxWait)
	n, _ = pacer.Do(ctx, p, work, keep) // wrong
	var s string
	s, _ = pacer.Do(ctx, p, work) // wrong

	// A call that does not.
	_, _ = p.TryAcquire(ctx, scope, lane, weight, caller, nested, cost, costOf, tracked)
	_, _ = p.TryAcquire(ctx, maxWait)   // wrong
	_, _ = p.TryAcquire(ctx, notBefore) // wrong
	_, _ = p.TryAcquire(ctx, keep)      // wrong

	// A booking, and its redemption.
	_, _, _ = p.Book(ctx, keep, scope, cost, maxWait, notBefore)
	_, _, _ = p.Book(ctx, attempt)  // wrong
	_, _, _ = pool.Book(ctx, early) // wrong
	_, _ = p.Redeem(ctx, "token", attempt, early)
	_, _ = p.Redeem(ctx, "token", keep)     // wrong
	_, _ = p.Redeem(ctx, "token", maxWait)  // wrong
	_, _ = pool.Redeem(ctx, "token", scope) // wrong
	_ = p.CancelBooking(ctx, "token")
	_ = p.CancelBooking(ctx, "token", attempt)
	_ = p.CancelBooking(ctx, "token", early) // wrong
	_ = p.CancelBooking(ctx, "token", cost)  // wrong

	// No call.
	_ = pacer.With(ctx, scope, lane, weight, caller, nested)
	_ = pacer.With(ctx, cost)    // wrong
	_ = pacer.With(ctx, maxWait) // wrong
	_, _ = p.Status(ctx, scope)
	_, _ = p.Status(ctx, cost) // wrong
	_ = p.Report(ctx, policies.Feedback{}, scope)
	_ = p.Report(ctx, policies.Feedback{}, tracked) // wrong

	_, _ = n, s
}
