package simulate

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Run simulates a plan. It returns an error that describes the plan's mistake, a [*pacer.ConfigError] if its policies cannot be combined,
// or the context's error if that ends first.
func Run(ctx context.Context, p Plan) (*Result, error) { return runPlan(ctx, p, MaxCalls) }

// runPlan simulates a plan, with about most requests to the store at most.
func runPlan(ctx context.Context, p Plan, most int64) (*Result, error) {
	start, err := p.check()
	if err != nil {
		return nil, err
	}
	p.Policies = policies.Stacked(p.Policies) // as a Pacer does
	s := newSim(&p, store.Instant(start.UnixMicro()))
	defer s.store.Listen(upstream, s.received)()
	for i := range p.Loads {
		s.load(&p.Loads[i])
	}
	s.sample()
	if err := s.run(ctx, most); err != nil {
		return nil, err
	}
	return s.result(start), nil
}

// maxKeys is the most keys of the store: more than 10 policies of MaxTenants each.
const maxKeys = 1 << 22

// A sim is a run of a plan.
type sim struct {
	*measure

	plan   *Plan
	ctx    context.Context //nolint:containedctx // of one run
	store  *memstore.Store
	binder *binder
	rng    *rand.Rand

	begun     store.Instant
	now       store.Instant
	end       store.Instant
	half      store.Instant // the way to the store, or back
	way       dispatch.Way  // there and back
	events    events
	seq       int64
	requested int64 // how many requests the store had

	grant  [1]store.Grant
	queues map[queueKey]*queue
	queued map[int64]*call // by ID
	called []int64         // which must poll, by the store's last answer
}

func newSim(p *Plan, start store.Instant) *sim {
	s := &sim{
		plan: p, begun: start, now: start, end: start + p.For.micros(), half: (p.StoreLatency.micros() + 1) / 2,
		rng: rand.New(rand.NewPCG(p.Seed, 0)), binder: newBinder(p.Policies), queued: make(map[int64]*call),
		queues: make(map[queueKey]*queue),
	}
	s.store = memstore.New(memstore.WithClock(func() store.Instant { return s.now }), memstore.WithMaxKeys(maxKeys))
	s.way.Took(2 * time.Duration(s.half) * time.Microsecond)
	s.measure = newMeasure(s.begun, s.end, s.binder.parts)
	return s
}

// An event is something that happens at a time.
type event struct {
	at  store.Instant
	seq int64
	do  func()
}

type events []event

func (e *events) Len() int { return len(*e) }
func (e *events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare((*e)[i].at, (*e)[j].at), cmp.Compare((*e)[i].seq, (*e)[j].seq)) < 0
}
func (e *events) Swap(i, j int) { (*e)[i], (*e)[j] = (*e)[j], (*e)[i] }
func (e *events) Push(x any)    { *e = append(*e, x.(event)) } //nolint:forcetypeassert // of this file alone
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

// at schedules something for a time, unless that is after the end.
func (s *sim) at(t store.Instant, do func()) {
	if t >= s.end {
		return
	}
	s.seq++
	heap.Push(&s.events, event{max(t, s.now), s.seq, do})
}

// checkEvery is the number of events between checks whether the run must end.
const checkEvery = 1 << 12

// run runs all events, unless that takes too long.
func (s *sim) run(ctx context.Context, most int64) error {
	s.ctx = ctx
	for n := 0; len(s.events) > 0; n++ {
		if n%checkEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if s.requested > most {
				return bad("for", s.plan.For, fmt.Sprintf("after %v the store has had more than %.3g requests: make it shorter, lower the load, or let refused calls come back later (retry)",
					s.now.Sub(s.begun), float64(most)))
			}
		}
		e := heap.Pop(&s.events).(event) //nolint:forcetypeassert // of this file alone
		s.now = e.at
		e.do()
		if s.err != nil {
			return s.err
		}
	}
	s.now = s.end
	return nil
}

// received takes news of the store: which calls must poll.
func (s *sim) received(news store.News) {
	for i := range news.Changes {
		if news.Changes[i].Kind == store.Wake {
			s.called = append(s.called, news.Changes[i].ID)
		}
	}
}

// callThem lets woken calls poll, when the wake has reached them.
func (s *sim) callThem() {
	for _, id := range s.called {
		if c := s.queued[id]; c != nil && !c.hurried {
			c.hurried = true
			s.askAt(c, s.now+2*s.half)
		}
	}
	s.called = s.called[:0]
}

// timerLate returns how late a timer is.
func (s *sim) timerLate() store.Instant { return s.upTo(time.Duration(s.plan.TimerLate)) }

// upTo returns a random time from 0 to most.
func (s *sim) upTo(most time.Duration) store.Instant {
	if most <= 0 {
		return 0
	}
	return store.Instant(s.rng.Int64N(most.Microseconds() + 1))
}
