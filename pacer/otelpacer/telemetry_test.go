package otelpacer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/otelpacer"
)

// A setting that makes no sense is refused, by name.
func TestBadConfigs(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]otelpacer.Config{
		`otelpacer: MetricScopes is "": no scope can have this name: use those of the policies' Per, such as "tenant"`:          {MetricScopes: []string{""}},
		`otelpacer: SpanScopes is "tenant=acme": no scope can have this name: use those of the policies' Per, such as "tenant"`: {SpanScopes: []string{"tenant", "tenant=acme"}},
		`otelpacer: MinSpan is -1s: must not be negative, except EverySpan`:                                                     {MinSpan: -time.Second},
		`otelpacer: ReadTimeout is -1s: must not be negative`:                                                                   {ReadTimeout: -time.Second},
	} {
		telemetry, err := otelpacer.New(c)
		require.Nil(t, telemetry)
		require.EqualError(t, err, want)
		var config *pacer.ConfigError
		require.ErrorAs(t, err, &config)
	}
}

// Without providers the global ones are used, which do nothing until there are some.
func TestGlobalProviders(t *testing.T) {
	t.Parallel()
	telemetry, err := otelpacer.New(otelpacer.Config{})
	require.NoError(t, err)
	telemetry.Hooks().Admitted(t.Context(), hooks.Admitted{Upstream: "crm", Cost: 1})
}

// brokenProvider makes no instruments.
type brokenProvider struct{ noop.MeterProvider }

type brokenMeter struct{ noop.Meter }

var errBroken = errors.New("no instruments today")

func (brokenProvider) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }

func (brokenMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errBroken
}

func (brokenMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return nil, errBroken
}

// A MeterProvider that makes no instruments is an error now, not a panic at the first call.
func TestBrokenMeterProvider(t *testing.T) {
	t.Parallel()
	telemetry, err := otelpacer.New(otelpacer.Config{MeterProvider: brokenProvider{}})
	require.Nil(t, telemetry)
	require.ErrorIs(t, err, errBroken)
}
