package fleet

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A Learned is what replies stated about one limit, to the processes that are alive.
type Learned struct {
	Policy   string        // that it is about; "" for a limit that fits no policy
	Scopes   []string      // of the policy: each key has such a limit
	Name     string        // of one that fits none: its name or number; "" if it was not stated
	Limit    int64         // how much it allows, as last stated; 0 if never
	Window   time.Duration // in how much time, as last stated; 0 if never
	Reset    time.Duration // the longest time until there was more
	Source   string        // the field of the last reply
	Readings int64         // how many replies
	Since    time.Time     // of the first, by the clock of its process
	Last     time.Time

	_ struct{}
}

// learn adds the statements to one process.
func (v *view) learn(all []store.Statement) {
	for _, one := range all {
		one.Source = printable(one.Source)
		if v.stated = append(v.stated, one); one.Readings == 0 { // an operator has paused it
			continue
		}
		l := Learned{
			Scopes: v.scopes(one.Policy),
			Policy: printable(one.Policy), Name: printable(one.Name), Limit: one.Limit, Window: one.Window, Reset: one.Reset,
			Source: one.Source, Readings: one.Readings, Since: time.UnixMicro(int64(one.Since)), Last: time.UnixMicro(int64(one.Last)),
		}
		i, found := slices.BinarySearchFunc(v.Learned, l, func(a, b Learned) int {
			return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Name, b.Name))
		})
		switch {
		case found:
			v.Learned[i].add(l)
		case len(v.Learned) < MaxShownLimits:
			v.Learned = slices.Insert(v.Learned, i, l)
		}
	}
}

// scopes returns the scopes of a policy.
func (v *view) scopes(policy string) []string {
	if l := v.named(policy); l != nil {
		return l.Scopes()
	}
	return nil
}

// add adds another process's statements about the same limit.
func (l *Learned) add(other Learned) {
	l.Reset, l.Readings = max(l.Reset, other.Reset), l.Readings+other.Readings
	if other.Since.Before(l.Since) {
		l.Since = other.Since
	}
	if other.Last.After(l.Last) {
		l.Limit, l.Window, l.Source, l.Last = other.Limit, other.Window, other.Source, other.Last
	}
}

// Period returns the time for which the limit holds: its window, or else the shortest usual period that no stated reset exceeds; 0 if
// neither was stated.
func (l *Learned) Period() time.Duration {
	if l.Window > 0 || l.Reset <= 0 {
		return l.Window
	}
	const day = 24 * time.Hour
	for _, p := range [...]time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 7 * day,
	} {
		rounding := time.Duration(0)
		if p >= 10*time.Second { // instants are whole seconds, and so are dates
			rounding = time.Second
		}
		if l.Reset <= p+rounding {
			return p
		}
	}
	return 31 * day
}

// IsWhole reports whether replies were read for at least one period, so that a longer reset is unlikely.
func (l *Learned) IsWhole() bool { return l.Last.Sub(l.Since) >= l.Period() }

// As returns the limit as a policy that never exceeds it, whether it is fixed or sliding; false if too little was stated.
func (l *Learned) As() (policies.Policy, bool) {
	if l.Limit < 1 || l.Period() == 0 {
		return policies.Policy{}, false
	}
	p := policies.Sliding(l.Limit, l.Period()).Named(l.name())
	if len(l.Scopes) > 0 {
		p = p.Per(l.Scopes...)
	}
	return p, p.Validate() == nil
}

// name returns the name of the policy.
func (l *Learned) name() string {
	if _, err := strconv.ParseInt(l.Name, 10, 64); err == nil {
		return "limit-" + l.Name
	}
	return cmp.Or(l.Policy, l.Name, "limit")
}
