package awspacer

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
	"github.com/headway-go/headway/policies/specs"
)

// The scopes that each call carries.
const (
	ScopeService   = "service"   // the ID of the service as the SDK names it, such as "S3" or "CloudWatch Logs"
	ScopeRegion    = "region"    // such as "eu-central-1"
	ScopeOperation = "operation" // such as "GetObject"
)

// An Option configures the middlewares.
type Option func(*pacing)

// WithCallOptions sets a function that returns a call's options, such as its cost and its values for scopes. It receives the service,
// such as "DynamoDB", the operation, such as "GetItem", and the input, such as a *dynamodb.GetItemInput. GetRegion in the SDK's package
// aws/middleware returns the region from ctx. The function is called for each attempt, and must not change the input. The scopes that it
// returns override those that each call carries, and those that the context carries by [pacer.With]. Defaults to no options.
func WithCallOptions(describe func(ctx context.Context, service, operation string, input any) []pacer.Option) Option {
	return func(m *pacing) { m.describe = describe }
}

// WithThrottles sets which errors are throttling errors, as StandardOptions.Throttles does for the SDK's retryer: the first check that
// recognises the error decides. Defaults to [retry.DefaultThrottles].
func WithThrottles(checks ...retry.IsErrorThrottle) Option {
	return func(m *pacing) { m.throttles = checks }
}

// WithThrottleScope bounds which calls a throttling error affects: those with the same value of this scope. If no policy that binds the
// call is Per that scope, the error affects the widest scope that binds the call. "" sets no bound. Defaults to [ScopeService].
func WithThrottleScope(name string) Option {
	return func(m *pacing) { m.within = name }
}

// WithThrottlePause sets how long calls pause after a throttling error that names no wait. If the pause is no longer than a limit's
// period, it begins only with the second such error within that period, because a single one may be stray: see [policies.Policy.Margin].
// Values below 0 are 0. Defaults to 0: an adaptive policy slows down, and with other policies the pause is a guess.
func WithThrottlePause(d time.Duration) Option {
	return func(m *pacing) { m.pause = max(0, d) }
}

// An Error reports why a call was not sent. It wraps the pacer's error, which errors.As finds. The SDK's retryer does not repeat such a
// call.
type Error struct{ Err error }

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the pacer's error.
func (e *Error) Unwrap() error { return e.Err }

// RetryableError returns false: see retry.RetryableError. Without it, the SDK would mistake a deadline or an unreachable store for a
// failed connection to the service.
func (e *Error) RetryableError() bool { return false }

// AppendMiddlewares makes the calls of all clients with these API options wait for the pacer. Pass the APIOptions of an aws.Config, or of
// the Options of one client. It does not affect clients that were made before. It panics if the pacer is nil.
//
// One middleware comes directly after "Retry" in the Finalize step, so that each attempt waits before its credentials are fetched
// ("GetIdentity"), its endpoint is resolved and it is signed ("Signing"). One is at the end of the Initialize step, and sees the input;
// one at the end of the Deserialize step, and sees the response as it comes. Presigned URLs are made without waiting, and charge nothing.
//
// Calls can have several pacers, of different upstreams. They wait first for the one that was appended last. If two pacers of a call have
// the same upstream, the call fails with a [*pacer.ConfigError].
func AppendMiddlewares(apiOptions *[]func(*middleware.Stack) error, p *pacer.Pacer, opts ...Option) {
	if p == nil {
		panic("awspacer: nil Pacer: make one with pacer.New")
	}
	m := &pacing{pacer: p, throttles: retry.DefaultThrottles, within: ScopeService}
	for _, set := range opts {
		set(m)
	}
	*apiOptions = append(slices.Clip(*apiOptions), m.addTo) // a copy of the Config may have the same array
}

// pacing is the middlewares of one pacer.
type pacing struct {
	pacer     *pacer.Pacer
	describe  func(ctx context.Context, service, operation string, input any) []pacer.Option
	throttles retry.IsErrorThrottles
	within    string
	pause     time.Duration
}

// addTo adds the middlewares to the stack of one call.
func (m *pacing) addTo(stack *middleware.Stack) error {
	if len(stack.Deserialize.List()) == 0 {
		return nil // it makes a presigned URL: nothing is sent
	}
	id := "Headway " + fleet.Of(m.pacer).Upstream()
	if _, ok := stack.Finalize.Get(id); ok {
		return &pacer.ConfigError{In: "awspacer", Field: "Pacer", Value: strconv.Quote(fleet.Of(m.pacer).Upstream()), Reason: "the calls have a pacer of this upstream already: append it once"}
	}
	return errors.Join(
		stack.Initialize.Add(middleware.InitializeMiddlewareFunc(id, keepInput), middleware.After),
		addToAttempt(stack, middleware.FinalizeMiddlewareFunc(id, m.finalize)),
		stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc(id, m.deserialize), middleware.After),
	)
}

// addToAttempt adds a middleware as the first of each attempt, or before all others if nothing is repeated.
func addToAttempt(stack *middleware.Stack, first middleware.FinalizeMiddleware) error {
	loop := (*retry.Attempt)(nil).ID()
	if _, ok := stack.Finalize.Get(loop); !ok {
		return stack.Finalize.Add(first, middleware.Before)
	}
	return stack.Finalize.Insert(first, loop, middleware.After)
}

// inputKey is of the input of a call, as a value of its stack.
type inputKey struct{}

// keepInput keeps the input of a call for the Finalize step, which only has the request.
func keepInput(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	return next.HandleInitialize(middleware.WithStackValue(ctx, inputKey{}, in.Parameters), in)
}

// attemptKey is of an attempt, as a value of its stack. A call can have several pacers.
type attemptKey struct{ of *pacing }

// callKey is of the pacer whose permits a call holds, in the contexts of the calls that it makes.
type callKey struct{ of *pacer.Pacer }

// finalize paces one attempt.
func (m *pacing) finalize(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (out middleware.FinalizeOutput, metadata middleware.Metadata, err error) {
	call, err := m.pacer.Acquire(ctx, m.options(ctx)...)
	if err != nil {
		return out, metadata, &Error{err}
	}
	a := hold(ctx, call)
	defer func() { // also if next panics
		m.report(ctx, a, err)
		a.over(err)
	}()
	inner := context.WithValue(ctx, callKey{m.pacer}, true)
	return next.HandleFinalize(middleware.WithStackValue(inner, attemptKey{m}, a), in)
}

// options describes a call to the pacer.
func (m *pacing) options(ctx context.Context) []pacer.Option {
	service, operation := awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)
	opts := []pacer.Option{
		pacer.Tracked(),
		pacer.Scope(ScopeService, service),
		pacer.Scope(ScopeRegion, awsmiddleware.GetRegion(ctx)),
		pacer.Scope(ScopeOperation, operation),
	}
	if ctx.Value(callKey{m.pacer}) != nil {
		for _, policy := range fleet.Of(m.pacer).Policies() {
			if policy.Spec().Algorithm == specs.Concurrency {
				opts = append(opts, pacer.CostOf(policy.Name(), 0)) // the call that needs this one has its permit
			}
		}
	}
	if m.describe != nil {
		opts = append(opts, m.describe(ctx, service, operation, middleware.GetStackValue(ctx, inputKey{}))...)
	}
	return opts
}

// reportTimeout bounds for how long an attempt whose context has ended waits until the store has the service's answer.
const reportTimeout = 5 * time.Second

// report informs the pacer how an attempt ended. A failure of the store is no error of the call: hooks receive it.
func (m *pacing) report(ctx context.Context, a *attempt, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	if !a.sent {
		_ = a.call.Settle(ctx, policies.Cost{N: 0})
	}
	if m.throttles.IsErrorThrottle(err).Bool() && !isForeign(err) {
		_ = a.call.Report(ctx, m.feedback(err))
		return
	}
	_ = a.call.Report(ctx)
}

// isForeign reports whether an error is the reply of a host to which the HTTP client was redirected.
func isForeign(err error) bool {
	e, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !ok || e.Response == nil || e.Response.Response == nil || e.Response.Request == nil {
		return false
	}
	last := e.Response.Request
	for r := last; r.Response != nil; {
		if r = r.Response.Request; r == nil || r.URL.Host != last.URL.Host {
			return true
		}
	}
	return false
}

// feedback returns the feedback of a throttling error.
func (m *pacing) feedback(err error) policies.Feedback {
	f := policies.Feedback{Source: "AWS", Within: m.within, Refused: true, Wait: m.pause}
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		f.Source = e.ErrorCode()
	}
	if e, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && e.Response != nil && e.Response.Response != nil {
		if wait, requested := retryAfter(e.Response.Header); requested {
			f.Wait = wait
		}
	}
	return f
}

// maxWait is the longest wait that is read of a reply: pacers cap it further, see Config.MaxPause.
const maxWait = 365 * 24 * time.Hour

// retryAfter returns the wait that a reply requests: by X-Amz-Retry-After, in milliseconds, which the SDK's retryer reads, too (package
// retry, adjustForRetryAfterHeader), or by Retry-After.
func retryAfter(h http.Header) (wait time.Duration, ok bool) {
	wait, ok = fields.Milliseconds(h.Get("X-Amz-Retry-After"))
	if !ok {
		wait, ok = fields.RetryAfter(h, time.Now())
	}
	return min(wait, maxWait), ok
}
