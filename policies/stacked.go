package policies

import "slices"

// sharedBurst is the default burst of a rate whose calls come at uneven times.
const sharedBurst = 2

// Stacked returns copies of the policies with the defaults that apply when they bind calls together. A rate of two or more calls per period
// without a [Policy.Burst] gets a burst of 2 if its slots come at uneven times, because a burst of 1 could not use gaps shorter than one
// interval:
//
//   - A rate (of [Rate], [AtMost] or a similar constructor) that calls of different keys share: another policy of the list is Per a scope
//     that this one lacks, or this one is [Policy.Fair] or has lanes.
//   - A rate other than AtMost, if the list has an [InFlight] policy: a call that waits for a permit starts when one comes back, rarely at
//     its slot.
//
// All other policies stay as they are. One call per period ([Every], PerSecond(1), AtMost(1, …)) stays one: two would be twice as many. The
// rule also applies to the numbers of an override ([Policy.For]).
//
// A burst of 2 also admits calls of a cost of 2. pacer.New stacks its policies. The text of a stacked policy states its burst, and so do
// headway check, headway set and headway status.
func Stacked(list []Policy) []Policy {
	stacked := slices.Clone(list)
	for i := range stacked {
		if p := &stacked[i]; p.sharedIn(list) || p.besidePermits(list) {
			*p = p.stacked()
			p.shared = p.overrides != nil
		}
	}
	return stacked
}

// stacked returns the policy with the default burst of a rate that calls of different keys share.
func (p Policy) stacked() Policy {
	if p.burst != 0 || p.limit < sharedBurst || !p.isRate() {
		return p
	}
	shared := p
	shared.burst = sharedBurst
	if p.checkOwn() == nil && shared.checkOwn() != nil { // a burst of 2 could take too long to become available again
		return p
	}
	return shared
}

// besidePermits reports whether the policy is a rate whose calls may also wait for permits.
func (p Policy) besidePermits(list []Policy) bool {
	return p.shape == shapeRate && slices.ContainsFunc(list, func(other Policy) bool {
		return other.shape == shapeInFlight && !other.observed
	})
}

// sharedIn reports whether calls of different keys share the policy in a list.
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
	}
	return min(sharedBurst, max(1, p.limit))
}
