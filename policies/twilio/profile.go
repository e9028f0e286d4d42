package twilio

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is the profile of Twilio's REST API.
var Profile = policies.Profile{
	Name:   "twilio",
	Scopes: []policies.Scope{{Name: ScopeAccount, Value: account}, {Name: ScopeEndpoint, Value: endpoint}},
	Peek:   fields.PeekRefusal,
	Read:   fields.HeedUnavailable(read),
}

// split returns the SID after /Accounts/ and what follows it: /2010-04-01/Accounts/AC…/Messages.json.
func split(r *http.Request) (sid, rest string) {
	_, after, _ := strings.Cut(r.URL.Path, "/Accounts/")
	sid, rest, _ = strings.Cut(after, "/")
	return strings.TrimSuffix(sid, ".json"), strings.TrimSuffix(rest, ".json")
}

// account returns the SID in the path, or the user name if that is one, or a hash of the credential.
func account(r *http.Request) string {
	if sid, _ := split(r); sid != "" {
		return sid
	}
	if name, _, ok := r.BasicAuth(); ok && accountSID.MatchString(name) {
		return name
	}
	return fields.Caller(r)
}

// accountSID matches an account's SID, which is no secret. Source: https://www.twilio.com/docs/glossary/what-is-a-sid
var accountSID = regexp.MustCompile(`^AC[0-9a-fA-F]{32}$`)

func endpoint(r *http.Request) string {
	if _, rest := split(r); rest == "Calls" && r.Method == http.MethodPost {
		return EndpointCalls
	}
	return ""
}

const (
	// LimitProduct is the limit of a product, such as the attempts to verify one number. No policy has this name, so only the refused call
	// waits.
	LimitProduct = "product"
)

// ofAccount reports whether a refusal with this code is about the account: of the REST API, and of two resources of Flex. Sources:
// https://www.twilio.com/docs/api/errors/20429, …/45719 and …/45780
func ofAccount(code int) bool { return code == 0 || code == 20429 || code == 45719 || code == 45780 }

// verify is the host of a product whose own limits have the account's code. Source: https://www.twilio.com/docs/api/errors/20429
const verify = "verify.twilio.com"

// read reads every 429 as a refusal. One by Verify, or with another code than the account's, is by a product's limit.
func read(r *policies.Reply) policies.Reading {
	if r.Status != http.StatusTooManyRequests {
		return policies.Reading{}
	}
	f := policies.Feedback{
		Source: "429", Policies: []string{PolicyConcurrent, PolicyAccount}, Otherwise: policies.Everyone, Refused: true,
	}
	var body struct {
		Code int `json:"code"`
	}
	_ = json.Unmarshal(r.Body, &body) // an unreadable body has no code
	if !ofAccount(body.Code) || strings.EqualFold(r.Request.URL.Hostname(), verify) {
		f.Policies, f.Otherwise = []string{LimitProduct}, policies.TheCall
	}
	if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
		f.Source, f.Wait = "Retry-After", wait
	}
	return policies.Reading{Verdict: policies.Limited, Feedback: []policies.Feedback{f}}
}
