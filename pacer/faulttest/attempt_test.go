package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/policies"
)

// An attempt is one operation, or a reservation and what comes after it.
type attempt struct {
	run    *run
	member *member
	rng    *rand.Rand
	opts   []pacer.Option
	gone
}

// work makes an attempt, of a kind drawn at random.
func (r *run) work(m *member, rng *rand.Rand) {
	cost, tenant := int64(1), rng.IntN(tenants+1)
	if rng.IntN(4) == 0 {
		cost += rng.Int64N(highestCost)
	}
	opts := []pacer.Option{pacer.Cost(cost)}
	if tenant > 0 {
		opts = append(opts, pacer.Scope("tenant", fmt.Sprintf("t%d", tenant)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond+time.Duration(rng.Int64N(int64(longest))))
	defer cancel()
	a := attempt{r, m, rng, opts, gone{by: m, began: time.Now(), cost: cost, tenant: tenant}}
	n := rng.IntN(1000)
	if n >= 220 && rng.IntN(8) == 0 {
		later := time.Duration(rng.Int64N(int64(longest / 2)))
		opts = append(opts, pacer.NotBefore(later))
		a.opts, a.before = opts, a.began.Add(later)
	}
	switch {
	case n < 3:
		a.resume(ctx)
	case n < 6:
		a.report(ctx)
	case n < 12:
		r.askBudget(m)
	case n < 50:
		r.ops.wait.Add(1)
		err := m.pacer.Wait(ctx, opts...)
		r.over("Wait", err, a.sometime())
	case n < 150:
		r.ops.wait.Add(1)
		v, err := m.pacer.Acquire(ctx, opts...)
		r.over("Acquire", err, a.by(v))
	case n < 220:
		r.ops.allow.Add(1)
		err := m.pacer.Wait(ctx, append([]pacer.Option{pacer.MaxWait(0)}, opts...)...)
		r.over("Allow", err, a.sometime())
	default:
		a.reserve(ctx, cancel, n)
	}
}

// report reports a pause: short, so that the line goes on, and of the whole upstream, so that it is seen whether it holds.
func (a *attempt) report(ctx context.Context) {
	r, d := a.run, time.Duration(1+a.rng.IntN(30))*time.Millisecond
	r.ops.report.Add(1)
	err := a.member.pacer.Report(ctx, policies.Feedback{Wait: d})
	reported := time.Now()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // the store had not answered by then: whether there is a pause, nobody knows
		return
	}
	if err != nil {
		r.complainf("Report: %v", err)
	}
	r.mu.Lock()
	r.pauses = append(r.pauses, paused{a.began, reported, a.began.Add(d)})
	r.mu.Unlock()
}

// resume lifts the pause of the upstream, if there is one: who waits for its end reserves again. No process does so later.
func (a *attempt) resume(ctx context.Context) {
	r := a.run
	r.ops.report.Add(1)
	err := fleet.Of(a.member.pacer).Resume(ctx)
	if err != nil && !errors.Is(err, pacer.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) {
		r.complainf("Resume: %v", err)
	}
	r.mu.Lock()
	r.resumed = append(r.resumed, span{from: a.began, to: time.Now()})
	r.mu.Unlock()
}

// reserve makes a reservation, which it cancels, or waits for: now and then not to the end. Some callers sleep by themselves, make the
// call, and cancel what they have used. Some report afterwards what the call really cost.
func (a *attempt) reserve(ctx context.Context, cancel context.CancelFunc, n int) {
	r := a.run
	r.ops.reserve.Add(1)
	v, err := a.member.pacer.Reserve(ctx, a.opts...)
	if err != nil {
		r.over("Reserve", err, a.gone)
		return
	}
	if n < 300 {
		lasts(time.Duration(a.rng.Int64N(1 + int64(v.Delay()))))
		r.ops.cancel.Add(1)
		if err := v.NotUsed(ctx); err != nil {
			r.complainf("NotUsed: %v", err)
		}
		r.over("Cancel", context.Canceled, a.gone)
		return
	}
	if n < 360 {
		a.blind = true
		lasts(v.Delay())
		c := a.by(v)
		if err := v.Cancel(ctx); err != nil {
			r.complainf("Cancel: %v", err)
		}
		r.over("Cancel of what was used", nil, c)
		return
	}
	if n < 390 { // its caller loses patience
		time.AfterFunc(time.Duration(a.rng.Int64N(1+int64(v.Delay()))), cancel)
	}
	r.ops.wait.Add(1)
	err = v.Wait(ctx)
	c := a.by(v)
	if err == nil && c.cost > 1 && n%2 == 0 {
		c.cost = a.settle(context.WithoutCancel(ctx), v)
	}
	r.over("what comes after it", err, c)
}

// settle reports that a call that went cost less than it was charged, and returns what it cost.
func (a *attempt) settle(ctx context.Context, v *pacer.Reservation) int64 {
	cost := 1 + a.rng.Int64N(a.cost)
	a.run.ops.settle.Add(1)
	if err := v.Settle(ctx, policies.Cost{N: cost}); err != nil {
		a.run.complainf("Settle: %v", err)
	}
	return cost
}

// sometime returns the call as one that went after it was begun, and no later than now.
func (a *attempt) sometime() gone {
	c := a.gone
	c.reserved = c.cost
	c.at = time.Now().Round(0) // by the wall clock, which is the store's
	c.from, c.to = c.began.Round(0), c.at
	return c
}

// by returns the call as one that goes now by a reservation: at its slot, or at most its slack later, as far as the store is
// concerned. By how much it goes later than that, this machine is late.
func (a *attempt) by(v *pacer.Reservation) gone {
	c := a.sometime()
	if v == nil {
		return c
	}
	at, slack := inside.Slot(v)
	c.slot = time.UnixMicro(int64(at))
	c.from = c.at
	if latest := c.slot.Add(slack); latest.Before(c.at) {
		c.from, c.late = latest, c.at.Sub(latest)
	}
	c.to = c.from
	return c
}
