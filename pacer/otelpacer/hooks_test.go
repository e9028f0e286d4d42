package otelpacer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/otelpacer"
	"github.com/headway-go/headway/pacer/store"
)

var tenantAcme = hooks.Waiting{Upstream: "crm", Policy: "per-tenant", Scope: "tenant=acme user=7", Cost: 2}

// Every event is measured, with the attributes that it should have and no others.
func TestEventsAreMeasured(t *testing.T) {
	t.Parallel()
	telemetry, reader := newTelemetry(t, otelpacer.Config{})
	h, ctx := telemetry.Hooks(), t.Context()
	h.WaitDone(ctx, hooks.WaitDone{Waiting: tenantAcme, Took: 500 * time.Millisecond})
	h.WaitDone(ctx, hooks.WaitDone{Waiting: tenantAcme, Took: time.Second})
	h.WaitDone(ctx, hooks.WaitDone{Waiting: hooks.Waiting{Upstream: "crm", Paused: true}, Took: time.Second, Err: context.Canceled})
	tenant, tokens := hooks.PolicyCost{Policy: "per-tenant", Scope: "tenant=acme", Cost: 2}, hooks.PolicyCost{Policy: "tokens", Cost: 300}
	h.Admitted(ctx, hooks.Admitted{Upstream: "crm", Cost: 3})
	h.Admitted(ctx, hooks.Admitted{Upstream: "crm", Cost: 2, Costs: []hooks.PolicyCost{tenant, tokens}})
	h.Admitted(ctx, hooks.Admitted{
		Upstream: "crm", Policy: "per-tenant", Scope: "tenant=acme", Cost: 2, Costs: []hooks.PolicyCost{tenant, tokens}, Waited: time.Second,
		Late: 2 * time.Millisecond,
	})
	h.Answered(ctx, hooks.Answered{Upstream: "crm", Took: 40 * time.Millisecond})
	h.Answered(ctx, hooks.Answered{Upstream: "crm", Took: 60 * time.Millisecond})
	tokens.Cost = 100
	h.Settled(ctx, hooks.Settled{Upstream: "crm", PolicyCost: tokens, Charged: 300})
	tokens.Cost = 350
	h.Settled(ctx, hooks.Settled{Upstream: "crm", PolicyCost: tokens, Charged: 300})
	h.Refused(ctx, hooks.Refusal{Upstream: "crm", Policy: "daily", Err: &pacer.LimitError{}})
	h.Paused(hooks.Pause{Upstream: "crm", For: time.Second})
	h.Resumed(hooks.Pause{Upstream: "crm", Policy: "daily"})
	h.FeedbackApplied(ctx, hooks.FeedbackApplied{Upstream: "crm", Policy: "daily", Kind: store.NoteAnswer.String(), Value: 7})
	h.FeedbackApplied(ctx, hooks.FeedbackApplied{Upstream: "crm", Kind: store.NoteStray.String()})
	h.FeedbackApplied(ctx, hooks.FeedbackApplied{Upstream: "crm", Kind: store.NoteSlow.String()})
	h.FeedbackApplied(ctx, hooks.FeedbackApplied{Upstream: "crm", Kind: store.NoteLearn.String()})
	h.StoreRequest(hooks.StoreRequest{Upstream: "crm", Op: "reserve", Calls: 4, Took: 2 * time.Millisecond})
	h.StoreRequest(hooks.StoreRequest{Upstream: "crm", Op: "heartbeat", Took: 250 * time.Millisecond, Err: context.DeadlineExceeded})
	h.Dropped(17)
	h.Observed(ctx, hooks.Observed{Upstream: "crm"})
	h.Observed(ctx, hooks.Observed{Upstream: "crm", Policy: "daily", Wait: 2 * time.Second})
	h.Observed(ctx, hooks.Observed{Upstream: "crm", Policy: "flight", InFlight: true, Running: 9})
	h.Observed(ctx, hooks.Observed{Upstream: "crm", Policy: "daily", Wait: time.Hour, Refused: &pacer.LimitError{}})
	h.Observed(ctx, hooks.Observed{Upstream: "crm", Policy: "tenant", Refused: &pacer.LimitError{Reason: pacer.NoScope}})
	h.NotObserved(3)
	require.Equal(t, []string{
		`headway.admission.lateness{headway.upstream=crm} count=1 sum=0.002`,
		`headway.answer.duration{headway.upstream=crm} count=2 sum=0.1`,
		`headway.calls{headway.policy=per-tenant,headway.upstream=crm} 1`,
		`headway.calls{headway.upstream=crm} 2`,
		`headway.cost.returned{headway.policy=tokens,headway.upstream=crm} 200`,
		`headway.cost{headway.policy=per-tenant,headway.upstream=crm} 4`,
		`headway.cost{headway.policy=tokens,headway.upstream=crm} 650`,
		`headway.dropped{} 17`,
		`headway.feedback{headway.feedback.kind=answer,headway.policy=daily,headway.upstream=crm} 1`,
		`headway.feedback{headway.feedback.kind=learn,headway.upstream=crm} 1`,
		`headway.feedback{headway.feedback.kind=slow,headway.upstream=crm} 1`,
		`headway.feedback{headway.feedback.kind=stray,headway.upstream=crm} 1`,
		`headway.observed.lost{} 3`,
		`headway.observed.queued{headway.policy=flight,headway.upstream=crm} 1`,
		`headway.observed.refusals{headway.policy=daily,headway.reason=not_yet,headway.upstream=crm} 1`,
		`headway.observed.refusals{headway.policy=tenant,headway.reason=scope,headway.upstream=crm} 1`,
		`headway.observed.wait.duration{headway.policy=daily,headway.upstream=crm} count=1 sum=2`,
		`headway.pauses{headway.upstream=crm} 1`,
		`headway.refusals{headway.policy=daily,headway.reason=not_yet,headway.upstream=crm} 1`,
		`headway.resumptions{headway.policy=daily,headway.upstream=crm} 1`,
		`headway.store.operation.duration{error.type=timeout,headway.store.operation=heartbeat,headway.upstream=crm} count=1 sum=0.25`,
		`headway.store.operation.duration{headway.store.operation=reserve,headway.upstream=crm} count=1 sum=0.002`,
		`headway.wait.duration{error.type=canceled,headway.upstream=crm} count=1 sum=1`,
		`headway.wait.duration{headway.policy=per-tenant,headway.upstream=crm} count=2 sum=1.5`,
	}, readings(t, reader))
}

// Every hook is set, except Waiting: nothing is recorded until the wait is over.
func TestAllHooksAreSet(t *testing.T) {
	t.Parallel()
	telemetry, _ := newTelemetry(t, otelpacer.Config{})
	hooks := reflect.ValueOf(telemetry.Hooks()).Elem()
	for i := range hooks.NumField() {
		if field := hooks.Type().Field(i); field.Type.Kind() == reflect.Func && field.Name != "Waiting" {
			require.False(t, hooks.Field(i).IsNil(), field.Name)
		}
	}
}

// The context of a call that gave up has ended, and its measurements count all the same.
func TestEventsOfEndedContextsAreMeasured(t *testing.T) {
	t.Parallel()
	telemetry, reader := newTelemetry(t, otelpacer.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	telemetry.Hooks().WaitDone(ctx, hooks.WaitDone{Waiting: tenantAcme, Took: time.Second, Err: ctx.Err()})
	require.Len(t, readings(t, reader), 1)
}

// Values of scopes are attributes only if their scope was requested.
func TestScopesAreAttributesWhenRequested(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		requested []string
		want      string
	}{
		{nil, `headway.wait.duration{headway.policy=per-tenant,headway.upstream=crm} count=1 sum=1`},
		{[]string{"region"}, `headway.wait.duration{headway.policy=per-tenant,headway.upstream=crm} count=1 sum=1`},
		{[]string{"tenant"}, `headway.wait.duration{headway.policy=per-tenant,headway.scope.tenant=acme,headway.upstream=crm} count=1 sum=1`},
		{[]string{"user", "tenant"}, `headway.wait.duration{headway.policy=per-tenant,headway.scope.tenant=acme,headway.scope.user=7,headway.upstream=crm} count=1 sum=1`},
	} {
		telemetry, reader := newTelemetry(t, otelpacer.Config{MetricScopes: one.requested, SpanScopes: []string{"tenant"}})
		telemetry.Hooks().WaitDone(t.Context(), hooks.WaitDone{Waiting: tenantAcme, Took: time.Second})
		require.Equal(t, []string{one.want}, readings(t, reader))
	}
}

// The code does not rely on how a scope's text looks.
func TestOddScopes(t *testing.T) {
	t.Parallel()
	for scope, want := range map[string]string{
		"tenant=a=b+c%20": `headway.pauses{headway.scope.tenant=a=b+c%20,headway.upstream=crm} 1`,
		"tenant=":         `headway.pauses{headway.scope.tenant=,headway.upstream=crm} 1`,
		"tenant":          `headway.pauses{headway.upstream=crm} 1`,
		"=x":              `headway.pauses{headway.upstream=crm} 1`,
		"  tenant=x  ":    `headway.pauses{headway.scope.tenant=x,headway.upstream=crm} 1`,
	} {
		telemetry, reader := newTelemetry(t, otelpacer.Config{MetricScopes: []string{"tenant"}})
		telemetry.Hooks().Paused(hooks.Pause{Upstream: "crm", Scope: scope})
		got := readings(t, reader)
		require.Len(t, got, 1)
		require.Equal(t, want, unescape(got[0]))
	}
}

// unescape undoes what attribute.DefaultEncoder escapes.
func unescape(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		out = append(out, s[i])
	}
	return string(out)
}

// A refusal has one reason: why the call may not go precedes what bounded its wait.
func TestReasons(t *testing.T) {
	t.Parallel()
	telemetry, reader := newTelemetry(t, otelpacer.Config{})
	for _, err := range []error{
		&pacer.LimitError{Reason: pacer.NoScope},
		&pacer.LimitError{Reason: pacer.WaitsForItself},
		&pacer.LimitError{Reason: pacer.TooCostly, Err: context.DeadlineExceeded},
		&pacer.LimitError{Reason: pacer.Paused, Err: context.DeadlineExceeded},
		&pacer.LimitError{Reason: pacer.Queued, Limit: 1},
		&pacer.LimitError{Reason: pacer.Queued, Err: context.DeadlineExceeded},
		&pacer.LimitError{Err: context.DeadlineExceeded},
		&pacer.LimitError{},
		fmt.Errorf("wrapped: %w", &pacer.LimitError{Reason: pacer.TooCostly}),
		&pacer.LimitError{Reason: pacer.TooEarly},
		&pacer.LimitError{Reason: pacer.TokenSpent},
		&pacer.LimitError{Reason: pacer.NoCredential},
		nil,
	} {
		telemetry.Hooks().Refused(t.Context(), hooks.Refusal{Upstream: "crm", Err: err})
	}
	require.Equal(t, []string{
		`headway.refusals{headway.reason=<nil>,headway.upstream=crm} 1`,
		`headway.refusals{headway.reason=credential,headway.upstream=crm} 1`,
		`headway.refusals{headway.reason=deadline,headway.upstream=crm} 1`,
		`headway.refusals{headway.reason=in_flight,headway.upstream=crm} 1`,
		`headway.refusals{headway.reason=nested,headway.upstream=crm} 1`,
		`headway.refusals{headway.reason=never,headway.upstream=crm} 2`,
		`headway.refusals{headway.reason=not_yet,headway.upstream=crm} 2`,
		`headway.refusals{headway.reason=paused,headway.upstream=crm} 1`,
		`headway.refusals{headway.reason=queued,headway.upstream=crm} 1`,
		`headway.refusals{headway.reason=scope,headway.upstream=crm} 1`,
		`headway.refusals{headway.reason=token,headway.upstream=crm} 1`,
	}, readings(t, reader))
}

// The kind of an error is one of few words, or a type: nothing of its text.
func TestErrorTypes(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		err  error
		want string
	}{
		{&pacer.LimitError{Err: context.DeadlineExceeded}, "deadline"}, // although it matches context.DeadlineExceeded
		{pacer.ErrClosed, "closed"},
		{fmt.Errorf("x: %w", context.Canceled), "canceled"},
		{&pacer.StoreError{Err: context.DeadlineExceeded}, "timeout"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsTimeout: true}}, "timeout"},
		{&pacer.StoreError{Err: store.ErrUnreachable}, "unreachable"},
		{&net.OpError{Op: "dial", Err: io.EOF}, "network"},
		{fmt.Errorf("10.0.0.7: %w", errors.New("x")), "*errors.errorString"},
		{&pacer.StoreError{Err: &store.ForgotError{}}, "forgot"},
		{errors.Join(io.EOF, io.EOF), "*errors.joinError"},
	} {
		telemetry, reader := newTelemetry(t, otelpacer.Config{})
		telemetry.Hooks().StoreRequest(hooks.StoreRequest{Upstream: "crm", Op: "heartbeat", Err: one.err})
		got := readings(t, reader)
		require.Len(t, got, 1)
		require.Contains(t, unescape(got[0]), "{error.type="+one.want+",")
	}
}

// The fallback is counted when it begins, and the gauge shows whether it is on.
func TestFallback(t *testing.T) {
	t.Parallel()
	telemetry, reader := newTelemetry(t, otelpacer.Config{})
	h := telemetry.Hooks()
	h.Failover(hooks.Failover{Upstream: "crm", On: true, Processes: 4, Err: store.ErrUnreachable})
	require.Equal(t, []string{
		`headway.fallback.active{headway.upstream=crm} 1`, `headway.fallbacks{headway.upstream=crm} 1`,
	}, readings(t, reader))
	h.Failover(hooks.Failover{Upstream: "crm", For: time.Second})
	require.Equal(t, []string{
		`headway.fallback.active{headway.upstream=crm} 0`, `headway.fallbacks{headway.upstream=crm} 1`,
	}, readings(t, reader))
}
