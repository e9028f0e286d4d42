package transport_test

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/headway-go/headway/transport/upstreamtest"
)

// stating is an upstream that limits calls, and states what is left. A call takes 10 ms and exp(15 ms) each way.
type stating struct {
	upstreamtest.Upstream

	every      int           // how many good replies one reading comes with; 0: only refusals have one
	before     bool          // readings do not count the call that they answer
	form       string        // of the reset: one of forms
	next       time.Duration // how often a bucket gets a token that states when it gets the next one; 0: it states when it is full
	retryAfter bool
	slow       string                                        // a fifth of all calls takes 2 s more: on the "net" before they are counted, in the "proc"ess after it
	zero       bool                                          // refusals request a wait of 0 s
	ahead      time.Duration                                 // of its clock
	says       func(h http.Header, reply upstreamtest.Reply) // in place of what is left

	replies int
	mu      sync.Mutex
	rng     *rand.Rand
}

// forms are those of a reset: "ceil" and "floor" are seconds from now, "epoch" and "date" an instant.
var forms = map[string]func(at, now time.Time) string{
	"ceil": upstreamtest.Seconds, "epoch": upstreamtest.Unix, "ms": upstreamtest.Duration,
	"floor": func(at, now time.Time) string { return strconv.Itoa(int(at.Sub(now).Seconds())) },
	"date":  func(at, _ time.Time) string { return at.Add(time.Second - 1).UTC().Format(http.TimeFormat) },
}

// open returns the upstream with limits, and with draws of how long calls take.
func (s *stating) open(rng *rand.Rand, limits ...upstreamtest.Limit) *stating {
	s.rng, s.Limits, s.State = rng, limits, s.state
	s.Now = func() time.Time { return time.Now().Add(s.ahead) }
	s.Delay = func() time.Duration {
		s.mu.Lock()
		defer s.mu.Unlock()
		return 10*ms + time.Duration(s.rng.ExpFloat64()*15)*ms
	}
	s.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.dawdle("proc") })
	s.Refuse = func(w http.ResponseWriter, r *http.Request, wait time.Duration) {
		if s.zero {
			w.Header().Set("Retry-After", "0")
		}
		if !s.retryAfter {
			wait = 0
		}
		upstreamtest.Refusal(http.StatusTooManyRequests, wait).ServeHTTP(w, r)
	}
	return s
}

func (s *stating) RoundTrip(req *http.Request) (*http.Response, error) {
	s.dawdle("net")
	return s.Upstream.RoundTrip(req)
}

// dawdle takes the time of a slow call.
func (s *stating) dawdle(where string) {
	s.mu.Lock()
	slow := s.slow == where && s.rng.Float64() < 0.2
	s.mu.Unlock()
	if slow {
		time.Sleep(2 * time.Second) //realtime: in a bubble, as all of it
	}
}

func (s *stating) state(h http.Header, r upstreamtest.Reply) {
	tight := r.Tightest()
	s.replies++
	switch {
	case r.Admitted && (s.every == 0 || s.replies%s.every > 0), !r.Admitted && tight.Remaining > 0: // too many at once: it states nothing
		return
	case s.says != nil:
		s.says(h, r)
		return
	case s.before && r.Admitted:
		tight.Remaining++
	}
	if wait := tight.Reset.Sub(r.Now); s.next > 0 && wait > 0 {
		tight.Reset = r.Now.Add((wait-1)%s.next + 1)
	}
	r.Limits = []upstreamtest.State{tight}
	upstreamtest.Fields("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", forms[s.form])(h, r)
}

// came returns when the calls came that were admitted, or those that were not.
func (s *stating) came(admitted bool) (all []time.Time) {
	for _, c := range s.Calls() {
		if c.Admitted == admitted {
			all = append(all, c.At.Add(-s.ahead))
		}
	}
	return all
}

// used returns how many calls were admitted from one instant on and before another.
func (s *stating) used(from, to time.Time) (n int) {
	for _, at := range s.came(true) {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}
