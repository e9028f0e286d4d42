package feedback

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// maxKeys bounds the keys that a process knows of.
const maxKeys = 1 << 16

// A Memory is which lower limits the store knows, which allowances, and what replies stated. Its zero value is ready, and it is safe for concurrent use.
type Memory struct {
	mu   sync.Mutex
	keys map[store.Key]sent
	said map[store.Key]bool
	good good

	learned map[string]*store.Learned // by the names of allowances
}

// sent is a lower limit, and when the store received it.
type sent struct {
	value int64 // 0 for none
	at    time.Time
}

// good is the cost of calls that were admitted and answered well since the first slot, without a long break.
type good struct {
	first, last store.Instant
	cost        int64
}

// longBreak is after how long without a call the pace of calls before it says nothing of that after it.
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

// maxLearned bounds the limits that a process reports.
const maxLearned = 16

// learn notes what a reply states of a limit, by the name of its allowance.
func (m *Memory) learn(name string, f *policies.Feedback, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.learned[name]
	switch {
	case l != nil:
	case len(m.learned) >= maxLearned:
		return
	case m.learned == nil:
		m.learned = make(map[string]*store.Learned)
	}
	at := store.Instant(now.UnixMicro())
	if l == nil {
		l = &store.Learned{Policy: PolicyOf(name), Name: TagOf(name), Since: at}
		m.learned[name] = l
	}
	if limit, limited := f.Limit.Value(); limited {
		l.Limit = limit
	}
	if f.Window > 0 {
		l.Window = f.Window
	}
	if f.Reset <= longestStated {
		l.Reset = max(l.Reset, f.Reset)
	}
	l.Readings, l.Source, l.Last = l.Readings+1, f.Source, at
}

// Learned returns what replies stated, by limit.
func (m *Memory) Learned() []store.Learned {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.Grow([]store.Learned(nil), len(m.learned))
	for _, name := range slices.Sorted(maps.Keys(m.learned)) {
		all = append(all, *m.learned[name])
	}
	return all
}

// isNews reports whether the store is to receive a value of a key: it has another one, or received it longer ago.
func (m *Memory) isNews(k store.Key, value int64, now time.Time, ago time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.keys[k]; value == known.value && (value == 0 || now.Sub(known.at) < ago) {
		return false
	}
	if m.keys == nil || len(m.keys) >= maxKeys {
		m.keys = make(map[store.Key]sent) // those that are forgotten cost a note
	}
	m.keys[k] = sent{value, now}
	return true
}

// isFirst reports whether it is asked about an allowance for the first time.
func (m *Memory) isFirst(k store.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.said[k] {
		return false
	}
	if m.said == nil || len(m.said) >= maxKeys {
		m.said = make(map[store.Key]bool)
	}
	m.said[k] = true
	return true
}
