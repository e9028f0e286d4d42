package usage

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A Meter counts what the calls of a process spend: by policy and second, and by key. It is safe for concurrent use.
type Meter struct {
	on    atomic.Bool
	index map[string]int // of each policy

	mu        sync.Mutex
	policies  []metered
	keys      TopKeys
	callers   TopKeys         // of each policy: the scope is a store.Call.Caller
	reported  int64           // the store has the spending before this second, or a report of it is under way
	delivered int64           // the store has the spending before this second
	settled   map[place]int64 // by how much calls of seconds that were reported cost more, and the store does not know
	sent      map[place]int64 // the part of settled that a report has that is under way
}

// place is where a call's spending is counted.
type place struct {
	policy int // by index
	second int64
}

// metered is the spending of one policy.
type metered struct {
	name  string
	spent Tally
}

// NewMeter returns a Meter for policies, by their names. Until it is turned on, it counts nothing and costs nothing.
func NewMeter(policies []string, on bool) *Meter {
	m := &Meter{index: make(map[string]int, len(policies)), policies: make([]metered, len(policies))}
	for i, name := range policies {
		m.index[name], m.policies[i].name = i, name
	}
	m.on.Store(on)
	return m
}

// Know makes the meter count for more policies.
func (m *Meter) Know(policies []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range policies {
		if _, known := m.index[name]; !known {
			m.index[name] = len(m.policies)
			m.policies = append(m.policies, metered{name: name})
		}
	}
}

// TurnOn starts counting.
func (m *Meter) TurnOn() { m.on.Store(true) }

// IsOn reports whether the meter counts.
func (m *Meter) IsOn() bool { return m.on.Load() }

// Add counts the spending of a call that was admitted at an instant: in the second of its slot, or in the first second that was not
// reported yet. It returns that second. waitedFor is the index of the limit for which the call waited; −1 if none.
func (m *Meter) Add(limits []store.Limit, call *store.Call, at store.Instant, waitedFor int, waited time.Duration) (second int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	second = max(SecondOf(int64(at)), m.reported)
	for i := range limits {
		l := &limits[i]
		if call.Keeps(i) {
			continue
		}
		cost := call.CostOf(i)
		what := store.Second{Cost: cost}
		if i == waitedFor {
			what.Waits, what.Waited = 1, waited
		}
		if of, known := m.index[l.Policy]; known {
			m.policies[of].spent.Add(second, what)
		}
		if l.Scope != "" {
			m.keys.Add(l.Key(), cost, int64(at))
		}
		if call.Caller != "" && isWhole(l) {
			m.callers.Add(store.Key{Policy: l.Policy, Scope: call.Caller}, cost, int64(at))
		}
	}
	return second
}

// Booked records the keys of a call that was booked now, which it will spend when it goes.
func (m *Meter) Booked(limits []store.Limit, now store.Instant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range limits {
		if limits[i].Scope != "" {
			m.keys.Add(limits[i].Key(), 0, int64(now))
		}
	}
}

// isWhole reports whether a limit is a policy, not a part of one or an allowance.
func isWhole(l *store.Limit) bool {
	return l.Spec.Algorithm != specs.Allowance && l.Spec.Queue != specs.QueueOfLane && l.Spec.Floor == 0
}

// Settle corrects the count of a caller's call that was admitted at an instant: it spent more of a limit, or less. Second is what Add
// returned; 0 for a call that was not counted.
func (m *Meter) Settle(l *store.Limit, caller string, at store.Instant, second, more int64) {
	if second == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	of, known := m.index[l.Policy]
	switch {
	case !known:
	case second >= m.reported:
		m.policies[of].spent.Add(second, store.Second{Cost: more})
	case second > m.reported-Seconds:
		if m.settled == nil {
			m.settled = make(map[place]int64)
		}
		m.settled[place{of, second}] += more
	}
	if l.Scope != "" {
		m.keys.Correct(l.Key(), more, int64(at))
	}
	if caller != "" && isWhole(l) {
		m.callers.Correct(store.Key{Policy: l.Policy, Scope: caller}, more, int64(at))
	}
}

// Callers returns the n callers that have spent most in the last minute or so.
func (m *Meter) Callers(now store.Instant, n int) []store.KeyUse {
	m.mu.Lock()
	defer m.mu.Unlock()
	spent := make(map[store.Key]int64)
	m.callers.Spent(int64(now), spent)
	return Top(spent, nil, n)
}

// report returns the spending before a second that the store lacks, and that of each key in the last minute or so. Later spending belongs
// to the next report.
func (m *Meter) report(now store.Instant, until int64) (went []store.Went, spent map[store.Key]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.policies {
		went = m.policies[i].appendTo(went, m.delivered, until)
	}
	went = m.appendSettled(went, until)
	m.reported = max(m.reported, until)
	return went, m.spent(now)
}

// deliver records that the store has the spending before a second.
func (m *Meter) deliver(until int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.delivered = max(m.delivered, until)
	for at, more := range m.sent {
		m.policies[at.policy].spent.Add(at.second, store.Second{Cost: more})
		if m.settled[at] -= more; m.settled[at] == 0 {
			delete(m.settled, at)
		}
	}
	clear(m.sent)
}

// appendSettled appends by how much calls cost more than was reported of them until a second, and counts it as sent. The caller holds mu.
func (m *Meter) appendSettled(all []store.Went, until int64) []store.Went {
	maps.DeleteFunc(m.settled, func(at place, _ int64) bool { return at.second <= until-Seconds })
	m.sent = maps.Clone(m.settled)
	for at, more := range m.settled {
		if more != 0 {
			all = append(all, store.Went{Policy: m.policies[at.policy].name, Second: at.second, What: store.Second{Cost: more}})
		}
	}
	return all
}

// snapshot returns the spending of each policy, and that of each key in the last minute or so.
func (m *Meter) snapshot(now store.Instant) (all []metered, spent map[store.Key]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all = append(all, m.policies...)
	for at, more := range m.settled {
		all[at.policy].spent.Add(at.second, store.Second{Cost: more})
	}
	return all, m.spent(now)
}

// spent returns the spending of each key in the last minute or so. The caller holds mu.
func (m *Meter) spent(now store.Instant) map[store.Key]int64 {
	sums := make(map[store.Key]int64)
	m.keys.Spent(int64(now), sums)
	return sums
}

// appendTo appends the spending from one second until before another.
func (m *metered) appendTo(all []store.Went, from, until int64) []store.Went {
	for second := max(from, until-Seconds+1); second < until; second++ {
		if what := m.spent.Get(second); what != (store.Second{}) {
			all = append(all, store.Went{Policy: m.name, Second: second, What: what})
		}
	}
	return all
}
