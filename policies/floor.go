package policies

import (
	"slices"
	"strconv"
)

// Reserve returns a copy that keeps a percentage, from 1 to 100, for a party: the calls that name it with pacer.Lane. All parts add up to
// 100 per cent at most; calls in no party are one, whose part is the rest. Like everybody, a party may use more than its part.
//
// In a Fixed or calendar window, others get none of a party's part until the last quarter of the window begins: what it has not used is then
// released evenly to those who come first, so that nothing is lost at the end. If the party does not call for three whole windows in which
// others do, its part halves with each further one, to a 32nd, and is whole again in the window after its next call. A desk that works from
// 9 to 17 finds its part of a daily quota, whatever a batch job has done at night. The part is a policy of its own, named after both
// ("daily.support").
//
// A Sliding window spreads calls beyond their party's part evenly, except a fiftieth of the limit, and leaves two fiftieths free for calls
// within a part. A party that comes back has its part within a period, less what its own calls under way are estimated too high.
//
// A rate and InFlight keep nothing free, either. While calls of several parties wait, each party has its part, of a rate by its calls'
// costs. The others divide what it does not need by their own parts: see [Policy.Fair]. A party that comes back has its part of a rate
// within a second, and its part of the permits when calls of others have ended.
func (p Policy) Reserve(party string, percent int64) Policy {
	sum := percent
	for _, l := range p.lanes {
		if l.name == party {
			return p.mistake("Reserve", strconv.Quote(party), "has a part already: leave one of them out")
		}
		if l.kept {
			sum += l.percent
		}
	}
	p.lanes = append(slices.Clip(p.lanes), lane{party, percent, true})
	switch {
	case !ValidName(party):
		return p.mistake("Reserve", strconv.Quote(party), "must start with a letter or digit and have at most 64 letters, digits, '.', '_' or '-'")
	case percent < 1:
		return p.mistake("Reserve "+party, strconv.FormatInt(percent, 10)+" %", "must be from 1 to 100 per cent of the policy")
	case sum > 100:
		return p.mistake("Reserve "+party, strconv.FormatInt(percent, 10)+" %", "is too much: "+strconv.FormatInt(sum, 10)+" per cent are reserved with it")
	case len(p.lanes) > maxLanes:
		return p.mistake("Reserve", strconv.Quote(party), "is one too many: a policy has at most "+strconv.Itoa(maxLanes)+" parts")
	}
	return p
}

// frontPart divides the limit of a sliding window that keeps parts: so much may start ahead of its pace. With less, estimates that are too
// high leave some unused.
const frontPart = 50

// floor returns the policy of a party's part, by its per cent, as InLane makes it.
func (p Policy) floor(percent int64) Policy {
	p = p.Reserve("party", percent)
	p.lanes, p.percent, p.kept = nil, percent, true
	return p
}
