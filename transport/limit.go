package transport

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/ietf"
)

// A LimitOption sets something of [Limit].
type LimitOption func(*limiter)

// limiter is the handler that Limit returns.
type limiter struct {
	pacer    *pacer.Pacer
	next     http.Handler
	options  func(*http.Request) []pacer.Option
	refuse   func(w http.ResponseWriter, r *http.Request, status int, err error)
	failOpen bool
	fields   bool
}

// WithRequestOptions sets the options of the call that an inbound request is: its scopes, such as the client's account, its cost, its lane.
// The function is called once for each request, and must not read its body. [pacer.MaxWait] makes no difference: no request waits.
// Defaults to none: scopes come from the request's context, see [pacer.WithScope].
//
// Anyone who chooses a scope's value chooses whose limit is spent. Take it from what you have authenticated, not from a header that a client
// may set at will.
func WithRequestOptions(options func(*http.Request) []pacer.Option) LimitOption {
	if options == nil {
		panic(bad("RequestOptions", "nil", "give a function, or leave the option out"))
	}
	return func(l *limiter) { l.options = options }
}

// WithFailOpen lets a request through if the store fails: it is handled, and nothing counts it. Defaults to a 503, because the pacer has
// better means: unless Config.Outage says otherwise, it paces locally when a shared store is out of reach, and no request sees an error.
func WithFailOpen() LimitOption { return func(l *limiter) { l.failOpen = true } }

// WithRateLimitFields puts the fields RateLimit-Policy and RateLimit on all replies, those of requests that were admitted, too, about all
// policies that bind the request. That costs a [pacer.Pacer.Status] for each request, which is one more request to a shared store. If it
// fails, the reply has no such fields. Defaults to fields on refusals alone, about the policy that refused.
func WithRateLimitFields() LimitOption { return func(l *limiter) { l.fields = true } }

// WithRefusal sets what answers a request that is not admitted. The header has its fields already; the function writes the status, which
// it should keep, and a body. The error says why, and is not for clients: it has the scope's value in it. Defaults to the status and its
// text in plain text.
func WithRefusal(refuse func(w http.ResponseWriter, r *http.Request, status int, err error)) LimitOption {
	if refuse == nil {
		panic(bad("Refusal", "nil", "give a function, or leave the option out"))
	}
	return func(l *limiter) { l.refuse = refuse }
}

// Limit returns a handler that admits inbound requests as a [pacer.Pacer] admits calls, and passes them on to another handler. No request
// waits: what may not go now is refused.
//
//	p, err := pacer.New(pacer.Config{
//		Upstream: "api", // here the name of what is protected
//		Policies: []policies.Policy{policies.PerSecond(10).Burst(20).Per("account"), policies.InFlight(100)},
//	})
//	http.Handle("/", transport.Limit(p, handler, transport.WithRequestOptions(func(r *http.Request) []pacer.Option {
//		return []pacer.Option{pacer.Scope("account", accountOf(r))}
//	})))
//
// Each request is one call, by [pacer.Pacer.TryAcquire]. If a policy counts calls in flight, the request has its permit until the handler
// returns, or panics. The handler gets the http.ResponseWriter as it is, so that Flush, Hijack and http.ResponseController work. A
// connection that was hijacked keeps its permit until then, too: a handler of websockets should return when the connection is over.
//
// A request that is not admitted is answered so:
//
//   - 429 if a policy refuses it. Retry-After is when to come back, in whole seconds, rounded up, and at least 1. It is left out for a
//     request that costs more than a policy ever admits at once. RateLimit-Policy and RateLimit are about the policy that refused, of
//     which nothing is left for this request: see [ietf.Write]. They show clients its name and its limit, and never its scopes.
//   - 503 if the store fails, unless [WithFailOpen] is given, if the Pacer is closed, or if the client has gone.
//   - 500 if the program is at fault: the request lacks a scope that a policy needs, or an option is wrong.
//
// [WithRefusal] answers in another way. Limit panics with a [*pacer.ConfigError] if the pacer, the handler or an option is nil.
func Limit(p *pacer.Pacer, next http.Handler, opts ...LimitOption) http.Handler {
	switch {
	case p == nil:
		panic(bad("Pacer", "nil", "make one with pacer.New"))
	case next == nil:
		panic(bad("Handler", "nil", "give the handler that answers what is admitted"))
	}
	l := &limiter{pacer: p, next: next, refuse: refuseInText}
	for i, opt := range opts {
		if opt == nil {
			panic(bad("Option "+strconv.Itoa(i), "nil", "leave it out"))
		}
		opt(l)
	}
	return l
}

// refuseInText answers with the text of a status.
func refuseInText(w http.ResponseWriter, _ *http.Request, status int, _ error) {
	http.Error(w, http.StatusText(status), status)
}

// ServeHTTP implements [http.Handler].
func (l *limiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var opts []pacer.Option
	if l.options != nil {
		opts = l.options(r)
	}
	slot, err := l.pacer.TryAcquire(r.Context(), opts...)
	if err != nil {
		if _, failed := errors.AsType[*pacer.StoreError](err); failed && l.failOpen {
			l.next.ServeHTTP(w, r)
			return
		}
		l.refuse(w, r, l.describe(w.Header(), r, opts, err), err)
		return
	}
	defer slot.Release()
	if l.fields {
		l.tell(w.Header(), r, opts)
	}
	l.next.ServeHTTP(w, r)
}

// describe sets the fields of a reply to a request that is not admitted, and returns its status.
func (l *limiter) describe(h http.Header, r *http.Request, opts []pacer.Option, err error) (status int) {
	limit, limited := errors.AsType[*pacer.LimitError](err)
	if !limited {
		_, failed := errors.AsType[*pacer.StoreError](err)
		if failed || errors.Is(err, pacer.ErrClosed) || r.Context().Err() != nil {
			return http.StatusServiceUnavailable
		}
		return http.StatusInternalServerError
	}
	if !limit.Never {
		h.Set("Retry-After", strconv.FormatInt(wholeSeconds(limit.RetryAfter()), 10))
	}
	if l.fields && l.tell(h, r, opts) {
		return http.StatusTooManyRequests
	}
	if p, ok := l.policy(limit.Policy); ok {
		ietf.Write(h, ietf.QuotaOf(p, 0, limit.RetryAfter()))
	}
	return http.StatusTooManyRequests
}

// wholeSeconds returns how many seconds to wait, rounded up, and at least 1: Retry-After knows no fractions (RFC 9110 section 10.2.3), and
// 0 would say that there is nothing to wait for.
func wholeSeconds(d time.Duration) int64 {
	return max(1, int64((d-1)/time.Second)+1)
}

// policy returns the policy of that name, which may be the part of a lane.
func (l *limiter) policy(name string) (policies.Policy, bool) {
	for _, p := range l.pacer.Policies() {
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

// tell sets the fields of a reply about all policies that bind a request, and reports whether they are known.
func (l *limiter) tell(h http.Header, r *http.Request, opts []pacer.Option) bool {
	s, err := l.pacer.Status(r.Context(), opts...)
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
