package observe

import (
	"github.com/headway-go/headway/pacer/store"
)

// Enter counts a running call, for a policy of calls in flight, and returns their number.
func (one *Observation) Enter(key store.Key) int64 {
	o := one.of
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running == nil {
		o.running = make(map[store.Key]int64)
	}
	o.running[key]++
	one.permits = append(one.permits, key)
	return o.running[key]
}

// Release counts a call as over.
func (one *Observation) Release() {
	if one == nil {
		return
	}
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	one.leave()
}

// leave is Release for a caller who holds mu.
func (one *Observation) leave() {
	for _, key := range one.permits {
		if one.of.running[key]--; one.of.running[key] <= 0 {
			delete(one.of.running, key)
		}
	}
	one.permits = nil
}
