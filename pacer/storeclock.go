package pacer

import (
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// A storeClock tells when, by this machine's monotonic clock, a store decided. All that is known of one decision is that it
// fell between the question and the answer, and never early means to count from the answer. But a slow answer must not make
// its call late, and bring it closer to the next: clocks that showed their distance when an answer was fast have it still.
type storeClock struct {
	mu    sync.Mutex
	base  time.Time     // by this machine
	epoch store.Instant // by the store
	ahead time.Duration // since those, this machine has counted more than the store by at most this
	at    time.Time     // when that was known
}

// drift is how much slower than this machine's a store's clock may run, as a divisor: 500 ppm (RFC 5905, section 7.1, the
// tolerance of NTP).
const drift = 2000

// estimate returns what the store's clock says at a time, about; 0 if nothing is known of it.
func (c *storeClock) estimate(at time.Time) store.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return 0
	}
	return c.epoch + store.Instant((at.Sub(c.base) - c.ahead).Microseconds())
}

// latest returns the latest time at which the store's clock can have said now, if it did so between asked and answered.
func (c *storeClock) latest(now store.Instant, asked, answered time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		c.base, c.epoch = answered, now
	}
	passed := now.Sub(c.epoch)
	most := answered.Sub(c.base) - passed
	ahead := c.ahead + answered.Sub(c.at)/drift
	if c.at.IsZero() || most <= ahead || ahead < asked.Sub(c.base)-passed { // in the last case the store's clock has stepped
		c.ahead, c.at, ahead = most, answered, most
	}
	return c.base.Add(passed + ahead)
}
