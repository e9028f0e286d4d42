package twilio

import (
	"net/http"
	"strings"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is Twilio's.
var Profile = policies.Profile{
	Name:   "twilio",
	Scopes: []policies.Scope{{Name: ScopeAccount, Value: account}},
	Read:   read,
}

// account returns the SID after /Accounts/: /2010-04-01/Accounts/AC…/Messages.json.
func account(r *http.Request) string {
	if _, after, ok := strings.Cut(r.URL.Path, "/Accounts/"); ok {
		sid, _, _ := strings.Cut(after, "/")
		if sid = strings.TrimSuffix(sid, ".json"); sid != "" {
			return sid
		}
	}
	if c := fields.Credential(r.Header); c != "" {
		return c
	}
	return strings.ToLower(r.URL.Hostname())
}

// read heeds every 429: the code in the body, 20429, tells nothing more.
// Source: https://www.twilio.com/docs/api/errors/20429
func read(r *policies.Reply) policies.Reading {
	if r.Status != http.StatusTooManyRequests {
		return policies.Reading{}
	}
	f := policies.Feedback{Source: "429", Policies: []string{PolicyAccount}, Otherwise: policies.Everyone, Refused: true}
	if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
		f.Source, f.Wait = "Retry-After", wait
	}
	return policies.Reading{Verdict: policies.Limited, Feedback: []policies.Feedback{f}}
}
