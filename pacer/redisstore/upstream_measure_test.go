//go:build measure

package redisstore_test

import (
	"slices"
	"time"

	"github.com/headway-go/headway/transport/upstreamtest"
)

// strict is an upstream that enforces limits by itself. Its refusals judge measurements: it sees the effect of machine and network on the
// pace.
type strict struct{ upstreamtest.Upstream }

func newStrict(limits ...upstreamtest.Limit) *strict {
	return &strict{upstreamtest.Upstream{Limits: limits}}
}

// came returns when the calls came that were admitted, or those that were not.
func (s *strict) came(admitted bool) (all []time.Time) {
	for _, c := range s.Calls() {
		if c.Admitted == admitted {
			all = append(all, c.At)
		}
	}
	return all
}

// rate returns how many calls a second it admitted, from the first to the last.
func (s *strict) rate() float64 {
	went := s.came(true)
	n := len(went)
	if n < 2 {
		return 0
	}
	return float64(n-1) / went[n-1].Sub(went[0]).Seconds()
}

// p99 sorts waits.
func p99(waits []time.Duration) time.Duration {
	slices.Sort(waits)
	if len(waits) == 0 {
		return 0
	}
	return waits[len(waits)*99/100]
}
