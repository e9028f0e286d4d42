package transport

import (
	"context"
	"net/http"
	"time"

	"github.com/headway-go/headway/pacer"
)

// CredentialRest is how long a pool does not use a credential after a 401 Unauthorized. Then it tries it again.
const CredentialRest = time.Minute

// WithPool makes each request use one of several credentials: the one that is available soonest. The limits are charged first. Then set
// receives the credential's ID, and sets the credential on a copy of the request that shares only the body with the caller's request. So do
// not authenticate above the transport, and do not set the pool's scope with [WithScope]. If set returns an error, the request is not sent
// and not charged, and the caller gets a [*SignError]. The function of [WithSigner] runs after set. A redirect to a foreign host gets no
// credential: see [WithAPIHosts].
//
// After a 401 Unauthorized, every process stops using the credential for [CredentialRest]. For other replies that mean the same, call
// [pacer.Pool.Leave]. [NewClient] repeats such a request with another credential. It also repeats a request that was refused because of its
// credential's limits, after a back-off, even if those limits are paused for longer.
//
// The pool must belong to the transport's pacer. Defaults to none: requests already carry their credentials.
func WithPool(pool *pacer.Pool, set func(req *http.Request, credential string) error) Option {
	return func(o *options) error {
		if pool == nil {
			return bad("Pool", "nil", "make one with the Pool method of the pacer")
		}
		if set == nil {
			return bad("Pool", "without a function", "give one that sets a credential on a request")
		}
		o.pool, o.credential = pool, set
		return nil
	}
}

// acquire waits until a call may go.
func (t *Transport) acquire(ctx context.Context, opts []pacer.Option) (*pacer.Reservation, error) {
	if t.pool != nil {
		return t.pool.Acquire(ctx, opts...)
	}
	return t.pacer.Acquire(ctx, opts...)
}

// reserve reserves a slot for a call.
func (t *Transport) reserve(ctx context.Context, opts []pacer.Option) (*pacer.Reservation, error) {
	if t.pool != nil {
		return t.pool.Reserve(ctx, opts...)
	}
	return t.pacer.Reserve(ctx, opts...)
}

// leaveRefused leaves a credential that the upstream does not accept. This call has its answer, whether that works or not.
func (t *Transport) leaveRefused(ctx context.Context, resp *http.Response, slot *pacer.Reservation) {
	if t.pool == nil || resp.StatusCode != http.StatusUnauthorized {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	_ = t.pool.Leave(ctx, slot.Credential(), CredentialRest)
}
