package readings

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// maxKeys bounds the keys that a process knows of.
const maxKeys = 1 << 16

// A Memory is which lower limits and allowances the store knows, and what the upstream stated. Its zero value is ready, and it is safe for
// concurrent use.
type Memory struct {
	mu     sync.Mutex
	keys   map[store.Key]sent
	good   good
	stated map[store.Key]*stated // of allowances

	sampled map[string]*sampled // by name of an allowance that fits no policy
	resets  resets
}

// sent is a lower limit, and when the store received it.
type sent struct {
	value     int64 // 0 for none
	at        time.Time
	allowance bool // the store knows of it
}

// good is the cost of calls that were admitted and answered well since the first slot, without a long break.
type good struct {
	first, last store.Instant
	cost        int64
}

// longBreak is after how long without a call the earlier pace of calls does not predict the later one.
const longBreak = 10 * time.Second

// answered notes a good answer to a call with a slot, and returns all since the last long break.
func (m *Memory) answered(at store.Instant, cost int64) good {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.Sub(m.good.last) > longBreak {
		m.good = good{first: at}
	}
	m.good.last, m.good.cost = max(m.good.last, at), m.good.cost+cost
	return m.good
}

const (
	// maxStated bounds the limits with a statement that a process keeps.
	maxStated = 1 << 12
	// A wait of more than longWait is long. It is again if it ends more than longerBy later.
	longWait = time.Hour
	longerBy = 10 * time.Minute
	// tolerance is how much later or earlier than stated a wait ends, by the clocks of processes that were without their store.
	tolerance = 2 * time.Second
)

// stated is what the upstream stated of a limit, and when the last long wait ends.
type stated struct {
	store.Statement

	long store.Instant
}

// of returns what was stated of an allowance. The caller holds mu.
func (m *Memory) of(k store.Key) *stated {
	if s := m.stated[k]; s != nil {
		return s
	}
	if m.stated == nil {
		m.stated = make(map[store.Key]*stated)
	}
	if len(m.stated) >= maxStated { // forgotten limits are stated again; those without scopes are few
		maps.DeleteFunc(m.stated, func(k store.Key, _ *stated) bool { return k.Scope != "" })
	}
	s := &stated{Statement: store.Statement{Policy: PolicyOf(k.Policy), Name: TagOf(k.Policy)}}
	m.stated[k] = s
	return s
}

// learn notes what a reply states of a limit.
func (m *Memory) learn(k store.Key, f *policies.Feedback, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, at := m.of(k), store.Instant(now.UnixMicro())
	if limit, limited := f.Limit.Value(); limited {
		s.Limit = limit
	}
	if f.Window > 0 {
		s.Window = f.Window
	}
	if f.Reset <= longestStated {
		s.Reset = max(s.Reset, f.Reset)
	}
	s.Readings, s.Last, s.Since, s.Source = s.Readings+1, at, cmp.Or(s.Since, at), cmp.Or(s.Source, f.Source)
}

// Keep notes until when a note holds that the store received at an instant, and reports whether that is a long wait, and news.
func (m *Memory) Keep(k store.Key, n *store.Note, at store.Instant) (long bool) {
	if n.Kind != store.NoteAnswer || n.For <= 0 || n.Guessed {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.of(k)
	s.Until, s.Source = at.Add(n.For), n.Source
	if long = n.Empties() > longWait && s.Until > s.long.Add(longerBy); long {
		s.long = s.Until
	}
	return long
}

// Source returns where it was stated that an allowance holds until an instant; "" if that is not known.
func (m *Memory) Source(k store.Key, until store.Instant) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.stated[k]; s != nil && s.Until.Sub(until).Abs() <= tolerance {
		return s.Source
	}
	return ""
}

// Stated returns what the upstream stated, of n limits at most: of each policy and name the one that holds longest, and then others. A
// function describes the scopes of a limit.
func (m *Memory) Stated(n int, describe func(*store.Limit) string) []store.Statement {
	m.mu.Lock()
	all, limits := make([]store.Statement, 0, len(m.stated)), make([]store.Limit, 0, len(m.stated))
	for k, s := range m.stated {
		all, limits = append(all, s.Statement), append(limits, store.Limit{Policy: k.Policy, Scope: k.Scope})
	}
	m.mu.Unlock()
	for i := range limits {
		all[i].Scope = describe(&limits[i])
	}
	slices.SortFunc(all, func(a, b store.Statement) int {
		return cmp.Or(cmp.Compare(b.Until, a.Until), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Scope, b.Scope))
	})
	first, rest, seen := all[:0:0], all[:0:0], make(map[[2]string]bool)
	for _, s := range all {
		if k := [2]string{s.Policy, s.Name}; seen[k] {
			rest = append(rest, s)
		} else {
			seen[k], first = true, append(first, s)
		}
	}
	return append(first, rest...)[:min(n, len(all))]
}

// isFirst reports whether it is called about an allowance for the first time.
func (m *Memory) isFirst(k store.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.keys[k]
	if !known.allowance {
		known.allowance = true
		m.keep(k, known)
		return true
	}
	return false
}

// isNews reports whether to send a value of a key to the store: it has another one, or received it longer ago.
func (m *Memory) isNews(k store.Key, value int64, now time.Time, ago time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.keys[k]
	if value == known.value && (value == 0 || now.Sub(known.at) < ago) {
		return false
	}
	known.value, known.at = value, now
	m.keep(k, known)
	return true
}

// keep remembers what the store received of a key. The caller holds mu.
func (m *Memory) keep(k store.Key, s sent) {
	if m.keys == nil || len(m.keys) >= maxKeys {
		m.keys = make(map[store.Key]sent) // those that are forgotten cost a note
	}
	m.keys[k] = s
}
