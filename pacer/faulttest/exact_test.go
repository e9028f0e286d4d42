package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// Four promises are judged apart, each exactly, because among all calls of a run they could not be seen: the bound of a window near a
// fault is wider than what breaking one of them adds to it.

// A budget is a policy that is spent before the first fault, most of it by one process. Heartbeats then report that to all others.
const (
	budget      = "budget"
	budgetLimit = int64(40)
	budgetHour  = time.Hour
)

func budgetPolicy() policies.Policy {
	return policies.Sliding(budgetLimit, budgetHour).Named(budget).Per(budget).Optional()
}

// spendBudget has each process spend one call of the budget, and the first process what is left of it. It returns when all processes
// know.
func (r *run) spendBudget() {
	for _, m := range r.fleet {
		r.askBudget(m)
	}
	for range budgetLimit {
		r.askBudget(r.fleet[0])
	}
	r.heartbeats()
	r.mu.Lock()
	r.known = time.Now()
	r.mu.Unlock()
}

// askBudget makes a call that the budget binds, if it may go at once.
func (r *run) askBudget(m *member) {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	a := attempt{r, m, nil, nil, gone{by: m, began: time.Now(), cost: 1}}
	r.ops.wait.Add(1)
	v, err := m.pacer.Acquire(ctx, pacer.Scope(budget, "one"))
	r.over("Acquire", err, a.by(v))
	if err == nil {
		r.mu.Lock()
		r.budgeted++
		r.mu.Unlock()
	}
}

// overBudget finds calls beyond the budget. A server that loses its data learns from each process what that knows, and one that has spent
// little may come first: then a budget's worth more is granted. A process that loses the store while the budget is spent, because the
// machine is slow, does not know what others spend, and has a share.
func (r *run) overBudget() (broken []string) {
	most := budgetLimit * int64(max(1, r.site.masters))
	if r.emptied {
		most += budgetLimit
	}
	alone := make(map[int]bool)
	for _, a := range r.absences {
		if a.from.Before(r.known) && !alone[a.process] {
			alone[a.process] = true
			most += (budgetLimit + int64(len(r.fleet)) - 1) / int64(len(r.fleet))
		}
	}
	if r.budgeted > most {
		broken = append(broken, fmt.Sprintf("%d calls of a budget of %d went, more than %d", r.budgeted, budgetLimit, most))
	}
	return broken
}

// newcomers are processes that start while the store is out of their reach, and do not know how many there are. None of their calls starts
// before the store has answered.
func newcomers(r *run, rng *rand.Rand) error {
	const most = 3
	while := between(rng, 600*ms, 1500*ms)
	var all sync.WaitGroup
	defer all.Wait()
	for range 1 + rng.IntN(most) {
		m := &member{route: newRoute()}
		defer m.route.close()
		if err := m.route.poison(downstream("timeout", map[string]int{"timeout": 0})); err != nil {
			return err
		}
		m.rdb = r.site.connect(m.route)
		store, err := redisstore.New(m.rdb)
		if err != nil {
			return err
		}
		if m.pacer, err = pacer.New(pacer.Config{Upstream: r.upstream, Store: observedStore{store, r, m}, Policies: r.policies()}); err != nil {
			return err
		}
		all.Go(func() {
			defer func() {
				_ = m.pacer.Close()
				_ = m.rdb.Close()
			}()
			r.newcomer(m, while)
		})
	}
	return nil
}

// newcomer has a process make calls for a while in which its store does not answer, and some calls afterwards.
func (r *run) newcomer(m *member, while time.Duration) {
	var all sync.WaitGroup
	end := time.Now().Add(while)
	for range callers {
		all.Go(func() {
			for time.Now().Before(end) {
				ctx, cancel := context.WithDeadline(context.Background(), end)
				if err := m.pacer.Wait(ctx); err == nil {
					r.complainf("a call of a process that has never had an answer from its store went")
				}
				cancel()
				lasts(ms)
			}
		})
	}
	all.Wait()
	if err := m.route.cure(); err != nil {
		r.complainf("a newcomer's route: %v", err)
	}
	for range callers {
		ctx, cancel := context.WithTimeout(context.Background(), longest)
		a := attempt{r, m, nil, nil, gone{by: m, began: time.Now(), cost: 1}}
		if v, err := m.pacer.Acquire(ctx); err == nil {
			r.over("Acquire", nil, a.by(v))
		}
		cancel()
	}
}

// refund has one process after the other give reservations back while it gets no answers, and looks whether each charge came back at most once.
// The others do nothing meanwhile: a process that returns tells the store what it held at least, and does not know what others have given
// back since. So nothing is judged if a busy machine has made one of them pace locally.
func (r *run) refund() {
	const each = 12
	if now := time.Now().UTC(); now.Add(5*time.Minute).Day() != now.Day() {
		return // the quota is that of the day
	}
	rng := rand.New(rand.NewPCG(r.seed, 99))
	for i, m := range r.fleet {
		began := time.Now()
		if r.alone(i, began) {
			continue // it has yet to report what it spent
		}
		others := func(m *member) bool { j := slices.Index(r.fleet, m); return j != i && r.alone(j, began) }
		before, err := r.spent()
		if err != nil {
			r.complainf("Status: %v", err)
			return
		}
		var all sync.WaitGroup
		begin := make(chan struct{})
		for range each {
			v, err := m.pacer.Reserve(context.Background(), pacer.NotBefore(time.Minute), pacer.MaxWait(pacer.Forever))
			if err != nil {
				r.complainf("Reserve in a minute: %v", err)
				continue
			}
			after := time.Duration(rng.Int64N(int64(200 * ms)))
			all.Go(func() {
				<-begin
				lasts(after)
				r.giveBack(v)
			})
		}
		close(begin)
		if err := r.loseAnswers(m, rng); err != nil {
			r.complainf("a route: %v", err)
		}
		all.Wait()
		n := int64(0)
		await(func() bool { // a process that paces locally does not know
			n, err = r.spent()
			return err == nil && n <= before+each
		})
		if err != nil || (n < before || n > before+each) && !slices.ContainsFunc(r.fleet, others) {
			r.complainf("%d were charged before process %d made reservations and gave them back, and %d after that (%v)", before, i, n, err)
		}
	}
}

// renew has one process after the other hold a part of a budget that is then reset and spent anew by another process. What the first gives
// back while it gets no answers is of the time before the reset: it makes no room for a third, unless that one paces locally.
func (r *run) renew() {
	const held = 4
	rng := rand.New(rand.NewPCG(r.seed, 98))
	for i, m := range r.fleet {
		scope, began := pacer.Scope(budget, fmt.Sprintf("of %d", i)), time.Now()
		hold := r.take(m, scope, held)
		second, third := (i+1)%len(r.fleet), (i+2)%len(r.fleet)
		other := r.fleet[second]
		r.resetOf(other, scope)
		anew := r.take(other, scope, budgetLimit)
		var all sync.WaitGroup
		for _, v := range hold {
			all.Go(func() { r.giveBack(v) })
		}
		if err := r.loseAnswers(m, rng); err != nil {
			r.complainf("a route: %v", err)
		}
		all.Wait()
		for i := 0; i < 3 && int64(len(anew)) <= budgetLimit; i++ {
			lasts(100 * ms)
			anew = append(anew, r.take(r.fleet[third], scope, 1)...)
		}
		if n := len(anew); n == 0 || int64(n) > budgetLimit && !r.alone(second, began) && !r.alone(third, began) {
			r.complainf("%d reservations of a budget of %d that was reset, with those of process %d given back", n, budgetLimit, i)
		}
		for _, v := range anew {
			r.giveBack(v)
		}
	}
}

// alone reports whether a process has paced locally since.
func (r *run) alone(process int, since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.absences, func(a absence) bool { return a.process == process && (a.to.IsZero() || a.to.After(since)) })
}

// resetOf has a process reset what binds a call, as soon as it reaches the store.
func (r *run) resetOf(m *member, scope pacer.ScopeOption) {
	var err error
	await(func() bool {
		err = fleet.Of(m.pacer).Reset(context.Background(), scope)
		return !errors.Is(err, pacer.ErrUnreachable)
	})
	if err != nil {
		r.complainf("Reset: %v", err)
	}
}

// take makes up to n reservations of a budget, all of them for a minute from now.
func (r *run) take(m *member, of pacer.Option, n int64) (taken []*pacer.Reservation) {
	for range n {
		v, err := m.pacer.Reserve(context.Background(), of, pacer.NotBefore(time.Minute), pacer.MaxWait(2*time.Minute))
		if r.check("Reserve in a minute", err); err == nil {
			taken = append(taken, v)
		}
	}
	return taken
}

func (r *run) giveBack(v *pacer.Reservation) {
	if err := v.NotUsed(context.Background()); err != nil {
		r.complainf("NotUsed: %v", err)
	}
}

// loseAnswers loses some answers to a process for a while: the servers do what it requests.
func (r *run) loseAnswers(m *member, rng *rand.Rand) error {
	for range 3 {
		if err := m.route.poison(downstream("limit_data", map[string]int{"bytes": 1 + rng.IntN(100)})); err != nil {
			return err
		}
		lasts(between(rng, 30*ms, 100*ms))
		if err := m.route.cure(); err != nil {
			return err
		}
	}
	return nil
}
