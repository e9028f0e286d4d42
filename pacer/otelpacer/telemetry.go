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
	// DefaultMinSpan is the shortest wait that gets a span. It is about the precision of the runtime's timers.
	DefaultMinSpan = time.Millisecond
	// EverySpan as Config.MinSpan gives every wait a span.
	EverySpan time.Duration = -1
	// DefaultReadTimeout is how long a collection waits for one Pacer.
	DefaultReadTimeout = 2 * time.Second
)

// Config defines where telemetry is sent, and how much of it.
type Config struct {
	// MeterProvider takes the metrics. Defaults to the global one.
	MeterProvider metric.MeterProvider

	// TracerProvider takes the spans. Defaults to the global one.
	TracerProvider trace.TracerProvider

	// MetricScopes are the names of scopes whose values become attributes of metrics, such as "tenant". Each value adds a time series to
	// several metrics: name only scopes with few values. Defaults to none.
	MetricScopes []string

	// SpanScopes are the names of scopes whose values become attributes of spans. Defaults to none.
	SpanScopes []string

	// MinSpan is the shortest wait that gets a span. With [EverySpan] every wait gets one; with [pacer.Forever] none does. Defaults to
	// [DefaultMinSpan], 1 ms.
	MinSpan time.Duration

	// ReadTimeout is how long a collection of metrics waits for the state of one observed Pacer's fleet. Defaults to
	// [DefaultReadTimeout], 2 s.
	ReadTimeout time.Duration

	_ struct{}
}

// A Telemetry exports what pacers do to OpenTelemetry. One Telemetry serves any number of pacers. It is safe for concurrent use.
type Telemetry struct {
	config Config
	meter  metric.Meter
	tracer trace.Tracer
	events events
	gauges gauges

	mu   sync.Mutex
	lost map[string]bool // whether this process has lost the store, by upstream
}

// New returns a Telemetry with the settings in c. It returns a [*pacer.ConfigError] that names the first field at fault, or the
// MeterProvider's error if that cannot make the instruments.
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
		return bad("MinSpan", c.MinSpan.String(), "must not be negative, except EverySpan")
	}
	if c.ReadTimeout < 0 {
		return bad("ReadTimeout", c.ReadTimeout.String(), "must not be negative")
	}
	return nil
}

func checkScopes(field string, names []string) error {
	for _, name := range names {
		if !policies.ValidName(name) {
			return bad(field, strconv.Quote(name), "no scope can have this name: use those of the policies' Per, such as \"tenant\"")
		}
	}
	return nil
}

func bad(field, value, reason string) error {
	return &pacer.ConfigError{In: "otelpacer", Field: field, Value: value, Reason: reason}
}
