package report

import (
	"time"

	"github.com/headway-go/headway/pacer"
)

// A Fleet is a pacer.Fleet in JSON. Durations are numbers of seconds, instants are as in RFC 3339, and what is not known is left
// out.
type Fleet struct {
	Upstream      string    `json:"upstream"`
	At            time.Time `json:"at"`
	Counted       time.Time `json:"counted"`
	Shared        bool      `json:"shared"`
	PausedSeconds float64   `json:"pausedSeconds"`
	Binding       string    `json:"binding,omitempty"` // the policy that most calls wait for
	Waiting       int64     `json:"waiting"`           // calls that sleep, for any reason
	Alive         int       `json:"alive"`
	Policies      []Policy  `json:"policies"`
	Processes     []Process `json:"processes"`
	Busiest       []Key     `json:"busiest"`
}

// A Policy is a policy of a [Fleet].
type Policy struct {
	Name        string   `json:"name"`
	What        string   `json:"what"`
	Scopes      []string `json:"scopes,omitempty"`
	PerSecond   float64  `json:"perSecond"`             // cost of what went in the last ten seconds, all keys together
	Capacity    float64  `json:"capacity"`              // cost per second in the long run, of one key; 0 for places in flight
	Utilization *float64 `json:"utilization,omitempty"` // 0 to 1
	Waiting     int64    `json:"waiting"`               // all keys together
	Standing    *Key     `json:"standing,omitempty"`
	History     []Second `json:"history"` // the oldest first
}

// A Key is how one key of a policy stands: its only one, that of the scopes that were given, or one of the busiest.
type Key struct {
	Policy        string  `json:"policy"`
	Scope         string  `json:"scope,omitempty"`
	Remaining     int64   `json:"remaining"`
	NextSeconds   float64 `json:"nextSeconds"`
	Backlog       int64   `json:"backlog"`
	Line          int64   `json:"line"`
	PausedSeconds float64 `json:"pausedSeconds"`
	Cost          *int64  `json:"cost,omitempty"`    // of the last minute, of a busy key
	Waiting       *int64  `json:"waiting,omitempty"` // of a busy key
}

// A Second is what went in one second.
type Second struct {
	Cost          int64   `json:"cost"`
	Waits         int64   `json:"waits"`
	WaitedSeconds float64 `json:"waitedSeconds"`
}

// A Process is one that paces the upstream.
type Process struct {
	ID         string  `json:"id"`
	Name       string  `json:"name"`
	ForSeconds float64 `json:"forSeconds"`
	Waiting    int64   `json:"waiting"`
}

// JSON returns f in the form that package encoding/json makes stable JSON of.
func JSON(f *pacer.Fleet) Fleet {
	out := Fleet{
		Upstream: f.Upstream, At: f.At, Counted: f.Counted, Shared: f.Shared,
		PausedSeconds: f.PausedFor.Seconds(), Waiting: Waiting(f), Alive: f.Alive,
		Policies: []Policy{}, Processes: []Process{}, Busiest: []Key{},
	}
	if b := f.Binding(); b != nil {
		out.Binding = b.Policy.Name()
	}
	for i := range f.Policies {
		out.Policies = append(out.Policies, policy(&f.Policies[i]))
	}
	for _, p := range f.Processes {
		out.Processes = append(out.Processes, Process{ID: p.ID, Name: p.Name, ForSeconds: p.For.Seconds(), Waiting: p.Waiting})
	}
	for i := range f.Busiest {
		b := &f.Busiest[i]
		k := key(&b.PolicyStatus)
		k.Cost, k.Waiting = &b.Cost, &b.Waiting
		out.Busiest = append(out.Busiest, k)
	}
	return out
}

func policy(p *pacer.FleetPolicy) Policy {
	out := Policy{
		Name: p.Policy.Name(), What: What(p.Policy), Scopes: p.Policy.Scopes(), PerSecond: p.Rate(paceSeconds),
		Capacity: p.Capacity(), Waiting: p.Waiting, History: []Second{},
	}
	if used, ok := Used(p); ok {
		out.Utilization = &used
	}
	if p.Shown {
		k := key(&p.PolicyStatus)
		out.Standing = &k
	}
	for _, s := range p.History {
		out.History = append(out.History, Second{Cost: s.Cost, Waits: s.Waits, WaitedSeconds: s.Waited.Seconds()})
	}
	return out
}

func key(s *pacer.PolicyStatus) Key {
	return Key{
		Policy: s.Policy.Name(), Scope: s.Scope, Remaining: s.Remaining, NextSeconds: s.Next.Seconds(),
		Backlog: s.Backlog, Line: s.Line, PausedSeconds: s.PausedFor.Seconds(),
	}
}
