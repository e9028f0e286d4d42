package main

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/examples/zendesk/standin"
	"github.com/headway-go/headway/policies"
	zendesklimits "github.com/headway-go/headway/policies/zendesk"
)

// skew is how much closer together calls may arrive than they were sent.
const skew = 50 * time.Millisecond

// limitsOf returns the policies for accounts that may make limit calls a minute: Zendesk's documented ones, and the stand-in's own guard
// against more than a few calls a second.
func limitsOf(limit int) []policies.Policy {
	peak := policies.AtMost(int64(standin.Peak(limit)), time.Second).Burst(2).Skew(skew).Per(zendesklimits.ScopeAccount).Optional().Named("peak")
	return append(zendesklimits.Limits(zendesklimits.Plan(limit)), peak)
}

// profile is Zendesk's, which reads the account from the host. The stand-in serves many accounts on one host, by the first element of the
// path, so the profile gets requests as at Zendesk.
func profile() policies.Profile {
	p := zendesklimits.Profile
	p.Scopes = slices.Clone(p.Scopes)
	for i, s := range p.Scopes {
		p.Scopes[i].Value = func(r *http.Request) string { return s.Value(asAtZendesk(r)) }
	}
	return p
}

// asAtZendesk returns a request as it would be at Zendesk.
func asAtZendesk(r *http.Request) *http.Request {
	account, path, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !found || account == "api" {
		return r
	}
	there := *r
	there.URL = &url.URL{Scheme: "https", Host: account + ".zendesk.com", Path: "/" + path, RawQuery: r.URL.RawQuery}
	return &there
}
