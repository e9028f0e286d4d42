package otelpacer

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/headway-go/headway/pacer/hooks"
)

// Hooks returns hooks that record events, for [pacer.Config].Hooks of any number of Pacers. They include the hook for pauses: a Pacer
// with these hooks listens to its store from the start, and must be closed.
func (t *Telemetry) Hooks() *hooks.Set {
	return &hooks.Set{
		WaitDone:        t.waitDone,
		Admitted:        t.admitted,
		Answered:        t.answered,
		Settled:         t.settled,
		Refused:         t.refused,
		Observed:        t.observed,
		NotObserved:     t.notObserved,
		Paused:          t.paused,
		Resumed:         t.resumed,
		FeedbackApplied: t.feedbackApplied,
		Failover:        t.failover,
		StoreRequest:    t.storeRequest,
		Dropped:         t.dropped,
	}
}

func (t *Telemetry) waitDone(ctx context.Context, s hooks.WaitDone) {
	var attrs metric.MeasurementOption
	if s.Err == nil {
		attrs = t.measured(s.Upstream, s.Policy, s.Scope)
	} else {
		attrs = t.measured(s.Upstream, s.Policy, s.Scope, keyError.String(errorType(s.Err)))
	}
	t.events.waits.Record(ctx, s.Took.Seconds(), attrs)
	t.span(ctx, &s)
}

func (t *Telemetry) admitted(ctx context.Context, g hooks.Admitted) {
	attrs := t.measured(g.Upstream, g.Policy, g.Scope)
	t.events.calls.Add(ctx, 1, attrs)
	for _, c := range g.Costs {
		t.events.cost.Add(ctx, c.Cost, t.measured(g.Upstream, c.Policy, c.Scope))
	}
	if g.Late > 0 {
		t.events.lateness.Record(ctx, g.Late.Seconds(), t.measured(g.Upstream, "", ""))
	}
}

func (t *Telemetry) answered(ctx context.Context, a hooks.Answered) {
	t.events.answers.Record(ctx, a.Took.Seconds(), t.measured(a.Upstream, "", ""))
}

// settled counts the cost of a call above its charge, or what was returned: a counter does not go back.
func (t *Telemetry) settled(ctx context.Context, s hooks.Settled) {
	attrs := t.measured(s.Upstream, s.Policy, s.Scope)
	if s.Cost > s.Charged {
		t.events.cost.Add(ctx, s.Cost-s.Charged, attrs)
	} else {
		t.events.returned.Add(ctx, s.Charged-s.Cost, attrs)
	}
}

func (t *Telemetry) refused(ctx context.Context, r hooks.Refusal) {
	t.events.refusals.Add(ctx, 1, t.measured(r.Upstream, r.Policy, r.Scope, keyReason.String(reason(r.Err))))
}

// observed measures what an observed policy would have done. Like those of enforced policies, calls that it would not have held are not
// measured.
func (t *Telemetry) observed(ctx context.Context, o hooks.Observed) {
	switch {
	case o.Refused != nil:
		t.events.wouldRefuse.Add(ctx, 1, t.measured(o.Upstream, o.Policy, o.Scope, keyReason.String(reason(o.Refused))))
	case o.InFlight:
		t.events.wouldQueue.Add(ctx, 1, t.measured(o.Upstream, o.Policy, o.Scope))
	case o.Wait > 0:
		t.events.wouldWait.Record(ctx, o.Wait.Seconds(), t.measured(o.Upstream, o.Policy, o.Scope))
	}
}

func (t *Telemetry) notObserved(n int64) { t.events.notObserved.Add(context.Background(), n) }

func (t *Telemetry) paused(p hooks.Pause) {
	t.events.pauses.Add(context.Background(), 1, t.measured(p.Upstream, p.Policy, p.Scope))
}

func (t *Telemetry) resumed(p hooks.Pause) {
	t.events.resumptions.Add(context.Background(), 1, t.measured(p.Upstream, p.Policy, p.Scope))
}

func (t *Telemetry) feedbackApplied(ctx context.Context, h hooks.FeedbackApplied) {
	t.events.feedback.Add(ctx, 1, t.measured(h.Upstream, h.Policy, h.Scope, keyFeedback.String(h.Kind)))
}

func (t *Telemetry) storeRequest(c hooks.StoreRequest) {
	operation := keyOperation.String(c.Op)
	attrs := t.measured(c.Upstream, "", "", operation)
	if c.Err != nil {
		attrs = t.measured(c.Upstream, "", "", operation, keyError.String(errorType(c.Err)))
	}
	t.events.store.Record(context.Background(), c.Took.Seconds(), attrs)
}

func (t *Telemetry) failover(f hooks.Failover) {
	if f.On {
		t.events.fallbacks.Add(context.Background(), 1, t.measured(f.Upstream, "", ""))
	}
	t.storeLost(f.Upstream, f.On)
}

// storeLost records whether this process has lost the store of an upstream.
func (t *Telemetry) storeLost(upstream string, lost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recordLost(upstream, lost)
}

// storeNotLost records that the store is not lost, unless it has a gauge already: otherwise there would be none until a loss.
func (t *Telemetry) storeNotLost(upstream string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.lost[upstream]; !known {
		t.recordLost(upstream, false)
	}
}

// recordLost sets the gauge. The caller holds t.mu, so that the latest change is recorded last.
func (t *Telemetry) recordLost(upstream string, lost bool) {
	t.lost[upstream] = lost
	value := int64(0)
	if lost {
		value = 1
	}
	t.events.fallback.Record(context.Background(), value, t.measured(upstream, "", ""))
}

func (t *Telemetry) dropped(n int64) { t.events.dropped.Add(context.Background(), n) }
