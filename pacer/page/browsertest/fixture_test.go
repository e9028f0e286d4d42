package browsertest_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
)

// A fixture is a made-up upstream. At each look half a second of its time has gone by, until its clock stops.
type fixture struct {
	*fleet.Operator // for what the pictures do not need

	requested atomic.Int64
	failure   atomic.Pointer[error]
	hostile   bool // the names are

	more atomic.Pointer[func(*fleet.Snapshot)] // adds to what is seen; nil for nothing
}

// fixtureSteps is after how many questions the clock stops.
const fixtureSteps = 120

// Snapshot implements the page's source.
func (f *fixture) Snapshot(context.Context, ...pacer.ScopeOption) (*fleet.Snapshot, error) {
	if err := f.failure.Load(); err != nil && *err != nil {
		return nil, *err
	}
	snapshot := fixtureAt(min(fixtureSteps, f.requested.Add(1)))
	if f.hostile {
		for i := range snapshot.TopKeys {
			snapshot.TopKeys[i].Scope = fmt.Sprintf("tenant=%s%d", strings.Repeat(hostile, i+1), i)
		}
		snapshot.Processes[0].Name = hostile
		snapshot.Processes[1].Name = strings.Repeat("w", 100)
	}
	if more := f.more.Load(); more != nil {
		(*more)(snapshot)
	}
	return snapshot, nil
}

// fail makes the source fail; nil ends that.
func (f *fixture) fail(err error) { f.failure.Store(&err) }

// stopped reports whether the clock has stopped.
func (f *fixture) stopped() bool { return f.requested.Load() > fixtureSteps+2 }

// wave returns a smooth number from 0 to 1 that depends on nothing but the time in seconds.
func wave(second, period, shift float64) float64 {
	return 0.5 + 0.5*math.Sin(2*math.Pi*(second/period+shift))
}

// fixturePolicies are those of the made-up upstream.
var fixturePolicies = []policies.Policy{
	policies.Daily(100_000, time.UTC).Named("daily"),
	policies.InFlight(25).Named("in-flight"),
	policies.PerSecond(50).Burst(10).Named("peak"),
	policies.PerSecond(10).Per("tenant").Named("tenant"),
}

// fixtureAt returns how things stand after so many half seconds. A pause of "peak" is over eight seconds before the end.
func fixtureAt(step int64) *fleet.Snapshot {
	base := time.Date(2026, time.March, 2, 14, 3, 0, 0, time.UTC)
	now := float64(step) / 2
	at := base.Add(time.Duration(step) * 500 * time.Millisecond)
	const pauseFrom, pauseTo = 33, 41
	went := func(s float64) int64 {
		switch {
		case s >= pauseFrom && s < pauseTo:
			return 0
		case s > 12:
			return 48 + int64(math.Round(2*wave(s, 5, 0.2)))
		}
		return 24 + int64(20*wave(s, 17, 0.6)) + int64(3*wave(s, 3, 0))
	}
	waiting := func(s float64) int64 {
		switch {
		case s < 12:
			return 0
		case s < pauseTo:
			return int64(4*(s-12) + 8*wave(s, 7, 0.1) + max(0, s-pauseFrom)*18)
		}
		return int64(max(18, 276-14*(s-pauseTo)) + 6*wave(s, 4, 0))
	}
	busy := []fleet.Second(nil)
	quiet := []fleet.Second(nil)
	for i := range fleet.HistorySeconds {
		s := math.Floor(now) - fleet.HistorySeconds + float64(i)
		second := fleet.Second{Cost: went(s)}
		quiet = append(quiet, second)
		if n := waiting(s); n > 0 {
			second.Waits = second.Cost
			second.Waited = time.Duration(float64(second.Cost) * float64(n) / 50 * float64(time.Second))
		}
		busy = append(busy, second)
	}
	tenants := slices.Clone(quiet)
	for i := range tenants {
		if waiting(math.Floor(now)-fleet.HistorySeconds+float64(i)) > 0 {
			tenants[i].Waits = tenants[i].Cost / 5
			tenants[i].Waited = time.Duration(float64(tenants[i].Waits) * 0.42 * float64(time.Second))
		}
	}
	paused := time.Duration(0)
	if now >= pauseFrom && now < pauseTo {
		paused = time.Duration((pauseTo - now) * float64(time.Second))
	}
	f := &fleet.Snapshot{Upstream: "zendesk", At: at, Counted: base.Add(time.Duration(math.Floor(now)) * time.Second), Shared: true, Alive: 4}
	status := func(i int) pacer.PolicyStatus { return pacer.PolicyStatus{Policy: fixturePolicies[i]} }
	daily, permits, peak, tenant := status(0), status(1), status(2), status(3)
	daily.Remaining, daily.Pace = 41_873-int64(now*44), 100_000
	permits.Pace = 25
	permits.Remaining = 25 - int64(math.Round(13+7*wave(now, 13, 0.3)+2*wave(now, 3, 0)))
	if paused > 0 {
		permits.Remaining = 25
	}
	peak.Backlog, peak.Next, peak.PausedFor = waiting(now), max(paused, 380*time.Millisecond), paused
	peak.Remaining = max(0, 10-waiting(now))
	acme := tenant
	acme.Scope, acme.Next, acme.Backlog = "tenant=acme", 1240*time.Millisecond, waiting(now)/8
	f.Policies = []fleet.Policy{
		{PolicyStatus: daily, Shown: true, History: quiet},
		{PolicyStatus: permits, Shown: true, History: quiet},
		{PolicyStatus: peak, Shown: true, Waiting: waiting(now), History: busy},
		{PolicyStatus: acme, Shown: true, Busiest: true, KeyCost: 588, Waiting: waiting(now) / 5, History: tenants},
	}
	f.Processes = []fleet.Process{
		{ID: "p1", Name: "worker-1/311", For: 26*time.Hour + 12*time.Minute, Waiting: waiting(now) * 3 / 8},
		{ID: "p2", Name: "worker-2/309", For: 26*time.Hour + 12*time.Minute, Waiting: waiting(now) * 2 / 8},
		{ID: "p3", Name: "worker-3/314", For: 3*time.Hour + 41*time.Minute, Waiting: waiting(now) * 2 / 8},
		{ID: "p4", Name: "importer-8d5f/1", For: 4*time.Minute + 9*time.Second, Waiting: waiting(now) / 8},
	}
	for _, b := range []struct {
		scope         string
		cost, waiting int64
		next, paused  time.Duration
	}{
		{"tenant=acme", 588, waiting(now) / 8, 1240 * time.Millisecond, 0},
		{"tenant=globex", 571, waiting(now) / 16, 610 * time.Millisecond, 0},
		{"tenant=initech", 402, 2, 90 * time.Millisecond, 0},
		{"tenant=umbrella", 318, 0, 0, 0},
		{"tenant=hooli", 175, 4, 37 * time.Second, 37 * time.Second},
		{"tenant=stark%20industries", 96, 0, 0, 0},
	} {
		one := tenant
		one.Scope, one.Next, one.PausedFor, one.Remaining = b.scope, b.next, b.paused, 1
		if b.next > 0 {
			one.Remaining = 0
		}
		f.TopKeys = append(f.TopKeys, fleet.TopKey{PolicyStatus: one, Cost: b.cost, Waiting: b.waiting})
	}
	return f
}
