package transport_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A counter is one limit of an upstream.
type counter interface {
	limit() int
	left(now time.Time) int
	take(now time.Time)
	reset(now time.Time) time.Time // as it reports it
	free(now time.Time) time.Time  // from when on it admits a call, if none is left
}

// fixedCounter counts in windows: of the clock, or each from the first call on.
type fixedCounter struct {
	most   int
	period time.Duration
	first  bool

	used int
	end  time.Time // zero: no call came yet
}

func (c *fixedCounter) limit() int { return c.most }

func (c *fixedCounter) left(now time.Time) int {
	if !now.Before(c.end) {
		c.used, c.end = 0, time.Time{}
		if !c.first {
			c.end = now.Truncate(c.period).Add(c.period)
		}
	}
	return c.most - c.used
}

func (c *fixedCounter) take(now time.Time) {
	c.left(now)
	if c.end.IsZero() {
		c.end = now.Add(c.period)
	}
	c.used++
}

func (c *fixedCounter) reset(now time.Time) time.Time {
	if c.left(now); c.end.IsZero() {
		return now.Add(c.period)
	}
	return c.end
}

func (c *fixedCounter) free(now time.Time) time.Time { return c.reset(now) }

// logCounter admits a number of calls in any window of a period. It reports when the oldest call counts no more.
type logCounter struct {
	most   int
	period time.Duration
	calls  []time.Time
}

func (c *logCounter) limit() int { return c.most }

func (c *logCounter) left(now time.Time) int {
	for len(c.calls) > 0 && !c.calls[0].After(now.Add(-c.period)) {
		c.calls = c.calls[1:]
	}
	return c.most - len(c.calls)
}

func (c *logCounter) take(now time.Time) { c.calls = append(c.calls, now) }

func (c *logCounter) reset(now time.Time) time.Time {
	if c.left(now); len(c.calls) == 0 {
		return now
	}
	return c.calls[0].Add(c.period)
}

func (c *logCounter) free(now time.Time) time.Time { return c.reset(now) }

// bucketCounter holds up to size tokens, and one more each step. It reports when it is full, or only when it has one token more.
type bucketCounter struct {
	size int
	step time.Duration
	next bool

	missing time.Duration // until it is full
	at      time.Time
}

func (c *bucketCounter) limit() int { return c.size }

func (c *bucketCounter) left(now time.Time) int {
	c.missing, c.at = max(0, c.missing-now.Sub(c.at)), now
	return c.size - int((c.missing+c.step-1)/c.step)
}

func (c *bucketCounter) take(now time.Time) {
	c.left(now)
	c.missing += c.step
}

func (c *bucketCounter) reset(now time.Time) time.Time {
	if c.left(now); c.next && c.missing > 0 {
		return c.free(now)
	}
	return now.Add(c.missing)
}

func (c *bucketCounter) free(now time.Time) time.Time { return now.Add((c.missing-1)%c.step + 1) }

// stating is an upstream that limits calls, and states what is left. Others spend some of it. A call takes 10 ms and exp(15 ms) each way.
type stating struct {
	counters   []counter // the fullest of which is reported
	every      int       // how many good replies one reading comes with; 0: only refusals have one
	before     bool      // readings do not count the call that they answer
	form       string    // of the reset: "ceil" and "floor" are seconds from now, "epoch" and "date" an instant, "ms" milliseconds from now
	retryAfter bool
	slow       string                                   // a fifth of all calls takes 2 s more: on the "net" before they are counted, in the "proc"ess after it
	others     []time.Time                              // when others will call
	atOnce     int                                      // it refuses calls beyond so many at once, without details; 0: none
	zero       bool                                     // it requests a wait of 0 s
	says       func(s *stating, now time.Time) []string // in place of what is left

	mu                      sync.Mutex
	rng                     *rand.Rand
	replies, running        int
	admitted, taken, denied []time.Time // calls of ours, of others, and of ours that were refused
}

func (s *stating) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	there, back := s.way(), s.way()
	if s.slow == "net" && s.rng.Float64() < 0.2 {
		there += 2 * time.Second
	}
	works := s.slow == "proc" && s.rng.Float64() < 0.2
	s.mu.Unlock()
	time.Sleep(there) //realtime: in a bubble, as all of it
	good, header := s.answer(time.Now())
	defer func() {
		time.Sleep(back) //realtime: as above
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	}()
	if !good {
		return reply(req, http.StatusTooManyRequests, "", header...), nil
	}
	if works {
		time.Sleep(2 * time.Second) //realtime: as above
	}
	return reply(req, http.StatusOK, "ok", header...), nil
}

func (s *stating) way() time.Duration {
	return 10*time.Millisecond + time.Duration(s.rng.ExpFloat64()*15)*time.Millisecond
}

// answer counts a call, and returns whether it is admitted, and the header of the reply.
func (s *stating) answer(now time.Time) (good bool, header []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.others) > 0 && !s.others[0].After(now) {
		if s.take(s.others[0]) {
			s.taken = append(s.taken, s.others[0])
		}
		s.others = s.others[1:]
	}
	if s.running++; s.atOnce > 0 && s.running > s.atOnce {
		s.denied = append(s.denied, now)
		return false, nil
	}
	var tight counter
	left, share := 0, math.Inf(1)
	for _, c := range s.counters {
		n := c.left(now)
		if part := float64(n) / float64(c.limit()); part < share {
			tight, left, share = c, n, part
		}
	}
	if good = s.take(now); good {
		s.admitted = append(s.admitted, now)
	} else {
		s.denied = append(s.denied, now)
	}
	s.replies++
	header = []string{"Date", now.UTC().Format(http.TimeFormat)}
	if !good && s.retryAfter {
		header = append(header, "Retry-After", strconv.Itoa(int(math.Ceil(tight.free(now).Sub(now).Seconds()))))
	}
	if !good && s.zero {
		header = append(header, "Retry-After", "0")
	}
	if good && (s.every == 0 || s.replies%s.every > 0) {
		return good, header
	}
	if s.says != nil {
		return good, append(header, s.says(s, now)...)
	}
	if !s.before {
		left = tight.left(now)
	}
	return good, append(header, "X-RateLimit-Limit", strconv.Itoa(tight.limit()), "X-RateLimit-Remaining", strconv.Itoa(left),
		"X-RateLimit-Reset", s.states(tight.reset(now), now))
}

// take counts a call if it is admitted.
func (s *stating) take(now time.Time) bool {
	for _, c := range s.counters {
		if c.left(now) <= 0 {
			return false
		}
	}
	for _, c := range s.counters {
		c.take(now)
	}
	return true
}

// states returns an instant in the form of the upstream.
func (s *stating) states(at, now time.Time) string {
	d := at.Sub(now)
	switch s.form {
	case "ceil":
		return strconv.Itoa(int(math.Ceil(d.Seconds())))
	case "floor":
		return strconv.Itoa(int(d.Seconds()))
	case "epoch":
		return strconv.FormatInt(at.Add(time.Second-1).Unix(), 10)
	case "date":
		return at.Add(time.Second - 1).UTC().Format(http.TimeFormat)
	case "ms":
		return fmt.Sprintf("%dms", (d+time.Millisecond-1)/time.Millisecond)
	}
	panic(s.form)
}
