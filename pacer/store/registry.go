package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// A Second is the cost of one second.
type Second struct {
	Cost   int64         // of the calls that were admitted
	Waits  int64         // how many of them the policy had made wait
	Waited time.Duration // for how long, in all

	_ struct{}
}

// A Registry is a [Shared] that knows which processes use it, by what each reports of itself from time to time. Reports are bounded and
// expire. Reading writes nothing.
type Registry interface {
	// Describe records what a process reports of itself, and returns how many different lists of policies processes have reported lately: 1
	// if all agree, 0 if unknown. No call depends on it: a failure is repeated later.
	Describe(ctx context.Context, upstream string, about About) (versions int, err error)

	// Index returns the reports about an upstream. An unknown upstream has no policies.
	Index(ctx context.Context, upstream string) (*Index, error)

	// Upstreams returns the names of the known upstreams, in order.
	Upstreams(ctx context.Context) ([]string, error)
}

// An About is what a process reports of itself.
type About struct {
	ID       string        // as in [Heartbeat]
	Left     bool          // it is not there any more
	Keep     time.Duration // as in Heartbeat: for how long its policies are remembered
	Every    time.Duration // after how long it reports again, at the latest; 0 if unknown
	Name     string        // Config.Name
	Policies []string      // its policies, as policies.Policy.String writes them
	Source   string        // who set them; "" for the process itself
	Waiting  []KeyUse      // its waiting calls, by the policy that they wait for, all keys together: see KeyUse.Waiting
	Keys     []KeyUse      // the top keys: those with scopes that spend or wait most
	Callers  []KeyUse      // what those spent of each policy that spend most; the Scope is a [Call].Caller
	Went     []Went        // what was spent since the last report
	Stated   []Statement   // what the upstream stated to it, of the limits for which that holds longest, and one of each policy and name

	_ struct{}
}

// A Statement is what an upstream stated about one limit, to one process.
type Statement struct {
	Policy   string        `json:"p,omitempty"`  // that it is about; "" for a limit that fits no policy
	Name     string        `json:"l,omitempty"`  // of one that fits none: its name or number; "" if it was not stated
	Scope    string        `json:"s,omitempty"`  // as people read it, such as `tenant=acme`
	Limit    int64         `json:"n,omitempty"`  // how much it allows, as last stated; 0 if never
	Window   time.Duration `json:"wn,omitempty"` // in how much time, as last stated; 0 if never
	Reset    time.Duration `json:"rn,omitempty"` // the longest time until there was more
	Readings int64         `json:"c,omitempty"`  // how many replies stated something
	Since    Instant       `json:"b,omitempty"`  // of the first
	Last     Instant       `json:"a,omitempty"`
	Until    Instant       `json:"u,omitempty"` // when there is more, as last stated; 0 if never
	Source   string        `json:"f,omitempty"` // where that was stated, such as "Retry-After", or else the rest

	_ struct{}
}

// A KeyUse is the use of one limit.
type KeyUse struct {
	Policy  string `json:"p,omitempty"` // "" for the whole upstream
	Scope   string `json:"s,omitempty"` // as in [Limit]
	Cost    int64  `json:"c,omitempty"` // spent in about the last minute
	Waiting int64  `json:"w,omitempty"` // how many calls wait because of it

	_ struct{}
}

// Key returns what names the limit's account.
func (u *KeyUse) Key() Key { return Key{u.Policy, u.Scope} }

// A Went is the cost of a policy in one second. In a report, it adds to earlier reports of that second: it is negative if calls cost less
// than reported. A total is never below 0.
type Went struct {
	Policy string
	Second int64 // since the Unix epoch, by the store's clock
	What   Second

	_ struct{}
}

// An Index has the reports of all processes about an upstream.
type Index struct {
	Now       Instant
	Policies  []string // those that are in use: of processes that are there, or else of the last ones; one of each name, in order
	Alive     int      // how many processes are there
	Processes []IndexedProcess
	Went      []Went // of the last minute, summed up

	_ struct{}
}

// An IndexedProcess is a process that is alive.
type IndexedProcess struct {
	About // without what was spent; its policies, as far as they are known

	Version string // as [VersionOf] names its policies; "" if it has not reported it
	Came    Instant

	_ struct{}
}

// VersionOf returns a short name of a process's policies: the same for the same policies in any order.
func VersionOf(policies []string) string {
	sorted := slices.Sorted(slices.Values(policies))
	sum := sha256.Sum256([]byte(strings.Join(sorted, "\n")))
	return hex.EncodeToString(sum[:versionBytes])
}

// versionBytes is the length of the hash in such a name.
const versionBytes = 6
