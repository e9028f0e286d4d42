package otelpacer_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/otelpacer"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

const docs = "../../docs/telemetry"

// A row is a metric of the list in doc.go.
type row struct {
	otel, unit, prometheus, kind string
	attributes                   []string
	about                        string
}

// documented returns the list of metrics in doc.go: "headway.calls, counter, {call}; upstream, policy: Calls that started.".
func documented(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	joined := strings.ReplaceAll(string(text), "\n//     ", " ")
	var rows []row
	for _, m := range regexp.MustCompile(`(?m)^//   - (headway[\w.]+), (\w+), (\S+); (.*?): (.*)$`).FindAllStringSubmatch(joined, -1) {
		name, kind, unit, about := m[1], m[2], m[3], m[5]
		attributes := slices.DeleteFunc(strings.Split(m[4], ", "), func(s string) bool { return s == "–" })
		for i, a := range attributes {
			if a != "scopes" && a != "error.type" {
				attributes[i] = "headway." + a
			}
		}
		slices.Sort(attributes)
		rows = append(rows, row{name, unit, inPrometheus(name, unit, kind), kind, attributes, about})
	}
	require.NotEmpty(t, rows)
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.otel, b.otel) })
	return rows
}

// inPrometheus returns a metric's name there, as doc.go explains it.
func inPrometheus(name, unit, kind string) string {
	name = strings.ReplaceAll(name, ".", "_") + map[string]string{"s": "_seconds", "1": "_ratio", "{unit}/s": "_per_second"}[unit]
	if kind == "counter" {
		name += "_total"
	}
	return name
}

// everything records every metric with every attribute that it can have, and returns what the SDK reads of it, and a registry of Prometheus
// that has the same.
func everything(t *testing.T) ([]metricdata.Metrics, *prometheus.Registry) {
	t.Helper()
	registry, reader := prometheus.NewRegistry(), sdkmetric.NewManualReader()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	require.NoError(t, err)
	telemetry, err := otelpacer.New(otelpacer.Config{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithReader(exporter)),
		MetricScopes:  []string{"tenant"},
	})
	require.NoError(t, err)
	h, ctx := telemetry.Hooks(), t.Context()
	refused := &pacer.LimitError{}
	h.WaitDone(ctx, hooks.WaitDone{Waiting: tenantAcme, Err: refused})
	cost := hooks.PolicyCost{Policy: "by-tenant", Scope: "tenant=acme", Cost: 1}
	h.Admitted(ctx, hooks.Admitted{Upstream: "crm", Policy: "by-tenant", Scope: "tenant=acme", Costs: []hooks.PolicyCost{cost}, Late: 1})
	h.Answered(ctx, hooks.Answered{Upstream: "crm"})
	h.Settled(ctx, hooks.Settled{Upstream: "crm", PolicyCost: cost, Charged: 2})
	h.Refused(ctx, hooks.Refusal{Upstream: "crm", Policy: "by-tenant", Scope: "tenant=acme", Err: refused})
	h.Paused(hooks.Pause{Upstream: "crm", Policy: "by-tenant", Scope: "tenant=acme"})
	h.Resumed(hooks.Pause{Upstream: "crm", Policy: "by-tenant", Scope: "tenant=acme"})
	h.FeedbackApplied(ctx, hooks.FeedbackApplied{Upstream: "crm", Policy: "by-tenant", Scope: "tenant=acme", Kind: store.NoteAnswer.String()})
	h.Failover(hooks.Failover{Upstream: "crm", On: true})
	h.StoreRequest(hooks.StoreRequest{Upstream: "crm", Op: "reserve", Err: refused})
	h.Dropped(1)
	for _, o := range []hooks.Observed{{Wait: time.Second}, {InFlight: true}, {Refused: refused}} {
		o.Upstream, o.Policy, o.Scope = "crm", "by-tenant", "tenant=acme"
		h.Observed(ctx, o)
	}
	h.NotObserved(1)
	p := newPacer(t, nil, policies.PerSecond(2), policies.PerSecond(2).Burst(9).Per("tenant").Named("by-tenant"))
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	closed := newPacer(t, nil)
	require.NoError(t, closed.Close())
	for _, one := range []*pacer.Pacer{p, closed} {
		_, err = telemetry.Observe(one)
		require.NoError(t, err)
	}
	_, err = fleet.Of(p).Snapshot(ctx) // from memory, what goes is counted from the first look on
	require.NoError(t, err)
	require.NoError(t, p.Wait(ctx, pacer.Scope("tenant", "acme"), pacer.Caller("sync/contacts")))
	time.Sleep(5 * time.Second) // processes report their calls every few seconds
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(ctx, &all))
	require.Len(t, all.ScopeMetrics, 1)
	return all.ScopeMetrics[0].Metrics, registry
}

// The documentation is complete: all names, units, types and attributes, no more and no fewer.
func TestTheTableIsTrue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := documented(t)
		metrics, registry := everything(t)
		slices.SortFunc(metrics, func(a, b metricdata.Metrics) int { return strings.Compare(a.Name, b.Name) })
		families, err := registry.Gather()
		require.NoError(t, err)
		exported := make(map[string]string)
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), "headway_") {
				exported[f.GetName()] = strings.ToLower(f.GetType().String()) + ": " + f.GetHelp()
			}
		}
		require.Len(t, rows, len(metrics))
		require.Len(t, exported, len(metrics))
		for i, m := range metrics {
			r := rows[i]
			require.Equal(t, m.Name, r.otel)
			require.Equal(t, m.Unit, r.unit, r.otel)
			require.Equal(t, exported[r.prometheus], r.kind+": "+m.Description, r.otel)
			require.True(t, strings.HasPrefix(r.about, strings.TrimSuffix(m.Description, ".")), "%s: %q", r.otel, m.Description)
			require.True(t, strings.HasPrefix(r.prometheus, strings.ReplaceAll(r.otel, ".", "_")), r.prometheus)
			require.Equal(t, r.attributes, attributesOf(t, m), r.otel)
		}
	})
}

// attributesOf returns the attributes that some point of the metric has, as the list calls them.
func attributesOf(t *testing.T, m metricdata.Metrics) []string {
	t.Helper()
	names := []string{}
	add := func(s attribute.Set) {
		for _, kv := range s.ToSlice() {
			name := string(kv.Key)
			if strings.HasPrefix(name, "headway.scope.") {
				name = "scopes"
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes)
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes)
		}
	default:
		require.Failf(t, "unknown data", "%s is a %T", m.Name, m.Data)
	}
	slices.Sort(names)
	return names
}

var (
	headwayName = regexp.MustCompile(`headway_\w+`)
	labels      = regexp.MustCompile(`\{[^{}]*\}|\b(by|on|without) ?\([^)]*\)`) // where a query names labels
)

// checkQuery checks that a query names metrics and labels that exist, and returns the number of metrics.
func checkQuery(t *testing.T, rows []row, query string) int {
	t.Helper()
	known, attributes := []string{}, []string{}
	for _, r := range rows {
		known = append(known, r.prometheus)
		if r.kind == "histogram" {
			known = append(known, r.prometheus+"_bucket", r.prometheus+"_sum", r.prometheus+"_count")
		}
		for _, a := range r.attributes {
			attributes = append(attributes, strings.ReplaceAll(a, ".", "_"))
		}
	}
	for _, part := range labels.FindAllString(query, -1) {
		for _, name := range headwayName.FindAllString(part, -1) {
			require.Contains(t, attributes, name, query)
		}
	}
	names := headwayName.FindAllString(labels.ReplaceAllString(query, ""), -1)
	for _, name := range names {
		require.Contains(t, known, name, query)
	}
	return len(names)
}

// The dashboard queries only metrics that exist, and shows all of them.
func TestTheDashboardShowsWhatThereIs(t *testing.T) {
	t.Parallel()
	rows := documented(t)
	text, err := os.ReadFile(docs + "/grafana.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.NotEmpty(t, dashboard.Panels)
	var all strings.Builder
	for _, p := range dashboard.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			require.Positive(t, checkQuery(t, rows, target.Expr), p.Title)
			all.WriteString(target.Expr + "\n")
		}
	}
	for _, r := range rows {
		require.Contains(t, all.String(), r.prometheus)
	}
	variables := regexp.MustCompile(`label_values\((\w+), (\w+)\)`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, variables)
	for _, v := range variables {
		require.Equal(t, 1, checkQuery(t, rows, v[1]+"{"+v[2]+`="x"}`))
	}
}

// The alerts of the documentation are about metrics that there are.
func TestTheAlertsAreAboutWhatThereIs(t *testing.T) {
	t.Parallel()
	rows := documented(t)
	all := alerts(t)
	require.Len(t, all, 8)
	for _, one := range all {
		require.Positive(t, checkQuery(t, rows, one.expr), one.name)
	}
}

// The code of the documentation is the example's, which runs.
func TestTheSetUpIsTheExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(docs + ".md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, code, found := strings.Cut(string(text), "```go\nregistry")
	require.True(t, found)
	code, _, _ = strings.Cut("registry"+code, "```")
	for line := range strings.Lines(code) {
		line, _, _ = strings.Cut(line, " //")
		require.Contains(t, string(example), strings.TrimSpace(line))
	}
}
