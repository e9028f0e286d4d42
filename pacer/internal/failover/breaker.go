package failover

import (
	"sync"
	"time"
)

// A breaker keeps requests from a store that has just failed: none is sent for probeEvery, then one at a time until one is answered.
type breaker struct {
	mu      sync.Mutex
	turn    int       // counts failures and recoveries: how requests that began before the last one end means nothing
	until   time.Time // none is sent before; zero while the store answers
	probing bool      // one is under way meanwhile
}

// allow returns the function by which a request reports how it ended, or nil if it is not to be sent.
func (b *breaker) allow() (done func(failed bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probing || time.Now().Before(b.until) {
		return nil
	}
	b.probing = !b.until.IsZero()
	turn := b.turn
	return func(failed bool) { b.ended(turn, failed) }
}

// now returns the turn in which a request begins.
func (b *breaker) now() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.turn
}

// ended notes how a request ended that began in a turn.
func (b *breaker) ended(turn int, failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case turn != b.turn:
	case failed:
		b.turn, b.until, b.probing = b.turn+1, time.Now().Add(probeEvery), false
	case b.probing:
		b.turn, b.until, b.probing = b.turn+1, time.Time{}, false
	}
}
