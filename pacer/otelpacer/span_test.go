package otelpacer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/otelpacer"
)

// spansOf returns the spans of waits that f makes, given a provider and a Telemetry that uses it.
func spansOf(t *testing.T, c otelpacer.Config, f func(trace.Tracer, *hooks.Set)) []sdktrace.ReadOnlySpan {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	c.TracerProvider = provider
	telemetry, _ := newTelemetry(t, c)
	f(provider.Tracer("test"), telemetry.Hooks())
	var spans []sdktrace.ReadOnlySpan
	for _, s := range recorder.Ended() {
		if s.Name() == "headway wait" {
			spans = append(spans, s)
		}
	}
	return spans
}

// calling returns the context of a caller that has a span, until the test is over.
func calling(t *testing.T, tracer trace.Tracer) context.Context {
	t.Helper()
	ctx, span := tracer.Start(t.Context(), "sync tickets")
	t.Cleanup(func() { span.End() })
	return ctx
}

// A wait is a span below the caller's with the times that it had, although the caller's span has ended when it is reported.
func TestWaitIsASpanOfTheCaller(t *testing.T) {
	t.Parallel()
	since := time.Now().Add(-time.Hour)
	var parent trace.SpanContext
	spans := spansOf(t, otelpacer.Config{}, func(tracer trace.Tracer, h *hooks.Set) {
		ctx, cancel := context.WithCancel(t.Context())
		ctx, caller := tracer.Start(ctx, "sync tickets")
		parent = caller.SpanContext()
		caller.End()
		cancel()
		sleep := tenantAcme
		sleep.Queued = true
		h.WaitDone(ctx, hooks.WaitDone{Waiting: sleep, Since: since, Took: 250 * time.Millisecond})
	})
	require.Len(t, spans, 1)
	s := spans[0]
	require.Equal(t, parent, s.Parent())
	require.Equal(t, trace.SpanKindInternal, s.SpanKind())
	require.True(t, s.StartTime().Equal(since))
	require.Equal(t, 250*time.Millisecond, s.EndTime().Sub(s.StartTime()))
	require.Equal(t, codes.Unset, s.Status().Code)
	require.ElementsMatch(t, []attribute.KeyValue{
		attribute.String("headway.upstream", "crm"), attribute.String("headway.policy", "per-tenant"),
		attribute.Bool("headway.paused", false), attribute.Bool("headway.queued", true), attribute.Int64("headway.cost", 2),
	}, s.Attributes())
}

// A call that gave up has a span with an error, without the scope's value.
func TestGivingUpIsAnError(t *testing.T) {
	t.Parallel()
	spans := spansOf(t, otelpacer.Config{MetricScopes: []string{"tenant"}}, func(tracer trace.Tracer, h *hooks.Set) {
		ctx := calling(t, tracer)
		err := &pacer.LimitError{Upstream: "crm", Scope: "tenant=acme", Reason: pacer.Paused}
		h.WaitDone(ctx, hooks.WaitDone{Waiting: hooks.Waiting{Upstream: "crm", Scope: "tenant=acme", Paused: true}, Took: time.Second, Err: err})
	})
	require.Len(t, spans, 1)
	require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "paused"}, spans[0].Status())
	require.ElementsMatch(t, []attribute.KeyValue{
		attribute.String("headway.upstream", "crm"), attribute.String("error.type", "paused"),
		attribute.Bool("headway.paused", true), attribute.Bool("headway.queued", false), attribute.Int64("headway.cost", 0),
	}, spans[0].Attributes())
}

// Values of scopes are attributes of spans if their scope was requested.
func TestScopesOfSpans(t *testing.T) {
	t.Parallel()
	spans := spansOf(t, otelpacer.Config{SpanScopes: []string{"tenant"}}, func(tracer trace.Tracer, h *hooks.Set) {
		ctx := calling(t, tracer)
		h.WaitDone(ctx, hooks.WaitDone{Waiting: tenantAcme, Took: time.Second})
	})
	require.Len(t, spans, 1)
	require.Contains(t, spans[0].Attributes(), attribute.String("headway.scope.tenant", "acme"))
	require.NotContains(t, spans[0].Attributes(), attribute.String("headway.scope.user", "7"))
}

// Waits that are too short make no span; by default those below a timer's resolution.
func TestShortWaitsMakeNoSpan(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		shortest, took time.Duration
		want           int
	}{
		{0, 999 * time.Microsecond, 0},
		{0, time.Millisecond, 1},
		{otelpacer.EverySpan, 0, 1},
		{time.Second, 999 * time.Millisecond, 0},
		{time.Second, time.Second, 1},
		{pacer.Forever, time.Hour, 0},
	} {
		spans := spansOf(t, otelpacer.Config{MinSpan: one.shortest}, func(tracer trace.Tracer, h *hooks.Set) {
			ctx := calling(t, tracer)
			h.WaitDone(ctx, hooks.WaitDone{Waiting: tenantAcme, Took: one.took})
		})
		require.Len(t, spans, one.want, "%+v", one)
	}
}

// Without a caller's span, or with one that is not sampled, there is nothing to belong to.
func TestNoSpanOutsideOfATrace(t *testing.T) {
	t.Parallel()
	spans := spansOf(t, otelpacer.Config{}, func(_ trace.Tracer, h *hooks.Set) {
		h.WaitDone(t.Context(), hooks.WaitDone{Waiting: tenantAcme, Took: time.Second})
		unsampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
		h.WaitDone(calling(t, unsampled.Tracer("test")), hooks.WaitDone{Waiting: tenantAcme, Took: time.Second})
	})
	require.Empty(t, spans)
}
