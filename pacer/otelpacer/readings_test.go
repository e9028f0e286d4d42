package otelpacer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/headway-go/headway/pacer/otelpacer"
)

// newTelemetry returns one that makes no spans, and a reader of its metrics.
func newTelemetry(t *testing.T, c otelpacer.Config) (*otelpacer.Telemetry, *sdkmetric.ManualReader) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	c.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	if c.TracerProvider == nil {
		c.TracerProvider = noop.NewTracerProvider()
	}
	telemetry, err := otelpacer.New(c)
	require.NoError(t, err)
	return telemetry, reader
}

// readings collects, and returns a line for each data point, in order: name{key=value,…} value.
func readings(t *testing.T, reader *sdkmetric.ManualReader) []string {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all))
	var lines []string
	for _, scope := range all.ScopeMetrics {
		require.Equal(t, "github.com/headway-go/headway/pacer/otelpacer", scope.Scope.Name)
		for _, m := range scope.Metrics {
			lines = append(lines, points(t, m)...)
		}
	}
	slices.Sort(lines)
	return lines
}

func points(t *testing.T, m metricdata.Metrics) []string {
	t.Helper()
	var lines []string
	line := func(attrs attribute.Set, value string) {
		lines = append(lines, fmt.Sprintf("%s{%s} %s", m.Name, attrs.Encoded(attribute.DefaultEncoder()), value))
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		require.True(t, data.IsMonotonic, m.Name)
		for _, p := range data.DataPoints {
			line(p.Attributes, fmt.Sprint(p.Value))
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			line(p.Attributes, fmt.Sprint(p.Value))
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			line(p.Attributes, fmt.Sprint(p.Value))
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			line(p.Attributes, fmt.Sprintf("count=%d sum=%v", p.Count, p.Sum))
		}
	default:
		require.Failf(t, "unknown data", "%s is a %T", m.Name, m.Data)
	}
	return lines
}

// with returns the lines of some metrics.
func with(lines []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		name, _, _ := strings.Cut(line, "{")
		return !slices.Contains(names, name)
	})
}
