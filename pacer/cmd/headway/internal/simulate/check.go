package simulate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// Bounds of a plan.
const (
	// MaxCalls is the most calls of a simulation: more take minutes.
	MaxCalls = 50_000_000
	// MaxTenants is the most tenants, and MaxWorkers the most workers.
	MaxTenants = 100_000
	MaxWorkers = 1_000_000
	maxFor     = 10 * 365 * 24 * time.Hour
	maxRate    = 1_000_000
)

// An Error is a mistake in a plan, and what to do about it.
type Error struct {
	Field  string // as the flag or the file calls it
	Value  string
	Reason string

	_ struct{}
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s is %s: %s", e.Field, e.Value, e.Reason) }

func bad(field string, value any, reason string) *Error {
	return &Error{Field: field, Value: fmt.Sprint(value), Reason: reason}
}

// check returns when the plan starts, or an error that names the first mistake.
func (p *Plan) check() (time.Time, error) {
	start, err := parseStart(p.Start)
	if err != nil {
		return start, err
	}
	if len(p.Policies) == 0 {
		return start, bad("policy", "missing", `give at least one, such as --policy "50 per 1s", or a file with policies`)
	}
	// A plan that a Pacer would reject is not simulated.
	pc, err := pacer.New(pacer.Config{Upstream: upstream, Policies: p.Policies})
	if err != nil {
		return start, err
	}
	if err := pc.Close(); err != nil {
		return start, err
	}
	for _, d := range []struct {
		field       string
		value       Duration
		least, most time.Duration
	}{
		{"for", p.For, time.Millisecond, maxFor},
		{"max-wait", p.MaxWait, 0, pacer.Forever},
		{"retry", p.Retry, 0, maxFor},
		{"store-latency", p.StoreLatency, 0, time.Minute},
		{"timer-late", p.TimerLate, 0, time.Minute},
		{"jitter", p.Jitter, 0, time.Minute},
	} {
		if err := within(d.field, d.value, d.least, d.most); err != nil {
			return start, err
		}
	}
	if len(p.Loads) == 0 {
		return start, bad("loads", "empty", "leave it out for one default load, or describe at least one")
	}
	for i := range p.Loads {
		if err := p.checkLoad(&p.Loads[i]); err != nil {
			return start, err
		}
	}
	return start, p.checkSize(start)
}

func within(field string, d Duration, least, most time.Duration) error {
	if time.Duration(d) < least || time.Duration(d) > most {
		return bad(field, d, fmt.Sprintf("must be from %v to %v", least, most))
	}
	return nil
}

// parseStart reads when to begin.
func parseStart(s string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04", time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil {
			if t.Year() < 1971 || t.Year() > 2200 {
				return t, bad("start", strconv.Quote(s), "must be from 1971 to 2200")
			}
			return t, nil
		}
	}
	if t, err := time.Parse("2006-01-02 15:04", DefaultStart+" "+s); err == nil {
		return t, nil
	}
	return time.Time{}, bad("start", strconv.Quote(s), `must be a time such as "09:30", "2026-03-29", "2026-03-29T00:00" or "2026-03-29T00:00:00+01:00"`)
}

func (p *Plan) checkLoad(l *Load) error {
	if !policies.ValidName(l.Name) {
		return bad("name", strconv.Quote(l.Name), "must start with a letter or digit and have at most 64 letters, digits, '.', '_' or '-'")
	}
	for _, check := range []func(*Load) error{p.checkCallers, p.checkTimes, p.checkTenants, p.checkLane, p.checkScopes, p.checkCost} {
		if err := check(l); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) checkCallers(l *Load) error {
	switch {
	case l.Processes < 1 || l.Processes > MaxWorkers:
		return bad("processes", l.Processes, fmt.Sprintf("must be from 1 to %d", MaxWorkers))
	case l.Workers < 1 || l.Workers > MaxWorkers/l.Processes:
		return bad("workers", l.Workers, fmt.Sprintf("must be at least 1, and at most %d in all processes together", MaxWorkers))
	case math.IsNaN(l.Rate) || l.Rate < 0 || l.Rate > maxRate:
		return bad("rate", l.Rate, fmt.Sprintf("must be from 0, for workers, to %d calls per second", maxRate))
	case l.Steady && l.Rate == 0:
		return bad("steady", true, "it needs a rate, because workers call when they can: give a rate, or leave it out")
	}
	return nil
}

func (p *Plan) checkTimes(l *Load) error {
	if err := within("call-time", l.CallTime, 0, 24*time.Hour); err != nil {
		return err
	}
	if err := within("think", l.Think, 0, maxFor); err != nil {
		return err
	}
	if l.Rate > 0 && l.Think > 0 {
		return bad("think", l.Think, "only workers think, and the load has a rate: leave one of them out")
	}
	if l.Rate == 0 && l.CallTime+l.Think+p.StoreLatency < Duration(10*time.Microsecond) {
		return bad("call-time", l.CallTime, "a worker that needs no time makes calls without end: give it a call time or a think time")
	}
	return nil
}

func (p *Plan) checkTenants(l *Load) error {
	workers := l.Processes * l.Workers
	switch {
	case l.Tenants < 1 || l.Tenants > MaxTenants:
		return bad("tenants", l.Tenants, fmt.Sprintf("must be from 1 to %d", MaxTenants))
	case l.Rate == 0 && workers < l.Tenants:
		return bad("tenants", l.Tenants, fmt.Sprintf("are more than the %d workers, so some would never call: raise workers, or give a rate", workers))
	case math.IsNaN(l.Greedy) || l.Greedy < 0 || l.Greedy >= 1:
		return bad("greedy", l.Greedy, "must be at least 0 and less than 1: it is the first tenant's share of the calls")
	case l.Greedy > 0 && l.Tenants == 1:
		return bad("greedy", l.Greedy, "there is only one tenant: raise tenants")
	case l.Rate == 0 && l.Greedy > 0 && l.greedyWorkers() > workers-l.Tenants+1:
		return bad("greedy", l.Greedy, fmt.Sprintf("leaves fewer workers than the %d other tenants: raise workers, or give a rate", l.Tenants-1))
	}
	return nil
}

// lane returns the lane of a load, and the part of its calls in it.
func (l *Load) lane() (name string, part float64, err error) {
	name, text, parted := strings.Cut(l.Lane, "=")
	if !parted {
		return name, 1, nil
	}
	part, err = strconv.ParseFloat(text, 64)
	if err != nil || !(part > 0 && part <= 1) || name == "" {
		return "", 0, bad("lane", strconv.Quote(l.Lane), `must be a name, or a name and a share of the calls from 0 to 1, such as "batch=0.5"`)
	}
	return name, part, nil
}

func (p *Plan) checkLane(l *Load) error {
	name, _, err := l.lane()
	if err != nil || name == "" {
		return err
	}
	for i := range p.Policies {
		if slices.Contains(p.Policies[i].Lanes(), name) {
			return nil
		}
	}
	return bad("lane", strconv.Quote(name), "no policy has that lane: give one a share for it")
}

func (p *Plan) checkScopes(l *Load) error {
	for name := range l.Scopes {
		if !slices.ContainsFunc(p.Policies, func(one policies.Policy) bool {
			return slices.Contains(one.Scopes(), name) || one.FairBy() == name
		}) {
			return bad("scope", strconv.Quote(name), "no policy has that scope: check its spelling")
		}
	}
	for i := range p.Policies {
		one := &p.Policies[i]
		for _, name := range one.Scopes() {
			if v, set := l.Scopes[name]; set && v == "" && !one.IsOptional() {
				return bad("scope", strconv.Quote(name+"="), fmt.Sprintf("policy %q needs it, so every call would be refused: give a value, or make the policy optional", one.Name()))
			}
		}
		if by := one.FairBy(); by != "" {
			if v, set := l.Scopes[by]; set && v == "" {
				return bad("scope", strconv.Quote(by+"="), fmt.Sprintf("policy %q is fair by it, so every call would be refused: give a value", one.Name()))
			}
		}
	}
	return nil
}

func (p *Plan) checkCost(l *Load) error {
	if l.Cost < 1 {
		return bad("cost", l.Cost, "must be at least 1")
	}
	lane, _, _ := l.lane()
	for _, one := range parts(p.Policies) {
		spec := one.Spec()
		if (one.lane == "" || one.lane == lane) && spec.Algorithm != specs.Concurrency && l.Cost > spec.Limit {
			return bad("cost", l.Cost, fmt.Sprintf("such a call can never start, because policy %q admits at most %d at once: lower it, or raise the policy's burst or limit",
				one.Name(), spec.Limit))
		}
	}
	return nil
}

// greedyWorkers returns the number of the first tenant's workers.
func (l *Load) greedyWorkers() int {
	return max(1, int(math.Round(l.Greedy*float64(l.Processes*l.Workers))))
}
