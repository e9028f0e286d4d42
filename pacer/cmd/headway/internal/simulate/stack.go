package simulate

import (
	"slices"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// upstream is the name of the simulated API.
const upstream = "simulated"

// A part is a policy, or a lane's part of one.
type part struct {
	policies.Policy

	lane string // it binds only calls of this lane; "" for all
}

// parts returns all policies, each followed by its lanes' parts, as in a Pacer.
func parts(all []policies.Policy) []part {
	var ps []part
	for _, policy := range all {
		ps = append(ps, part{Policy: policy})
		for _, lane := range policy.Lanes() {
			if own, ok := policy.InLane(lane); ok {
				ps = append(ps, part{own, lane})
			}
		}
	}
	return ps
}

// A stack is the limits of one tenant's calls in one lane.
type stack struct {
	store.Stack

	parts    []int  // of each limit: its policy
	keys     []int  // of each limit: its number among all limits
	hasQueue bool   // calls may have to queue
	flow     int64  // the scope that fair shares are for
	kept     uint64 // what its calls leave to others: see store.Call
	weight   int64  // of its flow; 0 for 1
	group    *group // in which its calls are counted
}

// A binder makes stacks, and numbers their limits.
type binder struct {
	parts []part
	fair  string          // the scope by which shares are fair; "" if there are none
	of    policies.Policy // that is shared by it
	keys  map[[2]string]int
	flows map[string]int64
	first []*store.Limit // of each part, that of the first tenant that it binds
	count []int          // of each part, how many limits there are
}

func newBinder(all []policies.Policy) *binder {
	b := &binder{parts: parts(all), keys: make(map[[2]string]int), flows: make(map[string]int64)}
	b.first, b.count = make([]*store.Limit, len(b.parts)), make([]int, len(b.parts))
	for i := range all {
		if by := all[i].FairBy(); by != "" {
			b.fair, b.of = by, all[i]
		}
	}
	return b
}

// bind returns the stack of a tenant's calls.
func (b *binder) bind(l *Load, tenant, lane string) *stack {
	s := &stack{Stack: store.Stack{Upstream: upstream}}
	value := func(scope string) string {
		if v, set := l.Scopes[scope]; set {
			return v
		}
		return tenant
	}
	for i := range b.parts {
		one := &b.parts[i]
		spec := one.Spec()
		if one.lane != "" && one.lane != lane && spec.Floor == 0 {
			continue
		}
		var values []string
		missing := false
		for _, scope := range one.Scopes() {
			v := value(scope)
			values, missing = append(values, v), missing || v == ""
		}
		if missing {
			continue // it is optional
		}
		limit := store.Limit{Policy: one.Name(), Spec: spec}
		if len(values) > 0 {
			limit.Scope = store.EscapeScope(values...)
		}
		if spec.Floor > 0 && one.lane != lane {
			s.kept |= 1 << len(s.Limits)
		}
		s.Limits, s.parts = append(s.Limits, limit), append(s.parts, i)
		key, known := number(b.keys, [2]string{limit.Policy, limit.Scope})
		if s.keys = append(s.keys, key); !known {
			b.count[i]++
		}
		if b.first[i] == nil {
			b.first[i] = &limit
		}
		s.hasQueue = s.hasQueue || limit.Spec.HasQueue()
	}
	if b.fair != "" {
		who := value(b.fair)
		if b.fair == specs.PartyScope {
			if who = ""; slices.Contains(b.of.Lanes(), lane) {
				who = lane
			}
			s.weight = b.of.Weight(who)
		}
		if _, known := b.flows[who]; !known {
			b.flows[who] = int64(len(b.flows)) + 1
		}
		s.flow = b.flows[who]
	}
	return s
}

// number returns the number of a key, and whether it had one already.
func number(keys map[[2]string]int, key [2]string) (n int, known bool) {
	if n, known = keys[key]; !known {
		n = len(keys)
		keys[key] = n
	}
	return n, known
}

// leases returns the longest guard and the shortest lease, in µs, of the permits of a call; false if it takes none.
func (s *stack) leases() (guard, lease int64, ok bool) {
	for i := range s.Limits {
		if spec := &s.Limits[i].Spec; spec.Algorithm == specs.Concurrency {
			if !ok || spec.Interval < lease {
				lease = spec.Interval
			}
			guard, ok = max(guard, spec.Guard), true
		}
	}
	return guard, lease, ok
}

// notes makes a note of a kind about a call, for each limit that it may hold something of.
func (s *stack) notes(kind store.NoteKind, c *store.Call, began store.Instant) []store.Note {
	var all []store.Note
	for i := range s.Limits {
		spec := &s.Limits[i].Spec
		if spec.Algorithm == specs.Concurrency || kind == store.NoteRelease && spec.HasQueue() {
			n := c.Left(i)
			n.Kind, n.At = kind, began
			all = append(all, n)
		}
	}
	return all
}

// hasPermits reports whether a call that was granted has its permits.
func (s *stack) hasPermits(g *store.Grant) bool {
	for i, c := range g.Charges {
		if c.To == 0 && s.Limits[i].Spec.Algorithm == specs.Concurrency {
			return false
		}
	}
	return true
}
