package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// ErrUnknownUpstream is the cause of the [*pacer.ConfigError] of [Open] for an upstream that no process paces.
var ErrUnknownUpstream = errors.New("no process paces this upstream or has paced it lately: Registry.Upstreams lists the known upstreams")

// An Operator observes an upstream and intervenes. Make one with [Open] or [Of]. It is safe for concurrent use.
type Operator struct {
	pacer *pacer.Pacer
	in    *inside.Pacer
	own   bool // the Pacer was made for it

	mu   sync.Mutex
	used map[string]store.Key // of each policy with scopes, the key that used most of its limit when last seen: it may be idle now
}

// Open returns an Operator that needs only the store, which must be a [store.Registry]. Its policies are those that the processes of the
// upstream have reported. It is no process of the fleet and does not listen for pauses. While the store is out of reach its methods fail.
// Its pauses have no maximum length. It returns a [*pacer.ConfigError] if no process paces the upstream and nothing is set for it, and a
// [*pacer.StoreError] if the store fails.
func Open(ctx context.Context, backing store.Store, upstream string) (*Operator, error) {
	registry, ok := backing.(store.Registry)
	if !ok {
		return nil, &pacer.ConfigError{Field: "Store", Value: fmt.Sprintf("%T", backing), Reason: "does not record which processes use it: use a store that is a store.Registry"}
	}
	if !store.ValidUpstream(upstream) {
		_, err := pacer.New(pacer.Config{Upstream: upstream}) // whose error names the mistake
		return nil, err
	}
	index, err := registry.Index(ctx, upstream)
	if err != nil {
		return nil, &pacer.StoreError{Upstream: upstream, Op: inside.OpIndex, Err: err}
	}
	known, _ := parse(index.Policies)
	described := slices.ContainsFunc(index.Processes, func(p store.IndexedProcess) bool { return p.Name != "" })
	look, isSet, err := lookOn(ctx, backing, registry, upstream)
	if err != nil {
		return nil, err
	}
	if len(known) == 0 && !described && !isSet {
		return nil, &pacer.ConfigError{Field: "Upstream", Value: strconv.Quote(upstream), Err: ErrUnknownUpstream}
	}
	p, err := pacer.New(pacer.Config{Upstream: upstream, Store: look, Policies: known, MaxWait: pacer.Forever, MaxPause: pacer.Forever})
	if err != nil {
		return nil, err
	}
	return &Operator{pacer: p, in: inside.Of(p), own: true}, nil
}

// Of returns an Operator for the upstream that p paces, with p's policies and MaxPause. It covers all processes that share p's store if the
// store is a [store.Registry]. Otherwise, and while the store is out of reach, it covers this process only. It is nil if p is nil.
func Of(p *pacer.Pacer) *Operator {
	if p == nil {
		return nil
	}
	return &Operator{pacer: p, in: inside.Of(p)}
}

// onlooker is a store without the methods of a fleet's process.
type onlooker struct {
	store.Store
	store.Registry
}

// A setter is an onlooker that can change settings.
type setter struct {
	onlooker

	backing store.Settable
	first   atomic.Pointer[store.Settings] // what was read before there was a Pacer
}

// Settings implements [store.Settable].
func (s *setter) Settings(ctx context.Context, upstream string) (*store.Settings, error) {
	if first := s.first.Swap(nil); first != nil {
		return first, nil
	}
	return s.backing.Settings(ctx, upstream)
}

// Set implements [store.Settable].
func (s *setter) Set(ctx context.Context, upstream string, changes []store.Setting) (*store.Settings, error) {
	return s.backing.Set(ctx, upstream, changes)
}

// lookOn returns an Operator's view of a store, and whether something is set for the upstream.
func lookOn(ctx context.Context, backing store.Store, registry store.Registry, upstream string) (_ store.Store, isSet bool, err error) {
	looks := onlooker{backing, registry}
	settable, ok := backing.(store.Settable)
	if !ok {
		return looks, false, nil
	}
	first, err := settable.Settings(ctx, upstream)
	if err != nil {
		return nil, false, &pacer.StoreError{Upstream: upstream, Op: inside.OpSettings, Err: err}
	}
	s := &setter{onlooker: looks, backing: settable}
	s.first.Store(first)
	return s, len(first.All) > 0, nil
}

// Upstream returns the upstream's name.
func (o *Operator) Upstream() string { return o.in.Upstream }

// Policies returns the Operator's policies: those known when it was opened, those set since then, or those of its Pacer.
func (o *Operator) Policies() []policies.Policy { return slices.Clone(o.in.Policies.Now().List) }

// MaxPause returns the longest pause that the Operator can make.
func (o *Operator) MaxPause() time.Duration { return o.in.MaxPause }

// Status is [pacer.Pacer.Status]: the state of the policies for a call with the scopes of the context and options.
func (o *Operator) Status(ctx context.Context, opts ...pacer.ScopeOption) (*pacer.Status, error) {
	return o.pacer.Status(ctx, opts...)
}

// Pause stops the calls of some policies for d, in every process. It pauses the policies in names, for the scopes of the context and
// options. Without names, it pauses those with the fewest scopes of the policies that bind a call with these scopes: if one has none, that
// is the whole upstream. Waiting calls whose slot falls inside the pause reserve again behind it. Pause never shortens an existing pause,
// and lasts for at most [Operator.MaxPause]. It returns a [*pacer.ConfigError] for a negative time or an unknown policy, a
// [*pacer.LimitError] for [pacer.NoScope] if a named policy needs a scope that is not given, and a [*pacer.StoreError] if the store fails.
func (o *Operator) Pause(ctx context.Context, d time.Duration, names []string, opts ...pacer.ScopeOption) error {
	return o.pacer.Report(ctx, policies.Feedback{Source: "operator", Wait: d, Policies: names}, opts...)
}

// Resume lifts the pauses that hold a call with the scopes of the context and options: that of the whole upstream, and those of the
// policies that bind the call. It also forgets what the upstream reported as left of their limits. Calls of any process that the pauses
// held reserve again. It returns a [*pacer.StoreError] if the store fails.
func (o *Operator) Resume(ctx context.Context, opts ...pacer.ScopeOption) error {
	return o.undo(ctx, store.NoteResume, opts)
}

// Reset forgets the state of the policies that bind a call with the scopes of the context and options: charges, what was learned about
// them, and pauses, also that of the whole upstream. If the call is in no lane, Reset includes the policies of all lanes. Use it if you
// know that the recorded state is wrong. Waiting calls keep their slots, or get earlier ones. No process restores what was reset, even if
// the store loses its data later. It returns the same errors as Resume.
func (o *Operator) Reset(ctx context.Context, opts ...pacer.ScopeOption) error {
	return o.undo(ctx, store.NoteReset, opts)
}

// undo sends a note about each limit that could bind a call with these scopes, and about the whole upstream.
func (o *Operator) undo(ctx context.Context, kind store.NoteKind, opts []pacer.ScopeOption) error {
	if o.own { // those whose allowance the upstream stated; if the store fails, so does the rest
		_, _ = o.Settings(ctx)
	}
	if o.in.Dispatcher.IsClosed() {
		return pacer.ErrClosed
	}
	a, err := o.in.Calls.New(pacer.With(ctx, opts...), nil)
	if err != nil {
		return err
	}
	changes, err := o.in.Reports.Undo(ctx, kind, a.Bindable(true))
	o.in.Dispatcher.Changed(ctx, changes)
	if err != nil {
		return o.failed(inside.OpReport, err)
	}
	return nil
}

// failed makes the error of a store operation.
func (o *Operator) failed(op string, err error) error {
	return &pacer.StoreError{Upstream: o.in.Upstream, Op: op, Err: err}
}

// Close ends what [Open] started. It closes neither the store nor the Pacer that [Of] received. Closing twice is harmless.
func (o *Operator) Close() error {
	if !o.own {
		return nil
	}
	return o.pacer.Close()
}
