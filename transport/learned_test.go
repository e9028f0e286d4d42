package transport_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
)

// A meter is one limit of an upstream.
type meter interface {
	limit() int
	left(now time.Time) int
	take(now time.Time)
	reset(now time.Time) time.Time // as it reports it
}

// windowMeter counts in windows: of the clock, or each from the first call on.
type windowMeter struct {
	most   int
	period time.Duration
	first  bool

	used int
	end  time.Time // zero: no call came yet
}

func (c *windowMeter) limit() int { return c.most }

func (c *windowMeter) left(now time.Time) int {
	if !now.Before(c.end) {
		c.used, c.end = 0, time.Time{}
		if !c.first {
			c.end = now.Truncate(c.period).Add(c.period)
		}
	}
	return c.most - c.used
}

func (c *windowMeter) take(now time.Time) {
	c.left(now)
	if c.end.IsZero() {
		c.end = now.Add(c.period)
	}
	c.used++
}

func (c *windowMeter) reset(now time.Time) time.Time {
	if c.left(now); c.end.IsZero() {
		return now.Add(c.period)
	}
	return c.end
}

// logMeter admits a number of calls in any window of a period. It reports when the oldest call counts no more.
type logMeter struct {
	most   int
	period time.Duration
	calls  []time.Time
}

func (c *logMeter) limit() int { return c.most }

func (c *logMeter) left(now time.Time) int {
	for len(c.calls) > 0 && !c.calls[0].After(now.Add(-c.period)) {
		c.calls = c.calls[1:]
	}
	return c.most - len(c.calls)
}

func (c *logMeter) take(now time.Time) { c.calls = append(c.calls, now) }

func (c *logMeter) reset(now time.Time) time.Time {
	if c.left(now); len(c.calls) == 0 {
		return now
	}
	return c.calls[0].Add(c.period)
}

// bucketMeter holds up to size tokens, and one more each step. It reports when it is full.
type bucketMeter struct {
	size int
	step time.Duration

	missing time.Duration // until it is full
	at      time.Time
}

func (c *bucketMeter) limit() int { return c.size }

func (c *bucketMeter) left(now time.Time) int {
	c.missing, c.at = max(0, c.missing-now.Sub(c.at)), now
	return c.size - int((c.missing+c.step-1)/c.step)
}

func (c *bucketMeter) take(now time.Time) {
	c.left(now)
	c.missing += c.step
}

func (c *bucketMeter) reset(now time.Time) time.Time {
	c.left(now)
	return now.Add(c.missing)
}

// An unknown upstream has limits that nobody declares, and states the one of which least is left. A call takes 10 ms and exp(15 ms) each way.
type unknown struct {
	meters []meter
	every  int    // how many good replies one reading comes with
	form   string // of the reset: "ceil" and "floor" are seconds from now, "epoch" an instant, "ms" milliseconds from now

	mu               sync.Mutex
	rng              *rand.Rand
	replies          int
	admitted, denied []time.Time
}

func (u *unknown) RoundTrip(req *http.Request) (*http.Response, error) {
	u.mu.Lock()
	there, back := u.way(), u.way()
	u.mu.Unlock()
	time.Sleep(there)
	defer time.Sleep(back)
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	tight, share := u.meters[0], math.Inf(1)
	for _, m := range u.meters {
		if part := float64(m.left(now)) / float64(m.limit()); part < share {
			tight, share = m, part
		}
	}
	status := http.StatusTooManyRequests
	if share > 0 {
		status, u.admitted = http.StatusOK, append(u.admitted, now)
		for _, m := range u.meters {
			m.take(now)
		}
	} else {
		u.denied = append(u.denied, now)
	}
	if u.replies++; share > 0 && u.replies%u.every > 0 {
		return reply(req, status, ""), nil
	}
	return reply(req, status, "", "Date", now.UTC().Format(http.TimeFormat), "X-RateLimit-Limit", strconv.Itoa(tight.limit()),
		"X-RateLimit-Remaining", strconv.Itoa(tight.left(now)), "X-RateLimit-Reset", u.states(tight.reset(now), now)), nil
}

func (u *unknown) way() time.Duration {
	return 10*time.Millisecond + time.Duration(u.rng.ExpFloat64()*15)*time.Millisecond
}

// states returns an instant in the form of the upstream.
func (u *unknown) states(at, now time.Time) string {
	d := at.Sub(now)
	switch u.form {
	case "floor":
		return strconv.Itoa(int(d.Seconds()))
	case "epoch":
		return strconv.FormatInt(at.Add(time.Second-1).Unix(), 10)
	case "ms":
		return fmt.Sprintf("%dms", (d+time.Millisecond-1)/time.Millisecond)
	}
	return strconv.Itoa(int(math.Ceil(d.Seconds())))
}

// unlimited runs a fleet without policies until an instant: four processes with sixteen callers each.
func unlimited(t *testing.T, api http.RoundTripper, end time.Time) {
	t.Helper()
	shared := memstore.New()
	var all sync.WaitGroup
	for range 4 {
		p, err := pacer.New(pacer.Config{Upstream: "api", Store: shared, MaxWait: pacer.Forever})
		require.NoError(t, err)
		defer p.Close()
		client := newClient(t, p, api)
		for range 16 {
			all.Go(func() {
				for time.Now().Before(end) {
					resp, err := client.Get("http://api.example.com/")
					if err == nil {
						_ = resp.Body.Close()
					}
				}
			})
		}
	}
	all.Wait()
}

// A fleet without policies learns from replies what it may do: it uses nine tenths of each limit from the second window on, and next to no
// call is refused. Of two limits, replies state the one of which less is left.
func TestLimitsAreLearnedWithoutPolicies(t *testing.T) { //nolint:tparallel // what comes of all is counted
	t.Parallel()
	fixed := func(most int, period time.Duration) *windowMeter { return &windowMeter{most: most, period: period} }
	first := func(most int, period time.Duration) *windowMeter {
		return &windowMeter{most: most, period: period, first: true}
	}
	log := func(most int, period time.Duration) *logMeter { return &logMeter{most: most, period: period} }
	few := 0
	for name, u := range map[string]struct {
		meters []meter
		every  int
		form   string
		most   int // that a fleet can use in a window
		period time.Duration
	}{
		"by the clock":                       {[]meter{fixed(300, time.Minute)}, 1, "ceil", 300, time.Minute},
		"by the clock, an instant":           {[]meter{fixed(500, time.Hour)}, 1, "epoch", 500, time.Hour},
		"by the clock, each tenth":           {[]meter{fixed(400, 10*time.Minute)}, 10, "ceil", 400, 10 * time.Minute},
		"from the first call on":             {[]meter{first(300, time.Minute)}, 1, "floor", 300, time.Minute},
		"from the first call on, each tenth": {[]meter{first(500, time.Hour)}, 10, "epoch", 500, time.Hour},
		"sliding":                            {[]meter{log(200, 10*time.Second)}, 1, "ceil", 200, 10 * time.Second},
		"sliding, each tenth":                {[]meter{log(300, time.Minute)}, 10, "ceil", 300, time.Minute},
		"a bucket that says when it is full": {[]meter{&bucketMeter{size: 100, step: 200 * time.Millisecond}}, 1, "ms", 300, time.Minute},
		"two limits":                         {[]meter{log(50, 10*time.Second), fixed(200, time.Minute)}, 1, "ceil", 200, time.Minute},
		"two limits, an instant":             {[]meter{fixed(100, time.Minute), fixed(500, 10*time.Minute)}, 1, "epoch", 500, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC))) // an instant of the year 2000 is none
				api := &unknown{meters: u.meters, every: u.every, form: u.form, rng: rand.New(rand.NewPCG(4, 1))}
				const windows = 6
				from := time.Now()
				unlimited(t, api, from.Add(windows*u.period))
				used := make([]int, windows+1)
				for _, at := range api.admitted {
					used[min(windows, at.Sub(from)/u.period)]++
				}
				refused := float64(len(api.denied)) / windows
				t.Logf("used %v of %d, refused %.1f a window", used[:windows], u.most, refused)
				sum := 0
				for _, n := range used[1:windows] {
					sum += n
				}
				require.GreaterOrEqual(t, sum, 9*u.most*(windows-1)/10)
				require.LessOrEqual(t, refused, 10.0)
				if refused <= 3 {
					few++
				}
			})
		})
	}
	require.GreaterOrEqual(t, few, 8)
}
