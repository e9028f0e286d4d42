package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/testing/faulty"
	"github.com/headway-go/headway/policies"
)

// Random operations of the whole API, by some processes at once, while the store fails at random, in virtual time: a history has a seed,
//
//	go test -run 'TestOperations/17$'
//	HEADWAY_SEED=5000 HEADWAY_HISTORIES=400 go test -run Operations
//
// and seeds that once failed are kept.
const (
	operationsEach = 250 // of a history
	operationsIn   = 10_000
	operationsLong = 1_000_000
)

// failedOnce are seeds of histories that have failed.
var failedOnce = []uint64{}

func TestOperations(t *testing.T) {
	t.Parallel()
	n, seeds := uint64(operationsIn/operationsEach), failedOnce
	if long() {
		n = operationsLong / operationsEach
	}
	first, other := number(t, "HEADWAY_SEED", 1)
	if other {
		n, seeds = 1, nil
	}
	n, _ = number(t, "HEADWAY_HISTORIES", n)
	for seed := range n {
		seeds = append(seeds, first+seed)
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newPerformance(t, seed).run() })
		})
	}
}

// A performance is a history of operations.
type performance struct {
	*world

	t      *testing.T
	rng    *rand.Rand
	list   []policies.Policy
	bounds []bound
	calm   bool // no fault, and nobody changes limits
	resets bool
	tokens chan string
	pools  map[*pacer.Pacer]*pacer.Pool // by tenant
	cost   int64                        // of all calls that went, under mu
	unsure int64                        // of those that may be charged besides: they were given back late, or are booked
}

const quotaOf = 1_000_000

// newPerformance makes up a stack and a fleet.
func newPerformance(t *testing.T, seed uint64) *performance {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 99))
	p := &performance{
		t: t, rng: rng, calm: rng.IntN(4) == 0, resets: rng.IntN(4) == 0, tokens: make(chan string, 64),
		pools: make(map[*pacer.Pacer]*pacer.Pool),
		world: &world{store: faulty.New(), errs: make(map[string]int), began: time.Now()},
		list:  []policies.Policy{policies.Daily(quotaOf, time.UTC).Named("quota")},
	}
	add := func(is policies.Policy, b bound) {
		p.list, p.bounds = append(p.list, is.Named(fmt.Sprint("p", len(p.list)))), append(p.bounds, b)
	}
	if rng.IntN(3) > 0 {
		is := policies.PerSecond(40).Burst(4)
		switch rng.IntN(6) {
		case 0, 1:
			is = is.Lane("batch", 50)
		case 2:
			is = is.Fair("tenant")
		}
		add(is, is40)
	}
	if rng.IntN(4) == 0 {
		add(policies.Fixed(40, time.Second).Reserve("desk", 30), bound{n: 40, period: time.Second, clock: true})
	}
	if rng.IntN(3) == 0 {
		add(policies.AtMost(40, time.Second).Burst(6), bound{n: 40, period: time.Second})
	}
	if rng.IntN(3) == 0 {
		add(policies.Sliding(30, time.Second), bound{n: 30, period: time.Second})
	}
	if rng.IntN(3) == 0 {
		add(policies.PerSecond(20).Burst(4).Per("tenant").Optional(), bound{n: 20, period: time.Second, burst: 4, scoped: true})
	}
	if rng.IntN(4) == 0 {
		p.list = append(p.list, policies.PerSecond(10).Named("observed").Observed())
	}
	if rng.IntN(2) == 0 {
		is := policies.InFlight(5).Lease(lease)
		if rng.IntN(3) == 0 {
			is = is.Fair("tenant")
		}
		add(is, bound{n: 5})
	}
	p.store.Suffer(faulty.Faults{Away: near})
	for range 2 + rng.IntN(2) {
		one, err := pacer.New(pacer.Config{
			Upstream: "api", Store: p.store, Policies: p.list, Jitter: pacer.NoJitter, MaxWait: 5 * time.Second,
			Outage: []pacer.Outage{pacer.PaceLocally, pacer.PaceLocally, pacer.RefuseCalls}[rng.IntN(3)],
		})
		require.NoError(t, err)
		p.fleet = append(p.fleet, one)
		if pool, err := one.Pool([]pacer.Credential{{ID: "0"}, {ID: "1", Weight: 3}, {ID: "2"}}, "tenant"); err == nil {
			p.pools[one] = pool
		}
	}
	return p
}

func (p *performance) run() {
	var callers sync.WaitGroup
	ctx, stop := context.WithCancel(p.t.Context())
	defer stop()
	const each = 4
	for i, one := range p.fleet {
		for j := range each {
			rng := rand.New(rand.NewPCG(p.rng.Uint64(), uint64(j)))
			callers.Go(func() {
				for range operationsEach / each / len(p.fleet) {
					p.operate(ctx, one, i, rng)
					if rng.IntN(2) == 0 {
						time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
					}
				}
			})
		}
	}
	faults := p.rng
	for range 8 {
		time.Sleep(time.Duration(faults.IntN(2000)) * time.Millisecond)
		if p.calm {
			continue
		}
		switch faults.IntN(12) {
		case 0:
			p.store.Forget()
		case 1:
			p.store.FailOver(time.Duration(faults.IntN(50)) * time.Millisecond)
		case 2:
			p.store.Step(time.Duration(faults.IntN(120)-60) * time.Minute)
		default:
			p.store.Suffer([]faulty.Faults{
				{All: faulty.ErrDown}, {Hangs: true}, {Write: faulty.ErrReadOnly}, {Write: faulty.ErrFull, Free: true}, {Reply: faulty.ErrGarbage},
				{Away: 100 * time.Millisecond}, {Away: 200 * time.Millisecond}, {Away: near}, {Away: near},
			}[faults.IntN(9)])
		}
	}
	p.store.Suffer(faulty.Faults{Away: near})
	if p.rng.IntN(3) == 0 { // calls are under way
		for _, one := range p.fleet {
			require.NoError(p.t, one.Close())
		}
	}
	p.finish(p.t, &callers)
	p.judge()
}

// operate does an operation. Contexts end at any time.
func (p *performance) operate(ctx context.Context, one *pacer.Pacer, by int, rng *rand.Rand) {
	upTo := func(ms int) time.Duration { return time.Duration(rng.IntN(ms)) * time.Millisecond }
	lasts := 3 * time.Second
	if rng.IntN(3) == 0 {
		lasts = upTo(300)
	}
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	if rng.IntN(5) == 0 {
		time.AfterFunc(upTo(200), cancel)
	}
	d := deed{by: by, cost: 1, scope: fmt.Sprint(rng.IntN(3))}
	scope := pacer.Scope("tenant", d.scope)
	opts, booked := []pacer.Option{scope}, []pacer.BookOption{scope, pacer.Keep(time.Second + upTo(60_000))}
	if rng.IntN(8) == 0 {
		ctx, opts, booked = pacer.With(ctx, scope), nil, nil
	}
	if rng.IntN(4) == 0 {
		d.cost = 1 + rng.Int64N(3)
		opts, booked = append(opts, pacer.Cost(d.cost)), append(booked, pacer.Cost(d.cost))
	}
	more := []pacer.Option{
		pacer.Lane([]string{"batch", "desk"}[rng.IntN(2)]), pacer.Weight(1 + rng.Int64N(4)), pacer.MaxWait(upTo(2000)), pacer.NotBefore(upTo(200)),
		pacer.Tracked(), pacer.Nested(), pacer.CostOf("quota", d.cost),
	}
	if !p.calm {
		more = append(more, pacer.EstimateOf("quota", d.cost, policies.Learned{Known: 1, Times: 1, Most: 9}))
	}
	for _, o := range more {
		if rng.IntN(8) == 0 {
			opts, booked = append(opts, o), append(booked, o)
		}
	}
	started := time.Now()
	err := p.choose(ctx, one, rng, scope, opts, booked, d)
	if took := time.Since(started); took > lasts+4*250*time.Millisecond+time.Second { // what holds a permit runs for less than a second
		p.t.Errorf("an operation took %v, its context %v: %v", took, lasts, err)
	}
	p.check(err)
}

// A means is what makes calls: a Pacer, or a pool of it.
type means interface {
	Acquire(ctx context.Context, opts ...pacer.Option) (*pacer.Reservation, error)
	Reserve(ctx context.Context, opts ...pacer.Option) (*pacer.Reservation, error)
	Book(ctx context.Context, opts ...pacer.BookOption) (string, time.Duration, error)
	Redeem(ctx context.Context, tok string, opts ...pacer.RedeemOption) (*pacer.Reservation, error)
}

// choose does an operation of a random kind.
func (p *performance) choose(ctx context.Context, one *pacer.Pacer, rng *rand.Rand, scope pacer.ScopeOption, opts []pacer.Option, booked []pacer.BookOption, d deed) (err error) {
	always := context.WithoutCancel(ctx)
	var by means = one
	if pool := p.pools[one]; pool != nil && rng.IntN(2) == 0 {
		if by = pool; rng.IntN(4) == 0 {
			ctx = pool.Stick(ctx)
		}
	}
	var r *pacer.Reservation
	switch n := rng.IntN(100); {
	case n < 12:
		if err = one.Wait(ctx, append([]pacer.Option{[]pacer.Option{pacer.MaxWait(0), pacer.NotBefore(near), pacer.MaxWait(time.Second)}[rng.IntN(3)]}, opts...)...); err == nil {
			p.charged(d.cost)
		}
		return err
	case n < 18:
		p.unknown(d.cost)
		tok, _, err := by.Book(ctx, booked...)
		if err == nil {
			select {
			case p.tokens <- tok:
			default:
				err = one.CancelBooking(always, tok)
			}
		}
		return err
	case n < 28:
		select {
		case tok := <-p.tokens:
			if rng.IntN(4) == 0 {
				return one.CancelBooking(ctx, tok)
			}
			time.Sleep(time.Duration(rng.IntN(2)) * min(300*time.Millisecond, pacer.SlackOf(tok)))
			if r, err = by.Redeem(ctx, tok, pacer.Attempt(1), pacer.Early(time.Duration(rng.IntN(200))*time.Millisecond)); err == nil {
				p.unknown(1) // this call is charged besides if its limits are others than those of r
				if r, err = by.Acquire(pacer.WithReservation(ctx, r)); err == nil {
					r.Release()
				}
			}
		default:
		}
		return err
	case n < 34:
		return p.manage(ctx, one, rng, scope)
	case n < 40:
		return one.Do(ctx, func(context.Context) (policies.Reading, error) {
			p.charged(d.cost)
			time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
			return policies.Reading{}, nil
		}, opts...)
	case n < 60:
		r, err = by.Acquire(ctx, opts...)
	case n < 68:
		r, err = one.TryAcquire(ctx, scope, pacer.Cost(d.cost))
	default:
		if r, err = by.Reserve(ctx, opts...); err != nil {
			return err
		}
		defer r.Release()
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		if n := rng.IntN(3); n < 2 {
			if late := !r.Queued() && r.Delay() < 2*near; late {
				p.unknown(d.cost) // what is past stays charged
			}
			if n == 0 {
				return r.NotUsed(always)
			}
			return r.Cancel(always)
		}
		err = r.Wait(ctx)
	}
	if err != nil {
		return err
	}
	p.work(ctx, one, r, rng, d)
	return nil
}

// work is what a call does that goes.
func (p *performance) work(ctx context.Context, one *pacer.Pacer, r *pacer.Reservation, rng *rand.Rand, d deed) {
	always := context.WithoutCancel(ctx)
	d.slot, _ = inside.Slot(r)
	d.from = time.Now()
	if by := r.Credential(); by != "" {
		d.scope = by
	}
	if rng.IntN(6) == 0 {
		r.WhileAlive(func() bool { return true })
	}
	time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
	if rng.IntN(8) == 0 {
		some, cancel := context.WithTimeout(r.Context(ctx), 100*time.Millisecond)
		inner, err := one.Acquire(some, pacer.Scope("tenant", d.scope), pacer.Nested())
		cancel()
		if p.check(err); err == nil {
			within := deed{by: d.by, cost: 1, scope: d.scope, from: time.Now(), to: time.Now()} // the permit is that of the outer call
			within.slot, _ = inside.Slot(inner)
			inner.Release()
			p.charged(1)
			p.note(within)
		}
	}
	if rng.IntN(4) == 0 {
		d.cost = 1 + rng.Int64N(d.cost)
		p.check(r.Settle(always, policies.Cost{N: d.cost}))
	}
	if rng.IntN(6) == 0 {
		p.check(r.Report(always, feedback(rng)))
	}
	d.to = time.Now()
	r.Release()
	if rng.IntN(8) == 0 {
		r.Release()
	}
	p.charged(d.cost)
	p.note(d)
}

// feedback makes up what an upstream reports.
func feedback(rng *rand.Rand) policies.Feedback {
	if rng.IntN(3) == 0 {
		return policies.Feedback{Limit: policies.Reported(60), Remaining: policies.Reported(rng.Int64N(60)), Reset: time.Duration(rng.IntN(2000)) * time.Millisecond}
	}
	return policies.Feedback{Wait: time.Duration(rng.IntN(100)) * time.Millisecond, Refused: rng.IntN(2) == 0}
}

// charged notes what a call cost that went.
func (p *performance) charged(cost int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cost += cost
}

func (p *performance) unknown(cost int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsure += cost
}

// manage does what operators do.
func (p *performance) manage(ctx context.Context, one *pacer.Pacer, rng *rand.Rand, scope pacer.ScopeOption) error {
	if _, err := one.Status(ctx, scope); err != nil || p.calm {
		return err
	}
	lower := append([]policies.Policy(nil), p.list...)
	for i := range lower {
		if _, lane := lower[i].InLane("batch"); !lane && lower[i].Name() != "quota" {
			n, _ := lower[i].Limit()
			lower[i] = lower[i].Lowered(n/2 + rng.Int64N(n))
		}
	}
	if pool := p.pools[one]; pool != nil && rng.IntN(8) == 0 {
		return pool.Leave(ctx, fmt.Sprint(rng.IntN(3)), time.Duration(1+rng.IntN(300))*time.Millisecond)
	}
	switch rng.IntN(12) {
	case 8:
		return one.Report(ctx, feedback(rng), scope)
	case 9:
		return fleet.Of(one).Pause(ctx, time.Duration(rng.IntN(100))*time.Millisecond, nil, scope)
	case 10:
		return fleet.Of(one).UnsetLimit(ctx, lower[rng.IntN(len(lower))].Name(), scope)
	case 11:
		_, err := fleet.Of(one).Snapshot(ctx, scope)
		return err
	case 0:
		return fleet.Of(one).Resume(ctx, scope)
	case 1:
		if p.resets {
			return fleet.Of(one).Reset(ctx, scope)
		}
	case 2:
		return fleet.Of(one).SetPolicies(ctx, lower...)
	case 3:
		return fleet.Of(one).UnsetPolicies(ctx)
	case 4:
		i := rng.IntN(len(lower))
		return fleet.Of(one).SetLimit(ctx, lower[i].Name(), lower[i], time.Duration(rng.IntN(2000))*time.Millisecond, scope)
	case 5:
		return one.Declare(lower...)
	case 6:
		return one.Ready(ctx)
	case 7:
		_, err := fleet.Of(one).Settings(ctx)
		return err
	}
	return nil
}

// check reports an error that no operation may have.
func (p *performance) check(err error) {
	for _, known := range []error{
		nil, pacer.ErrRefused, pacer.ErrClosed, pacer.ErrSpent, pacer.ErrUnreachable, context.Canceled, context.DeadlineExceeded, faulty.ErrGarbage,
		faulty.ErrDown, faulty.ErrReadOnly, faulty.ErrFull,
	} {
		if errors.Is(err, known) {
			return
		}
	}
	if wrong := (*pacer.ConfigError)(nil); errors.As(err, &wrong) {
		return
	}
	p.t.Errorf("an error of %T: %v", err, err)
}

func (p *performance) judge() {
	if !p.resets {
		for i := range p.bounds {
			allowed := int64(0)
			if !p.calm {
				allowed = 6 * int64(len(p.fleet))
			}
			if n, at := p.bounds[i].excess(p.went); n > allowed {
				p.t.Errorf("%d more than %d in %v, %v after the start", n, p.bounds[i].n, p.bounds[i].period, at.Sub(p.began))
			}
		}
	}
	if is := p.left(p.t, p.list, p.calm); is == nil {
		return
	} else if charged := quotaOf - is.Limits[0].Remaining; p.calm && (charged < p.cost || charged > p.cost+p.unsure) {
		p.t.Errorf("%d is charged for calls of a cost of %d to %d", charged, p.cost, p.cost+p.unsure)
	}
	if p.t.Failed() {
		p.t.Logf("%v", p.list)
	}
}
