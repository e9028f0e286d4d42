package dispatch

import (
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// A storeClock translates a store's time of decision to this machine's monotonic clock. A decision falls between the request and the answer.
// To be never early, one would count from the answer; but then a slow answer makes its call late, and brings it closer to the next. So the
// distance of the clocks that a fast answer showed still holds.
//
// The store's clock decides, in microseconds. The store answers how long to wait, and the process sleeps that long on its monotonic clock;
// its own time of day does not matter. All rounding is against the caller. Store time does not go back by more than a second, even if the
// store's clock does, while one process remembers: it goes on, a 64th slower, until the clock has caught up. If the clock goes forward,
// charges seem older: one more burst, and one more count of a window, may go.
type storeClock struct {
	mu    sync.Mutex
	base  time.Time     // by this machine
	epoch store.Instant // by the store
	ahead time.Duration // since base and epoch, this machine has counted more than the store by at most this
	at    time.Time     // when ahead was measured
}

// drift is how much slower than this machine's a store's clock may run, as a divisor: 500 ppm (RFC 5905, section 7.1,
// the tolerance of NTP).
const drift = 2000

// estimate returns about what the store's clock shows at a time; 0 if nothing is known of it.
func (c *storeClock) estimate(at time.Time) store.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return 0
	}
	return c.epoch + store.Instant((at.Sub(c.base) - c.ahead).Microseconds())
}

// latest returns the latest time at which the store's clock can have shown now, if it did so between began and
// answered.
func (c *storeClock) latest(now store.Instant, began, answered time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		c.base, c.epoch = answered, now
	}
	passed := now.Sub(c.epoch)
	most := answered.Sub(c.base) - passed
	ahead := c.ahead + answered.Sub(c.at)/drift
	if c.at.IsZero() || most <= ahead || ahead < began.Sub(c.base)-passed { // in the last case the store's clock has stepped
		c.ahead, c.at, ahead = most, answered, most
	}
	return c.base.Add(passed + ahead)
}
