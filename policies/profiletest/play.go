package profiletest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/headway-go/headway/policies"
)

// An outcome is what a profile reported about an exchange.
type outcome struct {
	scopes  [][2]string // name and value
	costs   []policies.Cost
	reading policies.Reading
	settled []policies.Cost

	faults []string // broken rules
}

// A variant is a way in which the same exchange can happen.
type variant struct {
	cut    bool // the connection broke in the middle of the body
	stream bool // the request's body can be read only once
}

// play shows an exchange to a profile, as a transport does.
func play(p policies.Profile, x *exchange, v variant) *outcome {
	o := &outcome{}
	req := o.request(x, v)
	if req == nil {
		return o
	}
	before := snapshot(req)
	for _, s := range p.Scopes {
		if s.Value == nil {
			o.faultf("scope %q has no function (rule: each scope reads its value)", s.Name)
			continue
		}
		o.scopes = append(o.scopes, [2]string{s.Name, s.Value(req)})
	}
	if p.Costs != nil {
		o.costs = p.Costs(req)
	}
	reply := o.reply(p, x, req, v)
	if p.Read != nil {
		o.watch(reply, func() { o.reading = p.Read(reply) })
	}
	body := []byte(x.body)
	end := &policies.Reply{
		Request: req, Status: x.status, Header: x.header.Clone(), Body: ends(body), Complete: len(body) <= 2*policies.MaxPeek, Now: Now(),
	}
	if p.Settle != nil {
		start := &policies.Reply{Request: req, Status: x.status, Header: x.header.Clone(), Complete: len(body) == 0, Now: Now()}
		o.watch(start, func() { o.settled = p.Settle(start) })
		if o.settled == nil && len(body) > 0 {
			o.watch(end, func() { o.settled = p.Settle(end) })
		}
	}
	if p.ReadEnd != nil && !reply.Complete && len(body) > 0 {
		o.watch(end, func() { o.reading.Feedback = slices.Concat(o.reading.Feedback, p.ReadEnd(end)) })
	}
	if after := snapshot(req); !reflect.DeepEqual(before, after) {
		o.faultf("the request was %v and is %v (rule: a profile changes nothing that it is given)", before, after)
	}
	return o
}

// ends returns what Settle and ReadEnd get of a body: see [policies.Reply].
func ends(body []byte) []byte {
	if len(body) <= 2*policies.MaxPeek {
		return body
	}
	return slices.Concat(body[:policies.MaxPeek], []byte{0}, body[len(body)-policies.MaxPeek:])
}

func (o *outcome) faultf(format string, args ...any) {
	o.faults = append(o.faults, fmt.Sprintf(format, args...))
}

// request returns the request; nil if there can be no such request.
func (o *outcome) request(x *exchange, v variant) *http.Request {
	var body io.Reader
	if x.requested != "" {
		body = strings.NewReader(x.requested)
	}
	req, err := http.NewRequestWithContext(context.Background(), x.method, x.target, body)
	if err != nil {
		return nil
	}
	req.Header = x.sent.Clone()
	if x.requested != "" {
		req.Body = o.untouchable("the request's body (rule: a profile reads it through GetBody alone)")
	}
	if v.stream {
		req.GetBody = nil
	}
	return req
}

// reply returns the response as the profile gets it.
func (o *outcome) reply(p policies.Profile, x *exchange, req *http.Request, v variant) *policies.Reply {
	reply := &policies.Reply{Request: req, Status: x.status, Header: x.header.Clone(), Now: Now()}
	if p.Peek == nil {
		return reply
	}
	resp := &http.Response{
		StatusCode: x.status, Status: fmt.Sprintf("%03d %s", x.status, http.StatusText(x.status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: x.header.Clone(), ContentLength: int64(len(x.body)), Request: req,
		Body: o.untouchable("the response's body in Peek (rule: Peek says how much of it Read wants to see)"),
	}
	n := min(p.Peek(resp), policies.MaxPeek)
	if n < 0 {
		o.faultf("Peek returned %d (rule: sizes are never negative)", n)
	}
	if !reflect.DeepEqual(resp.Header, x.header) || resp.StatusCode != x.status {
		o.faultf("Peek changed the response (rule: a profile changes nothing that it is given)")
	}
	if n <= 0 {
		return reply
	}
	got := x.body
	if v.cut {
		got = got[:len(got)/2]
	}
	reply.Body = []byte(got[:min(n, len(got))])
	reply.Complete = !v.cut && len(got) <= n
	return reply
}

// watch runs a function that gets a reply, and checks that the function does not change it.
func (o *outcome) watch(r *policies.Reply, run func()) {
	before, header, body := *r, r.Header.Clone(), bytes.Clone(r.Body)
	run()
	same := r.Request == before.Request && r.Status == before.Status && r.Complete == before.Complete && r.Now.Equal(before.Now) &&
		reflect.DeepEqual(r.Header, header) && bytes.Equal(r.Body, body)
	if !same {
		o.faultf("the reply was changed (rule: a profile changes nothing that it is given)")
	}
}

// untouchable returns a body that must not be read or closed.
func (o *outcome) untouchable(what string) io.ReadCloser { return &untouchable{o, what} }

type untouchable struct {
	o    *outcome
	what string
}

func (u *untouchable) Read([]byte) (int, error) {
	u.o.faultf("the profile reads %s", u.what)
	return 0, io.EOF
}

func (u *untouchable) Close() error {
	u.o.faultf("the profile closes %s", u.what)
	return nil
}

// looks is the part of a request that a profile could change.
type looks struct {
	Method, Host string
	URL          url.URL
	Header       http.Header
	Length       int64
}

func snapshot(r *http.Request) looks {
	l := looks{Method: r.Method, Host: r.Host, Header: r.Header.Clone(), Length: r.ContentLength}
	if r.URL != nil {
		l.URL = *r.URL
	}
	return l
}

// broken returns which rules of [policies.Profile] the outcome breaks.
func (o *outcome) broken() []string {
	for _, s := range o.scopes {
		if !policies.ValidName(s[0]) {
			o.faultf("scope %q (rule: names are valid, see policies.ValidName)", s[0])
		}
	}
	o.checkCosts("Costs", o.costs)
	o.checkCosts("Settle", o.settled)
	if o.reading.Verdict > policies.Spent {
		o.faultf("Verdict is %s (rule: verdicts are Unjudged, Limited or Spent)", verdict(o.reading.Verdict))
	}
	for i := range o.reading.Feedback {
		f := &o.reading.Feedback[i]
		for _, d := range []struct {
			name string
			bad  bool
		}{{"Wait", f.Wait < 0}, {"Window", f.Window < 0}, {"Reset", f.Reset < 0}} {
			if d.bad {
				o.faultf("%s is negative in %q (rule: times are never negative)", d.name, printFeedback(f))
			}
		}
		for _, name := range f.Policies {
			if !policies.ValidName(name) {
				o.faultf("policy %q in %q (rule: names are valid, see policies.ValidName)", name, printFeedback(f))
			}
		}
		if f.Otherwise > policies.Unknown {
			o.faultf("Otherwise is %s (rule: it is Nobody, Everyone, TheCall or Unknown)", otherwise(f.Otherwise))
		}
		if f.Within != "" {
			o.faultf("Within is %q (rule: what bounds a feedback is the caller's to say, not the profile's)", f.Within)
		}
	}
	return o.faults
}

func (o *outcome) checkCosts(who string, costs []policies.Cost) {
	for _, c := range costs {
		if c.N < 0 {
			o.faultf("%s says that the call costs policy %q %d (rule: costs are never negative)", who, c.Policy, c.N)
		}
		if l := c.Learned; l.Known < 0 || l.Times < 0 || l.Most < 0 || l.Most > 0 && l.Most < c.N {
			o.faultf("%s says that policy %q is to learn %+v (rule: nothing is negative, and the most is no less than the cost)", who, c.Policy, l)
		}
		if c.Policy != "" && !policies.ValidName(c.Policy) {
			o.faultf("%s names policy %q (rule: names are valid, see policies.ValidName)", who, c.Policy)
		}
	}
}
