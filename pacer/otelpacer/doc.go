// Package otelpacer exports what a pacer does to OpenTelemetry: metrics, and a span for each wait inside the caller's trace.
//
//	t, err := otelpacer.New(otelpacer.Config{}) // the global providers
//	p, err := pacer.New(pacer.Config{Upstream: "salesforce", Policies: limits, Hooks: []*hooks.Set{t.Hooks()}})
//	stop, err := t.Observe(p)
//
// It needs only the OpenTelemetry API; your program chooses the SDK and the exporter. docs/telemetry.md has an
// example, alerts, and a dashboard for Grafana.
//
// # What the hooks and the gauges report
//
// Counters and histograms come from the hooks of the Pacer ([Telemetry.Hooks]): they describe the calls of this process, and you can sum
// them over processes. Calls do not wait for them.
//
// Gauges are read when metrics are collected ([Telemetry.Observe]): they describe the whole fleet, so every process that observes reports
// the same values. Do not sum them. An upstream needs only one process that observes it.
//
// # Cardinality
//
// Attributes are the names of upstreams and policies, and words of this package. The values of scopes, such as tenants, are
// not among them, unless Config.MetricScopes or Config.SpanScopes names the scope.
//
// # Metrics
//
// Prometheus writes dots as underscores, and adds _total to counters, _seconds to s, _ratio to 1 and _per_second to {unit}/s. Each metric has a
// type, a unit and attributes, whose names begin with "headway.", except error.type; scopes stands for Config.MetricScopes.
//
//   - headway.calls, counter, {call}; upstream, policy, scopes: Calls that started. The policy is the one that made them wait.
//   - headway.cost, counter, {unit}; upstream, policy, scopes: Cost that policies charged for calls that started. Do not sum over
//     policies.
//   - headway.cost.returned, counter, {unit}; upstream, policy, scopes: Charged cost that was returned because calls turned out to cost
//     less.
//   - headway.wait.duration, histogram, s; upstream, policy, error.type, scopes: Wait time of the calls that had to wait. error.type: it
//     ended with an error.
//   - headway.answer.duration, histogram, s; upstream: Time from the admission of a call to its response.
//   - headway.admission.lateness, histogram, s; upstream: Delay from the slot of a call to its start, without jitter.
//   - headway.refusals, counter, {call}; upstream, policy, reason, scopes: Refused calls; they are not charged.
//   - headway.observed.wait.duration, histogram, s; upstream, policy, scopes: Wait time that calls would have had if observed policies
//     were enforced.
//   - headway.observed.queued, counter, {call}; upstream, policy, scopes: Calls that would have been queued for a permit if observed
//     policies were enforced.
//   - headway.observed.refusals, counter, {call}; upstream, policy, reason, scopes: Calls that would have been refused if observed
//     policies were enforced.
//   - headway.observed.lost, counter, {call}; –: Calls for which the effect of observed policies is unknown.
//   - headway.pauses, counter, {pause}; upstream, policy, scopes: Pauses that this process received. All processes receive the same: take
//     the maximum.
//   - headway.resumptions, counter, {pause}; upstream, policy, scopes: Pauses that an operator lifted. The same.
//   - headway.feedback, counter, {note}; upstream, policy, feedback.kind, scopes: Feedback items from the upstream that this process
//     reported to the store.
//   - headway.store.operation.duration, histogram, s; upstream, store.operation, error.type: Duration of operations of the shared store.
//   - headway.fallbacks, counter, {fallback}; upstream: Number of times that this process lost the shared store.
//   - headway.fallback.active, gauge, {process}; upstream: 1 while this process is without the shared store, otherwise 0. The sum is how
//     many are.
//   - headway.dropped, counter, {event}; –: Events that are missing from these metrics because hooks were too slow.
//   - headway.observation.failures, counter, {failure}; upstream, error.type: Collections that failed to read the state of the fleet.
//   - headway.policy.utilization, gauge, 1; upstream, policy, scopes: Fraction of the policy that is in use, from 0 to about 1.
//   - headway.policy.remaining, gauge, {call}; upstream, policy, scopes: Number of calls of cost 1 that may start now.
//   - headway.policy.capacity, gauge, {unit}/s; upstream, policy, scopes: Cost per second that the policy admits in the long run. Less
//     than configured after a lower limit was reported.
//   - headway.policy.margin, gauge, s; upstream, policy, scopes: Margin that is added to the policy's period.
//   - headway.policy.queued, gauge, {call}; upstream, policy, scopes: Calls that are queued for a permit, a lane or a fair share.
//   - headway.policy.waiting, gauge, {call}; upstream, policy: Calls that wait because of the policy. Without policy: because the upstream
//     is paused.
//   - headway.pause.remaining, gauge, s; upstream, policy, scopes: Time until a pause ends; 0 if there is none. Without policy: of the
//     upstream.
//   - headway.busiest.cost, gauge, {unit}; upstream, policy, scopes: Cost of the calls that started in about the last minute, by scope
//     value.
//   - headway.caller.cost, gauge, {unit}; upstream, policy, caller: Cost of the calls that started in about the last minute, by caller: the
//     100 that cost most.
//   - headway.processes, gauge, {process}; upstream: Processes that pace the upstream.
//   - headway.policies.versions, gauge, {version}; upstream: Number of different policy lists among the processes; 1 if all agree.
package otelpacer
