package otelpacer

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// events are the instruments of the hooks: the events of this process.
type events struct {
	waits       metric.Float64Histogram
	answers     metric.Float64Histogram
	lateness    metric.Float64Histogram
	calls       metric.Int64Counter
	cost        metric.Int64Counter
	returned    metric.Int64Counter
	refusals    metric.Int64Counter
	wouldWait   metric.Float64Histogram
	wouldQueue  metric.Int64Counter
	wouldRefuse metric.Int64Counter
	notObserved metric.Int64Counter
	pauses      metric.Int64Counter
	resumptions metric.Int64Counter
	feedback    metric.Int64Counter
	store       metric.Float64Histogram
	fallbacks   metric.Int64Counter
	fallback    metric.Int64Gauge
	dropped     metric.Int64Counter
	failures    metric.Int64Counter
}

// gauges are the instruments of a collection: the state of the fleet.
type gauges struct {
	utilization metric.Float64ObservableGauge
	remaining   metric.Int64ObservableGauge
	capacity    metric.Float64ObservableGauge
	margin      metric.Float64ObservableGauge
	queued      metric.Int64ObservableGauge
	waiting     metric.Int64ObservableGauge
	paused      metric.Float64ObservableGauge
	busiest     metric.Int64ObservableGauge
	caller      metric.Int64ObservableGauge
	processes   metric.Int64ObservableGauge
	versions    metric.Int64ObservableGauge
}

// waitBuckets reach from the resolution of a timer to an hour, and have one at time.Minute.
func waitBuckets() []float64 {
	return []float64{
		0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 120, 300, 600, 1800, 3600,
	}
}

// answerBuckets are close together where most upstreams answer, since differences of percentiles matter.
func answerBuckets() []float64 {
	return []float64{
		0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10, 30, 60,
	}
}

// latenessBuckets reach from the lateness of a timer on an idle machine to a long stall.
func latenessBuckets() []float64 {
	return []float64{0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1}
}

// storeBuckets reach to four times 250*time.Millisecond, the most for a first operation.
func storeBuckets() []float64 {
	return []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1}
}

// makeInstruments makes all instruments. doc.go has a line for each.
func (t *Telemetry) makeInstruments() error {
	m := maker{meter: t.meter}
	t.events = events{
		waits:       m.histogram("headway.wait.duration", waitBuckets(), "Wait time of the calls that had to wait."),
		answers:     m.histogram("headway.answer.duration", answerBuckets(), "Time from the admission of a call to its response."),
		lateness:    m.histogram("headway.admission.lateness", latenessBuckets(), "Delay from the slot of a call to its start, without jitter."),
		calls:       m.counter("headway.calls", "{call}", "Calls that started."),
		cost:        m.counter("headway.cost", "{unit}", "Cost that policies charged for calls that started."),
		returned:    m.counter("headway.cost.returned", "{unit}", "Charged cost that was returned because calls turned out to cost less."),
		refusals:    m.counter("headway.refusals", "{call}", "Refused calls; they are not charged."),
		wouldWait:   m.histogram("headway.observed.wait.duration", waitBuckets(), "Wait time that calls would have had if observed policies were enforced."),
		wouldQueue:  m.counter("headway.observed.queued", "{call}", "Calls that would have been queued for a permit if observed policies were enforced."),
		wouldRefuse: m.counter("headway.observed.refusals", "{call}", "Calls that would have been refused if observed policies were enforced."),
		notObserved: m.counter("headway.observed.lost", "{call}", "Calls for which the effect of observed policies is unknown."),
		pauses:      m.counter("headway.pauses", "{pause}", "Pauses that this process received."),
		resumptions: m.counter("headway.resumptions", "{pause}", "Pauses that an operator lifted."),
		feedback:    m.counter("headway.feedback", "{note}", "Feedback items from the upstream that this process reported to the store."),
		store:       m.histogram("headway.store.operation.duration", storeBuckets(), "Duration of operations of the shared store."),
		fallbacks:   m.counter("headway.fallbacks", "{fallback}", "Number of times that this process lost the shared store."),
		fallback:    m.gauge("headway.fallback.active", "{process}", "1 while this process is without the shared store, otherwise 0."),
		dropped:     m.counter("headway.dropped", "{event}", "Events that are missing from these metrics because hooks were too slow."),
		failures:    m.counter("headway.observation.failures", "{failure}", "Collections that failed to read the state of the fleet."),
	}
	t.gauges = gauges{
		utilization: m.floats("headway.policy.utilization", "1", "Fraction of the policy that is in use, from 0 to about 1."),
		remaining:   m.ints("headway.policy.remaining", "{call}", "Number of calls of cost 1 that may start now."),
		capacity:    m.floats("headway.policy.capacity", "{unit}/s", "Cost per second that the policy admits in the long run."),
		margin:      m.floats("headway.policy.margin", "s", "Margin that is added to the policy's period."),
		queued:      m.ints("headway.policy.queued", "{call}", "Calls that are queued for a permit, a lane or a fair share."),
		waiting:     m.ints("headway.policy.waiting", "{call}", "Calls that wait because of the policy."),
		paused:      m.floats("headway.pause.remaining", "s", "Time until a pause ends; 0 if there is none."),
		busiest:     m.ints("headway.busiest.cost", "{unit}", "Cost of the calls that started in about the last minute, by scope value."),
		caller:      m.ints("headway.caller.cost", "{unit}", "Cost of the calls that started in about the last minute, by caller."),
		processes:   m.ints("headway.processes", "{process}", "Processes that pace the upstream."),
		versions:    m.ints("headway.policies.versions", "{version}", "Number of different policy lists among the processes; 1 if all agree."),
	}
	return errors.Join(m.errs...)
}

// A maker makes instruments and keeps the errors.
type maker struct {
	meter metric.Meter
	errs  []error
}

func (m *maker) keep(err error) {
	if err != nil {
		m.errs = append(m.errs, err)
	}
}

func (m *maker) counter(name, unit, about string) metric.Int64Counter {
	i, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
	m.keep(err)
	return i
}

func (m *maker) histogram(name string, buckets []float64, about string) metric.Float64Histogram {
	i, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about),
		metric.WithExplicitBucketBoundaries(buckets...))
	m.keep(err)
	return i
}

func (m *maker) gauge(name, unit, about string) metric.Int64Gauge {
	i, err := m.meter.Int64Gauge(name, metric.WithUnit(unit), metric.WithDescription(about))
	m.keep(err)
	return i
}

func (m *maker) ints(name, unit, about string) metric.Int64ObservableGauge {
	i, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
	m.keep(err)
	return i
}

func (m *maker) floats(name, unit, about string) metric.Float64ObservableGauge {
	i, err := m.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
	m.keep(err)
	return i
}
