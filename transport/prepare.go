package transport

import (
	"context"
	"net/http"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// prepare makes an attempt ready that was admitted: what must not be older than the wait, or depends on the admission, is added here. It
// returns the request to send: a copy, if something is added, since the caller's is never changed.
func (t *Transport) prepare(req *http.Request, slot *pacer.Reservation) (*http.Request, error) {
	if t.sign == nil && t.pool == nil {
		return req, nil
	}
	ready := req.Clone(req.Context())
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

// giveUp gives back what an attempt was charged that was admitted and is not sent, and closes its body, which the base transport does not
// get.
func (t *Transport) giveUp(req *http.Request, slot *pacer.Reservation) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	t.charge(context.WithoutCancel(req.Context()), slot, []policies.Cost{{N: 0}})
}
