package pacer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/headway-go/headway/pacer/internal/parts"
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// maxAboutKeys is how many keys a process speaks of.
const maxAboutKeys = 16

// about says what there is to say of this process. It returns, too, what is to be called when the store knows.
func (p *Pacer) about(now store.Instant, left bool) (a store.About, told func()) {
	a = store.About{Name: p.name, Left: left}
	until := usage.SecondOf(int64(now))
	if left {
		until++ // of this second nothing more comes
	}
	p.sleepers.mu.Lock()
	for i := range p.limits {
		a.Went = append(a.Went, p.limits[i].since(p.wentUntil, until)...)
	}
	p.wentSaid = max(p.wentSaid, until) // what goes late is said the next time
	used := p.used(now)
	p.sleepers.mu.Unlock()
	a.Waiting, a.Keys = used.byPolicy(), usage.Top(used.spent, used.waiting, maxAboutKeys)
	for _, policy := range p.Policies() {
		a.Policies = append(a.Policies, policy.String())
	}
	return a, func() {
		p.sleepers.mu.Lock()
		defer p.sleepers.mu.Unlock()
		p.wentUntil = max(p.wentUntil, until)
	}
}

// since returns what went of a limit from one second until before another.
func (l *limit) since(from, until int64) []store.Went {
	var all []store.Went
	for second := max(from, until-usage.Seconds+1); second < until; second++ {
		if what := l.seen.went.Get(second); what != (store.Second{}) {
			all = append(all, store.Went{Policy: l.Policy, Second: second, What: what})
		}
	}
	return all
}

// use is who waits, and what keys with scopes have spent in about the last minute.
type use struct {
	total   map[string]int64 // calls that wait, by policy; "" for a pause of the whole upstream
	waiting map[store.Key]int64
	spent   map[store.Key]int64
}

// used returns the use of all limits by this process, but for what went at once from memory. The caller holds sleepers.mu.
func (p *Pacer) used(now store.Instant) use {
	u := use{make(map[string]int64), make(map[store.Key]int64), make(map[store.Key]int64)}
	p.busy.Spent(int64(now), u.spent)
	for r := range p.sleepers.asleep {
		if r.since != 0 { // otherwise it is about to
			u.waits(r.stack.Limits, r.waitsFor(), r.binding.paused, 1)
		}
	}
	for _, q := range p.queues.byStack {
		if q.length > 0 {
			u.waits(q.limits, q.told.Binds, q.told.Paused || q.told.Binds == store.BindsUpstream, int64(q.length))
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
		return // for NotBefore alone
	}
	u.total[k.Policy] += n
	if k.Scope != "" {
		u.waiting[k] += n
	}
}

// byPolicy returns who waits, in the order of the policies' names.
func (u *use) byPolicy() []store.KeyUse {
	all := make([]store.KeyUse, 0, len(u.total))
	for policy, n := range u.total {
		all = append(all, store.KeyUse{Policy: policy, Waiting: n})
	}
	slices.SortFunc(all, func(a, b store.KeyUse) int { return strings.Compare(a.Policy, b.Policy) })
	return all
}

// NewOperator returns a Pacer for somebody who looks on and intervenes, such as a command or a page: it has the policies that
// the processes of the upstream have told the store, which must be a [store.Registry]. It is none of those processes: it does not
// count as one, does not listen, and has nothing to fall back to. Use [Pacer.Fleet], [Pacer.Status], [Pacer.Report] (to
// pause, for as long as you like), [Pacer.Resume] and [Pacer.Reset]. It returns a [*ConfigError] if no process paces the
// upstream, and a [*StoreError] if the store fails.
func NewOperator(ctx context.Context, backing store.Store, upstream string) (*Pacer, error) {
	registry, ok := backing.(store.Registry)
	if !ok {
		return nil, &ConfigError{Field: "Store", Value: fmt.Sprintf("%T", backing), Reason: "does not know who uses it: see Registry"}
	}
	if !ValidUpstream(upstream) {
		return New(Config{Upstream: upstream}) // which says what is wrong
	}
	index, err := registry.Index(ctx, upstream)
	if err != nil {
		return nil, &StoreError{Upstream: upstream, Op: "index", Err: err}
	}
	known, _ := parsePolicies(index.Policies)
	described := slices.ContainsFunc(index.Processes, func(p store.IndexedProcess) bool { return p.Name != "" })
	if len(known) == 0 && !described {
		return nil, &ConfigError{Field: "Upstream", Value: strconv.Quote(upstream), Err: ErrUnknownUpstream}
	}
	return New(Config{Upstream: upstream, Store: onlooker{backing, registry}, Policies: known, MaxWait: Forever, MaxPause: Forever})
}

// onlooker is a store without what makes a process one of the fleet's.
type onlooker struct {
	store.Store
	store.Registry
}

// parsePolicies reads policies from what processes say, and returns what cannot be read, too: other versions may say more.
func parsePolicies(texts []string) (known []policies.Policy, unknown []string) {
	for _, text := range texts {
		one, err := policies.Parse(text)
		if err != nil || parts.Check(append(slices.Clip(known), one)) != nil {
			unknown = append(unknown, text)
			continue
		}
		known = append(known, one)
	}
	return known, unknown
}
