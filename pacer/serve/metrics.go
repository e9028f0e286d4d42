package serve

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/otelpacer"
)

// metrics are what Prometheus collects: those of package otelpacer, and of this server's requests.
type metrics struct {
	registry  *prometheus.Registry
	provider  *sdkmetric.MeterProvider
	telemetry *otelpacer.Telemetry
	requests  *prometheus.HistogramVec
}

func newMetrics() (*metrics, error) {
	m := &metrics{registry: prometheus.NewRegistry()}
	exported, err := exporter.New(exporter.WithRegisterer(m.registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	m.provider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exported))
	if m.telemetry, err = otelpacer.New(otelpacer.Config{MeterProvider: m.provider, MinSpan: pacer.Forever}); err != nil {
		return nil, err
	}
	m.requests = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "headway_serve_request_duration_seconds", Help: "How long requests took, waits included.",
		Buckets: []float64{.005, .025, .1, .5, 1, 5, 30, 60, 300},
	}, []string{"by", "upstream", "code"})
	m.registry.MustRegister(m.requests, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m, nil
}

// served counts a request. A status of 0 is that of a client that was gone.
func (m *metrics) served(by, upstream string, status int, took time.Duration) {
	m.requests.WithLabelValues(by, upstream, strconv.Itoa(status)).Observe(took.Seconds())
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
