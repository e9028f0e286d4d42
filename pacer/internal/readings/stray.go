package readings

import (
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Some refusals are stray: the call had its slot, but the network, or a late timer, brought it closer to the calls before it than it was
// sent. That is no reason for anybody else to wait. Each stray refusal makes the limit's margin a step wider, so that they become rare.
//
// The upstream does not state whether a refusal is stray. It is not if the profile knows better, or the upstream states how much is left,
// or requests a longer pause than the limit's period, as those do that punish; if the call was not granted by the store; or if it is not
// the only one within a period, which the store knows.

// A step is 8 ms, about what networks add, but neither too much nor too little for the period: of steps from 5 to 10 ms, it used most of a
// strict limit of 50 a second with no more than two refusals a minute (transport, TestTheMarginFindsItself).
const (
	usualStep    = 8 * time.Millisecond
	largestStep  = 60   // as a part of the period
	smallestStep = 1000 // as a part of the period
	// shortestPause is the shortest pause that an upstream can request in whole seconds.
	shortestPause = time.Second
	millionths    = 1_000_000
)

// Strays returns notes about the limits that may have refused a call without a fault of theirs: if none makes a difference in the store, no
// other refusal is near. None if that cannot be. It returns an [*UnboundError] as [Rules.Notes] does.
func (r *Rules) Strays(a *Answer, fs []policies.Feedback) (notes []store.Note, err error) {
	if !slices.ContainsFunc(fs, isRefusal) {
		return nil, nil
	}
	about, err := r.about(nil, a, fs)
	for i := range about {
		if !isRefusal(fs[i]) {
			continue
		}
		var stray bool
		if notes, stray = r.strays(notes, a, &fs[i], about[i]); !stray {
			return nil, nil
		}
	}
	return notes, err
}

func isRefusal(f policies.Feedback) bool { return f.Refused || f.Wait > 0 }

// strays adds notes about a refusal that may be a stray one; false if it cannot be.
func (r *Rules) strays(notes []store.Note, a *Answer, f *policies.Feedback, t targets) ([]store.Note, bool) {
	if _, counted := f.Left().Value(); counted || f.Certain || !f.Refused || a.Grant == nil || a.Grant.Local {
		return nil, false
	}
	limits := t.limits
	if !t.named {
		limits = r.tightest(a, t.within)
	}
	for _, i := range limits {
		policy := r.policies[a.Limits[i].Policy]
		most := policy.Margin()
		_, period := policy.Limit()
		if most == 0 || f.Wait > max(period, shortestPause) {
			return nil, false
		}
		notes = append(notes, store.Note{
			Kind: store.NoteStray, Limit: i, For: period, At: a.Grant.At, Value: share(step(period), period), Remaining: share(most, period),
		})
	}
	return notes, len(limits) > 0
}

// tightest returns which limit a refusal is likely about that names none: of those with a margin that are per a scope, the one that the
// call waited for, or else the one with the shortest period.
func (r *Rules) tightest(a *Answer, within string) []int {
	may := func(i int) bool {
		return i >= 0 && i < len(a.Limits) && r.policies[a.Limits[i].Policy].Margin() > 0 && r.isPer(&a.Limits[i], within)
	}
	if may(a.Grant.Binds) {
		return []int{a.Grant.Binds}
	}
	var best []int
	var shortest time.Duration
	for i := range a.Limits {
		if _, period := r.policies[a.Limits[i].Policy].Limit(); may(i) && (best == nil || period < shortest) {
			best, shortest = []int{i}, period
		}
	}
	return best
}

// step returns by how much a stray refusal raises the margin of a limit with a period.
func step(period time.Duration) time.Duration {
	return max(min(usualStep, period/largestStep), period/smallestStep)
}

// share returns a part of a period in millionths.
func share(part, period time.Duration) int64 { return int64(part) * millionths / int64(period) }
