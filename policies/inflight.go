package policies

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/headway-go/headway/policies/specs"
)

// defaultLease is how long a permit of [InFlight] stays taken after its last renewal, unless [Policy.Lease] sets another duration. A
// running process renews it after each third of this time, so a lease does not bound how long a call may take, only how long the permits of
// a killed process stay unused.
const defaultLease = 15 * time.Second

// Bounds of a lease.
const (
	minLease = time.Second
	maxLease = time.Hour
)

// InFlight lets at most n calls run at once. A call takes a permit when it starts, together with its slots, and holds it until it is over.
// If all permits are taken, it is queued, in order: it holds no slot of any rate meanwhile, and is woken when its turn comes.
//
// A permit is a lease, so a crash loses none for good: see [Policy.Lease]. A call takes one permit, whatever it costs. Calls of
// pacer.Pacer.Wait are never released: they keep their permits until the leases run out.
//
// InFlight(25) and PerSecond(50) in one stack send up to 50 calls a second while no more than 25 of them run.
func InFlight(n int64) Policy {
	return Policy{shape: shapeInFlight, limit: n, lease: defaultLease, skew: notSet}
}

// Lease returns a copy of an in-flight policy whose permits are free again this long after their last renewal, from one second to an hour.
// Defaults to 15 s.
func (p Policy) Lease(d time.Duration) Policy {
	p.lease = d
	switch {
	case p.shape != shapeInFlight:
		return p.mistake("Lease", d.String(), "only InFlight has leases")
	case d < minLease || d > maxLease:
		return p.mistake("Lease", d.String(), "must be from one second to an hour")
	}
	return p
}

// LongerThan returns a copy of an in-flight policy that counts a call only once it has run for d. It is for upstreams that admit any number
// of short calls, and refuse new ones while too many long ones run. More than n calls may become long at once; but no call starts while n
// long calls run. Defaults to 0: every call counts from the start.
//
// InFlight(25).LongerThan(20 * time.Second) is the limit of a Salesforce org.
func (p Policy) LongerThan(d time.Duration) Policy {
	p.longer = d
	switch {
	case p.shape != shapeInFlight:
		return p.mistake("LongerThan", d.String(), "only InFlight counts calls by how long they run")
	case d < 0 || d > maxLease:
		return p.mistake("LongerThan", d.String(), "must be from 0 to an hour")
	}
	return p
}

// maxLanes is the most lanes of a policy.
const maxLanes = 16

// lane is the part of a policy to which some calls are limited, or that is kept for them.
type lane struct {
	name    string
	percent int64
	kept    bool
}

// Lane returns a copy in which a lane's calls may use only the given percentage, from 1 to 100. The rest is kept free for other lanes and
// for calls without a lane, which may use all of it. Call Lane once for each lane. Set the lane of a call with pacer.Lane. A lane's part is
// a policy of its own, named after both ("peak.batch"), which binds calls of that lane in addition to this one.
//
// Calls in a lane of a rate queue, and get their slots shortly before they start, so that other calls, which get their slots at once, need
// not wait behind them. They may also use slots that others leave, at the last moment before these would be lost. A lane of a window never
// uses more than its part, because a spent quota does not return.
//
// The slots that a lane leaves free are usable only if the rate has a burst of at least 2, the default of a rate with lanes and two calls
// or more per period. Set the burst of [Every].
//
// PerSecond(100).Burst(10).Lane("batch", 80) keeps 20 a second for other work than the batch. Daily(100_000, time.UTC).Lane("batch", 80)
// keeps 20,000 a day.
func (p Policy) Lane(name string, percent int64) Policy {
	for _, l := range p.lanes {
		if l.name == name {
			return p.mistake("Lane", strconv.Quote(name), "has a share already: leave one of them out")
		}
	}
	p.lanes = append(slices.Clip(p.lanes), lane{name: name, percent: percent})
	switch {
	case p.shape == shapeInFlight:
		return p.mistake("Lane", strconv.Quote(name), "an in-flight policy has no lanes: give some of the calls an InFlight of their own, Per a scope that is Optional")
	case !ValidName(name):
		return p.mistake("Lane", strconv.Quote(name), "must start with a letter or digit and have at most 64 letters, digits, '.', '_' or '-'")
	case percent < 1 || percent > 100:
		return p.mistake("Lane "+name, strconv.FormatInt(percent, 10)+" %", "must be from 1 to 100 per cent of the policy")
	case len(p.lanes) > maxLanes:
		return p.mistake("Lane", strconv.Quote(name), "is one too many: a policy has at most "+strconv.Itoa(maxLanes)+" lanes")
	}
	return p
}

// Lanes returns the names of the policy's lanes, in the order given.
func (p Policy) Lanes() []string {
	names := make([]string, 0, len(p.lanes))
	for _, l := range p.lanes {
		names = append(names, l.name)
	}
	return names
}

// InLane returns the policy that also binds the calls of a lane, or false if there is none, because p does not name the lane or lets it use
// everything.
func (p Policy) InLane(name string) (Policy, bool) {
	for _, l := range p.lanes {
		if l.name == name && (l.kept && !p.isRate() && p.shape != shapeInFlight || !l.kept && l.percent < 100) {
			part := p
			part.name, part.lanes, part.percent, part.kept = p.Name()+"."+name, nil, l.percent, l.kept
			return part, true
		}
	}
	return Policy{}, false
}

// part returns a lane's part of the policy, by its per cent, as InLane makes it.
func (p Policy) part(percent int64) Policy {
	p.percent = percent
	switch {
	case p.shape == shapeInFlight:
		return p.mistake("Lane", strconv.FormatInt(percent, 10)+" % of it", "an in-flight policy has no lanes")
	case percent < 1 || percent > 99:
		return p.mistake("Lane", strconv.FormatInt(percent, 10)+" % of it", "must be from 1 to 99 per cent: leave it out for all of it")
	}
	return p
}

// checkLanes checks that lanes can work as intended.
func (p Policy) checkLanes() *Error {
	for _, l := range p.lanes {
		part, ok := p.InLane(l.name)
		if !ok {
			continue
		}
		field := "Lane " + l.name
		switch {
		case p.isRate() && p.bursts() < 2:
			return &Error{Field: field, Value: "a part of a rate with a burst of 1", Reason: "what a lane leaves free can only be used with a burst of 2 or more: make it Burst(2), or leave the lane out"}
		case l.kept:
		case !p.isRate() && part.limit*l.percent/100 < 1:
			return &Error{Field: field, Value: strconv.FormatInt(l.percent, 10) + " %", Reason: "is less than one call: raise the limit or the share"}
		case part.Spec().Interval > specs.MaxPeriod.Microseconds():
			return &Error{Field: field, Value: strconv.FormatInt(l.percent, 10) + " %", Reason: fmt.Sprintf("leaves more than %s (ten years) between two calls", specs.MaxPeriod)}
		case !ValidName(part.name):
			return &Error{Field: field, Value: strconv.Quote(part.name), Reason: "is too long a name for a policy: name the policy or the lane more briefly"}
		}
		if err := part.checkOwn(); err != nil {
			err.Field += " of lane " + l.name
			return err
		}
	}
	return nil
}

// cut returns a lane's part of a spec.
func (p Policy) cut(s specs.Spec) specs.Spec {
	if p.percent == 0 {
		return s
	}
	s.Ahead = 0 // the whole has a pace
	if p.kept {
		s.Floor = max(1, s.Limit/100*p.percent+s.Limit%100*p.percent/100)
		return s
	}
	if s.Algorithm == specs.Window {
		s.Limit = max(1, s.Limit/100*p.percent+s.Limit%100*p.percent/100)
		return s
	}
	s.Queue = specs.QueueOfLane
	s.Most, s.Within = 0, 0 // the whole keeps its windows
	s.Limit = max(1, s.Limit*p.percent/100)
	s.Interval = ceilDiv(s.Interval*100, p.percent)
	return s
}

// Fair returns a copy of a rate or an in-flight policy that is divided equally among the values of a scope, such as the tenants, no matter
// which of them calls first or how much. pacer.Weight gives some more. A tenant leaves to the others what it does not need, and a single
// tenant may use everything: this is weighted max-min fairness.
//
// While calls queue, the next slot goes to the first call by start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996): while two
// tenants both have queued calls, what each gets in proportion to its weight differs by no more than one call of each, plus the calls that
// have just got a slot. Of permits, it is the time for which calls have them that is divided: a process assumes what is usual for the tenant,
// and the tenant's next call makes up the difference. A call that finds no queue starts at once. Calls must carry the scope.
func (p Policy) Fair(scope string) Policy {
	p.fair = scope
	switch {
	case !p.isRate() && p.shape != shapeInFlight:
		return p.mistake("Fair", strconv.Quote(scope), "only rates and InFlight are shared out: stack a fair rate with the window")
	case !ValidName(scope):
		return p.mistake("Fair", strconv.Quote(scope), "must be the name of a scope")
	}
	return p
}

// FairBy returns the scope among whose values the policy is divided; "" if it serves calls in order of arrival. For a rate or InFlight with
// parts for parties ([Policy.Reserve]) that is [specs.PartyScope].
func (p Policy) FairBy() string {
	if p.fair == "" && (p.isRate() || p.shape == shapeInFlight) && slices.ContainsFunc(p.lanes, func(l lane) bool { return l.kept }) {
		return specs.PartyScope
	}
	return p.fair
}

// Weight returns the weight of a party in a policy that is fair by [specs.PartyScope]: its part in tenths of a per cent. For any other
// name, such as "", it returns the weight of calls without a party.
func (p Policy) Weight(party string) int64 {
	rest := int64(100)
	for _, l := range p.lanes {
		if l.kept && l.name == party {
			return 10 * l.percent
		}
		if l.kept {
			rest -= l.percent
		}
	}
	return max(1, 10*rest)
}

func (p Policy) isRate() bool { return p.shape == shapeRate || p.shape == shapeAtMost }
