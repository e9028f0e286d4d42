package fleet_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
)

func TestFleetAsJSON(t *testing.T) {
	t.Parallel()
	tenant := policies.PerSecond(5).Per("tenant")
	history := []fleet.Second{{}, {Cost: 20, Waits: 4, Waited: 2 * time.Second}}
	at := time.Date(2026, 3, 4, 15, 5, 12, 0, time.FixedZone("CET", 3600))
	f := &fleet.Snapshot{
		Upstream: "zendesk", At: at, Counted: at.Add(-4 * time.Second), Shared: true, PausedFor: 1500 * time.Millisecond, PausedBy: "Retry-After", Waiting: 2, Alive: 3,
		Policies: []fleet.Policy{
			{PolicyStatus: pacer.PolicyStatus{Policy: policies.InFlight(25), Remaining: 5, Queued: 3, Pace: 20, Full: 90 * time.Second}, Shown: true, Waiting: 3},
			{
				PolicyStatus: pacer.PolicyStatus{Policy: policies.PerSecond(4).Burst(2).Named("peak"), Next: 250 * time.Millisecond, Backlog: 6, Margin: 40 * time.Millisecond, Full: 2 * time.Second},
				Shown:        true, Waiting: 7, History: history,
			},
			{PolicyStatus: pacer.PolicyStatus{Policy: tenant, Remaining: 99}},
			{PolicyStatus: pacer.PolicyStatus{Policy: policies.Daily(1000, time.UTC), Remaining: 12, Pace: 900, Gone: time.Hour}, Shown: true},
		},
		TopKeys:    []fleet.TopKey{{PolicyStatus: pacer.PolicyStatus{Policy: tenant, Scope: "tenant=a%20b", PausedFor: time.Minute, PausedBy: "banned", Margin: 8 * time.Millisecond, Full: 500 * time.Millisecond}, Cost: 9, Waiting: 1}},
		Allowances: []pacer.Allowance{{Limit: "60", Left: 4, Free: 3, For: 7 * time.Second, Source: "X-RateLimit-Reset"}, {Policy: "peak", Scope: "tenant=a"}},
		Processes:  []fleet.Process{{ID: "x", Name: "worker", For: time.Minute, Waiting: 2, Source: "set at noon", Version: "5f"}},
		Unknown:    []string{"later: 5 per moon"},
		Callers:    []fleet.Caller{{Name: "sync/contacts", Policy: "peak", Cost: 9}},
		Settings:   &fleet.Settings{Upstream: "zendesk", Changed: at, Policies: &fleet.Setting{Text: "none", Since: at}},
		Versions:   []fleet.Version{{ID: "5f", Processes: 1}}, VersionCount: 2,
		Disagreements: []fleet.Disagreement{
			{Policy: "peak", ScopesDiffer: true, Sides: []fleet.Side{{Text: "peak: 4 per 1s", Processes: 1, Names: []string{"worker"}}, {}}},
		},
	}
	got, err := json.Marshal(f)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"upstream":"zendesk","at":"2026-03-04T14:05:12Z","counted":"2026-03-04T14:05:08Z","shared":true,"pausedSeconds":1.5,"pausedBy":"Retry-After","waiting":12,
		"binding":"peak","alive":3,
		"policies":[
			{"name":"in-flight","text":"in-flight: 25 in flight","kind":"in flight","periodSeconds":0,"scopes":[],"scope":"","shown":true,
				"waiting":3,"queued":3,"remaining":5,"limit":20,"nextSeconds":0,"backlog":0,"pausedSeconds":0,"marginSeconds":0,"fullSeconds":90,
				"rate":0,"capacity":0,"utilization":0.75,"cost":[],"waits":[],"waitedSeconds":[]},
			{"name":"peak","text":"peak: 4 per 1s, burst 2","kind":"rate","periodSeconds":1,"scopes":[],"scope":"","shown":true,
				"waiting":7,"queued":0,"remaining":0,"limit":2,"nextSeconds":0.25,"backlog":6,"pausedSeconds":0,"marginSeconds":0.04,"fullSeconds":2,
				"rate":10,"capacity":3.8461538461538463,"utilization":1,"cost":[0,20],"waits":[0,4],"waitedSeconds":[0,2]},
			{"name":"per-second.tenant","text":"per-second.tenant: 5 per 1s, per tenant","kind":"rate","periodSeconds":1,
				"scopes":["tenant"],"scope":"","shown":false,"waiting":0,"queued":0,"remaining":0,"limit":0,"nextSeconds":0,"backlog":0,"pausedSeconds":0,"marginSeconds":0,"fullSeconds":0,
				"rate":0,"capacity":5,"utilization":0,"cost":[],"waits":[],"waitedSeconds":[]},
			{"name":"daily","text":"daily: 1000 daily (UTC)","kind":"window","periodSeconds":86400,"scopes":[],"scope":"","shown":true,
				"waiting":0,"queued":0,"remaining":12,"limit":900,"nextSeconds":0,"backlog":0,"pausedSeconds":0,"marginSeconds":0,"fullSeconds":0,"goneSeconds":3600,
				"rate":0,"capacity":0.010416666666666666,"utilization":0.9866666666666667,"cost":[],"waits":[],"waitedSeconds":[]}],
		"callers":[{"name":"sync/contacts","policy":"peak","cost":9}],
		"allowances":[{"limit":"60","left":4,"free":3,"seconds":7,"by":"X-RateLimit-Reset"},{"policy":"peak","scope":"tenant=a","left":0,"free":0,"seconds":0}],
		"processes":[{"id":"x","name":"worker","forSeconds":60,"waiting":2,"source":"set at noon","version":"5f"}],
		"busiest":[{"policy":"per-second.tenant","scope":"tenant=a%20b","values":{"tenant":"a b"},"cost":9,"waiting":1,
			"queued":0,"remaining":0,"limit":1,"nextSeconds":0,"backlog":0,"pausedSeconds":60,"pausedBy":"banned","marginSeconds":0.008,"fullSeconds":0.5}],
		"settings":{"upstream":"zendesk","changed":"2026-03-04T14:05:12Z","policies":{"texts":[],"since":"2026-03-04T14:05:12Z","until":null},
			"limits":[]},"setLimits":0,
		"versionCount":2,"versions":[{"id":"5f","policies":[],"processes":1,"names":[]}],
		"disagreements":[{"policy":"peak","scopesDiffer":true,
			"sides":[{"text":"peak: 4 per 1s","processes":1,"names":["worker"]},{"text":"","processes":0,"names":[]}]}],
		"unknown":["later: 5 per moon"],"learned":[]}`, string(got))
	got, err = json.Marshal(&fleet.Snapshot{Policies: []fleet.Policy{{PolicyStatus: pacer.PolicyStatus{Policy: tenant.Observed()}}}})
	require.NoError(t, err)
	require.Contains(t, string(got), `5 per 1s, per tenant, observed"`)
	require.Contains(t, string(got), `"observed":true`)
	got, err = json.Marshal(&fleet.Snapshot{Upstream: "acme"})
	require.NoError(t, err)
	require.Contains(t, string(got), `"policies":[],"allowances":[],"processes":[],"busiest":[],"unknown":[],"callers":[],"learned":[],`+
		`"settings":null,"setLimits":0,"versionCount":0,"versions":[],"disagreements":[]`, "lists are never null")
}
