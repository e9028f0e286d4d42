package telemetry

import (
	"sync"
	"time"
)

// A Throttle limits how often each subject is logged. It is safe for concurrent use.
type Throttle struct {
	Every time.Duration
	Most  int // subjects that are remembered; beyond that all are forgotten

	mu   sync.Mutex
	last map[string]time.Time
}

// May returns how long until a subject may be logged. If that is 0, the caller must log it now.
func (t *Throttle) May(subject string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if last, ok := t.last[subject]; ok {
		if since := now.Sub(last); 0 <= since && since < t.Every {
			return t.Every - since
		}
	}
	if t.last == nil || len(t.last) >= t.Most {
		t.last = make(map[string]time.Time)
	}
	t.last[subject] = now
	return 0
}
