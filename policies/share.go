package policies

import "time"

// maxShares is into how many shares a policy is cut at most: it keeps sums below 2^63.
const maxShares = 10_000

// Share returns what one of n processes may do by itself so that all of them together keep the policy, in the store's
// units: for a fleet that cannot ask its store. A policy with fewer calls per period than n, or a burst below n, cannot be
// cut so finely: each process then has one call, and a rate makes it wait n/limit periods for the next. Of an in-flight
// policy with fewer permits than processes there is nothing: 0. It is meaningful only for a valid policy.
func (p Policy) Share(n int) Spec {
	if n <= 1 {
		return p.Spec()
	}
	parts := int64(min(n, maxShares))
	s := p.Spec()
	switch {
	case s.Algorithm == Concurrency:
		s.Limit /= parts
		return s
	case s.Algorithm == Window:
		s.Limit = max(1, s.Limit/parts)
	case p.shape == shapeAtMost && p.percent == 0 && p.limit >= parts:
		// In any period each process has limit/n calls at most, wherever the period begins.
		p.burst = max(1, p.bursts()/parts)
		s = p.Lowered(p.limit / parts).Spec()
	default:
		s.Limit = max(1, s.Limit/parts)
		s.Interval *= parts
		if p.shape == shapeAtMost && p.percent == 0 {
			s.Most, s.Within = 0, 0 // with a burst of 1 the interval does
			s.Interval = ceilDiv(ceilDiv(int64(p.period+p.skewOr(DefaultSkew)), int64(time.Microsecond))*parts, p.limit)
		}
	}
	s.Interval = min(s.Interval, MaxPeriod.Microseconds())
	return s
}
