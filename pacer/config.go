package pacer

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/bookings"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/internal/observe"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/internal/warnings"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Special values of [Config].
const (
	// Forever as a MaxWait leaves the context's deadline as the only bound.
	Forever = store.Forever
	// NoJitter as Config.Jitter adds no delay to a slot.
	NoJitter time.Duration = -1
)

// Defaults of [Config].
const (
	defaultMaxWait      = time.Minute         // finite, so that a call that meets a spent daily quota fails now instead of waiting until tomorrow
	defaultMaxPause     = 31 * 24 * time.Hour // the longest month: a wait beyond it cannot be meant
	defaultJitter       = 10 * time.Millisecond
	defaultMaxLate      = 500 * time.Millisecond
	defaultStoreTimeout = 250 * time.Millisecond
)

// Config configures a [Pacer].
type Config struct {
	// Upstream is the name of the API being called. Processes that share a store and a name share its limits.
	// It starts with a letter or digit and has at most 100 letters, digits, '.', '_' or '-'. Required.
	Upstream string

	// Policies are the upstream's limits. All of them must admit a call. Their names must differ. Without policies, only replies pace
	// calls: of calls whose answers are reported ([Pacer.Do], [Tracked]), three go at a time until an answer states what is left, and more
	// with each good answer that does not. With IgnoreCounts, nothing limits calls but pauses. Defaults to none.
	Policies []policies.Policy

	// Store keeps the accounts. Defaults to a [memstore.Store] of its own, which paces only this process.
	Store store.Store

	// MaxWait is the longest time that a call waits: if its slot lies further away, it is refused at once, without a charge. [Forever] sets
	// no bound. For a call that must not wait at all, use [Pacer.TryAcquire]. Defaults to one minute.
	MaxWait time.Duration

	// MaxPause caps how long calls heed a Retry-After, or the reset of an exhausted limit. A ban of a day is common, so the default is 31
	// days. A wait beyond 31 days and MaxPause, such as "Retry-After: 999999999", cannot be meant: it pauses calls for an hour. Defaults to
	// 31 days.
	MaxPause time.Duration

	// Hooks receive events. Each set of hooks receives all of them. Defaults to none.
	Hooks []*hooks.Set

	// Logger receives a warning when this process loses a [store.Shared], or cannot reach it at the start (at most one a minute for each
	// upstream, less often the longer the outage lasts), and a line when the store is back. It also receives a warning when an upstream
	// states a wait of over an hour (see [hooks.FeedbackApplied].Long), and, at most once an hour for each upstream, when processes have
	// had different policies for minutes. slog.New(slog.DiscardHandler) turns this off. Defaults to slog.Default() at the time of the
	// warning, or to nothing if [hooks.Log] are among the Hooks, because they log the same. A logger that hangs or panics delays no call:
	// lines are dropped meanwhile, and their number is logged afterwards.
	Logger *slog.Logger

	// Name identifies this process to operators (see package fleet). At most 100 bytes. Defaults to the host name and the process ID,
	// such as "worker-7/4711".
	Name string

	// IgnoreCounts ignores what an upstream reports about its limits and what is left of them: only pauses and refusals are applied.
	// Defaults to applying everything.
	IgnoreCounts bool

	// Jitter is the most by which a waiting call goes later than its slot, uniformly at random. It never exceeds the call's slack, so it
	// spreads calls without breaking a limit. [NoJitter] turns it off. Defaults to 10 ms.
	Jitter time.Duration

	// MaxLate is how late after its slot and its slack a call may go. A call that wakes later, because the machine or the process was
	// suspended, gives its slot back and reserves again, so that calls with stale slots do not go in a burst. [Forever] allows stale slots.
	// Defaults to half a second.
	MaxLate time.Duration

	// Outage decides how calls are treated while a [store.Shared] is out of reach. With [PaceLocally], a process that has never reached its
	// store needs Processes. Defaults to PaceLocally.
	Outage Outage

	// StoreTimeout is how long an operation of a [store.Shared] may take, whatever timeouts and retries the store's client has, and whatever
	// the call's context. A call that arrives while a request of the same stack is under way first waits for that reply, and for the replies
	// to calls queued before it while the store answers. Up to 256 calls share a request. If no more than that arrive at once, a call whose
	// context ends returns within four StoreTimeouts: two to reserve, and two to give the slot back. An operation that has to connect first
	// may take four times as long in all, and StoreTimeout from when it has a connection. Each further attempt at the very first operation may
	// take twice as long as the one before, up to 8 s. Defaults to 250 ms.
	StoreTimeout time.Duration

	// Processes is how many processes share the store, at most. The store supplies the number, too; a process that loses its store paces at
	// its share, by the larger of the two. Without Processes, a process that has never reached its store, or that the store has known for a
	// few seconds only, does not guess, since others may not count it yet: its calls wait for the store while MaxWait and their contexts
	// allow, and then get a [*StoreError] that matches [ErrUnreachable]. [Pacer.TryAcquire] and MaxWait(0) wait for the first attempt only. At
	// most 10,000. Defaults to 0, unknown.
	Processes int

	_ struct{}
}

// An Outage defines how calls are treated while a [store.Shared] is out of reach.
type Outage uint8

// The ways to treat calls.
const (
	// PaceLocally paces each process from memory, at its share of every limit: the limit divided by the number of processes that were alive
	// when the store last answered. When the store is back, the process reports what it spent meanwhile. Config.Processes has the number
	// for a process that has never reached its store, or that its store has known for a few seconds only; without it, calls wait for the
	// store.
	PaceLocally Outage = iota
	// RefuseCalls refuses calls with a [*StoreError] that matches [ErrUnreachable].
	RefuseCalls
	// LetThrough lets every call go at once, and never counts it.
	LetThrough
)

// text returns a short name of the outage mode.
func (o Outage) text() string { return [...]string{"pace locally", "refuse calls", "let through"}[o] }

// mode returns how a member behaves.
func (o Outage) mode() failover.Mode {
	switch o {
	case RefuseCalls:
		return failover.Refuse
	case LetThrough:
		return failover.LetThrough
	case PaceLocally:
	}
	return failover.Local
}

// New returns a Pacer for the upstream that c describes, or a [*ConfigError] that names the first field at fault.
func New(c Config) (*Pacer, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	p := &Pacer{
		upstream:  c.Upstream,
		store:     c.Store,
		maxWait:   cmp.Or(c.MaxWait, defaultMaxWait),
		maxPause:  cmp.Or(c.MaxPause, defaultMaxPause),
		outage:    c.Outage,
		telemetry: newTelemetry(c.Hooks),
	}
	if p.store == nil {
		p.store = memstore.New()
	}
	if c.Logger != nil || !slices.ContainsFunc(c.Hooks, func(h *hooks.Set) bool { return h.LogsWarnings }) {
		p.log = warnings.NewStore(c.Logger, c.Upstream, c.Outage.text())
	}
	given := p.store
	shared, isShared := p.store.(store.Shared)
	if !isShared { // one that is built on a store in memory is shared all the same
		p.direct, _ = p.store.(store.Direct)
	}
	p.policies = binding.NewPolicies(&binding.Config{
		Upstream: p.upstream, Direct: p.direct, MaxPause: p.maxPause, Counts: !c.IgnoreCounts,
		Declared: slices.Clone(c.Policies), Changed: p.policiesChanged,
	})
	p.calls = &binding.Reader{
		Upstream: p.upstream, MaxWait: p.maxWait, MaxWeight: maxWeight, Flow: 1 + rand.Int64N(1<<53-1), Counts: !c.IgnoreCounts,
		Policies: p.policies, Direct: p.direct, Errors: refusals{p},
	}
	p.reports = &readings.Reporter{Upstream: p.upstream, Far: isShared, Events: events{p}}
	if isShared {
		p.member = p.join(shared, &c)
		p.store = p.member
	}
	p.spares.off = p.direct == nil && p.member == nil
	p.describeProcess(cmp.Or(c.Name, processName()))
	p.dispatcher = p.newDispatcher(&c, given)
	p.calls.Dispatcher = p.dispatcher
	p.observer = observe.New(&observe.Config{
		Upstream: p.upstream, Store: p.store, Member: p.member, Direct: p.direct != nil, Timeout: dispatch.Timeout, Meter: p.process.Meter,
		Calls: p.calls, Events: events{p},
	})
	p.bookings = &bookings.Bookings{
		Upstream: p.upstream, Store: p.store, Calls: p.calls, Early: RedeemEarly, Keep: defaultKeep, MaxToken: maxToken,
	}
	p.reports.Store = p.store
	if p.member == nil && c.Store != nil { // others may use it, too
		p.dispatcher.Begin()
	}
	if p.telemetry.Any(func(h *hooks.Set) bool { return h.Paused != nil || h.Resumed != nil }) {
		defer p.dispatcher.Listen()
	}
	return p, nil
}

// join returns the member between a Pacer and a shared store.
func (p *Pacer) join(shared store.Shared, c *Config) store.Member {
	p.versionLog = warnings.NewVersions(c.Logger, c.Upstream, func() string { return p.set().Source })
	return failover.New(shared, &failover.Config{
		Upstream: c.Upstream, Mode: c.Outage.mode(), Timeout: cmp.Or(c.StoreTimeout, defaultStoreTimeout), Processes: c.Processes,
		Policies: p.set().Bound, InForce: p.policies, Owner: events{p},
	})
}

// newDispatcher returns the dispatcher of a Pacer with a store. given is the store of the Config.
func (p *Pacer) newDispatcher(c *Config, given store.Store) *dispatch.Dispatcher {
	config := dispatch.Config{
		Upstream: p.upstream, Store: p.store, Given: given, Member: p.member, Direct: p.direct != nil,
		Jitter: max(0, cmp.Or(c.Jitter, defaultJitter)), MaxLate: cmp.Or(c.MaxLate, defaultMaxLate),
		Meter: p.process.Meter,
	}
	if p.telemetry != nil {
		config.Events = events{p}
	}
	config.Reported = p.policies.AddAllowances
	if p.member == nil {
		config.Reread = p.reread
	}
	return dispatch.New(&config)
}

// maxProcessName bounds Config.Name, in bytes.
const maxProcessName = 100

// processName returns the name of a process whose Config has none.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	pid := "/" + strconv.Itoa(os.Getpid())
	return host[:min(len(host), maxProcessName-len(pid))] + pid
}

func (c *Config) validate() error {
	if !store.ValidUpstream(c.Upstream) {
		return &ConfigError{
			Field: "Upstream", Value: strconv.Quote(c.Upstream),
			Reason: "must start with a letter or digit and have at most 100 letters, digits, '.', '_' or '-'",
		}
	}
	if err := binding.Check("Policies", c.Policies); err != nil {
		return err
	}
	if v := reflect.ValueOf(c.Store); v.Kind() == reflect.Pointer && v.IsNil() {
		return &ConfigError{
			Field: "Store", Value: fmt.Sprintf("a nil %T", c.Store), Reason: "make one with its package's New, or leave Store out to pace this process alone",
		}
	}
	for _, one := range []struct {
		field string
		d     time.Duration
	}{{"MaxWait", c.MaxWait}, {"MaxPause", c.MaxPause}, {"Jitter", c.Jitter}, {"MaxLate", c.MaxLate}, {"StoreTimeout", c.StoreTimeout}} {
		if one.d < 0 && (one.field != "Jitter" || one.d != NoJitter) {
			return badDuration(one.field, one.d)
		}
	}
	for i, h := range c.Hooks {
		if h == nil {
			return &ConfigError{Field: fmt.Sprintf("Hooks[%d]", i), Value: "nil", Reason: "leave it out"}
		}
	}
	if len(c.Name) > maxProcessName {
		return badNumber("Name", int64(len(c.Name)), fmt.Sprintf("bytes long: at most %d", maxProcessName))
	}
	if c.Outage > LetThrough {
		return badNumber("Outage", int64(c.Outage), "must be PaceLocally, RefuseCalls or LetThrough")
	}
	if c.Processes < 0 || c.Processes > failover.MaxProcesses {
		return badNumber("Processes", int64(c.Processes), fmt.Sprintf("must be from 1 to %d; 0 for the default", failover.MaxProcesses))
	}
	return nil
}

func badDuration(field string, d time.Duration) *ConfigError {
	return &ConfigError{Field: field, Value: d.String(), Reason: "must not be negative"}
}

func badNumber(field string, n int64, reason string) *ConfigError {
	return &ConfigError{Field: field, Value: strconv.FormatInt(n, 10), Reason: reason}
}
