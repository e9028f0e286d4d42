package stacks

import (
	"fmt"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// A bound is one limit by its definition in the documentation of package policies. Without code of the engine, it computes how many calls
// any schedule could send, and whether the calls that went were allowed.
type bound struct {
	kind      boundKind
	n         int64
	period    time.Duration
	burst     int64         // of rates; 0: not given
	skew      time.Duration // not of rates
	buckets   int64         // of sliding windows
	takes     time.Duration // what a call takes that has a permit
	perTenant bool

	shared bool // calls of different tenants share it, and another limit of the stack is one for each tenant
	beside bool // another limit of the stack is one on calls in flight
}

type boundKind uint8

const (
	evenly  boundKind = iota // policies.Rate
	atMost                   // policies.AtMost
	sliding                  // policies.Sliding
	fixed                    // policies.Fixed
	permits                  // policies.InFlight
)

// policy returns the limit as a program declares it.
func (b *bound) policy(i int) policies.Policy {
	var p policies.Policy
	switch b.kind {
	case evenly:
		p = policies.Rate(b.n, b.period)
	case atMost:
		p = policies.AtMost(b.n, b.period).Skew(b.skew)
	case sliding:
		p = policies.Sliding(b.n, b.period).Buckets(b.buckets).Skew(b.skew)
	case fixed:
		p = policies.Fixed(b.n, b.period).Skew(b.skew)
	case permits:
		p = policies.InFlight(b.n).Skew(b.skew)
	}
	if b.burst > 0 {
		p = p.Burst(b.burst)
	}
	if b.perTenant {
		p = p.Per("tenant")
	}
	return p.Named(fmt.Sprint("limit-", i))
}

// bursts returns the burst of a rate. The default is one, and two for a rate that calls of different tenants share, and for a plain rate of
// two or more calls per period beside a limit on calls in flight.
func (b *bound) bursts() int64 {
	switch {
	case b.burst > 0:
		return b.burst
	case b.shared && b.kind == atMost:
		return min(2, b.n)
	case b.shared, b.beside && b.kind == evenly && b.n > 1:
		return 2
	}
	return 1
}

// within is the time from a call to the n-th after it, if windows are strict.
func (b *bound) within() int64 { return (b.period + b.skew).Microseconds() }

// interval is the time between two calls in the long run, in µs and rounded up.
func (b *bound) interval() int64 {
	switch {
	case b.kind == permits:
		return up((b.takes + b.skew).Microseconds(), b.n)
	case b.kind == sliding:
		return up(up(b.within(), b.buckets)*(b.buckets+1), b.n)
	case b.kind == atMost && b.bursts() > 1 && b.n > specs.MaxExact:
		return up(b.within(), b.n-b.bursts()+1)
	case b.kind == atMost:
		return up(b.within(), b.n)
	}
	return up(b.period.Microseconds(), b.n)
}

func up(a, b int64) int64 { return (a + b - 1) / b }
