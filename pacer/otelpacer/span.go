package otelpacer

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/pacer/hooks"
)

// spanName is the name of every wait's span. Attributes have the rest.
const spanName = "headway wait"

// span makes a wait a span below the caller's, if that is sampled.
//
// An event of the caller's span would be lost if that had ended, because hooks run a moment later. A span can be made at any time, with its
// real times, and shows the wait as a bar beside those of the call.
func (t *Telemetry) span(ctx context.Context, s *hooks.WaitDone) {
	if s.Took < t.config.MinSpan || !trace.SpanContextFromContext(ctx).IsSampled() {
		return
	}
	attrs := about(s.Upstream, s.Policy, s.Scope, t.config.SpanScopes,
		keyPaused.Bool(s.Paused), keyQueued.Bool(s.Queued), keyCost.Int64(s.Cost))
	if s.Err != nil {
		attrs = append(attrs, keyError.String(errorType(s.Err)))
	}
	_, span := t.tracer.Start(ctx, spanName, trace.WithTimestamp(s.Since), trace.WithAttributes(attrs...))
	if s.Err != nil {
		span.SetStatus(codes.Error, errorType(s.Err)) // Err's text may name a scope's value
	}
	span.End(trace.WithTimestamp(s.Since.Add(s.Took)))
}
