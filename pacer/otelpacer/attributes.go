package otelpacer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/store"
)

// Keys of attributes. An empty policy is omitted.
const (
	keyUpstream  = attribute.Key("headway.upstream")
	keyPolicy    = attribute.Key("headway.policy")
	keyScope     = "headway.scope." // and the name of the scope
	keyCaller    = attribute.Key("headway.caller")
	keyReason    = attribute.Key("headway.reason")
	keyFeedback  = attribute.Key("headway.feedback.kind")
	keyOperation = attribute.Key("headway.store.operation")
	keyPaused    = attribute.Key("headway.paused")
	keyQueued    = attribute.Key("headway.queued")
	keyCost      = attribute.Key("headway.cost")
	keyError     = attribute.Key("error.type")
)

// about makes the attributes of a policy's upstream and key.
func about(upstream, policy, scope string, scopes []string, more ...attribute.KeyValue) []attribute.KeyValue {
	attrs := append(make([]attribute.KeyValue, 0, len(more)+2), more...)
	attrs = append(attrs, keyUpstream.String(upstream))
	if policy != "" {
		attrs = append(attrs, keyPolicy.String(policy))
	}
	return appendScopes(attrs, scope, scopes)
}

// appendScopes appends the values of the requested scopes; scope is such as `tenant=acme user=7`.
func appendScopes(attrs []attribute.KeyValue, scope string, requested []string) []attribute.KeyValue {
	if scope == "" || len(requested) == 0 {
		return attrs
	}
	for one := range strings.SplitSeq(scope, " ") {
		if name, value, ok := strings.Cut(one, "="); ok && slices.Contains(requested, name) {
			attrs = append(attrs, attribute.String(keyScope+name, value))
		}
	}
	return attrs
}

// measured makes the attributes of a measurement.
func (t *Telemetry) measured(upstream, policy, scope string, more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(about(upstream, policy, scope, t.config.MetricScopes, more...)...))
}

// reason returns a word for why a call was refused.
func reason(err error) string {
	limit, ok := errors.AsType[*pacer.LimitError](err)
	if !ok {
		return errorType(err)
	}
	switch limit.Reason {
	case pacer.NoScope:
		return "scope"
	case pacer.WaitsForItself:
		return "nested"
	case pacer.BadToken, pacer.TokenSpent, pacer.TokenLost:
		return "token"
	case pacer.NoCredential:
		return "credential"
	case pacer.TooCostly:
		return "never"
	case pacer.Paused:
		return "paused"
	case pacer.NoPermit:
		return "in_flight"
	case pacer.Queued:
		if limit.Limit > 0 {
			return "in_flight"
		}
		return "queued"
	case pacer.TooFar, pacer.TooEarly:
	}
	if errors.Is(limit, context.DeadlineExceeded) {
		return "deadline"
	}
	return "not_yet"
}

// errorType returns the kind of an error: a word, or the Go type of its cause. Neither depends on the error's subject.
func errorType(err error) string {
	var network net.Error
	var forgot *store.ForgotError
	switch {
	case errors.Is(err, pacer.ErrRefused):
		return reason(err)
	case errors.Is(err, pacer.ErrClosed):
		return "closed"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.Is(err, store.ErrUnreachable):
		return "unreachable"
	case network != nil:
		return "network"
	case errors.As(err, &forgot):
		return "forgot"
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	return fmt.Sprintf("%T", err)
}
