// Package otelpacer exports what a pacer does to OpenTelemetry: metrics, and a span for each wait inside the caller's trace.
//
//	t, err := otelpacer.New(otelpacer.Config{}) // the global providers
//	p, err := pacer.New(pacer.Config{Upstream: "salesforce", Policies: limits, Hooks: []*hooks.Set{t.Hooks()}})
//	stop, err := t.Observe(p)
//
// It needs only the OpenTelemetry API; your program chooses the SDK and the exporter. docs/telemetry.md lists all metrics with their
// names in Prometheus, alerts, and a dashboard for Grafana.
//
// # What the hooks and the gauges report
//
// Counters and histograms come from the hooks of the Pacer ([Telemetry.Hooks]): they describe the calls of this process, and you can sum
// them over processes. Calls do not wait for them.
//
// Gauges are read when metrics are collected ([Telemetry.Observe]): they describe the whole fleet, so every process that observes reports
// the same values. Do not sum them. An upstream needs only one process that observes it.
//
// # Cardinality
//
// Attributes are the names of upstreams and policies, and words of this package. The values of scopes, such as tenants, are
// not among them, unless Config.MetricScopes or Config.SpanScopes names the scope.
package otelpacer
