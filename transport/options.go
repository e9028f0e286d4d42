package transport

import (
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/ietf"
)

// Defaults of [NewClient].
const (
	// DefaultRetries is how often a request is repeated at most.
	DefaultRetries = 4
	// DefaultMinBackoff and DefaultMaxBackoff bound the back-off before a retry without a Retry-After. It doubles each time; jitter
	// shortens it by up to half.
	DefaultMinBackoff = 500 * time.Millisecond
	DefaultMaxBackoff = 30 * time.Second
	// maxRetries is the highest value of WithRetries.
	maxRetries = 100
)

// An Option configures a transport.
type Option func(*options) error

type options struct {
	base       http.RoundTripper
	pool       *pacer.Pool
	credential func(*http.Request, string) error
	profile    policies.Profile
	scopes     []policies.Scope
	endpoint   func(*http.Request) string
	cost       func(*http.Request) int64
	lane       func(*http.Request) string
	call       func(*http.Request) []pacer.Option
	sign       func(*http.Request) error
	apiHosts   hosts[bool]
	logger     *slog.Logger
	retries    int
	minBackoff time.Duration
	maxBackoff time.Duration
}

func newOptions(p *pacer.Pacer, opts []Option) (*options, error) {
	if p == nil {
		return nil, bad("Pacer", "nil", "make one with pacer.New")
	}
	o := &options{
		base:       http.DefaultTransport,
		profile:    ietf.Profile,
		logger:     slog.Default(),
		retries:    DefaultRetries,
		minBackoff: DefaultMinBackoff,
		maxBackoff: DefaultMaxBackoff,
	}
	for i, opt := range opts {
		if opt == nil {
			return nil, bad(fmt.Sprintf("Option %d", i), "nil", "leave it out")
		}
		if err := opt(o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func bad(field, value, reason string) error {
	return &pacer.ConfigError{In: "transport", Field: field, Value: value, Reason: reason}
}

// WithProfile sets the profile of a vendor's API: the scopes and costs of a request, and what replies mean for the limits. Costs of
// policies that the stack does not have are ignored. A profile without Read reads replies as the generic profile does. [WithScope] and
// [WithCost] override the profile. Defaults to the generic profile, [ietf.Profile].
func WithProfile(p policies.Profile) Option {
	return func(o *options) error {
		for i, s := range p.Scopes {
			if !policies.ValidName(s.Name) || s.Value == nil {
				return bad(fmt.Sprintf("Profile %q: Scopes[%d]", p.Name, i), fmt.Sprintf("%q", s.Name), "must have a valid name and a function")
			}
		}
		if p.Read == nil {
			p.Read, p.Peek = ietf.Profile.Read, ietf.Profile.Peek
		}
		o.profile = p
		return nil
	}
}

// WithBase sets the transport that sends the requests. Put authentication such as oauth2.Transport above the paced transport, not here:
// otherwise a profile that distinguishes accounts by their credentials does not see them. For a signature that expires, see [WithSigner].
// Defaults to [http.DefaultTransport].
func WithBase(rt http.RoundTripper) Option {
	return func(o *options) error {
		if rt == nil {
			return bad("Base", "nil", "give a transport, or leave the option out for http.DefaultTransport")
		}
		o.base = rt
		return nil
	}
}

// WithScope sets a scope of each call to the value that the function reads from its request: a tenant from the host, an endpoint from the
// path, an account that several credentials share. An empty value means that the call does not carry the scope, even if the profile sets
// it. The function is called once for each request, however often that is repeated, and must not change the request or read its body. It
// overrides the profile. Defaults to the value in the request's context: see [pacer.With].
func WithScope(name string, value func(*http.Request) string) Option {
	return func(o *options) error {
		switch {
		case !policies.ValidName(name):
			return bad("Scope", fmt.Sprintf("%q", name), "must start with a letter or digit and have at most 64 letters, digits, '.', '_' or '-'")
		case value == nil:
			return bad("Scope "+name, "nil", "give a function that reads the value from a request")
		}
		o.scopes = append(o.scopes, policies.Scope{Name: name, Value: value})
		return nil
	}
}

// ScopeEndpoint is the scope whose values [WithEndpoint] sets.
const ScopeEndpoint = "endpoint"

// WithEndpoint sets each call's endpoint, which the function reads from the request, as the scope ScopeEndpoint. It also bounds the effect
// of replies: a pause, or a count of what is left, applies only to calls of the answered call's endpoint, unless it names a policy of the
// stack, or the profile knows that the limit is the whole account's. The function is called once for each request, and must not change the
// request or read its body. It should return one value for all objects of a kind, such as "tickets" for /tickets/7. An empty value means
// that the call has no endpoint. Endpoint policies do not bind such a call, and must be Optional to admit it; its reply applies to all
// calls.
//
// At least one policy of the pacer must be Per endpoint, so that an endpoint can be paused on its own; otherwise New returns a
// [*pacer.ConfigError]. If you do not know the endpoints' own limits, use a rate that no endpoint reaches:
//
//	policies.PerSecond(1000).Burst(1000).Per(transport.ScopeEndpoint).Optional().Named("endpoint")
//
// Defaults to none: feedback that names no policy applies to the widest scope that binds the call.
func WithEndpoint(endpoint func(*http.Request) string) Option {
	return func(o *options) error {
		if endpoint == nil {
			return bad("Endpoint", "nil", "give a function that reads the endpoint from a request, or leave the option out")
		}
		o.endpoint = endpoint
		return nil
	}
}

// WithCost sets what a call costs, read from its request: at least 1. The function is called once for each request, every attempt of which
// is charged the result. It must not change the request or read its body. A policy for which the profile has a cost of its own charges
// that. Defaults to 1.
func WithCost(cost func(*http.Request) int64) Option {
	return func(o *options) error {
		if cost == nil {
			return bad("Cost", "nil", "give a function, or leave the option out for a cost of 1")
		}
		o.cost = cost
		return nil
	}
}

// WithLane puts each call in the lane that the function reads from its request, such as "batch" for requests with a header of your choice.
// With "", the lane in the request's context counts: see [pacer.Lane] and [policies.Policy.Lane]. The function is called once for each
// request and must not change it or read its body.
func WithLane(lane func(*http.Request) string) Option {
	return func(o *options) error {
		if lane == nil {
			return bad("Lane", "nil", "give a function that reads the lane from a request, or leave the option out")
		}
		o.lane = lane
		return nil
	}
}

// WithCallOptions adds options of the call that the function reads from its request: a MaxWait of its own, a cost only for some requests,
// or scopes whose names vary. They override the profile and the other options. The function is called once for each request, and must not
// change it or read its body. Defaults to none.
func WithCallOptions(call func(*http.Request) []pacer.Option) Option {
	return func(o *options) error {
		if call == nil {
			return bad("CallOptions", "nil", "give a function that reads options from a request, or leave the option out")
		}
		o.call = call
		return nil
	}
}

// WithSigner sets a function that signs each attempt after its wait, directly before it is sent. Use it to add what expires: a signature
// with a date, a nonce or a short-lived token. The function gets a copy of the request, with headers of its own, which it may change; it
// should replace what a signer above has set. To hash the payload, read a body from GetBody, and do not touch Body.
//
// Scopes and costs are read before, so a profile does not see the credentials that the function adds: name the account with [WithScope]. If
// the function returns an error, the attempt is not sent and not charged, and the caller gets a [*SignError]. A redirect to a foreign host
// is not signed: see [WithAPIHosts]. Defaults to none.
func WithSigner(sign func(*http.Request) error) Option {
	return func(o *options) error {
		if sign == nil {
			return bad("Signer", "nil", "give a function that signs a request, or leave the option out")
		}
		o.sign = sign
		return nil
	}
}

// WithAPIHosts names further hosts of the API, by patterns as in [WithHost]. A redirect from the API to one of them is a call of the API:
// it is paced and charged, has the credential of [WithSigner] or [WithPool], and its reply is read. Name your own regional hosts, not hosts
// that anyone can rent, such as a wildcard of a hosting service, which would get your credential. A redirect from https to http never has a
// credential. Defaults to the host of the first request of each chain of redirects: see package transport.
func WithAPIHosts(patterns ...string) Option {
	return func(o *options) error {
		for _, pattern := range patterns {
			if err := o.apiHosts.add("APIHosts", pattern, true); err != nil {
				return err
			}
		}
		return nil
	}
}

// A SignError reports that the function of [WithSigner] or [WithPool] failed. The request was not sent, not charged, and is not repeated.
type SignError struct {
	Upstream string
	Err      error // the function's error

	_ struct{}
}

// Error implements error.
func (e *SignError) Error() string {
	return fmt.Sprintf("transport: upstream %q: the request could not be signed, and was not sent: %v", e.Upstream, e.Err)
}

// Unwrap returns the function's error.
func (e *SignError) Unwrap() error { return e.Err }

// WithLogger sets the logger for a warning: the profile distinguishes callers by their credentials, but the first requests have none.
// Defaults to the value of [slog.Default] when the transport is made.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) error {
		if l == nil {
			return bad("Logger", "nil", "give a logger, or leave the option out for slog's default one")
		}
		o.logger = l
		return nil
	}
}

// WithRetries sets how often [NewClient] repeats a request at most, from 0 to 100; 0 turns retries off. Only NewClient uses this option.
// Defaults to [DefaultRetries].
func WithRetries(n int) Option {
	return func(o *options) error {
		if n < 0 || n > maxRetries {
			return bad("Retries", strconv.Itoa(n), fmt.Sprintf("must be from 0 to %d", maxRetries))
		}
		o.retries = n
		return nil
	}
}

// WithBackoff sets the wait before a retry without a Retry-After: shortest before the first retry, then doubling up to longest. Jitter
// shortens it by up to half. Only [NewClient] uses this option. Defaults to [DefaultMinBackoff] and [DefaultMaxBackoff].
func WithBackoff(shortest, longest time.Duration) Option {
	return func(o *options) error {
		if shortest < 0 || longest < shortest {
			return bad("Backoff", fmt.Sprintf("%v to %v", shortest, longest), "must be a range that does not start below 0")
		}
		o.minBackoff, o.maxBackoff = shortest, longest
		return nil
	}
}
