package intercom

import (
	"time"

	"github.com/headway-go/headway/policies"
)

// Names of the policies and scopes.
const (
	PolicyApp       = "app"
	PolicyWorkspace = "workspace"

	ScopeApp       = "app"       // hash of the credential
	ScopeWorkspace = "workspace" // not in a request: set it yourself
)

const (
	window       = 10 * time.Second
	perApp       = 10_000 / 6
	perWorkspace = 25_000 / 6
	burst        = 100 // a small part of a window, so that little of the rate is lost
)

// Limits returns the stack of a private app. Intercom does not document where its windows begin, so the policies hold in any ten seconds.
// Source: https://developers.intercom.com/docs/references/rest-api/errors/rate-limiting
func Limits() []policies.Policy {
	return []policies.Policy{
		policies.AtMost(perApp, window).Burst(burst).Per(ScopeApp).Named(PolicyApp),
		policies.AtMost(perWorkspace, window).Burst(burst).Per(ScopeWorkspace).Optional().Named(PolicyWorkspace),
	}
}
