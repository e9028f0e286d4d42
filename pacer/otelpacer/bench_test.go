package otelpacer_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/otelpacer"
	"github.com/headway-go/headway/policies"
)

// benchTelemetry returns hooks for metrics, and for spans if there is a provider of them.
func benchTelemetry(b *testing.B, spans trace.TracerProvider) *hooks.Set {
	b.Helper()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	t, err := otelpacer.New(otelpacer.Config{MeterProvider: meters, TracerProvider: spans})
	require.NoError(b, err)
	return t.Hooks()
}

// dropSpans is a provider that samples and records, and exports to nobody.
func dropSpans() *sdktrace.TracerProvider {
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(sdktrace.NewSimpleSpanProcessor(nil)))
}

// BenchmarkWait makes calls that start at once, one after the other, with all their hooks: if hooks are behind, the next call waits for
// them, so that none are dropped.
func BenchmarkWait(b *testing.B) {
	traced, span := dropSpans().Tracer("bench").Start(b.Context(), "caller")
	defer span.End()
	for _, one := range []struct {
		name  string
		ctx   context.Context
		hooks []*hooks.Set
	}{
		{"no hooks", b.Context(), nil},
		{"empty hooks", b.Context(), []*hooks.Set{{}}},
		{"a hook that does nothing", b.Context(), []*hooks.Set{{Admitted: func(context.Context, hooks.Admitted) {}}}},
		{"metrics", b.Context(), []*hooks.Set{benchTelemetry(b, noop.NewTracerProvider())}},
		{"metrics and traces", traced, []*hooks.Set{benchTelemetry(b, dropSpans())}},
	} {
		b.Run(one.name, func(b *testing.B) {
			var called, reported atomic.Int64
			reports := false
			sets := make([]*hooks.Set, len(one.hooks))
			for i, h := range one.hooks {
				sets[i] = &hooks.Set{}
				if h.Admitted != nil {
					reports = true
					sets[i].Dropped = func(int64) { b.Error("events were dropped") }
					sets[i].Admitted = func(ctx context.Context, g hooks.Admitted) {
						h.Admitted(ctx, g)
						reported.Add(1)
					}
				}
			}
			p, err := pacer.New(pacer.Config{
				Upstream: "crm", Hooks: sets,
				Policies: []policies.Policy{policies.Rate(1_000_000_000, 10_000*time.Second).Burst(1_000_000_000)},
			})
			require.NoError(b, err)
			defer p.Close()
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Wait(one.ctx); err != nil {
					b.Fatal(err)
				}
				for n := called.Add(1); reports && n-reported.Load() > 4000; {
					runtime.Gosched()
				}
			}
		})
	}
}

// BenchmarkHook is the cost of one event for the goroutine that emits it.
func BenchmarkHook(b *testing.B) {
	traced, span := dropSpans().Tracer("bench").Start(b.Context(), "caller")
	defer span.End()
	slept := hooks.WaitDone{Waiting: tenantAcme, Since: time.Now(), Took: time.Second}
	metrics, both := benchTelemetry(b, noop.NewTracerProvider()), benchTelemetry(b, dropSpans())
	for _, one := range []struct {
		name string
		call func()
	}{
		{"goes", func() { metrics.Admitted(b.Context(), hooks.Admitted{Upstream: "crm", Policy: "peak", Cost: 1}) }},
		{"slept", func() { metrics.WaitDone(b.Context(), slept) }},
		{"slept with a span", func() { both.WaitDone(traced, slept) }},
		{"asked", func() {
			metrics.StoreRequest(hooks.StoreRequest{Upstream: "crm", Op: "reserve", Took: time.Millisecond})
		}},
	} {
		b.Run(one.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				one.call()
			}
		})
	}
}
