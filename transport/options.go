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
	// DefaultMinBackoff and DefaultMaxBackoff bound the pause before a repetition for which no Retry-After requests
	// one. It doubles each time; jitter takes up to half of it away.
	DefaultMinBackoff = 500 * time.Millisecond
	DefaultMaxBackoff = 30 * time.Second
	// maxRetries is the most that WithRetries takes.
	maxRetries = 100
)

// An Option sets something of a transport.
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
	sign       func(*http.Request) error
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

// WithProfile sets the profile of a vendor's API: to which scopes a request belongs, what it costs, and what replies
// mean for the limits. Costs that the stack has no policy for are left out, and a profile without Read reads as the generic
// one does. [WithScope] and [WithCost] override the profile. Defaults to the generic profile, [ietf.Profile].
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

// WithBase sets the transport that sends the requests. An authentication such as oauth2.Transport belongs above the paced transport and
// not here: a profile that tells accounts apart by their credentials would see none. For a signature that expires, see [WithSigner].
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

// WithScope gives each call the scope value that the function reads from its request: a tenant from the host,
// an endpoint from the path, an account that several credentials share. An empty value means that the call does not have the scope,
// even if the profile gives it one. The function is
// called once for each request, however often that is repeated, and must not change the request or read its
// body. It overrides the profile. Defaults to the value in the request's context: see [pacer.WithScope].
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

// ScopeEndpoint is the scope that [WithEndpoint] gives values to.
const ScopeEndpoint = "endpoint"

// WithEndpoint gives each call the endpoint that the function reads from its request, as [WithScope] gives a scope: a value of
// [ScopeEndpoint]. It also bounds what replies say: a pause, or a count of what is left, concerns only calls of the endpoint whose
// call was answered. Two things concern more: feedback that names a policy of the stack, and a limit that the profile knows to be of
// the whole account. The function is called once for each request, and must not change the request or read its body. It should return
// one value for all objects of a kind, such as "tickets" for /tickets/7. An empty value means that the call has no endpoint: it needs
// no slot of the endpoints' policies, which must be optional then, and what its reply says concerns everyone.
//
// At least one policy of the pacer must be per endpoint, to have something that can be paused alone; [New] returns a
// [*pacer.ConfigError] otherwise. Where the endpoints' own limits are not known, a rate that no endpoint reaches will do:
//
//	policies.PerSecond(1000).Burst(1000).Per(transport.ScopeEndpoint).Optional().Named("endpoint")
//
// Defaults to none: feedback that names no policy concerns the widest scope that binds the call.
func WithEndpoint(endpoint func(*http.Request) string) Option {
	return func(o *options) error {
		if endpoint == nil {
			return bad("Endpoint", "nil", "give a function that reads the endpoint from a request, or leave the option out")
		}
		o.endpoint = endpoint
		return nil
	}
}

// WithCost sets what a call costs, read from its request: at least 1. The function is called once for each
// request, and every attempt pays that. It must not change the request or read its body. A policy for which the profile
// has a cost of its own pays that one. Defaults to 1.
func WithCost(cost func(*http.Request) int64) Option {
	return func(o *options) error {
		if cost == nil {
			return bad("Cost", "nil", "give a function, or leave the option out for a cost of 1")
		}
		o.cost = cost
		return nil
	}
}

// WithLane puts each call in the lane that the function reads from its request, such as "batch" for those with a header of
// yours; "" leaves it to the request's context: see [pacer.WithLane] and policies.Policy.Lane. The function is called once
// for each request and must not change it or read its body.
func WithLane(lane func(*http.Request) string) Option {
	return func(o *options) error {
		if lane == nil {
			return bad("Lane", "nil", "give a function that reads the lane from a request, or leave the option out")
		}
		o.lane = lane
		return nil
	}
}

// WithSigner sets a function that signs each attempt when its wait is over, directly before it is sent: it adds what expires, such as a
// signature with a date, a nonce or a token of a minute. What is signed above the transport is as old as the wait. The function gets a copy
// of the request, with headers of its own, which it may change. It replaces what a signer above has left there. To hash the payload, read
// a body from GetBody, and leave Body as it is.
//
// It comes after scopes and costs were read, so a profile does not see credentials that it adds: name the account with [WithScope]. If it
// returns an error, the attempt is not sent and charges nothing, and the caller gets a [*SignError]. Defaults to none.
func WithSigner(sign func(*http.Request) error) Option {
	return func(o *options) error {
		if sign == nil {
			return bad("Signer", "nil", "give a function that signs a request, or leave the option out")
		}
		o.sign = sign
		return nil
	}
}

// A SignError reports that the function of [WithSigner] or [WithPool] failed. The request was not sent, and nothing was charged. It is not repeated.
type SignError struct {
	Upstream string
	Err      error // the function's

	_ struct{}
}

// Error implements error.
func (e *SignError) Error() string {
	return fmt.Sprintf("transport: upstream %q: the request could not be signed, and was not sent: %v", e.Upstream, e.Err)
}

// Unwrap returns the function's error.
func (e *SignError) Unwrap() error { return e.Err }

// WithLogger sets where a warning goes if the profile tells callers apart by their credentials, and the first requests have none. Defaults
// to [slog.Default], as it is when the transport is made.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) error {
		if l == nil {
			return bad("Logger", "nil", "give a logger, or leave the option out for slog's default one")
		}
		o.logger = l
		return nil
	}
}

// WithRetries sets how often [NewClient] repeats a request at most, from 0 to 100; 0 turns retrying off.
// [New] does not use it. Defaults to [DefaultRetries].
func WithRetries(n int) Option {
	return func(o *options) error {
		if n < 0 || n > maxRetries {
			return bad("Retries", strconv.Itoa(n), fmt.Sprintf("must be from 0 to %d", maxRetries))
		}
		o.retries = n
		return nil
	}
}

// WithBackoff sets the pause before a repetition for which no Retry-After requests one: it is the shortest before the
// first, and doubles up to the longest. Jitter takes up to half of it away. [New] does not use it. Defaults
// to [DefaultMinBackoff] and [DefaultMaxBackoff].
func WithBackoff(shortest, longest time.Duration) Option {
	return func(o *options) error {
		if shortest < 0 || longest < shortest {
			return bad("Backoff", fmt.Sprintf("%v to %v", shortest, longest), "must be a range that does not start below 0")
		}
		o.minBackoff, o.maxBackoff = shortest, longest
		return nil
	}
}
