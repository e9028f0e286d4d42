package readings

import (
	"maps"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

const (
	// enough is how many more rises of what is left there are at a change of a scope's value than without one, if its values are counted
	// apart, and unlikely how many times as often there is one at a change. As every reading is another chance to be wrong, doubt is how
	// many rises without a change are taken to be missing by chance: without any, those at changes are at least 16 by then, of as many
	// readings with a change as without.
	enough   = 5
	unlikely = 8
	doubt    = 2
	// maxSampled bounds the scopes that are sampled of a limit.
	maxSampled = 8
)

// sampled is the last reading of a limit that fits no policy, and what all its readings showed about each scope of the calls.
type sampled struct {
	left            int64
	answered, until store.Instant
	values          map[string]string
	shown           map[string]*shown
}

// shown is how many readings there were after one with the same value of a scope, and after one with another, and how many had more left.
type shown struct{ same, changed struct{ all, rose int64 } }

// add notes a reading after one with another value, or the same, and whether more was left.
func (e *shown) add(changed, rose bool) {
	of := &e.same
	if changed {
		of = &e.changed
	}
	if of.all++; rose {
		of.rose++
	}
}

// areApart reports whether values are counted apart: what is left rises when the value changes, and hardly ever when it does not, although it
// had the occasion.
func (e *shown) areApart() bool {
	return e.changed.rose >= e.same.rose+enough && e.changed.rose*e.same.all >= unlikely*(e.same.rose+doubt)*e.changed.all
}

// watch records what is left of an allowance without a policy after a call, and returns the scope by which the upstream counts its calls;
// "" if that is unknown. Readings of calls that were under way together show nothing, and neither do those after a reset.
func (m *Memory) watch(name string, a *Answer, left int64, reset time.Duration) (scope string) {
	if a.Grant == nil || a.Grant.Local || a.Scopes == nil || reset <= time.Second {
		return ""
	}
	values := a.Scopes.Carried()
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.sampled[name]
	if before != nil && a.Grant.At < before.answered {
		return ""
	}
	answered := a.Grant.At.Add(a.Took)
	now := &sampled{left: left, answered: answered, until: answered.Add(reset - time.Second), values: values, shown: make(map[string]*shown)}
	if m.sampled == nil {
		m.sampled = make(map[string]*sampled)
	}
	if m.sampled[name] = now; before == nil {
		return ""
	}
	now.shown = before.shown
	if answered >= before.until {
		return ""
	}
	for of, value := range now.values {
		last, carried := before.values[of]
		e := now.shown[of]
		if e == nil && len(now.shown) < maxSampled {
			e = &shown{}
			now.shown[of] = e
		}
		if e == nil || !carried {
			continue
		}
		e.add(value != last, left > before.left)
		if best := now.shown[scope]; e.areApart() && (best == nil || e.changed.all < best.changed.all || e.changed.all == best.changed.all && of < scope) {
			scope = of // of several, the one whose values change least
		}
	}
	return scope
}

// soonerTag is of the limit of two without a name or a number that is reset sooner.
const soonerTag = ".sooner"

// resets are those of one or two limits that readings state without a name or a number.
type resets struct {
	answered, later store.Instant // when a reading first stated the later reset of two, and that reset
	values          map[string]string
	sooner          time.Duration // the longest that was stated until the other one; 0: one limit explains all
}

// isSooner reports whether a reading is about the limit of two that is reset sooner; known is whether the fleet knows that there are two. The
// reset of one limit never comes nearer: if a later call of the same kind states one in half the time, there are two.
func (m *Memory) isSooner(a *Answer, reset time.Duration, known bool) bool {
	if a.Grant == nil || a.Grant.Local || reset <= 0 {
		return false
	}
	values := a.carried()
	m.mu.Lock()
	defer m.mu.Unlock()
	r, now := &m.resets, a.Grant.At.Add(a.Took)
	left := r.later.Sub(now)
	switch {
	case left <= 0 && reset <= r.sooner,
		reset < left-tolerance && (known || r.sooner > 0 || reset < left/2 && a.Grant.At >= r.answered && maps.Equal(values, r.values)):
		r.sooner = max(r.sooner, reset)
		return true
	case left <= 0 || reset > left+tolerance:
		r.answered, r.later, r.values = now, now.Add(reset), values
	}
	return false
}

// apartMark is between the name of an allowance of the upstream's and the scope whose values are counted apart.
const apartMark = "/"

// ApartBy returns the scope with one allowance for each value, by the allowance's name; "" if there is one for all.
func ApartBy(name string) string {
	_, tag, _ := strings.Cut(name, leftMark)
	_, scope, _ := strings.Cut(tag, apartMark)
	return scope
}

// ApartFrom returns the scope that splits an allowance, if one of the others is a part of it by that scope; "" if none is.
func ApartFrom(name string, others []string) string {
	for _, other := range others {
		if scope, found := strings.CutPrefix(other, name+apartMark); found {
			return scope
		}
	}
	return ""
}
