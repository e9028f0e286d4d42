// Package upstreamtest stands in for an upstream in tests: it counts calls as strictly as a vendor does, and refuses those beyond its
// limits. It shares no code with the pacer, so it can judge one.
//
// An [Upstream] is an [http.RoundTripper], for tests in virtual time, and an [http.Handler], for a server of package httptest:
//
//	u := &upstreamtest.Upstream{Limits: []upstreamtest.Limit{upstreamtest.Sliding(100, time.Minute)}}
//	client, err := transport.NewClient(p, transport.WithBase(u))
//	...
//	if u.Refused() > 0 { ...
//
// Its time is that of [time.Now], which is virtual in a bubble of testing/synctest.
package upstreamtest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"time"
)

// An Upstream admits calls up to its limits, and refuses the others. The zero value admits all. Set the fields before the first call. Its
// methods are safe for concurrent use.
type Upstream struct {
	// Limits are what it enforces. A call is admitted if each limit has room for it, and then counts against all of them.
	Limits []Limit

	// Handler answers the calls that are admitted. Defaults to 200 and an empty body.
	Handler http.Handler

	// Refuse answers the calls that are refused; wait is how long until one would be admitted, or 0 if that is not known. Defaults to a 429
	// with Retry-After, as [Refusal] makes it.
	Refuse func(w http.ResponseWriter, r *http.Request, wait time.Duration)

	// State writes to the header of a reply what is left. Defaults to nothing. [Fields] and [RateLimit] make the usual ones.
	State func(h http.Header, reply Reply)

	// Delay returns how long a call takes on its way to the upstream, and a reply on its way back. Defaults to no time.
	Delay func() time.Duration

	// Now is its clock, which replies show in Date. Defaults to [time.Now].
	Now func() time.Time

	mu       sync.Mutex
	accounts []map[string]*account // of each limit, by its scope
	calls    []Call
	refused  int
	injected []http.Handler
}

// A Call is one that has reached an upstream.
type Call struct {
	At       time.Time     // by the clock of the upstream
	Request  *http.Request // whose body has been read
	Body     []byte
	Admitted bool // neither refused nor answered by what [Upstream.Inject] was given
}

// A Reply is what [Upstream.State] may write about.
type Reply struct {
	Now      time.Time
	Admitted bool
	Limits   []State // in the order of [Upstream.Limits], without those of calls in flight
}

// Tightest returns the limit with the smallest part left.
func (r Reply) Tightest() State {
	return slices.MinFunc(r.Limits, func(a, b State) int { return a.Remaining*b.Limit - b.Remaining*a.Limit })
}

// RoundTrip implements [http.RoundTripper].
func (u *Upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r = r.WithContext(r.Context())
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	w := httptest.NewRecorder()
	if err := u.serve(w, r); err != nil {
		return nil, err
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// ServeHTTP implements [http.Handler].
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = u.serve(w, r) // a client that has gone
}

func (u *Upstream) serve(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = u.travel(r.Context())
	}
	if err != nil {
		return err
	}
	answer, end := u.judge(w.Header(), r, body)
	again := *r
	again.Body = io.NopCloser(bytes.NewReader(body))
	answer.ServeHTTP(w, &again)
	end()
	return u.travel(r.Context())
}

// travel takes the time of one way.
func (u *Upstream) travel(ctx context.Context) error {
	if u.Delay == nil {
		return ctx.Err()
	}
	t := time.NewTimer(u.Delay())
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// judge counts a call, and returns its answer and a function to call when it has been answered.
func (u *Upstream) judge(h http.Header, r *http.Request, body []byte) (answer http.Handler, end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	call, end := Call{At: now, Request: r, Body: body}, func() {}
	defer func() {
		u.calls = append(u.calls, call)
		if !call.Admitted {
			u.refused++
		}
	}()
	h.Set("Date", now.UTC().Format(http.TimeFormat))
	if len(u.injected) > 0 {
		answer, u.injected = u.injected[0], u.injected[1:]
		return answer, end
	}
	all := u.of(r)
	ok, wait := admit(all, now)
	if call.Admitted = ok; u.State != nil {
		u.State(h, Reply{Now: now, Admitted: ok, Limits: states(all, now)})
	}
	switch {
	case !ok:
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { u.refuse(w, r, wait) }), end
	case u.Handler == nil:
		answer = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	default:
		answer = u.Handler
	}
	return answer, func() { u.leave(all) }
}

func (u *Upstream) refuse(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	if u.Refuse != nil {
		u.Refuse(w, r, wait)
		return
	}
	Refusal(http.StatusTooManyRequests, wait).ServeHTTP(w, r)
}

func (u *Upstream) now() time.Time {
	if u.Now != nil {
		return u.Now()
	}
	return time.Now()
}

// leave takes a call that has been answered from the calls in flight.
func (u *Upstream) leave(all []*account) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, a := range all {
		if a.kind == inFlight {
			a.used--
		}
	}
}

// of returns the accounts that a call counts in.
func (u *Upstream) of(r *http.Request) []*account {
	all := make([]*account, len(u.Limits))
	for len(u.accounts) < len(u.Limits) {
		u.accounts = append(u.accounts, make(map[string]*account))
	}
	for i, l := range u.Limits {
		key := ""
		if l.per != nil {
			key = l.per(r)
		}
		a := u.accounts[i][key]
		if a == nil {
			a = &account{}
			u.accounts[i][key] = a
		}
		a.Limit, all[i] = l, a
	}
	return all
}

// Spend counts a call of another client of the same credential, which gets no reply, and reports whether it was admitted. It is no call of
// [Upstream.Calls]. The request may be nil if no limit is [Limit.Per] something.
func (u *Upstream) Spend(r *http.Request) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	ok, _ := admit(u.of(r), u.now())
	return ok
}

// SetLimits replaces the limits. One that was in the same place keeps what it has counted.
func (u *Upstream) SetLimits(limits ...Limit) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.Limits = limits
}

// Inject has a handler answer the next n calls, which count against no limit: [Refusal], for example.
func (u *Upstream) Inject(n int, h http.Handler) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.injected = append(u.injected, slices.Repeat([]http.Handler{h}, n)...)
}

// Calls returns the calls so far, in order of arrival.
func (u *Upstream) Calls() []Call {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.calls)
}

// Admitted returns how many calls were admitted so far.
func (u *Upstream) Admitted() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.calls) - u.refused
}

// Refused returns how many calls were not: they were refused, or answered by what [Upstream.Inject] was given.
func (u *Upstream) Refused() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.refused
}

// Refusal returns a handler that answers with a status, such as 429 or 503, and with Retry-After in whole seconds, rounded up. Without a wait
// there is no Retry-After.
func Refusal(status int, wait time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if wait > 0 {
			w.Header().Set("Retry-After", strconv.FormatInt(seconds(wait), 10))
		}
		w.WriteHeader(status)
	})
}
