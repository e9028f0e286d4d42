package otelpacer

import (
	"cmp"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// scopeName is the instrumentation scope of all metrics and spans.
const scopeName = "github.com/headway-go/headway/pacer/otelpacer"

// Defaults and special values of [Config].
const (
	// DefaultMinSpan is the shortest wait that makes a span. The runtime's timers are about as exact.
	DefaultMinSpan = time.Millisecond
	// EverySpan as Config.MinSpan makes a span of every wait.
	EverySpan time.Duration = -1
	// DefaultReadTimeout is how long a collection waits for one Pacer.
	DefaultReadTimeout = 2 * time.Second
)

// Config says where telemetry goes, and how much of it.
type Config struct {
	// MeterProvider takes the metrics. Defaults to the global one.
	MeterProvider metric.MeterProvider

	// TracerProvider takes the spans. Defaults to the global one.
	TracerProvider trace.TracerProvider

	// MetricScopes are the names of scopes whose values become attributes of metrics, such as "tenant". Each value is a time
	// series of its own, of several metrics: name only those that have few. Defaults to none.
	MetricScopes []string

	// SpanScopes are the names of scopes whose values become attributes of spans. Defaults to none.
	SpanScopes []string

	// MinSpan is the shortest wait that makes a span. [EverySpan] sets no bound; [pacer.Forever] makes none. Defaults to
	// [DefaultMinSpan], 1 ms.
	MinSpan time.Duration

	// ReadTimeout is how long a collection of metrics waits for what one observed Pacer tells of its fleet. Defaults to
	// [DefaultReadTimeout], 2 s.
	ReadTimeout time.Duration

	_ struct{}
}

// A Telemetry tells OpenTelemetry what pacers do. One serves any number of them. It is safe for concurrent use.
type Telemetry struct {
	config Config
	meter  metric.Meter
	tracer trace.Tracer
	events events
	gauges gauges

	mu   sync.Mutex
	lost map[string]bool // upstreams of which it is known whether this process has lost their store
}

// New returns a Telemetry as c says. It returns a [*pacer.ConfigError] that names the first field at fault, or what the
// MeterProvider says if it makes no instruments.
func New(c Config) (*Telemetry, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.MeterProvider == nil {
		c.MeterProvider = otel.GetMeterProvider()
	}
	if c.TracerProvider == nil {
		c.TracerProvider = otel.GetTracerProvider()
	}
	c.MinSpan = cmp.Or(c.MinSpan, DefaultMinSpan)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, DefaultReadTimeout)
	t := &Telemetry{
		config: c,
		meter:  c.MeterProvider.Meter(scopeName),
		tracer: c.TracerProvider.Tracer(scopeName),
		lost:   make(map[string]bool),
	}
	if err := t.makeInstruments(); err != nil {
		return nil, err
	}
	return t, nil
}

func (c *Config) validate() error {
	if err := checkScopes("MetricScopes", c.MetricScopes); err != nil {
		return err
	}
	if err := checkScopes("SpanScopes", c.SpanScopes); err != nil {
		return err
	}
	if c.MinSpan < 0 && c.MinSpan != EverySpan {
		return bad("MinSpan", c.MinSpan.String(), "must not be negative, but for EverySpan")
	}
	if c.ReadTimeout < 0 {
		return bad("ReadTimeout", c.ReadTimeout.String(), "must not be negative")
	}
	return nil
}

func checkScopes(field string, names []string) error {
	for _, name := range names {
		if !policies.ValidName(name) {
			return bad(field, strconv.Quote(name), "no scope has such a name: use those of the policies' Per, such as \"tenant\"")
		}
	}
	return nil
}

func bad(field, value, reason string) error {
	return &pacer.ConfigError{In: "otelpacer", Field: field, Value: value, Reason: reason}
}
