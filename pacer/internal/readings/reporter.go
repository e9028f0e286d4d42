package readings

import (
	"context"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// Answers that leave enough are kept for a while after the last one, to be sent together to a store that is far away: near the end of a
// limit for a shorter one. Calls on their way have their part of the allowance in the meantime, and only the spending of others is not
// known.
const (
	batchFor     = time.Second
	batchNearFor = 50 * time.Millisecond
)

// A Reporter gives reports to the store of a Pacer. It is safe for concurrent use.
type Reporter struct {
	Upstream string
	Store    store.Store
	Far      bool // the store is shared: what need not be known at once is sent in batches

	Events Events
	Memory Memory // of what the upstream stated to this process

	mu      sync.Mutex
	pending Reports
	timer   *time.Timer // until it is sent; nil if nothing is pending
	ends    time.Time   // when that is
	sent    time.Time   // when something was sent last
	flush   func()      // sends it
	sending sync.WaitGroup
}

// Events receive what becomes of feedback.
type Events interface {
	// Unbound receives the names of limits that readings are about and that did not bind the call.
	Unbound(names []string)
	// Applied receives what the store has received of feedback, when, by its clock, and what calls of this process that wait are to heed.
	Applied(ctx context.Context, at store.Instant, stack store.Stack, notes []store.Note, changes []store.Change)
}

// Apply turns feedback on a call into notes, and gives them to the store. It returns a [*UnboundError] if feedback names a policy that
// does not bind the call, and otherwise the error of the store.
func (r *Reporter) Apply(ctx context.Context, rules *Rules, a *Answer, now time.Time, fs ...policies.Feedback) error {
	strays, err := rules.Strays(a, fs)
	if err != nil {
		return err
	}
	others, err := r.send(ctx, store.Stack{Upstream: r.Upstream, Limits: a.Limits}, strays)
	if err != nil {
		return err
	}
	n, err := rules.Notes(&r.Memory, a, fs, len(strays) > 0 && others == 0, now)
	if err != nil {
		return err
	}
	if more := n.Limits[len(a.Limits):]; len(more) > 0 {
		names := make([]string, 0, len(more))
		for i := range more {
			names = append(names, more[i].Policy)
		}
		r.Events.Unbound(names)
	}
	stack := store.Stack{Upstream: r.Upstream, Limits: n.Limits}
	if !r.Far || n.Soon || len(n.Rates) > 0 {
		r.mu.Lock()
		r.sent = time.Now()
		r.mu.Unlock()
		_, err = r.send(ctx, stack, append(n.Rates, n.Answers...))
		return err
	}
	r.batch(ctx, &n)
	return nil
}

// restTag marks the allowances of credentials that are left.
const restTag = ".credential"

// Rest has nothing left, for a time, of what calls may do that carry one value of any of some scopes, whichever policies bind them.
func (r *Reporter) Rest(ctx context.Context, rules *Rules, scopes []string, value string, d time.Duration, source string) error {
	stack := store.Stack{Upstream: r.Upstream}
	names, notes := make([]string, 0, len(scopes)), make([]store.Note, 0, len(scopes))
	for i, scope := range scopes {
		l := AllowanceOf(store.Limit{Scope: store.EscapeScope(value)})
		l.Policy += restTag + apartMark + scope
		one := store.Pause(i, rules.believed(d))
		one.Source = source
		stack.Limits, names, notes = append(stack.Limits, l), append(names, l.Policy), append(notes, one)
	}
	r.Events.Unbound(names)
	_, err := r.send(ctx, stack, notes)
	return err
}

// batch keeps answers for a while.
func (r *Reporter) batch(ctx context.Context, n *Notes) {
	if len(n.Answers) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range n.Answers {
		r.pending.Add(&n.Limits[n.Answers[i].Limit], n.Answers[i])
	}
	wait := batchFor
	if n.Near {
		wait = batchNearFor
	}
	wait = max(0, wait-time.Since(r.sent)) // the first for a while goes at once: others may wait for it, such as after a reset
	switch ends := time.Now().Add(wait); {
	case r.timer == nil:
		r.sending.Add(1)
		ctx := context.WithoutCancel(ctx)
		r.ends, r.flush = ends, func() {
			defer r.sending.Done()
			r.sendPending(ctx)
		}
		r.timer = time.AfterFunc(wait, r.flush)
	case ends.Before(r.ends) && r.timer.Stop():
		r.ends = ends
		r.timer.Reset(wait)
	}
}

// sendPending sends what is pending. Lost ones are not repeated: the answers of later calls are newer.
func (r *Reporter) sendPending(ctx context.Context) {
	r.mu.Lock()
	all := r.pending.All
	r.pending, r.timer, r.sent = Reports{}, nil, time.Now()
	r.mu.Unlock()
	for i := range all {
		_, _ = r.send(ctx, store.Stack{Upstream: r.Upstream, Limits: all[i].Limits}, all[i].Notes)
	}
}

// Close sends what is pending, and returns when it was sent.
func (r *Reporter) Close() {
	r.mu.Lock()
	flush, stopped := r.flush, r.timer != nil && r.timer.Stop()
	r.mu.Unlock()
	if stopped {
		flush()
	}
	r.sending.Wait()
}

// send gives notes to the store, and lets others follow. It returns how many made a difference.
func (r *Reporter) send(ctx context.Context, stack store.Stack, all []store.Note) (changed int, err error) {
	if len(all) == 0 {
		return 0, nil
	}
	at, changed, err := r.Store.Report(ctx, stack, all)
	if err != nil {
		return 0, err
	}
	r.Events.Applied(ctx, at, stack, all, changes(all, stack, at, changed > 0))
	return changed, nil
}

// Undo sends a note about each of some limits, or of those that are allowances: store.NoteReset or store.NoteResume. It returns what
// calls of this process that wait are to heed, even if the store cannot.
func (r *Reporter) Undo(ctx context.Context, kind store.NoteKind, limits []store.Limit) ([]store.Change, error) {
	stack := store.Stack{Upstream: r.Upstream, Limits: limits}
	var all []store.Note
	for i := range limits {
		if kind == store.NoteReset || limits[i].Spec.Algorithm == specs.Allowance {
			all = append(all, store.Note{Kind: kind, Limit: i})
		}
	}
	now, _, err := r.Store.Report(ctx, stack, all)
	if now == 0 {
		return nil, err
	}
	return changes(all, stack, now, false), err
}

// changes returns what notes mean for the waiters of this process, so that they need not wait for news, which may be
// late or lost.
func changes(notes []store.Note, stack store.Stack, now store.Instant, did bool) []store.Change {
	var all []store.Change
	for i := range notes {
		slower := did && notes[i].Kind == store.NoteSlow // for strays, the store's news suffices, too
		if c, ok := notes[i].Change(stack, now, slower); ok {
			all = append(all, c)
		}
	}
	return all
}
