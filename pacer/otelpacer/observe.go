package otelpacer

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
)

// Observe exports the state of p's fleet whenever metrics are collected, until you call stop, which you must do before you close p. Each
// collection reads the state once, for at most Config.ReadTimeout. If that fails, the gauges of p are missing, and
// headway.observation.failures counts it. For a policy with scopes, the gauges are those of the key that uses most of its limit, without
// the key's values. If Config.MetricScopes has all of the policy's scopes, the busiest keys are exported instead, with their values.
//
// Every process that observes an upstream exports the same values. Errors in stop are passed to [otel.Handle]. Observe returns a
// [*pacer.ConfigError] if p is nil, or the MeterProvider's error if it does not accept the callback.
func (t *Telemetry) Observe(p *pacer.Pacer) (stop func(), err error) {
	if p == nil {
		return nil, bad("Observe", "nil", "give it the Pacer that pacer.New returned")
	}
	g, operator := &t.gauges, fleet.Of(p)
	read := func(ctx context.Context, o metric.Observer) error {
		t.read(ctx, o, operator)
		return nil
	}
	registration, err := t.meter.RegisterCallback(read,
		g.utilization, g.remaining, g.capacity, g.margin, g.queued, g.waiting, g.paused, g.busiest, g.caller, g.processes, g.versions)
	if err != nil {
		return nil, err
	}
	t.storeNotLost(fleet.Of(p).Upstream())
	return func() {
		if err := registration.Unregister(); err != nil {
			otel.Handle(err)
		}
	}, nil
}

// read reports the state of an upstream's fleet.
func (t *Telemetry) read(ctx context.Context, o metric.Observer, of *fleet.Operator) {
	ctx, cancel := context.WithTimeout(ctx, t.config.ReadTimeout)
	defer cancel()
	f, err := of.Snapshot(ctx)
	if err != nil {
		t.events.failures.Add(ctx, 1, t.measured(of.Upstream(), "", "", keyError.String(errorType(err))))
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
		if one.Shown && (!one.Busiest || !t.named(one.Policy)) {
			for j := range f.TopKeys {
				if key := &f.TopKeys[j]; one.Busiest && key.Policy.Name() == one.Policy.Name() {
					one.PausedFor = max(one.PausedFor, key.PausedFor)
				}
			}
			t.readPolicy(o, one, attrs)
		}
	}
	t.readTopKeys(o, f)
	for _, c := range f.Callers {
		o.ObserveInt64(t.gauges.caller, c.Cost, t.measured(f.Upstream, c.Policy, "", keyCaller.String(c.Name)))
	}
}

// named reports whether all scopes of a policy were requested. Otherwise several of its keys would have the same attributes.
func (t *Telemetry) named(p policies.Policy) bool {
	return !slices.ContainsFunc(p.Scopes(), func(name string) bool { return !slices.Contains(t.config.MetricScopes, name) })
}

// readTopKeys reports the state of the busiest keys of policies whose scopes were requested: of the top keys, and of those that use most.
func (t *Telemetry) readTopKeys(o metric.Observer, f *fleet.Snapshot) {
	for i := range f.TopKeys {
		key := &f.TopKeys[i]
		if t.named(key.Policy) {
			attrs := t.measured(f.Upstream, key.Policy.Name(), key.Scope)
			o.ObserveInt64(t.gauges.busiest, key.Cost, attrs)
			t.readPolicy(o, &fleet.Policy{PolicyStatus: key.PolicyStatus, Shown: true, KeyCost: key.Cost}, attrs)
		}
	}
	for i := range f.Policies { // a second observation of a key replaces the first
		if one := &f.Policies[i]; one.Busiest && t.named(one.Policy) {
			t.readPolicy(o, one, t.measured(f.Upstream, one.Policy.Name(), one.Scope))
		}
	}
}

func (t *Telemetry) readPolicy(o metric.Observer, s *fleet.Policy, attrs metric.MeasurementOption) {
	o.ObserveFloat64(t.gauges.utilization, s.Utilization(), attrs)
	if capacity := s.Capacity(); capacity > 0 { // permits in flight have none
		o.ObserveFloat64(t.gauges.capacity, capacity, attrs)
	}
	o.ObserveInt64(t.gauges.remaining, s.Remaining, attrs)
	o.ObserveInt64(t.gauges.queued, s.Queued, attrs)
	o.ObserveFloat64(t.gauges.paused, s.PausedFor.Seconds(), attrs)
	if s.Policy.Margin() > 0 { // others keep none
		o.ObserveFloat64(t.gauges.margin, s.Margin.Seconds(), attrs)
	}
}
