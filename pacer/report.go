package pacer

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Report tells the store what the upstream said, for everyone who shares it. The context and options give the
// scopes of the call that was answered. It is for those who call Wait; a caller that keeps its [Reservation]
// should rather use [Reservation.Report], which knows of the calls that are on their way.
//
// A Wait pauses the policies that are meant. Calls that sleep, in this process or another, and whose slot falls
// inside the pause, give it back and reserve again behind it, in their order. Report does not wait for that, if the store is
// shared: it returns when the store has heeded what was said. What was said of a limit and of what is
// left of it tightens the policies until it is over; nothing that an upstream says lets more go than they allow.
//
// It returns a [*ConfigError] for a negative time or an unknown policy, a [*ScopeError] if a named policy
// needs a scope that is not given, and a [*StoreError] if the store fails.
func (p *Pacer) Report(ctx context.Context, f policies.Feedback, opts ...Option) error {
	if p.isClosed() {
		return ErrClosed
	}
	a, err := p.newAsk(ctx, 1, opts)
	if err != nil {
		return err
	}
	bound, lacking := p.bind(&a, nil)
	if lacking != nil {
		bound = p.bindable(&a, false) // a call that lacks a scope says nothing about one
	}
	return p.heed(ctx, &answer{limits: bound, lacking: lacking}, f)
}

// Report says that the upstream answered the call, and what it said about limits: with nothing, that it said nothing,
// or that the call failed. It does what [Pacer.Report] does, and tells calls that are on their way from those of other
// consumers, if the reservation was made with [Tracked]. Report once for each call; it is safe at any time after Wait.
func (r *Reservation) Report(ctx context.Context, fs ...policies.Feedback) error {
	a := r.answered(ctx)
	if r.pacer.isClosed() {
		return ErrClosed
	}
	return r.pacer.heed(ctx, &a, fs...)
}

// An answer is a call that was answered: the limits that bound it, and what is known of it.
type answer struct {
	limits  []store.Limit
	lacking error        // it could not be said which limits bind it
	went    *Reservation // as it went: nothing of it changes any more. nil if it is not known
}

// took returns how long after its slot the call was answered; 0 if that is not known.
func (a *answer) took() time.Duration {
	if a.went == nil {
		return 0
	}
	return time.Since(a.went.due)
}

// known returns the cost of the calls, this one included, that had reached the upstream when it answered, as far as a limit
// is concerned; false if that is not known.
func (a *answer) known(limit int) (int64, bool) {
	if a.went == nil || a.went.known == nil {
		return 0, false
	}
	return a.went.known[limit] + a.went.cost(limit), true
}

// heed turns feedback into notes, and gives them to the store.
func (p *Pacer) heed(ctx context.Context, a *answer, fs ...policies.Feedback) error {
	stack := store.Stack{Upstream: p.upstream, Limits: a.limits}
	var notes []store.Note
	var told []telling
	for i := range fs {
		f := &fs[i]
		if err := checkFeedback(f); err != nil {
			return err
		}
		meant, err := p.meant(a, f)
		if err != nil {
			return err
		}
		notes = p.refusal(notes, a, f, meant)
		if p.reconciles {
			notes, told = p.reconcile(notes, told, a, f, meant)
		}
	}
	if len(notes) == 0 {
		return nil
	}
	now, changed, err := p.store.Report(ctx, stack, notes)
	if err != nil {
		return p.storeError("report", err)
	}
	p.watches.told(told, changed)
	p.feedbackApplied(ctx, &stack, notes)
	p.changed(ctx, changes(notes, stack, now, changed > 0, true))
	return nil
}

// changes returns what notes mean for the sleepers of this process: at once, for news may be late or lost. Of a
// resumption, which cannot harm, the news suffices.
func changes(notes []store.Note, stack store.Stack, now store.Instant, did, told bool) []store.Change {
	var all []store.Change
	for i := range notes {
		if c, ok := notes[i].Change(stack, now, did); ok && (!told || c.Kind != store.Resumed) {
			all = append(all, c)
		}
	}
	return all
}

func checkFeedback(f *policies.Feedback) error {
	switch {
	case f.Wait < 0:
		return badDuration("Feedback.Wait", f.Wait)
	case f.Window < 0:
		return badDuration("Feedback.Window", f.Window)
	case f.Reset < 0:
		return badDuration("Feedback.Reset", f.Reset)
	}
	return nil
}

// targets are the limits of an answer that a feedback is about, by index.
type targets struct {
	limits []int
	all    bool // the whole upstream: calls of other limits, too
	named  bool // by name, and not found by looking for what fits
}

// meant finds whom a feedback is about: the policies that it names, or the widest scope that binds the call.
func (p *Pacer) meant(a *answer, f *policies.Feedback) (targets, error) {
	if len(f.Policies) == 0 {
		return p.widest(a), nil
	}
	t := targets{named: true}
	for _, name := range f.Policies {
		found := false
		for i := range a.limits {
			if a.limits[i].Policy == name {
				t.limits, found = append(t.limits, i), true
			}
		}
		if !found && f.Otherwise == policies.Nobody {
			return t, p.notBound(name)
		}
	}
	if len(t.limits) == 0 && f.Otherwise == policies.Everyone {
		return p.widest(a), nil
	}
	return t, nil
}

func (p *Pacer) notBound(name string) error {
	if l := p.named(name); l != nil && len(l.scopes) > 0 {
		return &ScopeError{Upstream: p.upstream, Policy: name, Scope: l.scopes[0]}
	}
	return &ConfigError{
		Field: "Feedback.Policies", Value: strconv.Quote(name),
		Reason: fmt.Sprintf("no policy of upstream %q has that name", p.upstream),
	}
}

// widest returns the limits with the fewest scopes; all if that is the whole upstream.
func (p *Pacer) widest(a *answer) targets {
	t, fewest := targets{}, -1
	for i := range a.limits {
		n := len(p.named(a.limits[i].Policy).scopes)
		if fewest < 0 || n < fewest {
			fewest, t.limits = n, nil
		}
		if n == fewest {
			t.limits = append(t.limits, i)
		}
	}
	t.all = fewest <= 0 || a.lacking != nil
	return t
}

// refusal adds the notes that a refusal asks for: pauses, and adaptive rates that slow down.
func (p *Pacer) refusal(notes []store.Note, a *answer, f *policies.Feedback, meant targets) []store.Note {
	if d := min(f.Wait, p.maxPause); d > 0 {
		if meant.all {
			notes = append(notes, store.Note{Kind: store.NotePause, Limit: store.WholeUpstream, For: d})
		} else {
			for _, i := range meant.limits {
				notes = append(notes, store.Note{Kind: store.NotePause, Limit: i, For: d})
			}
		}
	}
	if !f.Refused {
		return notes
	}
	for _, i := range meant.limits {
		if a.limits[i].Spec.Adapt == nil {
			continue
		}
		n := store.Note{Kind: store.NoteSlow, Limit: i}
		if a.went != nil {
			n.At = a.went.grant[0].At
		}
		notes = append(notes, n)
	}
	return notes
}

// Resume lifts the pauses that hold a call with the scopes of the context and options: that of the whole upstream, and
// those of the policies that bind it. Calls that sleep behind them, in this process or another, reserve again.
// It returns the same errors as Report.
func (p *Pacer) Resume(ctx context.Context, opts ...Option) error {
	return p.undo(ctx, store.NoteResume, opts)
}

// Reset forgets all that is known of the policies that bind a call with the scopes of the context and options: what was
// charged, what was learned of them, and pauses, that of the whole upstream included; those of all lanes, if the call is in
// none. It is for operators who know better than the accounts. Calls that sleep keep their slots, or get earlier ones. No
// process brings back what was reset, even if the store should forget by itself later on. It returns the same errors as
// Report.
func (p *Pacer) Reset(ctx context.Context, opts ...Option) error {
	return p.undo(ctx, store.NoteReset, opts)
}

// undo sends a note about each limit that a call with these scopes could meet, and about the whole upstream.
func (p *Pacer) undo(ctx context.Context, kind store.NoteKind, opts []Option) error {
	if p.isClosed() {
		return ErrClosed
	}
	a, err := p.newAsk(ctx, 1, opts)
	if err != nil {
		return err
	}
	stack := store.Stack{Upstream: p.upstream, Limits: p.bindable(&a, true)}
	notes := make([]store.Note, 0, len(stack.Limits)+1)
	for i := range len(stack.Limits) + 1 {
		notes = append(notes, store.Note{Kind: kind, Limit: i - 1})
	}
	now, _, err := p.store.Report(ctx, stack, notes)
	if err != nil {
		return p.storeError("report", err)
	}
	p.changed(ctx, changes(notes, stack, now, false, p.tells()))
	return nil
}

// tells reports whether this Pacer hears from its store of what it reports itself.
func (p *Pacer) tells() bool {
	if p.member != nil {
		return p.member.Echoes()
	}
	_, ok := p.store.(store.Notifier)
	return ok
}
