package feedback

import (
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// maxKeys bounds the keys that a process knows of.
const maxKeys = 1 << 16

// A Memory is which lower limits the store knows, and which allowances. Its zero value is ready, and it is safe for concurrent use.
type Memory struct {
	mu   sync.Mutex
	keys map[store.Key]sent
	said map[store.Key]bool
}

// sent is a lower limit, and when the store received it.
type sent struct {
	value int64 // 0 for none
	at    time.Time
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
