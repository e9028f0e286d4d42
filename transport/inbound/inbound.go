// Package inbound limits the requests that a server gets, by the policies of a [pacer.Pacer].
package inbound

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/ietf"
)

// Config configures the handler of [New].
type Config struct {
	// Pacer has the policies. Required.
	Pacer *pacer.Pacer
	// Options returns the options of a request: its scopes, such as the client's account, its cost and its lane. It is called once for each
	// request, and must not read its body. Defaults to no options: scopes then come only from the request's context, see [pacer.With].
	//
	// Anyone who chooses a scope's value chooses whose limit is spent. Take the value from authenticated data, not from a header that
	// clients can set freely.
	Options func(*http.Request) []pacer.TryOption
	// FailOpen lets a request through, uncounted, if the store fails. You rarely need it: by default the pacer paces locally when a shared
	// store is out of reach. Defaults to a 503.
	FailOpen bool
	// Fields sets the fields RateLimit-Policy and RateLimit on all replies, for all policies that bind the request. It calls
	// [pacer.Pacer.Status] for each request, which is one more request to a shared store. If Status fails, the reply has no such fields.
	// Defaults to fields on refusals only, for the policy that refused.
	Fields bool
	// Refuse answers a request that is not admitted. The header fields are already set. The function must write the status, which it should
	// not change, and may write a body. The error contains why the request was refused: do not show it to clients, because it contains the
	// scope's value. Defaults to the status and its text, as plain text.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, err error)

	_ struct{}
}

// limiter is the handler that New returns.
type limiter struct {
	Config

	next http.Handler
}

// New returns a handler that limits requests by the policies of a [pacer.Pacer], and passes admitted requests on to next. No request waits:
// one that may not go now is refused.
//
//	p, err := pacer.New(pacer.Config{
//		Upstream: "api", // here the name of what is protected
//		Policies: []policies.Policy{policies.PerSecond(10).Burst(20).Per("account"), policies.InFlight(100)},
//	})
//	handler, err = inbound.New(handler, inbound.Config{Pacer: p, Options: func(r *http.Request) []pacer.TryOption {
//		return []pacer.TryOption{pacer.Scope("account", accountOf(r))}
//	}})
//
// Each request is one call, by [pacer.Pacer.TryAcquire]. If a policy counts calls in flight, the request holds its permit until the handler
// returns or panics, also for a hijacked connection: a websocket handler should return only when the connection is over. The handler gets
// the original [http.ResponseWriter], so Flush, Hijack and [http.ResponseController] work.
//
// A request that is not admitted gets one of these replies:
//
//   - 429 if a policy refuses it. Retry-After is the time until the client should try again, in whole seconds, rounded up, at least 1. It
//     is missing if the request costs more than a policy ever admits at once. RateLimit-Policy and RateLimit describe the policy that
//     refused the request: see ietf.Write. They show clients its name and its limit, and never its scopes.
//   - 503 if the store fails, unless FailOpen is set, if the Pacer is closed, or if the client has gone.
//   - 500 if the program is at fault: the request lacks a scope that a policy needs, or an option is wrong.
//
// It returns a [*pacer.ConfigError] if the pacer or the handler is nil.
func New(next http.Handler, c Config) (http.Handler, error) {
	switch {
	case c.Pacer == nil:
		return nil, &pacer.ConfigError{In: "inbound", Field: "Pacer", Value: "nil", Reason: "make one with pacer.New"}
	case next == nil:
		return nil, &pacer.ConfigError{In: "inbound", Field: "Handler", Value: "nil", Reason: "give the handler for admitted requests"}
	}
	if c.Refuse == nil {
		c.Refuse = refuseInText
	}
	return &limiter{Config: c, next: next}, nil
}

// refuseInText answers with the text of a status.
func refuseInText(w http.ResponseWriter, _ *http.Request, status int, _ error) {
	http.Error(w, http.StatusText(status), status)
}

// ServeHTTP implements [http.Handler].
func (l *limiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var opts []pacer.TryOption
	if l.Options != nil {
		opts = l.Options(r)
	}
	slot, err := l.Pacer.TryAcquire(r.Context(), opts...)
	if err != nil {
		if _, failed := errors.AsType[*pacer.StoreError](err); failed && l.FailOpen {
			l.next.ServeHTTP(w, r)
			return
		}
		l.Refuse(w, r, l.describe(w.Header(), r, opts, err), err)
		return
	}
	defer slot.Release()
	if l.Fields {
		l.report(w.Header(), r, opts)
	}
	l.next.ServeHTTP(w, r)
}

// describe sets the fields of a refusal, and returns its status.
func (l *limiter) describe(h http.Header, r *http.Request, opts []pacer.TryOption, err error) (status int) {
	limit, limited := errors.AsType[*pacer.LimitError](err)
	if !limited || limit.Reason == pacer.NoScope || limit.Reason == pacer.WaitsForItself {
		_, failed := errors.AsType[*pacer.StoreError](err)
		if failed || errors.Is(err, pacer.ErrClosed) || r.Context().Err() != nil {
			return http.StatusServiceUnavailable
		}
		return http.StatusInternalServerError
	}
	wait, later := pacer.RetryAfter(limit)
	if later {
		h.Set("Retry-After", strconv.FormatInt(wholeSeconds(wait), 10))
	}
	if l.Fields && l.report(h, r, opts) {
		return http.StatusTooManyRequests
	}
	if p, ok := l.policy(limit.Policy); ok {
		ietf.Write(h, ietf.QuotaOf(p, 0, wait))
	}
	return http.StatusTooManyRequests
}

// wholeSeconds rounds a wait up to seconds, at least 1: Retry-After has no fractions (RFC 9110 section 10.2.3), and 0 would mean no wait.
func wholeSeconds(d time.Duration) int64 {
	return max(1, int64((d-1)/time.Second)+1)
}

// policy returns the policy of that name, which may be a lane's part.
func (l *limiter) policy(name string) (policies.Policy, bool) {
	for _, p := range fleet.Of(l.Pacer).Policies() {
		if p.Name() == name {
			return p, true
		}
		for _, lane := range p.Lanes() {
			if part, ok := p.InLane(lane); ok && part.Name() == name {
				return part, true
			}
		}
	}
	return policies.Policy{}, false
}

// report sets the fields of a reply about all policies that bind a request, and reports whether they are known.
func (l *limiter) report(h http.Header, r *http.Request, opts []pacer.TryOption) bool {
	var scopes []pacer.ScopeOption
	for _, o := range opts {
		if scope, ok := o.(pacer.ScopeOption); ok {
			scopes = append(scopes, scope)
		}
	}
	s, err := l.Pacer.Status(r.Context(), scopes...)
	if err != nil {
		return false
	}
	quotas := make([]ietf.Quota, 0, len(s.Policies))
	for i := range s.Policies {
		p := &s.Policies[i]
		remaining, reset := p.Remaining, p.Full
		if s.PausedFor > 0 {
			remaining = 0
		}
		if remaining == 0 { // when there is something, not when all of it is there
			reset = max(p.Next, p.PausedFor, s.PausedFor)
		}
		quotas = append(quotas, ietf.QuotaOf(p.Policy, remaining, reset))
	}
	ietf.Write(h, quotas...)
	return true
}
