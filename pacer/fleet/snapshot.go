package fleet

import (
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies/specs"
)

// A Snapshot is the state of an upstream at one instant, over all processes that pace it with one store: see [Operator.Snapshot].
type Snapshot struct {
	Upstream  string
	At        time.Time     // by the store's clock
	Counted   time.Time     // until when calls are counted: processes report every few seconds, those of a large fleet once a minute
	Shared    bool          // the store is shared; otherwise all of this is about one process
	PausedFor time.Duration // the whole upstream is paused for so long; 0 if it is not
	PausedBy  string        // as in [pacer.Status]
	Waiting   int64         // calls that wait because the whole upstream is paused; see Policy.Waiting for others

	Policies   []Policy          // by name
	Allowances []pacer.Allowance // what is left of the upstream's limits by its replies, and until when

	Processes []Process // in order of their start, at most [MaxShownProcesses]
	Alive     int       // how many processes there are
	Unknown   []string  // policies that processes report and this version of the library cannot read
	TopKeys   []TopKey  // of policies with scopes, the keys that spend or wait most, first; at most [MaxTopKeys]
	Callers   []Caller  // what callers have spent, those that spent most first; at most 100
	Learned   []Learned // what replies to the processes stated of limits, by policy and name; at most [MaxShownLimits]

	// Settings are operators' settings for all processes, with at most [MaxShownLimits] of its Limits; nil if the store keeps no settings,
	// or is out of reach.
	Settings *Settings
	// SetLimits is how many Limits are set.
	SetLimits int
	// Versions are the lists of policies that processes have, most frequent first, at most [MaxShownVersions]; one if all processes agree.
	// Processes with earlier versions of this library do not report theirs.
	Versions []Version
	// VersionCount is how many there are.
	VersionCount int
	// Disagreements are the policies that some Versions lack, or have with other numbers or scopes, by name, at most
	// [MaxShownDisagreements]. During a rolling deployment, and for a minute after a change, they are normal and end by themselves.
	Disagreements []Disagreement

	_ struct{}
}

// Bounds of what a [Snapshot] shows.
const (
	// MaxShownProcesses is the most processes shown.
	MaxShownProcesses = 256
	// MaxTopKeys is the most keys shown.
	MaxTopKeys = 20
	// MaxShownLimits is the most limits of single keys shown: [Operator.Settings] has all.
	MaxShownLimits = 50
	// MaxShownVersions is the most versions of the policies shown.
	MaxShownVersions = 8
	// MaxShownDisagreements is the most disagreements shown.
	MaxShownDisagreements = 16
	// MaxShownNames is the most processes named of a version, or of one side of a disagreement.
	MaxShownNames = 5
	// HistorySeconds is the length of a [Policy].History.
	HistorySeconds = 60
)

// A Policy is a policy of a [Snapshot].
type Policy struct {
	// PolicyStatus is the policy's state. If the policy has scopes and the options of Snapshot give no values for them, it is the state of
	// the key that uses most of its limit, of those that have spent most lately: see Busiest. If no key is known, only PolicyStatus.Policy
	// is set.
	pacer.PolicyStatus

	Shown   bool  // all of PolicyStatus is set
	Busiest bool  // PolicyStatus is the state of a key that Snapshot chose: its Scope names the key
	KeyCost int64 // of a policy with scopes: the cost of the key's calls of about the last minute, if the key is one of those that spend most
	Waiting int64 // calls that wait because of it, all keys together

	// History is what calls spent in each of the last seconds, over all keys, oldest first. The last second ends at Snapshot.Counted. Its
	// length is HistorySeconds.
	History []Second

	_ struct{}
}

// A Second is what calls of a policy spent in one second.
type Second struct {
	Cost   int64         // of the calls that were admitted
	Waits  int64         // how many of them the policy had made wait
	Waited time.Duration // how long these waited, in total

	_ struct{}
}

// A Process is a process that paces the upstream.
type Process struct {
	ID      string        // at random
	Name    string        // pacer.Config.Name
	For     time.Duration // how long it has paced the upstream
	Waiting int64         // how many of its calls wait
	Source  string        // where its policies come from: "set at" and the time if they are set for the fleet, "" if they are its own
	Version string        // the ID of its policies: see Version; "" if unknown

	_ struct{}
}

// A Version is a list of policies that some processes have.
type Version struct {
	ID        string   // the same for the same policies
	Policies  []string // as policies.Policy.String writes them; nil if they are not known
	Processes int      // how many have it, of the first 1,024
	Names     []string // of some of those, at most [MaxShownNames]

	_ struct{}
}

// A Disagreement is a policy that processes declare differently.
type Disagreement struct {
	Policy string // its name
	Sides  []Side // the one of most processes first, at most [MaxShownVersions]
	// ScopesDiffer reports whether the sides have different scopes. Each side then charges an account of its own, so all of them together
	// may send more than any of them admits. The same happens if some processes lack the policy.
	ScopesDiffer bool

	_ struct{}
}

// A Side is one version of a policy that processes disagree about.
type Side struct {
	Text      string   // the policy as policies.Policy.String writes it; "" if they do not have it
	Processes int      // how many they are
	Names     []string // of some of those, at most [MaxShownNames]

	_ struct{}
}

// A Caller is what a part of a program, as [pacer.Caller] names it, has spent of a policy.
type Caller struct {
	Name   string `json:"name"`
	Policy string `json:"policy"`
	Cost   int64  `json:"cost"` // in about the last minute

	_ struct{}
}

// A TopKey is one scope value of a policy.
type TopKey struct {
	pacer.PolicyStatus

	Cost    int64 // of the calls of about the last minute
	Waiting int64 // its calls that wait because of this policy

	_ struct{}
}

// Binding returns the policy that most calls wait for; nil if none wait. Of several, it returns the one whose calls waited longest in the
// last ten seconds.
func (s *Snapshot) Binding() *Policy {
	var best *Policy
	var most int64
	var longest time.Duration
	for i := range s.Policies {
		p := &s.Policies[i]
		waited := time.Duration(0)
		for _, second := range p.History[max(0, len(p.History)-10):] {
			waited += second.Waited
		}
		if (p.Waiting > 0 || waited > 0) && (best == nil || p.Waiting > most || p.Waiting == most && waited > longest) {
			best, most, longest = p, p.Waiting, waited
		}
	}
	return best
}

// Waiters returns how many calls wait, for any reason.
func (s *Snapshot) Waiters() int64 {
	n := s.Waiting
	for i := range s.Policies {
		n += s.Policies[i].Waiting
	}
	return n
}

// Rate returns the cost per second of the calls in the last seconds, of at most HistorySeconds.
func (p *Policy) Rate(seconds int) float64 {
	seconds = min(seconds, len(p.History))
	if seconds < 1 {
		return 0
	}
	sum := int64(0)
	for _, s := range p.History[len(p.History)-seconds:] {
		sum += s.Cost
	}
	return float64(sum) / float64(seconds)
}

// Capacity returns how much the policy admits per second in the long run, with its present limit and margin; 0 for permits in flight.
func (p *Policy) Capacity() float64 {
	spec := p.Policy.Spec()
	switch spec.Algorithm {
	case specs.GCRA:
		interval := spec.Interval
		if p.Pace > 0 {
			interval = p.Pace
		}
		_, period := p.Policy.Limit()
		return float64(time.Second.Microseconds()) / (float64(interval) * (1 + float64(p.Margin)/float64(period)))
	case specs.Window:
		limit, period := p.Policy.Limit()
		if p.Pace > 0 {
			limit = p.Pace
		}
		if spec.Buckets > 0 { // a fixed window begins when it did
			period += p.Margin
		}
		return float64(limit) / period.Seconds()
	case specs.Concurrency, specs.Allowance:
	}
	return 0
}

// Utilization returns how much of the policy is in use, from 0 to 1. For a rate, it compares the calls of the last ten seconds with what
// the rate admits in the long run; if the rate admits less than one call a second, or has scopes, those of the last minute, and a key of a
// rate with scopes is at 1 while future slots are charged. For a window it is the spent part of the limit, or 1 if it is paused; for calls
// in flight the part of the permits that is taken; and for a rate whose burst takes ten minutes or more to come back, the spent part of the
// burst. If the policy is not Shown, it is 0.
func (p *Policy) Utilization() float64 {
	spec := p.Policy.Spec()
	if spec.Algorithm == specs.GCRA && spec.Limit < quotaFor.Microseconds()/spec.Interval {
		capacity, over := p.Capacity(), utilizationSeconds
		switch {
		case len(p.Policy.Scopes()) == 0:
		case p.Shown && p.Backlog > 0:
			return 1
		default:
			return min(1, float64(p.KeyCost)/HistorySeconds/capacity)
		}
		if capacity < 1 {
			over = HistorySeconds
		}
		return min(1, p.Rate(over)/capacity)
	}
	limit := spec.Limit
	if p.Pace > 0 && spec.Algorithm != specs.GCRA {
		limit = p.Pace
	}
	if !p.Shown || limit < 1 {
		return 0
	}
	return float64(limit-min(limit, p.Remaining)) / float64(limit)
}

const (
	utilizationSeconds = 10               // over how many seconds the use of a rate is taken
	quotaFor           = 10 * time.Minute // a rate whose burst takes as long to come back is a quota: its pace of a minute means nothing
)
