package policies

import (
	"slices"
	"strconv"
)

// Reserve returns a copy of which a percentage, from 1 to 100, is kept for a party: the calls that name it with pacer.Lane.
// The others get none of that, until the party has used it or the last quarter of the window begins: from then on it is let go evenly, so that
// nothing is lost at the end. The party may use more than that, as everybody may. Calls that name no party have what is not reserved. It is for
// Fixed and calendar windows: a desk that works from 9 to 17 finds its part of a daily quota, whatever a batch job has done at night.
//
// The part kept for a party is a policy of its own, named after both ("daily.support"). All of them together keep 100 per cent at most.
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
	case p.shape != shapeFixed && p.shape != shapeCalendar:
		return p.mistake("Reserve", strconv.Quote(party), "only Fixed and calendar windows keep parts: give a rate a Lane for what must wait, or make it Fair")
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

// floor returns what is kept of the policy for a party that has so many per cent, as InLane makes it.
func (p Policy) floor(percent int64) Policy {
	p = p.Reserve("party", percent)
	p.lanes, p.percent, p.kept = nil, percent, true
	return p
}
