package otelpacer

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
)

// Observe exports the state of p's fleet whenever metrics are collected, until you call stop, which you must do before you close p. Each
// collection reads the state once, for at most Config.ReadTimeout. If that fails, the gauges of p are left out, and
// headway.observation.failures counts it. For a policy with scopes, only the busiest values are exported, and only if Config.MetricScopes
// has all of the policy's scopes; how many calls wait for the policy is always exported.
//
// Every process that observes an upstream exports the same values. Errors in stop are passed to [otel.Handle]. Observe returns a
// [*pacer.ConfigError] if p is nil, or the MeterProvider's error if it does not accept the callback.
func (t *Telemetry) Observe(p *pacer.Pacer) (stop func(), err error) {
	if p == nil {
		return nil, bad("Observe", "nil", "give it the Pacer that pacer.New returned")
	}
	g := &t.gauges
	read := func(ctx context.Context, o metric.Observer) error {
		t.read(ctx, o, p)
		return nil
	}
	registration, err := t.meter.RegisterCallback(read,
		g.utilization, g.remaining, g.capacity, g.margin, g.queued, g.waiting, g.paused, g.busiest, g.processes, g.versions)
	if err != nil {
		return nil, err
	}
	t.storeNotLost(p.Upstream())
	return func() {
		if err := registration.Unregister(); err != nil {
			otel.Handle(err)
		}
	}, nil
}

// read tells how the fleet of p stands.
func (t *Telemetry) read(ctx context.Context, o metric.Observer, p *pacer.Pacer) {
	ctx, cancel := context.WithTimeout(ctx, t.config.ReadTimeout)
	defer cancel()
	f, err := fleet.Of(p).Snapshot(ctx)
	if err != nil {
		t.events.failures.Add(ctx, 1, t.measured(p.Upstream(), "", "", keyError.String(errorType(err))))
		return
	}
	whole := t.measured(f.Upstream, "", "")
	o.ObserveInt64(t.gauges.processes, int64(f.Alive), whole)
	if f.VersionCount > 0 { // otherwise no process has reported what it has
		o.ObserveInt64(t.gauges.versions, int64(f.VersionCount), whole)
	}
	o.ObserveFloat64(t.gauges.paused, f.PausedFor.Seconds(), whole)
	o.ObserveInt64(t.gauges.waiting, f.Waiting, whole)
	for i := range f.Policies {
		one := &f.Policies[i]
		attrs := t.measured(f.Upstream, one.Policy.Name(), "")
		o.ObserveInt64(t.gauges.waiting, one.Waiting, attrs)
		if !one.Shown {
			continue
		}
		o.ObserveFloat64(t.gauges.utilization, one.Utilization(), attrs)
		if capacity := one.Capacity(); capacity > 0 { // permits in flight have none
			o.ObserveFloat64(t.gauges.capacity, capacity, attrs)
		}
		t.readStatus(o, &one.PolicyStatus, attrs)
	}
	t.readTopKeys(o, f)
}

// readTopKeys tells how the top keys stand, if all scopes of the policy were asked for: otherwise several of
// them would have the same attributes.
func (t *Telemetry) readTopKeys(o metric.Observer, f *fleet.Snapshot) {
	for i := range f.TopKeys {
		key := &f.TopKeys[i]
		if slices.ContainsFunc(key.Policy.Scopes(), func(name string) bool { return !slices.Contains(t.config.MetricScopes, name) }) {
			continue
		}
		attrs := t.measured(f.Upstream, key.Policy.Name(), key.Scope)
		o.ObserveInt64(t.gauges.busiest, key.Cost, attrs)
		t.readStatus(o, &key.PolicyStatus, attrs)
	}
}

func (t *Telemetry) readStatus(o metric.Observer, s *pacer.PolicyStatus, attrs metric.MeasurementOption) {
	o.ObserveInt64(t.gauges.remaining, s.Remaining, attrs)
	o.ObserveInt64(t.gauges.queued, s.Queued, attrs)
	o.ObserveFloat64(t.gauges.paused, s.PausedFor.Seconds(), attrs)
	if s.Policy.Margin() > 0 { // others keep none
		o.ObserveFloat64(t.gauges.margin, s.Margin.Seconds(), attrs)
	}
}
