package transport

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// reportTimeout bounds how long a response is held back while the store records its "slow down".
const reportTimeout = 5 * time.Second

// read shows a response to the profile, with as much of its body as it needs, and reports whether that is all of it.
func (t *Transport) read(req *http.Request, resp *http.Response) (reading policies.Reading, whole bool) {
	reply := &policies.Reply{Request: req, Status: resp.StatusCode, Header: resp.Header}
	if t.profile.Peek != nil && resp.StatusCode != http.StatusSwitchingProtocols { // that body is a connection
		if n := min(t.profile.Peek(resp), policies.MaxPeek); n > 0 {
			reply.Body, reply.Complete = peek(resp, n)
		}
	}
	reply.Now = time.Now()
	reading = t.profile.Read(reply)
	reading.Feedback = t.confine(reading.Feedback)
	return reading, reply.Complete
}

// confine bounds the effect of feedback by [WithEndpoint].
func (t *Transport) confine(fs []policies.Feedback) []policies.Feedback {
	if t.endpoint == nil {
		return fs
	}
	fs = slices.Clone(fs) // the profile may return the same one each time
	for i := range fs {
		fs[i].Within = ScopeEndpoint
	}
	return fs
}

// report passes what a response stated to the pacer, also if the caller leaves. Its failure does not withhold the response: the next caller
// will read the same.
func report(ctx context.Context, slot *pacer.Reservation, fs []policies.Feedback) {
	if len(fs) == 0 {
		_ = slot.Report(ctx) // the call only counts as answered: nothing goes to the store
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	_ = slot.Report(ctx, fs...)
}

// finish corrects the charge when the cost is known: at once, from status and header, or else when the caller has read the body to its end
// or closes it, from what was read. Then it also reports limits in the rest of the body, if Read has not seen the whole.
func (t *Transport) finish(req *http.Request, resp *http.Response, slot *pacer.Reservation, whole bool) {
	settle, readEnd := t.profile.Settle, t.profile.ReadEnd
	if settle == nil && readEnd == nil {
		return
	}
	ctx := context.WithoutCancel(req.Context())
	reply := &policies.Reply{Request: req, Status: resp.StatusCode, Header: resp.Header, Now: time.Now()}
	none := resp.Body == nil || resp.Body == http.NoBody
	if settle != nil {
		reply.Complete = none
		if costs := settle(reply); costs != nil {
			t.charge(ctx, slot, costs)
			settle = nil
		}
	}
	if whole {
		readEnd = nil
	}
	if none || resp.StatusCode == http.StatusSwitchingProtocols || settle == nil && readEnd == nil {
		return
	}
	var seen memory = new(ends)
	if names := codings(resp.Header); len(names) > 0 {
		seen = &encoded{codings: names}
	}
	resp.Body = &tee{ReadCloser: resp.Body, seen: seen, done: func(body []byte, complete bool) {
		reply.Body, reply.Complete, reply.Now = body, complete, time.Now()
		if settle != nil {
			t.charge(ctx, slot, settle(reply))
		}
		if readEnd != nil {
			if fs := readEnd(reply); len(fs) > 0 {
				report(ctx, slot, t.confine(fs))
			}
		}
	}}
}

// charge settles a call at what it cost.
func (t *Transport) charge(ctx context.Context, slot *pacer.Reservation, costs []policies.Cost) {
	list := t.operator.Policies()
	costs = slices.DeleteFunc(slices.Clone(costs), func(c policies.Cost) bool {
		return c.Policy != "" && !slices.ContainsFunc(list, func(one policies.Policy) bool { return one.Name() == c.Policy })
	})
	if len(costs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	_ = slot.Settle(ctx, costs...)
}
