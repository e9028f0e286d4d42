package redisstore_test

import (
	"fmt"
	"slices"
	"time"
)

// An outing is a call of a fleet, as its process reports it. Instants are µs since the epoch, of the one clock that the server and all
// processes of a machine share.
type outing struct {
	Tenant      string
	Requested   int64 // when the process began to reserve it
	Granted     int64 // when the store granted it; 0 if its process granted it locally
	Slot, Slack int64 // from when on it may go, and for how long
	At          int64 // when it went
	Status      int   // what the upstream answered

	process int
}

// local reports whether the call's process granted it without the store.
func (o *outing) local() bool { return o.Granted == 0 }

// judged is when the call went, as far as Headway is responsible: anything beyond the slack is the machine's lateness.
func (o *outing) judged() int64 { return min(o.At, o.Slot+o.Slack) }

// A rule is what an upstream allows, by its definition. It shares no code with the engine.
type rule struct {
	name      string
	kind      ruleKind
	n         int64
	period    time.Duration
	burst     int64 // of a rate
	perTenant bool
}

type ruleKind uint8

const (
	anyWindow   ruleKind = iota // at most n in any window of the period's length, wherever it begins
	clockWindow                 // at most n in each window of the clock
	evenly                      // in any time of length w at most burst + w·n/period
)

// maxFindings bounds how many violations of a rule a referee names.
const maxFindings = 3

// breaches returns what of a rule some calls break.
func (r *rule) breaches(calls []outing) (found []string) {
	times := make(map[string][]int64)
	for i := range calls {
		tenant := ""
		if r.perTenant {
			tenant = calls[i].Tenant
		}
		times[tenant] = append(times[tenant], calls[i].judged())
	}
	for tenant, at := range times {
		slices.Sort(at)
		for i := range at {
			if last, n := r.fullest(at, i); n > 0 && len(found) < maxFindings {
				found = append(found, fmt.Sprintf("%s%s: %d calls from %d to %d µs", r.name, tenant, n, at[i], at[last]))
			}
		}
	}
	return found
}

// fullest returns how many calls from the i-th on are too many, and which is the first of these that should not have gone;
// 0 if there are none.
func (r *rule) fullest(at []int64, i int) (last int, n int64) {
	period := r.period.Microseconds()
	for j := i; j < len(at); j++ {
		n := int64(j - i + 1)
		passed := at[j] - at[i]
		switch r.kind {
		case anyWindow:
			if n <= r.n {
				continue
			} else if passed >= period {
				return 0, 0
			}
		case clockWindow:
			if at[j]/period != at[i]/period {
				return 0, 0
			} else if n <= r.n {
				continue
			}
		case evenly:
			if (n-r.burst)*period <= passed*r.n {
				continue
			}
		}
		return j, n
	}
	return 0, 0
}

// share is what of a rule one process of a fleet may do locally.
func (r *rule) share() rule {
	own := *r
	own.name = "the share of " + r.name
	own.n = max(1, r.n/fleetSize)
	if r.kind == evenly {
		own.n, own.period, own.burst = r.n, r.period*fleetSize, max(1, r.burst/fleetSize)
	}
	return own
}

// early returns the calls that went before their slots.
func early(calls []outing) (found []string) {
	for i := range calls {
		if o := &calls[i]; o.At < o.Slot && len(found) < maxFindings {
			found = append(found, fmt.Sprintf("a call of process %d went %d µs before its slot", o.process, o.Slot-o.At))
		}
	}
	return found
}

// referee returns everything that is wrong with the calls of a fleet whose store kept its memory.
func referee(calls []outing, rules ...rule) []string {
	return refereeOfEpochs(calls, nil, rules...)
}

// refereeOfEpochs returns all faults of a fleet's calls. Its store lost its memory at these instants: its grants of an epoch conform by
// themselves, and so do each process's local grants.
func refereeOfEpochs(calls []outing, epochs []int64, rules ...rule) []string {
	found := early(calls)
	granted := make(map[int][]outing) // by epoch
	local := make(map[int][]outing)   // by process
	for _, o := range calls {
		if o.local() {
			local[o.process] = append(local[o.process], o)
			continue
		}
		epoch := 0
		for _, lost := range epochs {
			if o.Granted >= lost {
				epoch++
			}
		}
		granted[epoch] = append(granted[epoch], o)
	}
	for i := range rules {
		for _, of := range granted {
			found = append(found, rules[i].breaches(of)...)
		}
		own := rules[i].share()
		for _, of := range local {
			found = append(found, own.breaches(of)...)
		}
	}
	return found
}
