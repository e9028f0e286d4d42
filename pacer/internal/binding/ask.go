package binding

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A Reader reads the calls of a Pacer, and finds what binds them. Set its fields before use. It is safe for concurrent use.
type Reader struct {
	Upstream   string
	MaxWait    time.Duration // how long calls may wait by default
	MaxWeight  int64         // the highest weight of a call
	Flow       int64         // of this process, where it is one tenant
	Counts     bool          // stated allowances apply: so it matters which calls are tracked
	Policies   *Policies
	Direct     store.Direct // the store, if it is one; nil otherwise
	Dispatcher *dispatch.Dispatcher
	Learner    Learner // learns the costs of calls
	Errors     Errors
}

// Errors make the errors of users.
type Errors interface {
	// Missing makes the error of a call without a scope that a policy needs.
	Missing(policy, scope string) error
	// Excess makes the error of a call that costs more than a limit ever admits.
	Excess(l *store.Limit, cost int64, maxWait time.Duration) error
	// Nested makes the error of a call inside calls that hold all permits of a limit.
	Nested(l *store.Limit) error
}

// Invalid returns the error of a setting or an option.
func Invalid(field, value, reason string) error {
	return &store.ConfigError{Field: field, Value: value, Reason: reason}
}

// An Ask is one call, by its context and options.
type Ask struct {
	Options   []Option
	Cost      int64
	MaxWait   time.Duration
	NotBefore time.Duration
	Tracked   bool
	ByPolicy  bool // an option is a CostOf
	Permits   bool // the caller gives permits back: otherwise they return when their leases run out
	Waits     bool // the caller waits until the call may go
	Untried   bool // no request to the store was made yet for whether it may go at once
	Lane      string
	Caller    string // what the call spends counts for this caller; "" if nothing shows callers
	Set       *Set   // by which the call is bound
	Wrong     error  // what a call is refused with whose policies are enforced
	Which     Which  // which of its limits are meant

	weight int64
	scopes *scopeContext
	held   []heldPermit // by the calls that this one is made in
	pooled *pooled      // of a call that any one of some credentials may make; nil for others
}

// Passed subtracts elapsed time from the longest wait of the call.
func (a *Ask) Passed(d time.Duration) {
	if a.MaxWait < store.Forever {
		a.MaxWait = max(0, a.MaxWait-d)
	}
	a.NotBefore = max(0, a.NotBefore-d)
}

// Call is [Reader.New] for a call that will be made. It fails if its context has ended or the Pacer is closed.
func (r *Reader) Call(ctx context.Context, opts []Option) (Ask, error) {
	a := Ask{Options: opts}
	err := r.CallInto(ctx, &a)
	return a, err
}

// CallInto is [Reader.Call] into an Ask that holds only the options. Copying an Ask, which is large, takes a tenth of the time of a call
// that goes at once, in memory. The caller sets the options: if CallInto stored them through the pointer, they would escape to the heap.
func (r *Reader) CallInto(ctx context.Context, a *Ask) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.Dispatcher.IsClosed() {
		return store.ErrClosed
	}
	return r.read(ctx, a)
}

// New reads what a call requests.
func (r *Reader) New(ctx context.Context, opts []Option) (Ask, error) {
	a := Ask{Options: opts}
	err := r.read(ctx, &a)
	return a, err
}

// read reads a call into an Ask that holds only the options.
func (r *Reader) read(ctx context.Context, a *Ask) error {
	a.Cost, a.MaxWait, a.weight, a.Set = 1, r.MaxWait, 1, r.Policies.Now()
	if a.Set.Scoped {
		a.scopes = scopesOf(ctx)
	}
	if a.Set.HasPermits {
		if outer := outerCalls(ctx); outer != nil {
			a.held, a.scopes = r.heldBy(outer), scopesOf(ctx)
		}
	}
	for i := range a.Options {
		switch o := &a.Options[i]; o.Kind {
		case Cost:
			if o.N < 1 {
				return badNumber("Cost", o.N, "must be at least 1")
			}
			a.Cost = o.N
		case MaxWait:
			if o.N < 0 {
				return badDuration("MaxWait", o.N, "must not be negative")
			}
			a.MaxWait = time.Duration(o.N)
		case NotBefore:
			if o.N < 0 {
				return badDuration("NotBefore", o.N, "must not be negative")
			}
			if o.N > int64(store.Forever) {
				return badDuration("NotBefore", o.N, "must be at most Forever")
			}
			a.NotBefore = time.Duration(o.N)
		case CostOf:
			if o.N < 0 {
				return badNumber("CostOf("+o.Name+")", o.N, "must not be negative; 0 means that the policy does not bind the call")
			}
			a.ByPolicy = true
		case Tracked:
			a.Tracked = true
		case Scope, Keep:
		}
	}
	if r.Dispatcher.Meter.IsOn() {
		a.Caller = a.caller(ctx)
	}
	err := r.place(a)
	if err != nil && a.Set.Free { // no lane is enforced
		a.Wrong, a.Lane, a.weight, err = err, "", 1, nil
	}
	return err
}

// place reads a call's lane and weight.
func (r *Reader) place(a *Ask) error {
	if len(a.Set.Lanes) > 0 {
		if a.Lane = a.Scope(LaneScope); a.Lane != "" && !slices.Contains(a.Set.Lanes, a.Lane) {
			return Invalid("Lane", strconv.Quote(a.Lane), fmt.Sprintf(
				"no policy of upstream %q has that lane, but %s: give a policy one with Lane; 100 per cent will do", r.Upstream, strings.Join(a.Set.Lanes, ", ")))
		}
	}
	if a.Set.tenantScope() != "" {
		if v := a.Scope(WeightScope); v != "" {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 1 || n > r.MaxWeight {
				return Invalid("Weight", v, fmt.Sprintf("must be from 1 to %d", r.MaxWeight))
			}
			a.weight = n
		}
	}
	return nil
}

// Await waits until this process can decide about calls, if it must: see [store.Member]. It returns how long that took, and subtracts it
// from the longest wait of the call.
func (r *Reader) Await(ctx context.Context, a *Ask) (waited time.Duration, err error) {
	if r.Dispatcher.Member == nil {
		return 0, nil
	}
	began := time.Now()
	var latest time.Time
	if a.MaxWait < store.Forever {
		latest = began.Add(a.MaxWait)
	}
	if err := r.Dispatcher.Member.Await(ctx, latest, r.Dispatcher.Closed()); err != nil {
		if err == store.ErrClosed || err == ctx.Err() { //nolint:errorlint // as they are: anything else is the store's
			return 0, err
		}
		return 0, &dispatch.StoreError{Op: dispatch.OpReserve, Err: err}
	}
	waited = time.Since(began)
	a.Passed(waited)
	return waited, nil
}

// CarryAll makes a call carry all scopes of its context, even those that no policy has.
func (a *Ask) CarryAll(ctx context.Context) { a.scopes = scopesOf(ctx) }

// Scope returns the call's value of a scope; "" if it has none.
func (a *Ask) Scope(name string) string { return a.scopeIn(a.scopes, name) }

func (a *Ask) scopeIn(outer *scopeContext, name string) string {
	for i := len(a.Options) - 1; i >= 0; i-- {
		if o := &a.Options[i]; o.Kind == Scope && o.Name == name {
			return o.Value
		}
	}
	for s := outer; s != nil; s = s.outer {
		if s.name == name {
			return s.value
		}
	}
	return ""
}

// maxCaller bounds the bytes of a caller's name.
const maxCaller = 64

// caller returns the name of the call's caller; "" if unknown.
func (a *Ask) caller(ctx context.Context) string {
	name := a.scopeIn(scopesOf(ctx), CallerScope)
	return strings.ToValidUTF8(name[:min(len(name), maxCaller)], "")
}

// Carried returns the values of the call's scopes, by those names that policies can have.
func (a *Ask) Carried() map[string]string {
	all := make(map[string]string)
	for s := a.scopes; s != nil; s = s.outer {
		if _, inner := all[s.name]; !inner {
			all[s.name] = s.value
		}
	}
	for i := range a.Options {
		if o := &a.Options[i]; o.Kind == Scope {
			all[o.Name] = o.Value
		}
	}
	maps.DeleteFunc(all, func(name, value string) bool { return value == "" || !policies.ValidName(name) })
	return all
}

func badNumber(field string, n int64, reason string) error {
	return Invalid(field, strconv.FormatInt(n, 10), reason)
}

func badDuration(field string, d int64, reason string) error {
	return Invalid(field, time.Duration(d).String(), reason)
}
