package fleet

import (
	"encoding/json"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// snapshotJSON is a Snapshot in JSON. MarshalJSON describes the fields.
type snapshotJSON struct {
	Upstream  string        `json:"upstream"`
	At        time.Time     `json:"at"`
	Counted   time.Time     `json:"counted"`
	Shared    bool          `json:"shared"`
	PausedFor float64       `json:"pausedSeconds"`
	PausedBy  string        `json:"pausedBy,omitempty"`
	Waiting   int64         `json:"waiting"`
	Binding   string        `json:"binding"`
	Alive     int           `json:"alive"`
	Policies  []policyJSON  `json:"policies"`
	Said      []saidJSON    `json:"allowances"`
	Processes []processJSON `json:"processes"`
	TopKeys   []topKeyJSON  `json:"busiest"`
	Unknown   []string      `json:"unknown"`
	Callers   []Caller      `json:"callers"`
	Learned   []learnedJSON `json:"learned"`

	Settings      *Settings          `json:"settings"`
	SetLimits     int                `json:"setLimits"`
	VersionCount  int                `json:"versionCount"`
	Versions      []versionJSON      `json:"versions"`
	Disagreements []disagreementJSON `json:"disagreements"`
}

type saidJSON struct {
	Policy string  `json:"policy,omitempty"` // left out for limits that fit no policy
	Limit  string  `json:"limit,omitempty"`
	Scope  string  `json:"scope,omitempty"`
	Left   int64   `json:"left"`
	Free   int64   `json:"free"`
	For    float64 `json:"seconds"`
	By     string  `json:"by,omitempty"`
}

type versionJSON struct {
	ID        string   `json:"id"`
	Policies  []string `json:"policies"`
	Processes int      `json:"processes"`
	Names     []string `json:"names"`
}

type disagreementJSON struct {
	Policy       string     `json:"policy"`
	ScopesDiffer bool       `json:"scopesDiffer"`
	Sides        []sideJSON `json:"sides"`
}

type sideJSON struct {
	Text      string   `json:"text"`
	Processes int      `json:"processes"`
	Names     []string `json:"names"`
}

// standingJSON is the state of a policy for one key.
type standingJSON struct {
	Remaining int64   `json:"remaining"`
	Limit     int64   `json:"limit"`
	Next      float64 `json:"nextSeconds"`
	Backlog   int64   `json:"backlog"`
	PausedFor float64 `json:"pausedSeconds"`
	PausedBy  string  `json:"pausedBy,omitempty"`
	Queued    int64   `json:"queued"`
	Margin    float64 `json:"marginSeconds"`
	Full      float64 `json:"fullSeconds"`
	Gone      float64 `json:"goneSeconds,omitempty"`
}

type policyJSON struct {
	standingJSON

	Name        string   `json:"name"`
	Text        string   `json:"text"`
	Kind        string   `json:"kind"`
	Period      float64  `json:"periodSeconds"`
	Scopes      []string `json:"scopes"`
	Scope       string   `json:"scope"`
	Observed    bool     `json:"observed,omitempty"`
	Shown       bool     `json:"shown"`
	Busiest     bool     `json:"busiest,omitempty"`
	Waiting     int64    `json:"waiting"`
	Rate        float64  `json:"rate"`
	Capacity    float64  `json:"capacity"`
	Utilization float64  `json:"utilization"`

	// By second, oldest first; the last one ends at Counted.
	Cost   []int64   `json:"cost"`
	Waits  []int64   `json:"waits"`
	Waited []float64 `json:"waitedSeconds"`
}

type processJSON struct {
	ID      string  `json:"id"`
	Name    string  `json:"name"`
	For     float64 `json:"forSeconds"`
	Waiting int64   `json:"waiting"`
	Source  string  `json:"source"`
	Version string  `json:"version"`
}

type learnedJSON struct {
	Policy   string    `json:"policy"`
	Name     string    `json:"name"`
	Text     string    `json:"text"`
	Limit    int64     `json:"limit"`
	Period   float64   `json:"periodSeconds"`
	Window   float64   `json:"windowSeconds"`
	Reset    float64   `json:"resetSeconds"`
	Source   string    `json:"source"`
	Readings int64     `json:"readings"`
	Since    time.Time `json:"since"`
	Last     time.Time `json:"last"`
}

type topKeyJSON struct {
	standingJSON

	Policy  string            `json:"policy"`
	Scope   string            `json:"scope"`
	Values  map[string]string `json:"values,omitempty"`
	Cost    int64             `json:"cost"`
	Waiting int64             `json:"waiting"`
}

// MarshalJSON returns the Snapshot for scripts and browsers: durations are numbers of seconds, instants are as in RFC 3339, and lists are
// never null. Later versions may add fields; those below keep their names and meanings.
//
//   - upstream: its name. alive: how many processes pace it. waiting: how many calls wait. pausedSeconds: how much longer all of it is
//     paused.
//   - at, counted: when the snapshot was taken, by the store's clock; until when started calls are counted completely.
//   - shared: whether it covers all processes that share a store.
//   - binding: the policy that most calls wait for; empty if none waits, and none has in the last ten seconds.
//   - policies: name, text (policies.Parse reads it), kind (rate, window, in flight), periodSeconds, scopes (their names), scope (the
//     values that the figures are of, as in errors), busiest (no values were given: of the key that uses most), observed (not enforced),
//     shown (whether the fields from remaining to goneSeconds are set).
//   - of a policy, too: remaining, limit, nextSeconds, queued, pausedSeconds, pausedBy (the header that stated it), backlog (cost charged
//     to future slots), marginSeconds, fullSeconds (until all is available again), goneSeconds (until a window is spent at its mean pace so
//     far, if that is before its end), waiting, rate (cost per second of the last ten seconds), capacity (cost per second in the long run),
//     utilization (0 to 1).
//   - of each of the last 60 seconds of a policy, oldest first: cost of the calls that started, waits (how many had waited for it),
//     waitedSeconds (in total).
//   - busiest: the top keys: policy, scope, values by scope, cost in the last minute or so, waiting, and the figures above.
//   - allowances: what replies stated as left: policy, or limit for one that fits none; scope, left, free (not taken by calls under way),
//     seconds, by (the header).
//   - processes: id, name, forSeconds, waiting, source (empty, or "set at" with a time), version (equal policies have equal ones).
//   - settings: what operators have set, at most 50 limits of keys; null if the store keeps none. setLimits: how many limits of keys are
//     set.
//   - versionCount, versions: the lists of policies, at most eight: id, policies, processes, names of some.
//   - disagreements: policy, sides (text, processes, names), scopesDiffer.
//   - callers: what callers spent in the last minute or so: name, policy, cost.
//   - learned: what replies stated: policy or name, text, limit, windowSeconds, source, resetSeconds, periodSeconds, readings, since, last.
//   - unknown: the texts of policies that this version cannot read.
func (s *Snapshot) MarshalJSON() ([]byte, error) {
	v := snapshotJSON{
		Upstream: s.Upstream, At: s.At.UTC(), Counted: s.Counted.UTC(), Shared: s.Shared, PausedFor: s.PausedFor.Seconds(), PausedBy: s.PausedBy,
		Waiting: s.Waiters(), Alive: s.Alive,
		Policies: make([]policyJSON, len(s.Policies)), Processes: make([]processJSON, len(s.Processes)), Said: make([]saidJSON, len(s.Allowances)),
		TopKeys: make([]topKeyJSON, len(s.TopKeys)), Unknown: append([]string{}, s.Unknown...), Callers: append([]Caller{}, s.Callers...),
		Settings: s.Settings, SetLimits: s.SetLimits, VersionCount: s.VersionCount,
		Versions: make([]versionJSON, len(s.Versions)), Disagreements: make([]disagreementJSON, len(s.Disagreements)),
	}
	for i, one := range s.Versions {
		v.Versions[i] = versionJSON{one.ID, append([]string{}, one.Policies...), one.Processes, append([]string{}, one.Names...)}
	}
	for i, one := range s.Disagreements {
		v.Disagreements[i] = disagreementJSON{Policy: one.Policy, ScopesDiffer: one.ScopesDiffer, Sides: make([]sideJSON, len(one.Sides))}
		for j, side := range one.Sides {
			v.Disagreements[i].Sides[j] = sideJSON{side.Text, side.Processes, append([]string{}, side.Names...)}
		}
	}
	v.Learned = make([]learnedJSON, len(s.Learned))
	for i := range s.Learned {
		v.Learned[i] = learnedJSONOf(&s.Learned[i])
	}
	if b := s.Binding(); b != nil {
		v.Binding = b.Policy.Name()
	}
	for i := range s.Policies {
		v.Policies[i] = policyJSONOf(&s.Policies[i])
	}
	for i, a := range s.Allowances {
		v.Said[i] = saidJSON{a.Policy, a.Limit, a.Scope, a.Left, a.Free, a.For.Seconds(), a.Source}
	}
	for i, p := range s.Processes {
		v.Processes[i] = processJSON{p.ID, p.Name, p.For.Seconds(), p.Waiting, p.Source, p.Version}
	}
	for i := range s.TopKeys {
		b := &s.TopKeys[i]
		v.TopKeys[i] = topKeyJSON{
			standingJSON: standingJSONOf(&b.PolicyStatus), Policy: b.Policy.Name(),
			Scope: b.Scope, Values: scopeValues(b.Policy.Scopes(), b.Scope), Cost: b.Cost, Waiting: b.Waiting,
		}
	}
	return json.Marshal(v)
}

func learnedJSONOf(l *Learned) learnedJSON {
	v := learnedJSON{
		Policy: l.Policy, Name: l.Name, Limit: l.Limit, Period: l.Period().Seconds(), Window: l.Window.Seconds(), Reset: l.Reset.Seconds(),
		Source: l.Source, Readings: l.Readings, Since: l.Since.UTC(), Last: l.Last.UTC(),
	}
	if p, ok := l.As(); ok {
		v.Text = p.String()
	}
	return v
}

func policyJSONOf(p *Policy) policyJSON {
	_, period := p.Policy.Limit()
	v := policyJSON{
		Name: p.Policy.Name(), Text: p.Policy.String(), Kind: kindOf(p.Policy), Period: period.Seconds(),
		Scopes: append([]string{}, p.Policy.Scopes()...), Scope: p.Scope, Observed: p.Policy.IsObserved(), Shown: p.Shown, Busiest: p.Busiest, Waiting: p.Waiting,
		Rate: p.Rate(utilizationSeconds), Capacity: p.Capacity(), Utilization: p.Utilization(),
		Cost: make([]int64, len(p.History)), Waits: make([]int64, len(p.History)), Waited: make([]float64, len(p.History)),
	}
	if p.Shown {
		v.standingJSON = standingJSONOf(&p.PolicyStatus)
	}
	for i, s := range p.History {
		v.Cost[i], v.Waits[i], v.Waited[i] = s.Cost, s.Waits, s.Waited.Seconds()
	}
	return v
}

func standingJSONOf(s *pacer.PolicyStatus) standingJSON {
	spec := s.Policy.Spec()
	limit := spec.Limit
	if spec.Algorithm != specs.GCRA && s.Pace > 0 { // of a rate, Pace is an interval
		limit = s.Pace
	}
	return standingJSON{s.Remaining, limit, s.Next.Seconds(), s.Backlog, s.PausedFor.Seconds(), s.PausedBy, s.Queued, s.Margin.Seconds(), s.Full.Seconds(), s.Gone.Seconds()}
}

func kindOf(p policies.Policy) string {
	switch p.Spec().Algorithm {
	case specs.Window:
		return "window"
	case specs.Concurrency:
		return "in flight"
	case specs.GCRA, specs.Allowance:
	}
	return "rate"
}
