package pacer

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/store"
)

// maxAboutKeys is how many keys a process reports.
const maxAboutKeys = 16

// about returns what this process reports about itself, and a function to call when the store has received it.
//
// Each process reports to a shared store that is a [store.Registry], every three seconds, its policies, what went,
// and which calls wait; in a fleet of more than two hundred processes less often, down to once a minute. No decision
// needs these reports; what cannot be reported is reported later. Package fleet reads them, also for programs that
// have only the store, such as the command headway: they can observe the fleet, and pause, resume and reset, without
// being one of its processes.
func (p *Pacer) about(now store.Instant, left bool) (a store.About, told func()) {
	a = store.About{Name: p.name, Left: left}
	until := usage.SecondOf(int64(now))
	if left {
		until++ // nothing more comes in this second
	}
	p.waiters.mu.Lock()
	for i := range p.limits {
		a.Went = append(a.Went, p.limits[i].since(p.wentUntil, until)...)
	}
	p.wentSaid = max(p.wentSaid, until) // a call that goes later is in the next report
	used := p.used(now)
	p.waiters.mu.Unlock()
	a.Waiting, a.Keys = used.byPolicy(), usage.Top(used.spent, used.waiting, maxAboutKeys)
	for _, policy := range p.Policies() {
		a.Policies = append(a.Policies, policy.String())
	}
	return a, func() {
		p.waiters.mu.Lock()
		defer p.waiters.mu.Unlock()
		p.wentUntil = max(p.wentUntil, until)
	}
}

// since returns what went of a limit from one second until before another.
func (l *limit) since(from, until int64) []store.Went {
	return wentOf(l.Policy, &l.seen.went, from, until)
}

// wentOf returns what a tally counted for a policy from one second until before another.
func wentOf(policy string, t *usage.Tally, from, until int64) []store.Went {
	var all []store.Went
	for second := max(from, until-usage.Seconds+1); second < until; second++ {
		if what := t.Get(second); what != (store.Second{}) {
			all = append(all, store.Went{Policy: policy, Second: second, What: what})
		}
	}
	return all
}

// A use is how many calls wait, and what keys with scopes have spent in about the last minute.
type use struct {
	total   map[string]int64 // calls that wait, by policy; "" for a pause of the whole upstream
	waiting map[store.Key]int64
	spent   map[store.Key]int64
}

// used returns the use of all limits by this process, except for what went at once from memory. The caller holds
// waiters.mu.
func (p *Pacer) used(now store.Instant) use {
	u := use{make(map[string]int64), make(map[store.Key]int64), make(map[store.Key]int64)}
	p.topKeys.Spent(int64(now), u.spent)
	for r := range p.waiters.waiting {
		if r.since != 0 { // otherwise it is about to wait
			u.waits(r.stack.Limits, r.waitsFor(), r.binding.paused, 1)
		}
	}
	for _, q := range p.queues.byStack {
		if q.length > 0 {
			u.waits(q.limits, q.last.Binds, q.last.Paused || q.last.Binds == store.BindsUpstream, int64(q.length))
		}
	}
	return u
}

// waits counts calls that wait for the limit with an index, or for the end of a pause of the whole upstream.
func (u *use) waits(limits []store.Limit, binds int, paused bool, n int64) {
	k := store.Key{}
	if binds >= 0 && binds < len(limits) {
		k = limits[binds].Key()
	} else if !paused {
		return // only NotBefore holds it
	}
	u.total[k.Policy] += n
	if k.Scope != "" {
		u.waiting[k] += n
	}
}

// byPolicy returns how many calls wait, in the order of the policies' names.
func (u *use) byPolicy() []store.KeyUse {
	all := make([]store.KeyUse, 0, len(u.total))
	for policy, n := range u.total {
		all = append(all, store.KeyUse{Policy: policy, Waiting: n})
	}
	slices.SortFunc(all, func(a, b store.KeyUse) int { return strings.Compare(a.Policy, b.Policy) })
	return all
}

// Registry returns the registry of the processes that pace the upstream, and whether it belongs to a store that they
// share. If the store has none, or is out of reach, it is one that knows only this process, and counts what goes from
// the first Index on: before that, no call pays for counting. It is for observers: see package fleet.
func (p *Pacer) Registry() (registry store.Registry, shared bool) {
	if p.member != nil {
		registry = p.member.Registry()
	} else {
		registry, _ = p.store.(store.Registry)
	}
	if registry == nil {
		return localRegistry{p}, false
	}
	return registry, true
}

// A localRegistry knows only this process.
type localRegistry struct{ pacer *Pacer }

// maxIndexKeys is how many keys a localRegistry returns: as many as package fleet shows.
const maxIndexKeys = 20

// Describe implements [store.Registry]. It has nothing to store: Index asks the Pacer.
func (r localRegistry) Describe(context.Context, string, store.About) error { return nil }

// Upstreams implements [store.Registry].
func (r localRegistry) Upstreams(context.Context) ([]string, error) {
	return []string{r.pacer.upstream}, nil
}

// Index implements [store.Registry].
func (r localRegistry) Index(_ context.Context, upstream string) (*store.Index, error) {
	p := r.pacer
	if p.isClosed() {
		return nil, ErrClosed
	}
	now := store.Instant(time.Now().UnixMicro())
	if s, ok := p.store.(interface{ Now() store.Instant }); ok {
		now = s.Now()
	}
	index := &store.Index{Now: now}
	if upstream != p.upstream {
		return index, nil
	}
	p.looked.Store(true)
	went := make([]usage.Tally, len(p.limits))
	p.waiters.mu.Lock()
	used := p.used(now)
	for i := range p.limits {
		went[i] = p.limits[i].seen.went
	}
	p.waiters.mu.Unlock()
	p.addDirect(went, used.spent)
	for i := range p.limits {
		index.Went = append(index.Went, wentOf(p.limits[i].Policy, &went[i], 0, usage.SecondOf(int64(now))+1)...)
	}
	for _, policy := range p.Policies() {
		index.Policies = append(index.Policies, policy.String())
	}
	about := store.About{Name: p.name, Waiting: used.byPolicy(), Keys: usage.Top(used.spent, used.waiting, maxIndexKeys)}
	index.Alive, index.Processes = 1, []store.IndexedProcess{{About: about, Came: now}}
	return index, nil
}

// addDirect adds what went at once from memory: by limit, and by key.
func (p *Pacer) addDirect(went []usage.Tally, spent map[store.Key]int64) {
	if p.direct == nil {
		return
	}
	limits := make([]store.Prepared, len(p.limits))
	for i := range p.limits {
		limits[i] = p.limits[i].prepared
	}
	for k, n := range p.direct.Spent(limits, func(limit int, second, cost int64) {
		went[limit].Add(second, store.Second{Cost: cost})
	}) {
		spent[k] += n
	}
}
