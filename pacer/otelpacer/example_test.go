package otelpacer_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/otelpacer"
	"github.com/headway-go/headway/policies"
)

// Metrics for Prometheus, and logs.
func Example() {
	limits := []policies.Policy{policies.PerSecond(25).Burst(10).Named("peak"), policies.Fixed(100_000, 24*time.Hour).Named("quota")}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	run := func() error {
		registry := prometheus.NewRegistry()
		exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
		if err != nil {
			return err
		}
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))

		telemetry, err := otelpacer.New(otelpacer.Config{MeterProvider: provider})
		if err != nil {
			return err
		}
		p, err := pacer.New(pacer.Config{
			Upstream: "crm", Policies: limits,
			Hooks: []*hooks.Set{telemetry.Hooks(), hooks.Log(logger)},
		})
		if err != nil {
			return err
		}
		defer p.Close()
		stop, err := telemetry.Observe(p)
		if err != nil {
			return err
		}
		defer stop()
		http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

		if err := p.Wait(context.Background()); err != nil {
			return err
		}
		answer := httptest.NewRecorder()
		http.DefaultServeMux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for line := range strings.Lines(answer.Body.String()) {
			if strings.HasPrefix(line, "headway_policy_remaining") && strings.Contains(line, `"quota"`) {
				fmt.Print(line[strings.LastIndex(line, " ")+1:])
			}
		}
		return nil
	}
	if err := run(); err != nil {
		panic(err)
	}
	// Output: 99999
}
