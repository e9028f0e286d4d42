package policies

import (
	"net/http"
	"time"
)

// A Profile is what is known of one vendor's API: to which scopes a request belongs, what it costs, and what
// a reply says about limits. It is plain data and pure functions; package transport puts it to use. Each
// vendor is a folder beside this package, with a Profile and constructors for its limits.
//
// All functions are called concurrently. They must not change what they are given, nor read a body but through GetBody.
// What is left nil says nothing.
type Profile struct {
	// Name is the vendor's, such as "zendesk".
	Name string

	// Scopes are read from each request.
	Scopes []Scope

	// Credentials names the header fields of which a request has one, if Scopes tell callers apart by them: Authorization, say. Where
	// no request has one, an authentication below the transport adds it too late, and all callers are one.
	Credentials []string

	// Costs returns what a request costs; policies that are not named pay 1. It is an estimate if Settle is set, and then
	// counts for no more than a policy admits at once. [Cost].Learned says if calls before improve it.
	Costs func(*http.Request) []Cost

	// Peek returns how many bytes of a reply's body Read wants to see, at most [MaxPeek]: of what is in it, if the body has a
	// content coding. They are put back for the caller. A reply whose body is slow to come is held back until they are
	// there, for a second at most; Read then sees none of it.
	Peek func(*http.Response) int

	// Read returns what a reply says.
	Read func(*Reply) Reading

	// Settle returns what the call really cost, whatever became of it. It is called when the response has come, with no Body:
	// what status and header tell is settled at once. If it then returns nil, and there is a body, it is called once more when the
	// caller has read that to its end, or closes it: Body holds the last bytes that were read, at most [MaxPeek], and Complete says
	// if they are the whole body. What it does not name keeps its charge. Costs that are empty but not nil say that all do.
	Settle func(*Reply) []Cost

	_ struct{}
}

// MaxPeek is the most of a body that a profile is shown: 64 KiB.
const MaxPeek = 64 << 10

// A Scope reads one scope value from a request: a tenant from the host, an endpoint from the path.
type Scope struct {
	Name string
	// Value returns the value; "" if the request does not carry the scope. It is called once for each request, however
	// often that is repeated.
	Value func(*http.Request) string
}

// A Cost is what a call costs one policy.
type Cost struct {
	// Policy is the policy's name. "" means every policy that has no Cost of its own.
	Policy string
	// N is the cost, at least 0. A policy that a call costs nothing does not bind it.
	N int64
	// Learned says how N, an estimate, is improved by what calls before really cost. Zero: not at all.
	Learned Learned
}

// A Learned says how an estimate of a cost is improved by what calls before really cost, once some 20 of them were settled that
// counted against the same limit: see pacer.LearnedOf.
//
// Nothing is learned where the upstream meters what a request reserves rather than what is used: the estimate is the cost there.
type Learned struct {
	// Known is the part of the cost that the request tells, such as the tokens of its prompt: at least 0.
	Known int64
	// Times is how many like parts the rest has, such as answers: what is learned is the cost of one of them. 0: nothing is learned.
	Times int64
	// Most is the most that the call can cost; 0 if that is not known.
	Most int64
}

// A Reply is a response as a profile sees it.
type Reply struct {
	Request  *http.Request // that was answered; its body is spent
	Status   int
	Header   http.Header
	Body     []byte    // what Peek asked for, or less; what Settle is shown
	Complete bool      // Body is the whole body
	Now      time.Time // when the response came
}

// A Reading is what a [Profile] reads from a [Reply]. Anyone who calls without net/http makes one, for pacer.Pacer.Do: from status,
// header and body by the Profile's Read, or by hand of what a client's error says. That a call was refused, and may be repeated after wait,
// is
//
//	policies.Reading{Feedback: []policies.Feedback{{Refused: true, Wait: wait}}, Verdict: policies.Limited}
type Reading struct {
	// Feedback is what was said about limits, in any order.
	Feedback []Feedback
	// Verdict says what became of the call.
	Verdict Verdict
}

// A Verdict says whether a call that an upstream refused may be repeated.
type Verdict uint8

// Values of [Verdict].
const (
	// Unjudged: limits have no part in it. Whether to repeat the call depends on status and method.
	Unjudged Verdict = iota
	// Limited: the call was refused because of a limit, and not processed. It may be repeated, whatever its method.
	Limited
	// Spent: the call was refused because of a limit, and repeating it soon is pointless.
	Spent
)
