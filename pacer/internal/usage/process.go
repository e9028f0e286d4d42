package usage

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/headway-go/headway/pacer/store"
)

const (
	// maxAboutKeys is the most keys that a process reports.
	maxAboutKeys = 16
	// MaxCallers is the most callers whose spending is reported, and shown of all processes.
	MaxCallers = 100
	// maxAboutStated is the most limits whose statements are reported.
	maxAboutStated = 16
	// maxIndexKeys is the most keys that a registry of one process returns, as many as package fleet shows.
	maxIndexKeys = 20
)

// A Process is what this process reports of itself to operators.
//
// Each process reports to a shared store that is a [store.Registry], every three seconds, its policies, its spending, and which calls wait;
// in a fleet of more than two hundred processes less often, down to once a minute. No decision needs these reports; a failed one is
// repeated later. Package fleet reads them, also for programs that have only the store, such as the command headway: they can observe the
// fleet, and pause, resume and reset, without being one of its processes.
type Process struct {
	Upstream string
	Name     string
	Meter    *Meter // counts its spending
	Source   Source

	mu       sync.Mutex
	policies []string             // as policies.Policy.String writes them
	source   string               // who set them; "" for the process itself
	busiest  map[string]store.Key // of each policy with scopes, the key that spent most when any of its keys last did
}

// A Source knows what the process does now.
type Source interface {
	// CallsWaiting returns how many calls wait for each limit; the empty key counts those that wait for a pause of all.
	CallsWaiting() map[store.Key]int64
	// Stated returns what the upstream stated to the process, of n limits at most.
	Stated(n int) []store.Statement
}

// SetPolicies sets the policies of the process, the names of all limits, lanes included, and who set them: "" for the process itself.
func (p *Process) SetPolicies(limits, policies []string, source string) {
	p.Meter.Know(limits)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.policies, p.source, p.busiest = policies, source, nil // the policies may have other scopes
}

// Policies returns the policies of the process, and who set them.
func (p *Process) Policies() (policies []string, source string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.policies), p.source
}

// About returns the present report, and a function to call when the store has received it. left is whether it is the last.
func (p *Process) About(now store.Instant, left bool) (a store.About, received func()) {
	until := SecondOf(int64(now))
	if left {
		until++ // nothing more comes in this second
	}
	went, spent := p.Meter.report(now, until)
	a = p.describe(now, spent, maxAboutKeys, maxAboutStated)
	a.Left, a.Went = left, went
	return a, func() { p.Meter.deliver(until) }
}

// describe returns what the process is doing, of so many keys and statements.
func (p *Process) describe(now store.Instant, spent map[store.Key]int64, keys, stated int) store.About {
	byPolicy, byKey := split(p.Source.CallsWaiting())
	a := store.About{Name: p.Name, Waiting: byPolicy, Keys: p.topKeys(spent, byKey, keys), Callers: p.Meter.Callers(now, MaxCallers), Stated: p.Source.Stated(stated)}
	a.Policies, a.Source = p.Policies()
	return a
}

// topKeys returns the n keys that spend or wait most, and the busiest key of up to n policies without one among them; if none has spent
// anything lately, the last busiest one.
func (p *Process) topKeys(spent, waiting map[store.Key]int64, n int) []store.KeyUse {
	all := Top(spent, waiting, len(spent)+len(waiting))
	top := slices.Clip(all[:min(n, len(all))])
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busiest == nil {
		p.busiest = make(map[string]store.Key)
	}
	seen := make(map[string]bool)
	for i := range all {
		if k := &all[i]; !seen[k.Policy] {
			seen[k.Policy], p.busiest[k.Policy] = true, k.Key()
			if i >= n && len(top) < 2*n {
				top = append(top, *k)
			}
		}
	}
	for _, policy := range slices.Sorted(maps.Keys(p.busiest)) {
		if !seen[policy] && len(top) < 2*n {
			top = append(top, store.KeyUse{Policy: policy, Scope: p.busiest[policy].Scope})
		}
	}
	return top
}

// split returns how many calls wait for each policy, in the order of their names, and for each key with scopes.
func split(waiting map[store.Key]int64) (byPolicy []store.KeyUse, byKey map[store.Key]int64) {
	sums := make(map[string]int64, len(waiting))
	byKey = make(map[store.Key]int64, len(waiting))
	for k, n := range waiting {
		sums[k.Policy] += n
		if k.Scope != "" {
			byKey[k] = n
		}
	}
	byPolicy = make([]store.KeyUse, 0, len(sums))
	for policy, n := range sums {
		byPolicy = append(byPolicy, store.KeyUse{Policy: policy, Waiting: n})
	}
	slices.SortFunc(byPolicy, func(a, b store.KeyUse) int { return strings.Compare(a.Policy, b.Policy) })
	return byPolicy, byKey
}

// A Registry is a [store.Registry] that knows only this process, and counts its spending from the first Index on: before, counting costs no
// call anything.
type Registry struct {
	Process *Process
	Store   store.Store     // whose time counts, if it has one
	Closed  <-chan struct{} // closed when the Pacer is
}

// Describe implements [store.Registry]. It stores nothing: Index queries the process.
func (r *Registry) Describe(context.Context, string, store.About) (versions int, err error) {
	return 1, nil
}

// Upstreams implements [store.Registry].
func (r *Registry) Upstreams(context.Context) ([]string, error) {
	return []string{r.Process.Upstream}, nil
}

// Index implements [store.Registry].
func (r *Registry) Index(_ context.Context, upstream string) (*store.Index, error) {
	select {
	case <-r.Closed:
		return nil, store.ErrClosed
	default:
	}
	p, now := r.Process, store.NowOf(r.Store)
	index := &store.Index{Now: now}
	if upstream != p.Upstream {
		return index, nil
	}
	p.Meter.TurnOn()
	went, spent := p.Meter.snapshot(now)
	for i := range went {
		index.Went = went[i].appendTo(index.Went, 0, SecondOf(int64(now))+1)
	}
	about := p.describe(now, spent, maxIndexKeys, math.MaxInt)
	index.Policies, index.Alive = about.Policies, 1
	index.Processes = []store.IndexedProcess{{About: about, Came: now, Version: store.VersionOf(about.Policies)}}
	return index, nil
}
