package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// An attempt is one operation, or a reservation and what comes after it.
type attempt struct {
	run    *run
	member *member
	rng    *rand.Rand
	opts   []pacer.Option
	gone
	deadline time.Time
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
	deadline, _ := ctx.Deadline()
	a := attempt{r, m, rng, opts, gone{began: time.Now(), cost: cost, tenant: tenant}, deadline}
	switch n := rng.IntN(1000); {
	case n < 6:
		a.report(ctx)
	case n < 12:
		r.askBudget(m)
	case n < 50:
		r.ops.wait.Add(1)
		err := m.pacer.Wait(ctx, opts...)
		r.over("Wait", err, a.sometime(), deadline)
	case n < 150:
		r.ops.wait.Add(1)
		v, err := m.pacer.Acquire(ctx, opts...)
		r.over("Acquire", err, a.by(v), deadline)
	case n < 220:
		r.ops.allow.Add(1)
		err := m.pacer.Allow(ctx, opts...)
		r.over("Allow", err, a.sometime(), deadline)
	default:
		a.reserve(ctx, cancel, n)
	}
}

// report reports a pause: short, so that the line goes on, and of the whole upstream, so that it is seen whether it holds.
func (a *attempt) report(ctx context.Context) {
	r, d := a.run, time.Duration(1+a.rng.IntN(30))*time.Millisecond
	r.ops.report.Add(1)
	err := a.member.pacer.Report(ctx, policies.Feedback{Wait: d})
	told := time.Now()
	r.took("Report", a.deadline)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // the store had not answered by then: whether there is a pause, nobody knows
		return
	}
	if err != nil {
		r.complainf("Report: %v", err)
	}
	r.mu.Lock()
	r.pauses = append(r.pauses, paused{told, a.began.Add(d)})
	r.mu.Unlock()
}

// reserve makes a reservation, which it cancels, or waits for: now and then not to the end.
func (a *attempt) reserve(ctx context.Context, cancel context.CancelFunc, n int) {
	r := a.run
	r.ops.reserve.Add(1)
	v, err := a.member.pacer.Reserve(ctx, a.opts...)
	if err != nil {
		r.over("Reserve", err, a.gone, a.deadline)
		return
	}
	r.took("Reserve", a.deadline)
	if n < 300 {
		time.Sleep(time.Duration(a.rng.Int64N(1 + int64(v.Delay()))))
		given := time.Now()
		r.ops.cancel.Add(1)
		if err := v.NotUsed(ctx); err != nil {
			r.complainf("NotUsed: %v", err)
		}
		r.took("Cancel", given)
		r.over("Cancel", context.Canceled, a.gone, a.deadline)
		return
	}
	if n < 330 { // its caller loses patience
		time.AfterFunc(time.Duration(a.rng.Int64N(1+int64(v.Delay()))), cancel)
	}
	r.ops.wait.Add(1)
	err = v.Wait(ctx)
	r.over("Reservation.Wait", err, a.by(v), a.deadline)
}

// sometime returns the call as one that went after it was begun, and no later than now.
func (a *attempt) sometime() gone {
	c := a.gone
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
	at, slack := v.Slot()
	c.slot = time.UnixMicro(int64(at))
	c.from = c.at
	if latest := c.slot.Add(slack); latest.Before(c.at) {
		c.from, c.late = latest, c.at.Sub(latest)
	}
	c.to = c.from
	return c
}
