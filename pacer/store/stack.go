package store

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/headway-go/headway/policies/specs"
)

// Hash returns the same number for equal stacks. Stacks with the same number by chance go one after the other.
func (s *Stack) Hash(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for i := range s.Limits {
		_, _ = h.WriteString(s.Limits[i].Policy)
		_ = h.WriteByte('\n')
		_, _ = h.WriteString(s.Limits[i].Scope)
		_ = h.WriteByte('\n')
	}
	return h.Sum64()
}

// Same reports whether two stacks of an upstream have the same limits.
func (s *Stack) Same(other *Stack) bool {
	return slices.EqualFunc(s.Limits, other.Limits, func(a, b Limit) bool { return a.Policy == b.Policy && a.Scope == b.Scope })
}

// Alike reports whether two stacks of an upstream have the same limits, with the same numbers.
func (s *Stack) Alike(other *Stack) bool {
	return slices.EqualFunc(s.Limits, other.Limits, func(a, b Limit) bool {
		return a.Policy == b.Policy && a.Scope == b.Scope && a.Spec.Equal(b.Spec)
	})
}

// A Key names one limit's account within an upstream. The empty key stands for the whole upstream.
type Key struct{ Policy, Scope string }

// A Stack names the limits that bind one call.
type Stack struct {
	Upstream string  // see pacer.Config
	Limits   []Limit // in the order of the policies

	// Set for Reserve of a [Shared]: the epoch that the caller knows, zero for none, and the latest store time that it received.
	Epoch    Epoch
	LastSeen Instant
	// Once, for Report of a [Shared], names the operation; nil if doing it twice is harmless.
	Once *Once

	_ struct{}
}

// A Once names an operation, so that a [Shared] does it once, however often it is repeated because its answer was lost.
type Once struct {
	By     string // the process: [Heartbeat].ID
	Number int64  // of its operation, from 1
	Known  int64  // what became of all operations with a lower number than this is known to the process: none of them comes again
}

// OnceTTL is how long a store remembers the operations of a process, from the last one on.
const OnceTTL = time.Hour

// A Limit is one policy for one scope value.
type Limit struct {
	Policy string     // the policy's name: see [policies.ValidName]
	Scope  string     // the value of its scopes; "" for the whole upstream. Escaped and bounded: see [EscapeScope]
	Spec   specs.Spec // its numbers, as they are now

	_ struct{}
}

// Key returns what names the limit's account.
func (l *Limit) Key() Key { return Key{l.Policy, l.Scope} }

// Clone returns a copy, which stays valid when the caller reuses its own.
func (s *Stack) Clone() Stack {
	copied := *s
	copied.Limits = slices.Clone(s.Limits)
	return copied
}
