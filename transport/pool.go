package transport

import (
	"context"
	"net/http"
	"time"

	"github.com/headway-go/headway/pacer"
)

// CredentialRest is for how long a credential of a pool is not used after the upstream has answered a call by it with 401 Unauthorized. Then it
// is tried again.
const CredentialRest = time.Minute

// WithPool has each request go by one of several credentials: the one that may be used soonest. The pacer's limits are charged first; then
// the function sets the credential, by its ID, on a copy of the request that shares nothing with the caller's but the body. So do not
// authenticate above the transport, and do not give the pool's scope by [WithScope]. If the function returns an error, the request is not
// sent and charges nothing, and the caller gets a [*SignError]. A signature comes after it: see [WithSigner].
//
// A credential that the upstream answers with 401 Unauthorized is left for [CredentialRest], in every process; see [pacer.Pool.Leave], also for
// other replies that mean so. [NewClient] repeats such a request by another credential, and one that is refused because of its
// credential's limits after a back-off, even if that limit is paused for longer.
//
// The pool must be of the pacer that the transport is made with. Defaults to none: requests carry their credentials already.
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

// leaveRefused leaves a credential that the upstream does not accept. The next call by it would be refused, too, but this one has its answer,
// whatever becomes of that.
func (t *Transport) leaveRefused(ctx context.Context, resp *http.Response, slot *pacer.Reservation) {
	if t.pool == nil || resp.StatusCode != http.StatusUnauthorized {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	_ = t.pool.Leave(ctx, slot.Credential(), CredentialRest)
}
