package serve

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/policies"
)

// An AcquireRequest is the body of POST /v1/acquire.
type AcquireRequest struct {
	Upstream    string            `json:"upstream,omitempty"`
	Scopes      map[string]string `json:"scopes,omitempty"`
	Cost        *int64            `json:"cost,omitempty"`
	Costs       map[string]int64  `json:"costs,omitempty"` // by policy
	Party       string            `json:"party,omitempty"` // the lane
	Caller      string            `json:"caller,omitempty"`
	MaxWaitMS   *int64            `json:"max_wait_ms,omitempty"`
	Wait        *bool             `json:"wait,omitempty"`        // false: answer at once
	Reservation string            `json:"reservation,omitempty"` // of an earlier answer
	Attempt     int64             `json:"attempt,omitempty"`     // of the same job by the same reservation
	EarlyMS     int64             `json:"early_ms,omitempty"`    // how long before its slot a reservation is used
	TimeoutMS   int64             `json:"timeout_ms,omitempty"`  // how long the call takes at most
}

// An AcquireReply is the answer.
type AcquireReply struct {
	Reservation string `json:"reservation"`
	WaitMS      int64  `json:"wait_ms"`              // 0: make the call now
	Credential  string `json:"credential,omitempty"` // which of the pool to use
}

// A ReleaseRequest is the body of POST /v1/release.
type ReleaseRequest struct {
	Reservation string `json:"reservation"`
	Unused      bool   `json:"unused,omitempty"` // the call was not made
	Attempt     int64  `json:"attempt,omitempty"`
}

// A SettleRequest is the body of POST /v1/settle.
type SettleRequest struct {
	Reservation string           `json:"reservation"`
	Cost        *int64           `json:"cost,omitempty"`
	Costs       map[string]int64 `json:"costs,omitempty"`
}

// A ReportRequest is the body of POST /v1/report: what the upstream replied to the call of a reservation, or to any call with these scopes.
type ReportRequest struct {
	Reservation string            `json:"reservation,omitempty"`
	Upstream    string            `json:"upstream,omitempty"`
	Scopes      map[string]string `json:"scopes,omitempty"`
	Method      string            `json:"method,omitempty"`
	URL         string            `json:"url,omitempty"`
	Status      int               `json:"status"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        string            `json:"body,omitempty"`
}

// acquire waits for a slot, or books one.
func (s *Server) acquire(ctx context.Context, in *AcquireRequest) (string, AcquireReply, error) {
	if in.Reservation != "" {
		return s.redeem(ctx, in)
	}
	u, err := s.named(in.Upstream)
	if err != nil {
		return "", AcquireReply{}, err
	}
	if err := in.check(); err != nil {
		return u.name, AcquireReply{}, err
	}
	c := call{scopes: in.Scopes, costs: costs(in.Cost, in.Costs), party: in.Party, caller: in.Caller, maxWait: in.maxWait(-1)}
	opts := append(c.options(), pacer.Tracked())
	if in.waits() {
		r, err := u.calls.Acquire(ctx, opts...)
		return s.grant(ctx, u, r, in, err)
	}
	booked := make([]pacer.BookOption, len(opts))
	for i, opt := range opts {
		booked[i] = opt
	}
	token, wait, err := u.calls.Book(ctx, booked...)
	if err != nil {
		return u.name, AcquireReply{}, err
	}
	in.Reservation = bookedPrefix + u.name + ":" + token
	if early := in.early(token); wait > max(early, pacer.RedeemEarly) {
		return u.name, in.later(wait, early), nil
	}
	return s.redeem(ctx, in)
}

// redeem uses a booking.
func (s *Server) redeem(ctx context.Context, in *AcquireRequest) (string, AcquireReply, error) {
	upstream, token, ok := booking(in.Reservation)
	if !ok {
		return "", AcquireReply{}, refusef(http.StatusNotFound, "the reservation is none of a slot in the future")
	}
	u, err := s.named(upstream)
	if err != nil {
		return "", AcquireReply{}, err
	}
	if err := in.check(); err != nil {
		return u.name, AcquireReply{}, err
	}
	early := in.early(token)
	patience := early
	if in.waits() {
		patience = in.maxWait(inside.Of(u.pacer).Calls.MaxWait)
	}
	r, err := u.calls.Redeem(ctx, token, pacer.Early(patience), pacer.Attempt(max(1, in.Attempt)))
	if later, ok := errors.AsType[*pacer.LimitError](err); ok && later.Reason == pacer.TooEarly {
		return u.name, in.later(later.Wait, early), nil
	}
	return s.grant(ctx, u, r, in, err)
}

// lag is by how much clients of bookings are late: those of a queue whose timers are exact.
const lag = 250 * time.Millisecond

// early returns how long before its slot a client uses a booking at most. A booking without slack would lose its slot to any client that
// does not come before it.
func (in *AcquireRequest) early(token string) time.Duration {
	return max(time.Duration(in.EarlyMS)*time.Millisecond, lag-pacer.SlackOf(token))
}

// later answers a client that must come back.
func (in *AcquireRequest) later(wait, early time.Duration) AcquireReply {
	if wait > early { // or it waits for a permit
		wait -= early
	}
	return AcquireReply{Reservation: in.Reservation, WaitMS: milliseconds(wait)}
}

// grant answers a call that goes now.
func (s *Server) grant(ctx context.Context, u *upstream, r *pacer.Reservation, in *AcquireRequest, err error) (string, AcquireReply, error) {
	if err != nil {
		return u.name, AcquireReply{}, err
	}
	timeout := defaultTimeout
	if in.TimeoutMS > 0 {
		timeout = time.Duration(in.TimeoutMS) * time.Millisecond
	}
	id, err := s.held.add(u, r, timeout)
	if err != nil {
		end(r, false, false)
		return u.name, AcquireReply{}, err
	}
	if ctx.Err() != nil { // nobody will make the call
		return u.name, AcquireReply{}, errors.Join(ctx.Err(), s.held.release(id, false))
	}
	return u.name, AcquireReply{Reservation: id, Credential: r.Credential()}, nil
}

// waits reports whether the answer comes at the slot.
func (in *AcquireRequest) waits() bool { return in.Wait == nil || *in.Wait }

// maxWait returns how long the call may wait, or what holds otherwise.
func (in *AcquireRequest) maxWait(otherwise time.Duration) time.Duration {
	if in.MaxWaitMS == nil {
		return otherwise
	}
	return time.Duration(*in.MaxWaitMS) * time.Millisecond
}

// check checks the numbers that the pacer does not check.
func (in *AcquireRequest) check() error {
	const most = int64(maxTimeout / time.Millisecond)
	longest := int64(pacer.Forever / time.Millisecond)
	switch {
	case in.MaxWaitMS != nil && (*in.MaxWaitMS < 0 || *in.MaxWaitMS > longest):
		return refusef(http.StatusBadRequest, "max_wait_ms must be from 0 to %d", longest)
	case in.TimeoutMS < 0 || in.TimeoutMS > most:
		return refusef(http.StatusBadRequest, "timeout_ms must be from 1 to %d; it is for how long the call takes at most", most)
	case in.EarlyMS < 0 || in.EarlyMS > most:
		return refusef(http.StatusBadRequest, "early_ms must be from 0 to %d", most)
	case in.Attempt < 0:
		return refusef(http.StatusBadRequest, "attempt must be at least 1")
	}
	return nil
}

// costs returns costs by policy; of "", what it costs the others.
func costs(cost *int64, byPolicy map[string]int64) map[string]int64 {
	all := maps.Clone(byPolicy)
	if all == nil {
		all = make(map[string]int64)
	}
	if cost != nil {
		all[""] = *cost
	}
	return all
}

// release ends a call, or cancels a booking.
func (s *Server) release(ctx context.Context, in *ReleaseRequest) (string, Done, error) {
	if upstream, token, ok := booking(in.Reservation); ok {
		u, err := s.named(upstream)
		if err != nil {
			return "", Done{}, err
		}
		return u.name, Done{}, u.pacer.CancelBooking(ctx, token, pacer.Attempt(max(1, in.Attempt)))
	}
	return "", Done{}, s.held.release(in.Reservation, !in.Unused)
}

// settle corrects what a call cost.
func (s *Server) settle(ctx context.Context, in *SettleRequest) (string, Done, error) {
	g, err := s.held.get(in.Reservation)
	if err != nil {
		return "", Done{}, err
	}
	return g.upstream.name, Done{}, g.Settle(context.WithoutCancel(ctx), actualCosts(costs(in.Cost, in.Costs))...)
}

func actualCosts(byPolicy map[string]int64) (all []policies.Cost) {
	for policy, n := range byPolicy {
		all = append(all, policies.Cost{Policy: policy, N: n})
	}
	return all
}

// report applies what an upstream replied, as its profile reads it.
func (s *Server) report(ctx context.Context, in *ReportRequest) (string, Done, error) {
	var (
		g   *grant
		u   *upstream
		err error
	)
	if in.Reservation == "" {
		u, err = s.named(in.Upstream)
	} else if g, err = s.held.get(in.Reservation); err == nil {
		u = g.upstream
	}
	if err != nil {
		return "", Done{}, err
	}
	fs, err := in.read(u)
	if err != nil {
		return u.name, Done{}, err
	}
	ctx = context.WithoutCancel(ctx) // the report holds though the client is gone
	if g != nil {
		return u.name, Done{}, s.held.report(ctx, g, fs)
	}
	for _, f := range fs {
		if err := u.pacer.Report(ctx, f, scopeOptions(in.Scopes)...); err != nil {
			return u.name, Done{}, err
		}
	}
	return u.name, Done{}, nil
}

// read shows the reply to the upstream's profile.
func (in *ReportRequest) read(u *upstream) ([]policies.Feedback, error) {
	to := &url.URL{Scheme: "https", Host: u.name, Path: "/"}
	if u.base != nil {
		to = u.base
	}
	if in.URL != "" {
		var err error
		if to, err = url.Parse(in.URL); err != nil || to.Host == "" {
			return nil, refusef(http.StatusBadRequest, "url must be that of the request, such as https://api.example.com/items")
		}
	}
	if in.Status < http.StatusContinue || in.Status >= 600 {
		return nil, refusef(http.StatusBadRequest, "status must be that of the reply, such as 429")
	}
	method := http.MethodGet
	if in.Method != "" {
		method = strings.ToUpper(in.Method)
	}
	header := make(http.Header)
	for name, value := range in.Headers {
		header.Set(name, value)
	}
	reply := &policies.Reply{
		Request: &http.Request{Method: method, URL: to, Host: to.Host, Header: make(http.Header)},
		Status:  in.Status, Header: header, Body: []byte(in.Body[:min(len(in.Body), policies.MaxPeek)]), Complete: len(in.Body) <= policies.MaxPeek,
		Now: time.Now(),
	}
	return u.profile.Read(reply).Feedback, nil
}
