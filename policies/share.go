package policies

import (
	"time"

	"github.com/headway-go/headway/policies/specs"
)

// maxShares is the most shares of a policy: it keeps sums below 2^63.
const maxShares = 10_000

// Share returns the part of the policy that one of n processes may use so that all of them together keep it, in the store's units. It is
// for processes that cannot reach their store. If the limit per period or the burst is below n, each process gets one call, and with a rate
// waits n/limit periods for the next. If an in-flight policy has fewer permits than there are processes, each process gets 0. The result is
// meaningful only if the policy is valid.
func (p Policy) Share(n int) specs.Spec {
	if n <= 1 {
		return p.Spec()
	}
	parts := int64(min(n, maxShares))
	s := p.Spec()
	switch {
	case s.Algorithm == specs.Concurrency:
		s.Limit /= parts
		return s
	case s.Algorithm == specs.Window:
		s.Limit = max(1, s.Limit/parts)
		s.Floor /= parts
		if s.Ahead > 0 {
			s.Ahead = max(1, s.Ahead/parts)
		}
		if p.kept {
			s.Floor = max(1, s.Floor)
		}
	case p.shape == shapeAtMost && p.percent == 0 && p.limit >= parts:
		// In any period each process has limit/n calls at most, wherever the period begins.
		p.burst = max(1, p.bursts()/parts)
		s = p.Lowered(p.limit / parts).Spec()
	default:
		s.Limit = max(1, s.Limit/parts)
		s.Interval *= parts
		if p.shape == shapeAtMost && p.percent == 0 {
			s.Most, s.Within = 0, 0 // with a burst of 1, the interval is enough
			s.Interval = ceilDiv(ceilDiv(int64(p.period+p.skewOr(defaultSkew)), int64(time.Microsecond))*parts, p.limit)
		}
	}
	s.Interval, s.Share = min(s.Interval, specs.MaxPeriod.Microseconds()), s.Algorithm == specs.GCRA
	return s
}
