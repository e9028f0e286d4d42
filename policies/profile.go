package policies

import (
	"net/http"
	"time"
)

// A Profile describes one vendor's API: the scopes and costs of a request, and what a reply reports about limits. It consists of plain data
// and pure functions; package transport uses it. Each vendor has a package below this one, with a Profile and constructors for its limits.
//
// All functions are called concurrently. They must not change their arguments, and may read a request's body only through GetBody. A nil
// function reports nothing.
type Profile struct {
	// Name is the vendor's, such as "zendesk".
	Name string

	// Scopes are read from each request.
	Scopes []Scope

	// Credentials names the header fields that hold a request's credential, such as Authorization, if Scopes distinguishes callers by it. A
	// request without any of them is authenticated below the transport, too late, so all callers share one limit.
	Credentials []string

	// Costs returns what a request costs; policies that are not named charge 1. If Settle is set, the costs are estimates, and a policy
	// charges no more than it admits at once. [Cost].Learned sets whether earlier calls improve the estimate.
	Costs func(*http.Request) []Cost

	// Peek returns how many bytes of a reply's body Read needs, at most [MaxPeek], after decoding. The caller still gets the whole body.
	// The reply is held back until these bytes have arrived, for at most a second; after that, Read gets no body.
	Peek func(*http.Response) int

	// Read returns what a reply means for the limits.
	Read func(*Reply) Reading

	// Settle returns what the call actually cost, whether it succeeded or failed. It is first called when the response has arrived, without
	// Body: costs in the status and header are settled at once. If it then returns nil and there is a body, it is called again when the
	// caller has read the body to its end or closes it. [Reply].Body documents how much of the body it gets. Policies that it does not name
	// keep their charge. If it returns costs that are empty but not nil, all policies do.
	Settle func(*Reply) []Cost

	// ReadEnd returns what the body reports about limits beyond the part that Read got, such as a count at its end. It is called when the
	// caller has read the body to its end or closes it, unless Read got the whole body. [Reply].Body documents how much of the body it
	// gets.
	ReadEnd func(*Reply) []Feedback

	_ struct{}
}

// MaxPeek is the largest part of a body that a profile receives in one piece: 64 KiB.
const MaxPeek = 64 << 10

// A Scope reads one scope value from a request: a tenant from the host, an endpoint from the path.
type Scope struct {
	Name string
	// Value returns the value; "" if the request does not carry the scope. It is called once for each request, however often that is
	// repeated.
	Value func(*http.Request) string
}

// A Cost is what a call costs one policy.
type Cost struct {
	// Policy is the policy's name. "" means every policy that has no Cost of its own.
	Policy string
	// N is the cost, at least 0. A policy for which it is 0 does not bind the call.
	N int64
	// Learned sets how actual costs of earlier calls improve N, an estimate. The zero value means not at all.
	Learned Learned
}

// A Learned is how actual costs of earlier calls improve an estimate, once about 20 calls of the same limit were settled: see
// pacer.EstimateOf.
//
// Do not use it if the upstream charges what a request reserves and not what it uses: then the estimate is the cost.
type Learned struct {
	// Known is the part of the cost that the request determines, such as the tokens of its prompt: at least 0.
	Known int64
	// Times is how many equal parts the rest of the cost has, such as the number of answers: the cost of one part is learned. With 0,
	// nothing is.
	Times int64
	// Most is the highest possible cost of the call; 0 if unknown.
	Most int64
}

// A Reply is a response as a profile sees it.
type Reply struct {
	Request  *http.Request // the request that was answered; its body has been consumed
	Status   int
	Header   http.Header
	Complete bool      // Body is the whole body
	Now      time.Time // when the response arrived; for Body, when it was read

	// Body is the start of the body for Read: what Peek requested, or less. For Settle and ReadEnd it is what the caller has read, up to
	// twice [MaxPeek]; of more, the first MaxPeek bytes, a zero byte, which no JSON contains, and the last MaxPeek bytes. Of a body with a
	// content coding, this applies to the first 8 MiB after decoding. If more than 512 KiB arrive encoded, Body is empty.
	Body []byte
}

// A Reading is what a [Profile] reads from a [Reply]. If you call an upstream without net/http, make one for pacer.Pacer.Do: with the
// Profile's Read, from status, header and body, or by hand, from the client's error. This Reading reports a refused call that may be
// repeated after wait:
//
//	policies.Reading{Feedback: []policies.Feedback{{Refused: true, Wait: wait}}, Verdict: policies.Limited}
type Reading struct {
	// Feedback is what the reply reports about limits, in any order.
	Feedback []Feedback
	// Verdict is whether the call was refused because of a limit, and may be repeated.
	Verdict Verdict
}

// A Verdict is whether a call that an upstream refused may be repeated.
type Verdict uint8

// Values of [Verdict].
const (
	// Unjudged: the reply is not about a limit. Whether to repeat the call depends on status and method.
	Unjudged Verdict = iota
	// Limited: the call was refused because of a limit, and not processed. It may be repeated, whatever its method.
	Limited
	// Spent: the call was refused because of a limit, and repeating it soon is pointless.
	Spent
)
