package transport

import (
	"context"
	"net/http"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// prepare adds to an admitted attempt what depends on the admission, or must not be older than the wait. It returns the request to send: a
// copy if it adds anything, since the caller's is never changed.
func (t *Transport) prepare(req *http.Request, slot *pacer.Reservation) (*http.Request, error) {
	if t.sign == nil && t.pool == nil {
		return req, nil
	}
	ready := req.Clone(req.Context())
	ready.Trailer = req.Trailer // whose values come while the body is read
	var err error
	if t.pool != nil {
		err = t.credential(ready, slot.Credential())
	}
	if err == nil && t.sign != nil {
		err = t.sign(ready)
	}
	if err != nil {
		return nil, &SignError{Upstream: t.operator.Upstream(), Err: err}
	}
	return ready, nil
}

// giveUp gives back the charge of an admitted attempt that is not sent, and closes its body.
func (t *Transport) giveUp(req *http.Request, slot *pacer.Reservation) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	t.charge(context.WithoutCancel(req.Context()), slot, []policies.Cost{{N: 0}})
}
