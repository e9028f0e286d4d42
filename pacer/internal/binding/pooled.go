package binding

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/pools"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A Pool is the credentials that may make a call, and the limits of usual calls by them.
type Pool struct {
	*pools.Pool

	usual atomic.Pointer[usual]
}

// pooled describes a call that any credential of a pool may make. It never changes.
type pooled struct {
	pool     *Pool
	stick    *pools.Stick // nil if it does not stick to any
	only     string       // the account to which it sticks; "" if it may have any
	accounts []string     // of its choices
}

// IsPooled reports whether any one of several credentials may make the call.
func (a *Ask) IsPooled() bool { return a.pooled != nil }

// ByAny lets any credential of a pool make a call.
func (a *Ask) ByAny(l *Pool) { a.pooled = &pooled{pool: l} }

// ByAnyOrStick is [Ask.ByAny], but if the context sticks to a credential, it uses that one's account unless it is paused.
func (r *Reader) ByAnyOrStick(ctx context.Context, a *Ask, l *Pool) {
	c := &pooled{pool: l, stick: l.StickOf(ctx)}
	if c.only = l.Kept(c.stick); c.only != "" {
		one := a.by(l, c.only)
		if limits, err := r.Bind(&one, nil); err != nil || r.Dispatcher.Paused(limits) {
			c.only = ""
		}
	}
	a.pooled = c
}

// ChooseAny chooses the account of a pooled call if no limit is enforced. For any other call it does nothing.
func (a *Ask) ChooseAny() {
	if a.pooled == nil {
		return
	}
	c := *a.pooled
	name := c.only
	if name == "" {
		name = c.pool.Accounts[c.pool.Any()].Name
	}
	c.accounts = []string{name}
	a.pooled = &c
}

// FitsPool returns an error if a pool cannot have a set's limits.
func (r *Reader) FitsPool(set *Set) error {
	for i := range set.Limits {
		if l := &set.Limits[i]; l.Spec.Queue == specs.FairQueue && set.FairBy != ProcessScope {
			return Invalid("Pool", "impossible", fmt.Sprintf(
				"policy %q of upstream %q has fair shares, which are those of one queue, and the calls of a pool wait in a queue for each credential: use Lane, Scope and a credential of your choice, or a policy without fair shares", l.Policy, r.Upstream))
		}
	}
	return nil
}

// RequestAny is [Reader.Request] for a pooled call, without what does not depend on the credential. It omits credentials that never admit
// the call.
func (r *Reader) RequestAny(a *Ask) (q dispatch.Request, err error) {
	if err := r.FitsPool(a.Set); err != nil {
		return q, err
	}
	was := a.pooled
	isUsual := was.only == "" && a.isUsual()
	if u := was.pool.usual.Load(); isUsual && u != nil && u.set == a.Set {
		return u.request(a), nil
	}
	if err := r.checkCosts("CostOf", a.Set, a.Options); err != nil {
		return q, err
	}
	l, now := was.pool, pooled{pool: was.pool, stick: was.stick, only: was.only}
	var all []option
	var never error // why the last one that was left out is
	weights := 0
	first := rand.IntN(l.Weight)
	for i := range l.Accounts {
		of := &l.Accounts[i]
		if was.only != "" && was.only != of.Name {
			continue
		}
		one := a.by(l, of.Name)
		limits, err := r.Bind(&one, nil)
		if err != nil {
			return q, err
		}
		for i := range limits { // a pool has no fair shares, whatever other processes have
			if q := &limits[i].Spec.Queue; *q == specs.FairQueue {
				*q = specs.NoQueue
			}
		}
		limits, costs, err := r.costs(&one, one.share(limits), nil)
		if err != nil {
			never = err
			continue
		}
		if err := r.checkNested(&one, limits); err != nil {
			never = err
			continue
		}
		if weights <= first {
			q.Call.First = len(now.accounts)
		}
		weights += of.Weight
		now.accounts = append(now.accounts, of.Name)
		all = append(all, option{limits, costs})
	}
	if len(now.accounts) == 0 {
		return q, never
	}
	place(&q, all)
	if i := lastPart(q.Limits); i >= maxWithParts {
		return q, tooManyParts("Pool", i+1, q.Limits[i].Policy)
	}
	now.narrow(&q)
	a.pooled = &now
	if isUsual && q.Call.AnyOf != nil {
		l.usual.Store(&usual{a.Set, q.Limits, q.Call.AnyOf, now.accounts})
	}
	return q, nil
}

// narrow removes the choices of a call if there is only one, or the store cannot choose by any of them.
func (c *pooled) narrow(q *dispatch.Request) {
	if len(q.Limits) == 0 {
		c.accounts = c.accounts[q.Call.First : q.Call.First+1]
	}
	if len(c.accounts) == 1 {
		q.Call.AnyOf, q.Call.First = nil, 0
	}
}

// usual is what one set of policies requests for the calls of a pool that carry nothing of their own and cost 1. It never changes, so it is
// computed once, not for each of ten thousand calls that are bound again.
type usual struct {
	set      *Set
	limits   []store.Limit
	anyOf    [][]int
	accounts []string // all of the pool's
}

// isUsual reports whether nothing in a call changes its limits or costs.
func (a *Ask) isUsual() bool {
	return a.Cost == 1 && !a.ByPolicy && a.scopes == nil && a.held == nil && !slices.ContainsFunc(a.Options, func(o Option) bool { return o.Kind == Scope })
}

// request returns the request of a usual call.
func (u *usual) request(a *Ask) (q dispatch.Request) {
	was := a.pooled
	q.Limits, q.Call.AnyOf = u.limits, u.anyOf
	q.Call.First = was.pool.Any()
	a.pooled = &pooled{pool: was.pool, stick: was.stick, accounts: u.accounts}
	return q
}

// settlingOf returns what the settlement of a call by one of several credentials needs.
func (r *Reader) settlingOf(a *Ask) (s Settling) {
	if limits, err := r.Bind(a, nil); err == nil {
		_, _, _ = r.costs(a, limits, &s)
	}
	return s
}

// An option is the limits of a call by one account, and its costs; nil if they are all alike.
type option struct {
	limits []store.Limit
	costs  []int64
}

// place gives a request the limits of its choices, each limit once. The allowances come last, since the others are bounded: see
// maxWithParts.
func place(q *dispatch.Request, all []option) {
	places := make(map[store.Key]int)
	q.Call.AnyOf = make([][]int, len(all))
	for _, allowances := range []bool{false, true} {
		for k, one := range all {
			for j, l := range one.limits {
				if (l.Spec.Algorithm == specs.Allowance) != allowances {
					continue
				}
				i, found := places[l.Key()]
				if !found {
					i = len(q.Limits)
					places[l.Key()], q.Limits = i, append(q.Limits, l)
					if one.costs != nil {
						q.Call.Costs = append(q.Call.Costs, one.costs[j])
					}
				}
				q.Call.AnyOf[k] = append(q.Call.AnyOf[k], i)
			}
		}
	}
	for _, choice := range q.Call.AnyOf {
		slices.Sort(choice)
	}
}

// by returns the call as an account of a pool makes it.
func (a *Ask) by(l *Pool, account string) Ask {
	one := *a
	one.Options, one.pooled = append(slices.Clip(a.Options), l.scoped(a, account)...), nil
	return one
}

// scoped returns an account as the value of the pool's scopes: of those that a call carries, or else of all.
func (l *Pool) scoped(a *Ask, account string) []Option {
	all, carried := make([]Option, 0, len(l.Scopes)), make([]Option, 0, len(l.Scopes))
	for _, name := range l.Scopes {
		o := Option{Kind: Scope, Name: name, Value: account}
		all = append(all, o)
		if a != nil && a.Scope(name) != "" {
			carried = append(carried, o)
		}
	}
	if len(carried) > 0 {
		return carried
	}
	return all
}

// ScopesBy returns the scopes of the account of a choice, by its index; none for a call that is not pooled.
func (a *Ask) ScopesBy(choice int) []Option {
	if a.pooled == nil || len(a.pooled.accounts) == 0 {
		return nil
	}
	return a.pooled.pool.scoped(a, a.pooled.accounts[choice])
}

// Chosen returns the call as the chosen credential makes it.
func (c *Reservation) Chosen() Ask {
	a := c.Now()
	if scopes := a.ScopesBy(c.View().Choice); scopes != nil {
		a.Options, a.pooled = append(slices.Clip(a.Options), scopes...), nil
	}
	return a
}

// Pick picks the credential of a pooled call that may go.
func (c *Reservation) Pick() {
	c.mu.Lock()
	p := c.ask.pooled
	c.mu.Unlock()
	if p != nil {
		c.pick(p.pool, p.accounts[c.View().Choice], p.stick)
	}
}

// PickOf picks the credential of a call that one account of a pool made from the start.
func (c *Reservation) PickOf(l *Pool, account string) { c.pick(l, account, nil) }

func (k *Requested) pick(l *Pool, account string, s *pools.Stick) {
	id := l.Pick(account, s) // not under mu: Keep takes it under the lock of the dispatcher
	k.mu.Lock()
	defer k.mu.Unlock()
	k.credential = id
}

// Credential returns the ID of the picked credential; "" if none was.
func (k *Requested) Credential() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.credential
}
