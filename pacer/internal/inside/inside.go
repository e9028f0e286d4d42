// Package inside gives package fleet, and the tests of stores, what a Pacer does not offer to callers.
package inside

import (
	"context"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A Pacer is the part of a *pacer.Pacer for operators.
type Pacer struct {
	Upstream   string
	Store      store.Store
	MaxPause   time.Duration
	Policies   *binding.Policies
	Calls      *binding.Reader
	Dispatcher *dispatch.Dispatcher
	Reports    *readings.Reporter
	// Registry returns the registry of the processes that pace the upstream, and whether it belongs to a store that they share. If the
	// store has none, or is out of reach, the registry knows only this process, and counts calls from the first Index on, so that before it
	// calls spend no time on counting.
	Registry func() (registry store.Registry, shared bool)
	// StatusOf returns a *pacer.Status of any policies and keys, also of those that the Pacer does not have: the state of each policy in
	// all, in order, and then of each of the keys, which belong to one of these policies. If a policy has scopes that the context does not
	// give, only its Policy is set. It sets where pauses and allowances were stated, by the processes' reports. It makes one request.
	StatusOf func(ctx context.Context, all []policies.Policy, keys []store.Key, stated []store.Statement) (any, error)
}

// RaiseMaxWait is what a *pacer.LimitError advises if the wait was too long.
const RaiseMaxWait = "raise MaxWait"

// Operations of a *pacer.StoreError that operators cause.
const (
	OpReport   = "report" // of Report and Settle of a Pacer, too
	OpIndex    = "index"
	OpSet      = "set"
	OpSettings = "settings"
)

// Package pacer sets these when a program starts.
var (
	// Of returns the inside of a *pacer.Pacer.
	Of func(pacer any) *Pacer //nolint:gochecknoglobals // set once, by init
	// Slot returns the instant, by the store's clock, from which the call of a *pacer.Reservation may go, and its slack. Both change if the
	// reservation moves. Ignore them for a call that is queued or moving.
	Slot func(reservation any) (at store.Instant, slack time.Duration) //nolint:gochecknoglobals // as above
)
