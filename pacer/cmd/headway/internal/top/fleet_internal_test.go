package top

import (
	"math"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
)

// history makes up a minute: so many each second, waits included, with a shape.
func history(cost func(second int) float64, waits int64) []fleet.Second {
	all := make([]fleet.Second, fleet.HistorySeconds)
	for i := range all {
		n := int64(math.Round(max(0, cost(i))))
		all[i] = fleet.Second{Cost: n, Waits: min(n, waits), Waited: time.Duration(min(n, waits)) * 340 * time.Millisecond}
	}
	return all
}

// steady is about level, with a ripple.
func steady(level, ripple float64) func(int) float64 {
	return func(i int) float64 {
		return level + ripple*math.Sin(float64(i)*1.7) + ripple/2*math.Sin(float64(i)*0.6+1)
	}
}

// scene is an upstream like Zendesk, made up: a sync runs at the account's pace, tickets are written, and exports are paused.
func scene() *fleet.Snapshot {
	at := time.Date(2026, 3, 4, 14, 5, 12, 0, time.UTC)
	shown := func(p policies.Policy, s pacer.PolicyStatus, waiting int64, h []fleet.Second) fleet.Policy {
		s.Policy = p
		return fleet.Policy{PolicyStatus: s, Shown: true, Waiting: waiting, History: h}
	}
	ramp := func(i int) float64 {
		switch {
		case i < 14:
			return 3 + float64(i)*0.5
		case i > 40 && i < 45:
			return 5
		}
		return steady(11.4, 0.9)(i)
	}
	tenant := policies.PerSecond(2).Per("tenant").Named("tenant")
	busy := func(scope string, cost, waiting int64, paused time.Duration) fleet.TopKey {
		return fleet.TopKey{PolicyStatus: pacer.PolicyStatus{Policy: tenant, Scope: "tenant=" + scope, PausedFor: paused}, Cost: cost, Waiting: waiting}
	}
	f := &fleet.Snapshot{
		Upstream: "zendesk", At: at, Counted: at.Add(-2 * time.Second), Shared: true, Alive: 3,
		Policies: []fleet.Policy{
			shown(policies.AtMost(700, time.Minute).Named("account"), pacer.PolicyStatus{Next: 86 * time.Millisecond, Backlog: 9}, 38, history(ramp, 8)),
			shown(policies.Daily(50_000, time.UTC).Named("day"), pacer.PolicyStatus{Remaining: 18_412}, 0, history(ramp, 0)),
			shown(policies.AtMost(10, time.Minute).Named("exports"), pacer.PolicyStatus{Next: 41 * time.Second, PausedFor: 41 * time.Second}, 4,
				history(func(i int) float64 {
					if i < 38 && i%6 == 0 {
						return 1
					}
					return 0
				}, 1)),
			shown(policies.InFlight(25).Named("in-flight"), pacer.PolicyStatus{Remaining: 7}, 0, history(ramp, 0)),
			{
				PolicyStatus: pacer.PolicyStatus{Policy: tenant, Scope: "tenant=acme", Next: 310 * time.Millisecond, Backlog: 2},
				Shown:        true, Busiest: true, KeyCost: 118, Waiting: 12,
				History: history(func(i int) float64 { return ramp(i) * 0.8 }, 3),
			},
			shown(policies.AtMost(100, time.Minute).Named("tickets"), pacer.PolicyStatus{Remaining: 1}, 0, history(func(i int) float64 {
				return 1.1 + 1.1*math.Sin(float64(i)*0.35)
			}, 0)),
		},
		TopKeys: []fleet.TopKey{
			busy("acme", 118, 9, 0), busy("globex", 104, 3, 0), busy("initech", 71, 0, 0), busy("umbrella", 55, 0, 12*time.Second), busy("hooli", 23, 0, 0),
			busy("stark", 9, 0, 0),
		},
		Processes: []fleet.Process{
			{ID: "a", Name: "sync-7f9c/1", For: 26 * time.Hour, Waiting: 31},
			{ID: "b", Name: "sync-c04d/1", For: 26 * time.Hour, Waiting: 19},
			{ID: "c", Name: "web-51aa/12", For: 42 * time.Minute, Waiting: 4},
		},
	}
	return f
}
