package pacer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
)

// A Registry is a [Shared] that knows who uses it, and how: what every process says of itself from time to time. What it
// is told is bounded and expires. Looking writes nothing.
type Registry interface {
	// Describe notes what a process says of itself. It matters to nobody who calls: if it fails, it is said again later.
	Describe(ctx context.Context, upstream string, about About) error

	// Index returns what processes have said of an upstream. An upstream of which nothing is known has no policies.
	Index(ctx context.Context, upstream string) (*Index, error)

	// Upstreams returns the names of the upstreams that are known, in order.
	Upstreams(ctx context.Context) ([]string, error)
}

// An About is what a process says of itself.
type About struct {
	ID       string        // as in [Heartbeat]
	Left     bool          // it is not there any more
	Keep     time.Duration // as in Heartbeat: for how long its policies are remembered
	Name     string        // Config.Name
	Policies []string      // its policies, as policies.Policy.String writes them
	Waiting  []KeyUse      // its sleeping calls, by the policy that they wait for, all keys together: see KeyUse.Waiting
	Keys     []KeyUse      // the keys with scopes that spend or wait most
	Went     []Went        // what went since it was last said

	_ struct{}
}

// A KeyUse is the use of one limit.
type KeyUse struct {
	Policy  string // "" for the whole upstream
	Scope   string // as in [Limit]
	Cost    int64  // what went in about the last minute
	Waiting int64  // how many calls sleep because of it

	_ struct{}
}

// A Went is what went of a policy in one second.
type Went struct {
	Policy string
	Second int64 // since the Unix epoch, by the store's clock
	What   Second

	_ struct{}
}

// An Index is what processes have said of an upstream.
type Index struct {
	Now       Instant
	Policies  []string // those that are in use: of processes that are there, or else of the last ones; in order
	Alive     int      // how many processes are there
	Processes []IndexedProcess
	Went      []Went // of the last minute, summed up

	_ struct{}
}

// An IndexedProcess is a process that is there.
type IndexedProcess struct {
	About // but for its policies, and for what went

	Came Instant

	_ struct{}
}

// maxAboutKeys is how many keys a process speaks of.
const maxAboutKeys = 16

// about says what there is to say of this process. It returns, too, what is to be called when the store knows.
func (p *Pacer) about(now Instant, left bool) (a About, told func()) {
	a = About{Name: p.name, Left: left}
	until := secondOf(int64(now))
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
	a.Waiting, a.Keys = used.byPolicy(), most(used.spent, used.waiting, maxAboutKeys)
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
func (l *limit) since(from, until int64) []Went {
	var all []Went
	for second := max(from, until-tallySeconds+1); second < until; second++ {
		if s := &l.seen.went[placeOf(second)]; s.second == second && s.Second != (Second{}) {
			all = append(all, Went{Policy: l.Policy, Second: second, What: s.Second})
		}
	}
	return all
}

// use is who waits, and what keys with scopes have spent in about the last minute.
type use struct {
	total   map[string]int64 // calls that wait, by policy; "" for a pause of the whole upstream
	waiting map[Key]int64
	spent   map[Key]int64
}

// used returns the use of all limits by this process, but for what went at once from memory. The caller holds sleepers.mu.
func (p *Pacer) used(now Instant) use {
	u := use{make(map[string]int64), make(map[Key]int64), make(map[Key]int64)}
	p.busy.spent(int64(now), u.spent)
	for r := range p.sleepers.asleep {
		if r.since != 0 { // otherwise it is about to
			u.waits(r.stack.Limits, r.waitsFor(), r.binding.paused, 1)
		}
	}
	for _, q := range p.queues.byStack {
		if q.length > 0 {
			u.waits(q.limits, q.told.Binds, q.told.Paused || q.told.Binds == BindsUpstream, int64(q.length))
		}
	}
	return u
}

// waits counts calls that wait for the limit with an index, or for the end of a pause of the whole upstream.
func (u *use) waits(limits []Limit, binds int, paused bool, n int64) {
	k := Key{}
	if binds >= 0 && binds < len(limits) {
		k = Key{limits[binds].Policy, limits[binds].Scope}
	} else if !paused {
		return // for NotBefore alone
	}
	u.total[k.Policy] += n
	if k.Scope != "" {
		u.waiting[k] += n
	}
}

// byPolicy returns who waits, in the order of the policies' names.
func (u *use) byPolicy() []KeyUse {
	all := make([]KeyUse, 0, len(u.total))
	for policy, n := range u.total {
		all = append(all, KeyUse{Policy: policy, Waiting: n})
	}
	slices.SortFunc(all, func(a, b KeyUse) int { return strings.Compare(a.Policy, b.Policy) })
	return all
}

// most returns the n keys that spend or wait most, first.
func most(spent, waiting map[Key]int64, n int) []KeyUse {
	all := make([]KeyUse, 0, len(spent)+len(waiting))
	for k, cost := range spent {
		if cost > 0 || waiting[k] > 0 {
			all = append(all, KeyUse{Policy: k.Policy, Scope: k.Scope, Cost: cost, Waiting: waiting[k]})
		}
	}
	for k, w := range waiting {
		if _, both := spent[k]; !both {
			all = append(all, KeyUse{Policy: k.Policy, Scope: k.Scope, Waiting: w})
		}
	}
	slices.SortFunc(all, func(a, b KeyUse) int {
		switch x, y := a.Cost+a.Waiting, b.Cost+b.Waiting; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return strings.Compare(a.Policy+":"+a.Scope, b.Policy+":"+b.Scope)
	})
	return slices.Clip(all[:min(n, len(all))])
}

// NewOperator returns a Pacer for somebody who looks on and intervenes, such as a command or a page: it has the policies that
// the processes of the upstream have told the store, which must be a [Registry]. It is none of those processes: it does not
// count as one, does not listen, and has nothing to fall back to. Use [Pacer.Fleet], [Pacer.Status], [Pacer.Report] (to
// pause, for as long as you like), [Pacer.Resume] and [Pacer.Reset]. It returns a [*ConfigError] if no process paces the
// upstream, and a [*StoreError] if the store fails.
func NewOperator(ctx context.Context, store Store, upstream string) (*Pacer, error) {
	registry, ok := store.(Registry)
	if !ok {
		return nil, &ConfigError{Field: "Store", Value: fmt.Sprintf("%T", store), Reason: "does not know who uses it: see Registry"}
	}
	if !ValidUpstream(upstream) {
		return New(Config{Upstream: upstream}) // which says what is wrong
	}
	index, err := registry.Index(ctx, upstream)
	if err != nil {
		return nil, &StoreError{Upstream: upstream, Op: "index", Err: err}
	}
	known, _ := parsePolicies(index.Policies)
	described := slices.ContainsFunc(index.Processes, func(p IndexedProcess) bool { return p.Name != "" })
	if len(known) == 0 && !described {
		return nil, &ConfigError{Field: "Upstream", Value: strconv.Quote(upstream), Err: ErrUnknownUpstream}
	}
	return New(Config{Upstream: upstream, Store: onlooker{store, registry}, Policies: known, MaxWait: Forever, MaxPause: Forever})
}

// onlooker is a store without what makes a process one of the fleet's.
type onlooker struct {
	Store
	Registry
}

// parsePolicies reads policies from what processes say, and returns what cannot be read, too: other versions may say more.
func parsePolicies(texts []string) (known []policies.Policy, unknown []string) {
	for _, text := range texts {
		one, err := policies.Parse(text)
		if err == nil {
			c := Config{Policies: append(slices.Clip(known), one)}
			err = c.validateTogether()
		}
		if err != nil {
			unknown = append(unknown, text)
			continue
		}
		known = append(known, one)
	}
	return known, unknown
}

// registry returns the store as a Registry, each operation bounded in time as all others are; nil if it is none.
func (w *watched) registry() Registry {
	if registry, ok := w.store.(Registry); ok {
		return watchedRegistry{w, registry}
	}
	return nil
}

type watchedRegistry struct {
	*watched
	Registry
}

// Index implements [Registry].
func (w watchedRegistry) Index(ctx context.Context, upstream string) (*Index, error) {
	answer := make(chan *Index, 1)
	err := w.within(ctx, "index", func(ctx context.Context) error {
		index, err := w.Registry.Index(ctx, upstream)
		answer <- index
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-answer, nil
}
