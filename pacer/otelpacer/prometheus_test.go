package otelpacer_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/otelpacer"
	"github.com/headway-go/headway/policies"
)

// newExporter returns a Telemetry that exports to Prometheus, by the exporter of the SDK with its defaults.
func newExporter(t *testing.T, c otelpacer.Config) (*otelpacer.Telemetry, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	require.NoError(t, err)
	c.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	telemetry, err := otelpacer.New(c)
	require.NoError(t, err)
	return telemetry, registry
}

// scrape returns the lines that Prometheus gets of Headway's metrics, without labels that are the exporter's.
func scrape(registry *prometheus.Registry) []string {
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	const exporters = `,otel_scope_name="github.com/headway-go/headway/pacer/otelpacer",otel_scope_schema_url="",otel_scope_version=""`
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(answer.Body.String(), exporters, "")) {
		if strings.HasPrefix(line, "headway_") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// Prometheus sees what a real Pacer does, and so does the trace.
func TestPrometheusSeesARealPacer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		tracing := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		telemetry, registry := newExporter(t, otelpacer.Config{TracerProvider: tracing})
		p, err := pacer.New(pacer.Config{
			Upstream: "crm", Jitter: pacer.NoJitter, Hooks: []*hooks.Set{telemetry.Hooks()},
			Policies: []policies.Policy{
				policies.PerSecond(2).Burst(1).Named("peak"),
				policies.Fixed(8, 24*time.Hour).Named("quota"),
				policies.Fixed(8, 24*time.Hour).Per("tenant").Optional().Named("tenant"),
			},
		})
		require.NoError(t, err)
		defer p.Close()
		stop, err := telemetry.Observe(p)
		require.NoError(t, err)

		ctx, caller := tracing.Tracer("test").Start(t.Context(), "sync")
		for range 3 { // 0, 500 ms, 500 ms
			require.NoError(t, p.Wait(ctx))
		}
		require.NoError(t, p.Report(ctx, policies.Feedback{Refused: true, Wait: 30 * time.Second}))
		tooLate, cancel := context.WithTimeout(ctx, time.Second)
		require.ErrorIs(t, p.Wait(tooLate), pacer.ErrNotYet)
		cancel()
		require.NoError(t, p.Wait(ctx, pacer.CostOf("quota", 2))) // after 30 s
		require.ErrorIs(t, p.Wait(ctx, pacer.Cost(9)), pacer.TooCostly)
		caller.End()
		synctest.Wait()

		lines := scrape(registry)
		require.Subset(t, lines, []string{
			`headway_calls_total{headway_upstream="crm"} 2`, // one of them waited for the pause
			`headway_calls_total{headway_policy="peak",headway_upstream="crm"} 2`,
			`headway_feedback_total{headway_feedback_kind="answer",headway_upstream="crm"} 1`,
			`headway_pauses_total{headway_upstream="crm"} 1`,
			`headway_refusals_total{headway_reason="paused",headway_upstream="crm"} 1`,
			`headway_wait_duration_seconds_sum{headway_policy="peak",headway_upstream="crm"} 1`,
			`headway_wait_duration_seconds_count{headway_policy="peak",headway_upstream="crm"} 2`,
			`headway_wait_duration_seconds_bucket{headway_policy="peak",headway_upstream="crm",le="0.25"} 0`,
			`headway_wait_duration_seconds_bucket{headway_policy="peak",headway_upstream="crm",le="0.5"} 2`,
			`headway_policy_remaining{headway_policy="quota",headway_upstream="crm"} 3`,
			`headway_policy_utilization_ratio{headway_policy="quota",headway_upstream="crm"} 0.625`,
			`headway_policy_capacity_per_second{headway_policy="peak",headway_upstream="crm"} 2`,
			`headway_policy_waiting{headway_policy="tenant",headway_upstream="crm"} 0`,
			`headway_pause_remaining_seconds{headway_upstream="crm"} 0`,
			`headway_processes{headway_upstream="crm"} 1`,
			`headway_fallback_active{headway_upstream="crm"} 0`,
		})
		remaining := slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "headway_policy_remaining") })
		require.Len(t, remaining, 2, "and not of a policy with scopes")
		var waits []time.Duration
		for _, s := range spans.Ended() {
			if s.Name() == "headway wait" {
				require.Equal(t, caller.SpanContext().TraceID(), s.SpanContext().TraceID())
				require.Equal(t, caller.SpanContext().SpanID(), s.Parent().SpanID())
				waits = append(waits, s.EndTime().Sub(s.StartTime()))
			}
		}
		require.Equal(t, []time.Duration{500 * time.Millisecond, 500 * time.Millisecond, 30 * time.Second}, waits)
		stop()
	})
}
