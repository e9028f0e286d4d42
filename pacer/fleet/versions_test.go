package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A known store is one in memory that reports the processes that a test sets.
type known struct {
	*memstore.Store

	processes []store.IndexedProcess
	policies  []string
	broken    error // of its settings
}

func (k *known) Describe(context.Context, string, store.About) (int, error) { return 1, nil }

func (k *known) Upstreams(context.Context) ([]string, error) { return []string{"test"}, nil }

func (k *known) Index(context.Context, string) (*store.Index, error) {
	return &store.Index{Now: k.Now(), Policies: k.policies, Alive: len(k.processes), Processes: k.processes}, nil
}

func (k *known) Settings(ctx context.Context, upstream string) (*store.Settings, error) {
	if k.broken != nil {
		return nil, k.broken
	}
	return k.Store.Settings(ctx, upstream)
}

// has adds a process with policies.
func (k *known) has(name string, texts ...string) {
	one := store.IndexedProcess{About: store.About{ID: "id-" + name, Name: name, Policies: texts}, Version: store.VersionOf(texts)}
	k.processes = append(k.processes, one)
}

func newKnown() *known {
	return &known{Store: memstore.New(), policies: []string{"peak: 10 per 1s"}}
}

func openOn(t *testing.T, k store.Store) *fleet.Operator {
	t.Helper()
	op, err := fleet.Open(t.Context(), k, "test")
	require.NoError(t, err)
	return op
}

func lookAt(t *testing.T, op *fleet.Operator) *fleet.Snapshot {
	t.Helper()
	s, err := op.Snapshot(t.Context())
	require.NoError(t, err)
	return s
}

// Processes that agree are of one version, whatever the order, and no matter who set it.
func TestProcessesThatAgree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKnown()
		k.has("worker-1/17", "peak: 10 per 1s", "daily: 5 daily (UTC)")
		k.has("worker-2/3", "daily: 5 daily (UTC)", "peak: 10 per 1s")
		k.processes[1].Source = "set at 2026-11-23\x1b[2J"
		k.processes = append(k.processes, store.IndexedProcess{About: store.About{ID: "old", Name: "old/1"}})
		s := lookAt(t, openOn(t, k))
		require.Equal(t, 1, s.VersionCount)
		require.Len(t, s.Versions, 1)
		require.Equal(t, []string{"worker-1/17", "worker-2/3"}, s.Versions[0].Names)
		require.Equal(t, 2, s.Versions[0].Processes, "one of an earlier library does not say what it has")
		require.Empty(t, s.Disagreements)
		require.Equal(t, []string{"", "set at 2026-11-23?[2J", ""}, []string{s.Processes[0].Source, s.Processes[1].Source, s.Processes[2].Source})
		require.Equal(t, []string{s.Versions[0].ID, s.Versions[0].ID, ""}, []string{s.Processes[0].Version, s.Processes[1].Version, s.Processes[2].Version})
	})
}

// Processes that disagree are shown by policy: who has which numbers, who has other scopes, and who lacks one.
func TestProcessesThatDisagree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKnown()
		const daily, tenant = "daily: 5 daily (UTC)", "tenant: 5 per 1s, per tenant"
		k.has("worker-9/4", "peak: 20 per 1s", daily, "tenant: 5 per 1s, per tenant+user")
		k.has("worker-1/17", "peak: 10 per 1s", daily, tenant)
		k.has("worker-2/3", "peak: 10 per 1s", daily, tenant)
		k.has("importer/1", "peak: 10 per 1s", tenant)
		s := lookAt(t, openOn(t, k))
		require.Equal(t, 3, s.VersionCount)
		require.Equal(t, 2, s.Versions[0].Processes)
		require.Equal(t, []fleet.Disagreement{
			{Policy: "daily", Sides: []fleet.Side{
				{Text: daily, Processes: 3, Names: []string{"worker-1/17", "worker-2/3", "worker-9/4"}},
				{Processes: 1, Names: []string{"importer/1"}},
			}},
			{Policy: "peak", Sides: []fleet.Side{
				{Text: "peak: 10 per 1s", Processes: 3, Names: s.Disagreements[1].Sides[0].Names},
				{Text: "peak: 20 per 1s", Processes: 1, Names: []string{"worker-9/4"}},
			}},
			{Policy: "tenant", ScopesDiffer: true, Sides: []fleet.Side{
				{Text: tenant, Processes: 3, Names: s.Disagreements[2].Sides[0].Names},
				{Text: "tenant: 5 per 1s, per tenant+user", Processes: 1, Names: []string{"worker-9/4"}},
			}},
		}, sortedNames(s.Disagreements))
		require.ElementsMatch(t, []string{"worker-1/17", "worker-2/3", "importer/1"}, s.Disagreements[1].Sides[0].Names)
		require.Contains(t, jsonOf(t, s), `{"policy":"daily","scopesDiffer":false,"sides":[{"text":"daily: 5 daily (UTC)","processes":3,"names":[`)
		require.Contains(t, jsonOf(t, s), `"versionCount":3,"versions":[{"id":"`+s.Versions[0].ID+`","policies":["peak: 10 per 1s",`)
	})
}

// sortedNames sorts the names of the first side of the first one, of versions that have as many processes.
func sortedNames(all []fleet.Disagreement) []fleet.Disagreement {
	names := all[0].Sides[0].Names
	if len(names) == 3 && names[0] == "worker-9/4" {
		all[0].Sides[0].Names = []string{names[1], names[2], names[0]}
	}
	return all
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// However many versions there are, and whatever they contain, the output is bounded and printable.
func TestDisagreementsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKnown()
		for i := range 100 {
			var texts []string
			for j := range 50 {
				texts = append(texts, fmt.Sprintf("p%d: %d per 1s\x1b[2J%s", j, 1+i%60, strings.Repeat("x", 2000)))
			}
			k.has(fmt.Sprintf("w%d\x00", i), texts...)
		}
		k.has("lost")
		k.processes[100].Policies, k.processes[100].Version = nil, "gone"
		s := lookAt(t, openOn(t, k))
		require.Equal(t, 61, s.VersionCount)
		require.Len(t, s.Versions, fleet.MaxShownVersions)
		require.Len(t, s.Disagreements, fleet.MaxShownDisagreements)
		require.Len(t, s.Disagreements[0].Sides, fleet.MaxShownVersions)
		require.Equal(t, 2, s.Disagreements[0].Sides[0].Processes)
		for _, side := range s.Disagreements[0].Sides {
			require.LessOrEqual(t, len(side.Text), 1000)
			require.NotContains(t, side.Text, "\x1b")
			require.LessOrEqual(t, len(side.Names), fleet.MaxShownNames)
			require.NotContains(t, side.Names[0], "\x00")
		}
		for range 20 {
			k.has("same", "peak: 10 per 1s")
		}
		s = lookAt(t, openOn(t, k))
		require.Equal(t, 20, s.Versions[0].Processes)
		require.Len(t, s.Versions[0].Names, fleet.MaxShownNames)
	})
}

// An operator with nothing but a store sets the fleet's policies, sees them, and unsets them.
func TestAnOperatorSets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKnown()
		k.policies = []string{"peak: 10 per 1s", "tenant: 5 per 1s, per tenant"}
		p := newPacer(t, pacer.Config{Store: k.Store, Policies: []policies.Policy{
			policies.PerSecond(10).Named("peak"), policies.PerSecond(5).Per("tenant").Named("tenant"),
		}})
		defer p.Close()
		op, acme := openOn(t, k), pacer.Scope("tenant", "acme")
		defer op.Close()
		s := lookAt(t, op)
		require.True(t, s.Settings.None())
		require.Contains(t, jsonOf(t, s), `"settings":{"upstream":"test","changed":null,"policies":null,"limits":[]}`)
		require.NoError(t, op.SetLimit(t.Context(), "tenant", policies.PerSecond(50), time.Hour, acme))
		require.NoError(t, op.SetPolicies(t.Context(), policies.PerSecond(3).Named("peak"), policies.PerSecond(5).Per("tenant").Named("tenant")))
		synctest.Wait()
		require.Equal(t, "peak: 3 per 1s, burst 2", fleet.Of(p).Policies()[0].String(), "a Pacer learns of it")
		s = lookAt(t, op)
		require.Equal(t, "peak: 3 per 1s, burst 2\ntenant: 5 per 1s, per tenant", s.Settings.Policies.Text)
		require.Equal(t, "tenant=acme", s.Settings.Limits[0].Scope)
		require.Contains(t, jsonOf(t, s), `"settings":{"upstream":"test","changed":"2000-01-01T00:00:00Z",`+
			`"policies":{"texts":["peak: 3 per 1s, burst 2","tenant: 5 per 1s, per tenant"],`+
			`"since":"2000-01-01T00:00:00Z","until":null},"limits":[{"policy":"tenant","scope":"tenant=acme","texts":["tenant: 50 per 1s, per tenant"],`+
			`"since":"2000-01-01T00:00:00Z","until":"2000-01-01T01:00:00Z"}]}`)
		st, err := op.Status(t.Context(), acme)
		require.NoError(t, err)
		require.Equal(t, "tenant: 50 per 1s, per tenant", st.Policies[1].Policy.String())
		for _, one := range lookAtScope(t, op, acme).Policies {
			if one.Policy.Name() == "tenant" {
				require.Equal(t, "tenant: 50 per 1s, per tenant", one.Policy.String())
			}
		}

		var wrong *pacer.ConfigError
		require.ErrorAs(t, op.SetPolicies(t.Context(), policies.PerSecond(9).Named("peak"), policies.PerSecond(0)), &wrong)
		require.ErrorAs(t, op.SetLimit(t.Context(), "tenant", policies.Daily(5, time.UTC), 0, acme), &wrong)
		settings, err := op.Settings(t.Context())
		require.NoError(t, err)
		require.Equal(t, "peak: 3 per 1s, burst 2\ntenant: 5 per 1s, per tenant", settings.Policies.Text, "nothing of what is not valid is set")

		late := openOn(t, k) // what is set is known, though no process has reported it
		require.Equal(t, "peak: 3 per 1s, burst 2", late.Policies()[0].String())
		require.NoError(t, late.Close())
		require.NoError(t, op.UnsetLimit(t.Context(), "tenant", acme))
		require.NoError(t, op.UnsetPolicies(t.Context()))
		synctest.Wait()
		require.Equal(t, "peak: 10 per 1s, burst 2", fleet.Of(p).Policies()[0].String())
		require.True(t, lookAt(t, op).Settings.None())
	})
}

func lookAtScope(t *testing.T, op *fleet.Operator, opts ...pacer.ScopeOption) *fleet.Snapshot {
	t.Helper()
	s, err := op.Snapshot(t.Context(), opts...)
	require.NoError(t, err)
	return s
}

// Settings of an upstream that is no longer paced can be seen, and unset.
func TestAnOperatorOfWhatIsSetAlone(t *testing.T) {
	t.Parallel()
	k := newKnown()
	k.policies = nil
	_, err := fleet.Open(t.Context(), k, "test")
	require.ErrorIs(t, err, fleet.ErrUnknownUpstream)
	_, err = k.Set(t.Context(), "test", []store.Setting{{Text: "peak: 3 per 1s"}})
	require.NoError(t, err)
	op := openOn(t, k)
	require.Equal(t, "peak: 3 per 1s", lookAt(t, op).Settings.Policies.Text)
	require.NoError(t, op.UnsetPolicies(t.Context()))
	require.NoError(t, op.Close())
	_, err = fleet.Open(t.Context(), k, "test")
	require.ErrorIs(t, err, fleet.ErrUnknownUpstream)
}

// A store that keeps no settings shows none; one that fails to read them fails the look.
func TestOperatorsWithoutSettings(t *testing.T) {
	t.Parallel()
	k := newKnown()
	op := openOn(t, struct {
		store.Store
		store.Registry
	}{k.Store, k})
	require.Nil(t, lookAt(t, op).Settings)
	require.ErrorIs(t, op.SetPolicies(t.Context(), policies.PerSecond(1)), store.ErrNoSettings)
	require.Contains(t, jsonOf(t, lookAt(t, op)), `"settings":null`)
	op = openOn(t, k)
	k.broken = errors.New("broken")
	_, err := op.Snapshot(t.Context())
	require.ErrorIs(t, err, k.broken)
	_, err = fleet.Open(t.Context(), k, "test")
	var failed *pacer.StoreError
	require.ErrorAs(t, err, &failed)
}

// Of many limits of keys a few are shown, and all are counted.
func TestFewOfManyLimitsAreShown(t *testing.T) {
	t.Parallel()
	k := newKnown()
	var many []store.Setting
	for i := range 60 {
		many = append(many, store.Setting{Policy: "tenant", Scope: fmt.Sprint(i), Text: "tenant: 5 per 1s, per tenant"})
	}
	_, err := k.Set(t.Context(), "test", many)
	require.NoError(t, err)
	op := openOn(t, k)
	s := lookAt(t, op)
	require.Len(t, s.Settings.Limits, fleet.MaxShownLimits)
	require.Equal(t, 60, s.SetLimits)
	all, err := op.Settings(t.Context())
	require.NoError(t, err)
	require.Len(t, all.Limits, 60)
}
