package pacer

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/waiters"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// weighted returns an index below n at random, by weights that sum up to all.
func weighted(n, all int, weight func(int) int) int {
	at := rand.IntN(all)
	for i := range n {
		if at -= weight(i); at < 0 {
			return i
		}
	}
	return n - 1
}

// pooled is what is known of a call that any one of some credentials may make. It never changes.
type pooled struct {
	pool     *Pool
	stick    *stick   // nil if it does not stick to any
	only     string   // the account to which it sticks; "" if it may have any
	accounts []string // of its choices
}

// any returns one whose account is chosen already, since no limit is enforced.
func (c *pooled) any() *pooled {
	all, name := c.pool.accounts, c.only
	if name == "" {
		name = all[weighted(len(all), c.pool.weight, func(i int) int { return all[i].weight })].name
	}
	return &pooled{pool: c.pool, stick: c.stick, only: c.only, accounts: []string{name}}
}

// requestAny is [Pacer.request] for a call that any one of some credentials may make. Those that never admit it are left out.
func (p *Pacer) requestAny(a *ask) (r waiters.Request, err error) {
	if err := p.unfit(a.set); err != nil {
		return r, err
	}
	was := a.pooled
	isUsual := was.only == "" && a.isUsual()
	if u := was.pool.usual.Load(); isUsual && u != nil && u.set == a.set {
		return u.request(a), nil
	}
	l, now := was.pool, pooled{pool: was.pool, stick: was.stick, only: was.only}
	places := make(map[store.Key]int)
	var never error
	weights := 0
	first := rand.IntN(l.weight)
	for i := range l.accounts {
		of := &l.accounts[i]
		if was.only != "" && was.only != of.name {
			continue
		}
		one := a.by(l, of.name)
		limits, err := p.bind(&one, nil)
		if err != nil {
			return r, err
		}
		limits, costs, err := p.costs(&one, one.share(limits), nil)
		if e, ok := errors.AsType[*LimitError](err); ok {
			never = e
			continue
		} else if err != nil {
			return r, err
		}
		if err := p.checkNested(&one, limits); err != nil {
			never = err
			continue
		}
		if weights <= first {
			r.Call.First = len(now.accounts)
		}
		weights += of.weight
		now.accounts = append(now.accounts, of.name)
		r.Call.AnyOf = append(r.Call.AnyOf, place(&r, places, limits, costs))
	}
	if len(now.accounts) == 0 {
		return r, never
	}
	if len(now.accounts) == 1 {
		r.Call.AnyOf, r.Call.First = nil, 0
	}
	a.pooled = &now
	if isUsual && r.Call.AnyOf != nil {
		l.usual.Store(&usual{a.set, r.Limits, r.Call.AnyOf, now.accounts})
	}
	return r, nil
}

// usual is what binds the calls of a pool that carry nothing of their own and cost 1, by one set of policies. It never changes: so a call by
// any one of many credentials, or ten thousand that are bound anew, need not find it out again.
type usual struct {
	set      *binding.Set
	limits   []store.Limit
	anyOf    [][]int
	accounts []string // all of the pool's
}

// isUsual reports whether nothing that a call carries says which limits bind it, or what it costs them.
func (a *ask) isUsual() bool {
	return a.cost == 1 && !a.byPolicy && a.scopes == nil && a.held == nil && !slices.ContainsFunc(a.opts, func(o Option) bool { return o.kind == optScope })
}

// request returns what binds a usual call.
func (u *usual) request(a *ask) (r waiters.Request) {
	was := a.pooled
	all := was.pool.accounts
	r.Limits, r.Call.AnyOf = u.limits, u.anyOf
	r.Call.First = weighted(len(all), was.pool.weight, func(i int) int { return all[i].weight })
	a.pooled = &pooled{pool: was.pool, stick: was.stick, accounts: u.accounts}
	return r
}

// withoutPermits returns what binds a call that is booked, which takes its permit when it is redeemed.
func withoutPermits(r *waiters.Request) (b bookable) {
	b.choices = r.Call
	places := make([]int, len(r.Limits))
	for i := range r.Limits {
		places[i] = len(b.limits)
		if r.Limits[i].Spec.Algorithm == policies.Concurrency {
			places[i] = -1
			continue
		}
		if b.limits = append(b.limits, r.Limits[i]); r.Call.Costs != nil {
			b.costs = append(b.costs, r.Call.Costs[i])
		}
	}
	b.choices.AnyOf = nil
	for _, choice := range r.Call.AnyOf {
		rest := make([]int, 0, len(choice))
		for _, i := range choice {
			if places[i] >= 0 {
				rest = append(rest, places[i])
			}
		}
		b.choices.AnyOf = append(b.choices.AnyOf, rest)
	}
	return b
}

// settlingOf returns what the settlement of a call has to know that is bound by one of several credentials.
func (p *Pacer) settlingOf(a *ask) (s binding.Settling) {
	if limits, err := p.bind(a, nil); err == nil {
		_, _, _ = p.costs(a, limits, &s)
	}
	return s
}

// place adds the limits of a choice to those of a request, as far as it lacks them, and returns their indexes there.
func place(r *waiters.Request, places map[store.Key]int, limits []store.Limit, costs []int64) []int {
	choice := make([]int, 0, len(limits))
	for j := range limits {
		i, found := places[limits[j].Key()]
		if !found {
			i = len(r.Limits)
			places[limits[j].Key()], r.Limits = i, append(r.Limits, limits[j])
			if costs != nil {
				r.Call.Costs = append(r.Call.Costs, costs[j])
			}
		}
		choice = append(choice, i)
	}
	slices.Sort(choice)
	return choice
}

// by returns what a call requests by an account of a pool.
func (a *ask) by(l *Pool, account string) ask {
	one := *a
	one.opts, one.pooled = append(slices.Clip(a.opts), l.scoped(a, account)...), nil
	return one
}

// scoped returns an account as the value of the pool's scopes: of those that a call carries, or else of all.
func (l *Pool) scoped(a *ask, account string) []Option {
	all, carried := make([]Option, 0, len(l.scopes)), make([]Option, 0, len(l.scopes))
	for _, name := range l.scopes {
		o := Scope(name, account)
		all = append(all, o)
		if a != nil && a.scope(name) != "" {
			carried = append(carried, o)
		}
	}
	if len(carried) > 0 {
		return carried
	}
	return all
}

// chosen returns what a reservation's call requests, by the credential that it got.
func (r *Reservation) chosen() ask {
	a := r.now()
	if a.pooled == nil || len(a.pooled.accounts) == 0 {
		return a
	}
	return a.by(a.pooled.pool, a.pooled.accounts[r.call.Choice()])
}
