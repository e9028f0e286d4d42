//go:build measure

package redisstore_test

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// strict is an upstream that enforces limits by itself: at most n calls in any window of a length, or in each
// window of the clock. Measurements are judged by what it refuses: it sees what machine and network make of the pace.
type strict struct {
	mu     sync.Mutex
	limits []strictLimit
	went   []time.Time
	no     int
}

type strictLimit struct {
	n         int
	period    time.Duration
	fixed     bool // windows of the clock
	perTenant bool
	seen      map[string][]time.Time
}

func (s *strict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i := range s.limits {
		l := &s.limits[i]
		if l.seen == nil {
			l.seen = make(map[string][]time.Time)
		}
		key := ""
		if l.perTenant {
			key = r.FormValue("tenant")
		}
		old := func(t time.Time) bool {
			if l.fixed {
				return t.UnixNano()/int64(l.period) != now.UnixNano()/int64(l.period)
			}
			return now.Sub(t) >= l.period
		}
		l.seen[key] = slices.DeleteFunc(l.seen[key], old)
		if len(l.seen[key]) >= l.n {
			s.no++
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
	}
	for i := range s.limits {
		l := &s.limits[i]
		key := ""
		if l.perTenant {
			key = r.FormValue("tenant")
		}
		l.seen[key] = append(l.seen[key], now)
	}
	s.went = append(s.went, now)
}

// rate returns how many calls a second it admitted, from the first to the last.
func (s *strict) rate() float64 {
	n := len(s.went)
	if n < 2 {
		return 0
	}
	return float64(n-1) / s.went[n-1].Sub(s.went[0]).Seconds()
}

// p99 sorts waits.
func p99(waits []time.Duration) time.Duration {
	slices.Sort(waits)
	if len(waits) == 0 {
		return 0
	}
	return waits[len(waits)*99/100]
}
