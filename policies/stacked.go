package policies

import "slices"

// sharedBurst is the burst of a rate that calls of different keys share, unless one is given.
const sharedBurst = 2

// Stacked returns copies of the policies with the defaults that apply when they bind calls together. A rate (of [Rate], [AtMost] or a
// similar constructor) whose [Policy.Burst] was not set gets a burst of 2 if calls of different keys share it. That is so if another
// policy of the list is Per a scope that this one lacks, or if this one is [Policy.Fair] or has lanes. The slots of such calls come at
// uneven times, and with a burst of 1, gaps shorter than one interval could not be used. All other policies stay as they are: a rate that
// is not shared keeps its burst of 1, and so does AtMost(1, …).
//
// The same rule applies to the numbers that a key gets by an override ([Policy.For]).
//
// A burst of 2 also admits calls of a cost of 2. pacer.New stacks the policies that it is given.
func Stacked(list []Policy) []Policy {
	stacked := slices.Clone(list)
	for i := range stacked {
		if p := &stacked[i]; p.sharedIn(list) {
			*p = p.stacked()
			p.shared = p.overrides != nil
		}
	}
	return stacked
}

// stacked returns the policy with the burst that it has by default where calls of different keys share it.
func (p Policy) stacked() Policy {
	if p.burst != 0 || p.shape != shapeRate && p.shape != shapeAtMost {
		return p
	}
	shared := p
	if shared.burst = sharedBurst; p.shape == shapeAtMost {
		shared.burst = min(sharedBurst, p.limit)
	}
	if p.checkOwn() == nil && shared.checkOwn() != nil { // a burst of 2 could take too long to become available again
		return p
	}
	return shared
}

// sharedIn reports whether calls of different keys share the policy as part of a list.
func (p Policy) sharedIn(list []Policy) bool {
	if p.fair != "" || len(p.lanes) > 0 {
		return true
	}
	return slices.ContainsFunc(list, func(other Policy) bool {
		return slices.ContainsFunc(other.scopes, func(scope string) bool { return !slices.Contains(p.scopes, scope) })
	})
}

// bursts returns the burst of a rate, given or default.
func (p Policy) bursts() int64 {
	switch {
	case p.burst != 0:
		return p.burst
	case len(p.lanes) == 0 && p.percent == 0:
		return 1
	case p.shape == shapeAtMost:
		return min(sharedBurst, max(1, p.limit))
	}
	return sharedBurst
}
