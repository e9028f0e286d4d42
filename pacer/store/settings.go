package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/policies/specs"
)

// A Setting is an operator's choice for an upstream, in place of what its processes declare.
type Setting struct {
	// Policy and Scope name the limit, as in [Limit]. Both are "" for the policies of the whole upstream.
	Policy, Scope string
	// Text is a policy as policies.Policy.String writes it, or those of the whole upstream as policies.Policy.Lines does; "" removes the
	// setting.
	Text string
	// Since is when the setting was made, and Until when it ends. In a change both are 0, and For is how long it holds, at most [ForGood];
	// 0 means ForGood.
	Since, Until Instant
	For          time.Duration

	_ struct{}
}

// Settings are all settings of an upstream.
type Settings struct {
	Now        Instant
	Version    Instant // when something was set or removed last; 0 for never
	All        []Setting
	Resets     []Reset  // the latest of this epoch and those before, in order; nil: not known
	Allowances []string // those with an allowance that the upstream stated: [Limit].Policy of each

	_ struct{}
}

// A Reset lists the resets that began an [Epoch]. A process must forget as much of what it remembers.
type Reset struct {
	Epoch   Epoch
	Now     Instant
	Keys    []Key // of the accounts that were forgotten
	Resumed []Key // of allowances about which nothing is known any more
	All     bool  // too many to be named

	_ struct{}
}

// ForGood is how long a permanent setting holds.
const ForGood = specs.MaxPeriod

// MaxSettings is the most settings of an upstream.
const MaxSettings = 1024

// Settable is a [Store] that keeps settings. Processes that share it learn of a change at once: like a reset, it begins a new [Epoch],
// which a [Notifier] announces. It also keeps recent resets, which a process must know before it goes on: see [Reset].
type Settable interface {
	// Set changes settings, all or none, and returns the resulting ones.
	Set(ctx context.Context, upstream string, changes []Setting) (*Settings, error)

	// Settings returns what is set.
	Settings(ctx context.Context, upstream string) (*Settings, error)
}

// A SettingsError is returned by [Settable].Set if an upstream would have more than [MaxSettings].
type SettingsError struct{}

// Error implements error.
func (*SettingsError) Error() string {
	return "pacer: an upstream has at most 1024 settings: remove those that are not needed any more"
}

// ErrNoSettings is the error of a wrapper around a store that is not [Settable].
var ErrNoSettings = errors.New("pacer: the store keeps no settings: see store.Settable; change what each process declares instead")

// SortSettings sorts settings by their subject.
func SortSettings(all []Setting) {
	slices.SortFunc(all, func(a, b Setting) int {
		return cmp.Or(strings.Compare(a.Policy, b.Policy), strings.Compare(a.Scope, b.Scope))
	})
}
