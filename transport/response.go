package transport

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// reportTimeout bounds how long a response is held back while the store takes note of its "slow down".
const reportTimeout = 5 * time.Second

// read shows a response to the profile, with as much of its body as the profile wants to see.
func (t *Transport) read(req *http.Request, resp *http.Response) policies.Reading {
	reply := &policies.Reply{Request: req, Status: resp.StatusCode, Header: resp.Header}
	if t.profile.Peek != nil && resp.StatusCode != http.StatusSwitchingProtocols { // that body is a connection
		if n := min(t.profile.Peek(resp), policies.MaxPeek); n > 0 {
			reply.Body, reply.Complete = peek(resp, n)
		}
	}
	reply.Now = time.Now()
	reading := t.profile.Read(reply)
	if t.endpoint != nil {
		reading.Feedback = slices.Clone(reading.Feedback) // the profile may return the same one each time
		for i := range reading.Feedback {
			reading.Feedback[i].Within = ScopeEndpoint
		}
	}
	return reading
}

// report gives the pacer what was read from a response. It must not be lost when the caller leaves, and its failure is no
// reason to withhold the response: the next caller will read the same.
func report(ctx context.Context, slot *pacer.Reservation, reading policies.Reading) {
	if len(reading.Feedback) == 0 {
		_ = slot.Report(ctx) // the call only counts as answered: nothing goes to the store
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	_ = slot.Report(ctx, reading.Feedback...)
}

// settle corrects the charge when the cost is known: at once, from status and header, or else when the caller has read the body to
// its end or closes it, from as much of it as was read.
func (t *Transport) settle(req *http.Request, resp *http.Response, slot *pacer.Reservation) {
	ctx := context.WithoutCancel(req.Context())
	reply := &policies.Reply{Request: req, Status: resp.StatusCode, Header: resp.Header, Now: time.Now()}
	none := resp.Body == nil || resp.Body == http.NoBody
	reply.Complete = none
	costs := t.profile.Settle(reply)
	if costs != nil || none || resp.StatusCode == http.StatusSwitchingProtocols {
		t.charge(ctx, slot, costs)
		return
	}
	names := codings(resp.Header)
	resp.Body = &tail{ReadCloser: resp.Body, whole: len(names) > 0, done: func(last []byte, complete bool) {
		if len(names) > 0 {
			last, complete = decodeTail(last, complete, names)
		}
		reply.Body, reply.Complete, reply.Now = last, complete, time.Now()
		t.charge(ctx, slot, t.profile.Settle(reply))
	}}
}

// charge settles a call at what it cost.
func (t *Transport) charge(ctx context.Context, slot *pacer.Reservation, costs []policies.Cost) {
	opts := t.appendCosts(nil, costs, false)
	if len(opts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	_ = slot.Settle(ctx, opts...)
}
