package simulate

import (
	"fmt"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// checkSize refuses a plan that would take too long.
func (p *Plan) checkSize(start time.Time) error {
	calls, most := p.estimate(store.Instant(start.UnixMicro()))
	if calls <= MaxCalls {
		return nil
	}
	return bad("for", p.For, fmt.Sprintf("about %.2g calls would be made in that time, and at most %.2g are simulated: make it %v or less, or lower the load of %q",
		calls, float64(MaxCalls), (time.Duration(float64(p.For)/calls*MaxCalls)).Truncate(time.Millisecond), most))
}

// estimate estimates the number of calls, and returns the load with most of them.
func (p *Plan) estimate(begin store.Instant) (calls float64, most string) {
	length, worked, highest := time.Duration(p.For).Seconds(), 0.0, -1.0
	for i := range p.Loads {
		l := &p.Loads[i]
		n := l.Rate * length
		if l.Rate == 0 {
			n = float64(l.Processes*l.Workers) * (length/time.Duration(l.CallTime+l.Think+p.StoreLatency).Seconds() + 1)
			worked += n
		} else {
			calls += n
		}
		if n > highest {
			highest, most = n, l.Name
		}
	}
	for i := range p.Policies { // workers wait for what binds all of them
		one := &p.Policies[i]
		if spec := one.Spec(); len(one.Scopes()) == 0 && spec.Algorithm != specs.Concurrency {
			worked = min(worked, capacity(one, begin, begin+p.For.micros())+float64(spec.Limit))
		}
	}
	return calls + worked, most
}

// capacity returns how much a policy admits between two instants: cost, or for permits the µs that calls may run.
func capacity(p *policies.Policy, begin, end store.Instant) float64 {
	spec := p.Spec()
	switch length := float64(end - begin); {
	case spec.Algorithm == specs.GCRA:
		return length / float64(spec.Interval)
	case spec.Algorithm == specs.Concurrency:
		return length * float64(spec.Limit)
	case spec.Buckets > 0:
		_, period := p.Limit()
		return float64(spec.Limit) * max(1, length/float64(period.Microseconds()))
	default:
		return float64(spec.Limit) * float64(windows(&spec, int64(begin), int64(end)))
	}
}

// windows counts the windows of the clock or of a calendar between two instants, in whole or in part.
func windows(spec *specs.Spec, begin, end int64) int64 {
	if spec.Calendar == nil {
		return (end-1)/spec.Interval - begin/spec.Interval + 1
	}
	n := int64(0)
	for t := begin; t < end; n++ {
		t = spec.Calendar.Bounds(t, t)[2] // the start of the next one
	}
	return n
}
