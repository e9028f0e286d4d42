package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/transport"
)

// A Problem is what a request is answered with that was not forwarded or not carried out, in the form of RFC 9457.
type Problem struct {
	Title        string `json:"title"`
	Status       int    `json:"status"`
	Detail       string `json:"detail"`
	Reason       string `json:"reason"`                   // one word for programs: see the constants
	Upstream     string `json:"upstream,omitempty"`       // that the request is to
	Policy       string `json:"policy,omitempty"`         // that refused it
	Key          string `json:"key,omitempty"`            // its scopes and values, such as tenant=acme
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"` // when to try again, as Retry-After, but exactly
}

// Values of [Problem].Reason.
const (
	ReasonLimit       = "limit"       // the slot lies further away than the request may wait
	ReasonPaused      = "paused"      // the same, because of the upstream or an operator
	ReasonNever       = "never"       // the request costs more than a policy ever admits at once
	ReasonRequest     = "request"     // the request is wrong
	ReasonReservation = "reservation" // the reservation is used, over or unknown
	ReasonCredential  = "credential"  // no credential of the pool is in use
	ReasonBusy        = "busy"        // too many requests or calls are under way here
	ReasonStopping    = "stopping"    // this process ends
	ReasonStore       = "store"       // the store failed
	ReasonUpstream    = "upstream"    // the upstream could not be reached
)

// A requestError is a request that is wrong, and the status of the reply.
type requestError struct {
	status int
	text   string
}

// Error implements error.
func (e *requestError) Error() string { return e.text }

func refusef(status int, format string, args ...any) error {
	return &requestError{status, fmt.Sprintf(format, args...)}
}

// unknownRetry is how long to wait if it is unknown when a request could go.
const unknownRetry = time.Second

// problemOf returns what an error means for the client. refusal is the status of a request that may not go in time.
func problemOf(err error, refusal int) Problem {
	limit, isLimit := errors.AsType[*pacer.LimitError](err)
	wrong, isWrong := errors.AsType[*requestError](err)
	_, isConfig := errors.AsType[*pacer.ConfigError](err)
	_, isStore := errors.AsType[*pacer.StoreError](err)
	_, isSign := errors.AsType[*transport.SignError](err)
	p := Problem{Detail: err.Error()}
	retry := time.Duration(0)
	switch {
	case isLimit:
		p.refused(limit, refusal)
		retry, _ = pacer.RetryAfter(err)
	case errors.Is(err, pacer.ErrSpent):
		p.Status, p.Reason = http.StatusConflict, ReasonReservation
	case isWrong && wrong.status == http.StatusServiceUnavailable:
		p.Status, p.Reason, retry = wrong.status, ReasonBusy, unknownRetry
	case isWrong:
		p.Status, p.Reason = wrong.status, ReasonRequest
	case isConfig:
		p.Status, p.Reason = http.StatusBadRequest, ReasonRequest
	case errors.Is(err, pacer.ErrClosed):
		p.Status, p.Reason, retry = http.StatusServiceUnavailable, ReasonStopping, unknownRetry
		p.Detail = "this headway serve is stopping: try again, or use another one"
	case isStore:
		p.Status, p.Reason, retry = http.StatusServiceUnavailable, ReasonStore, unknownRetry
	case isSign:
		p.Status, p.Reason = http.StatusInternalServerError, ReasonCredential
		p.Detail = "the credential could not be added, and nothing was sent"
	default:
		p.Status, p.Reason = http.StatusBadGateway, ReasonUpstream
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
			p.Status = http.StatusGatewayTimeout
		}
	}
	if retry > 0 {
		p.RetryAfterMS = milliseconds(retry)
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// refused sets why a call may not go.
func (p *Problem) refused(limit *pacer.LimitError, refusal int) {
	p.Status, p.Reason, p.Policy, p.Key = refusal, ReasonLimit, limit.Policy, limit.Scope
	switch limit.Reason {
	case pacer.Paused:
		p.Reason = ReasonPaused
	case pacer.TooCostly, pacer.WaitsForItself:
		p.Status, p.Reason = http.StatusUnprocessableEntity, ReasonNever
	case pacer.TokenLost:
		p.Status, p.Reason = http.StatusGone, ReasonReservation
		p.Detail = "the reservation has expired, or the store has lost it: acquire without it, if the job has not run"
	case pacer.TokenSpent:
		p.Status, p.Reason = http.StatusConflict, ReasonReservation
		p.Detail = "the reservation was used or released before: a later attempt of the same job needs attempt, another job a reservation of its own"
	case pacer.BadToken:
		p.Status, p.Reason = http.StatusNotFound, ReasonReservation
		p.Detail = "the reservation is not one of this upstream: was it cut, or changed?"
	case pacer.NoScope:
		p.Status, p.Reason, p.Key = http.StatusBadRequest, ReasonRequest, ""
		p.Detail = fmt.Sprintf("policy %q is per %s, and the call carries none: send %s: %s=VALUE, or scopes to the API",
			limit.Policy, limit.Scope, headerScope, limit.Scope)
	case pacer.NoCredential:
		p.Reason = ReasonCredential
	case pacer.TooFar, pacer.NoPermit, pacer.Queued, pacer.TooEarly:
	}
	p.Detail = strings.Replace(p.Detail, inside.RaiseMaxWait, "raise "+headerMaxWait+", or max_wait_ms of the API", 1) // which clients can
}

// milliseconds returns a duration in milliseconds, rounded up.
func milliseconds(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// fail answers a request with a problem.
func (s *Server) fail(w http.ResponseWriter, upstream string, err error) {
	refusal := http.StatusServiceUnavailable
	if s.config.TooManyRequests {
		refusal = http.StatusTooManyRequests
	}
	p := problemOf(err, refusal)
	p.Upstream = upstream
	p.answer(w)
}

// answer writes the problem.
func (p *Problem) answer(w http.ResponseWriter) {
	body, _ := json.Marshal(p) //nolint:errchkjson // strings and numbers always can be
	h := w.Header()
	if p.RetryAfterMS > 0 {
		const second = 1000
		h.Set("Retry-After", strconv.FormatInt((p.RetryAfterMS+second-1)/second, 10))
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // or the client is gone
}
