package reports

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/feedback"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A Reporter gives reports to the store of a Pacer. It is safe for concurrent use.
type Reporter struct {
	Upstream string
	Store    store.Store
	Usage    *feedback.Usage // what is known of what the upstream counts

	// Applied is called with what the store has received of feedback.
	Applied func(ctx context.Context, stack store.Stack, notes []store.Note)
	// Changed is called with what calls of this process that wait are to heed.
	Changed func(ctx context.Context, changes []store.Change)
}

// Apply turns feedback on a call into notes, and gives them to the store. It returns a [*feedback.UnboundError] if feedback names a policy that
// does not bind the call, and otherwise the error of the store.
func (r *Reporter) Apply(ctx context.Context, rules *feedback.Rules, a *feedback.Answer, now time.Time, fs ...policies.Feedback) error {
	n, err := rules.Notes(r.Usage, a, fs, now)
	if err != nil {
		return err
	}
	stack := store.Stack{Upstream: r.Upstream, Limits: a.Limits}
	notes := slices.Concat(n.Refusals, n.Counts)
	if len(n.Strays) > 0 {
		others, err := r.send(ctx, stack, n.Strays)
		if err != nil {
			return err
		}
		if others == 0 {
			notes = n.Counts
		}
	}
	changed, err := r.send(ctx, stack, notes)
	if err == nil && len(notes) > 0 {
		r.Usage.Delivered(n.Marks, changed)
	}
	return err
}

// send gives notes to the store, and lets others follow. It returns how many made a difference.
func (r *Reporter) send(ctx context.Context, stack store.Stack, notes []store.Note) (changed int, err error) {
	if len(notes) == 0 {
		return 0, nil
	}
	at, changed, err := r.Store.Report(ctx, stack, notes)
	if err != nil {
		return 0, err
	}
	r.Applied(ctx, stack, notes)
	r.Changed(ctx, changes(notes, stack, at, changed > 0))
	return changed, nil
}

// Undo sends a note about each of some limits, and about the whole upstream: store.NoteResume or store.NoteReset.
func (r *Reporter) Undo(ctx context.Context, kind store.NoteKind, limits []store.Limit) error {
	stack := store.Stack{Upstream: r.Upstream, Limits: limits}
	notes := make([]store.Note, 0, len(limits)+1)
	for i := range len(limits) + 1 {
		notes = append(notes, store.Note{Kind: kind, Limit: i - 1})
	}
	now, _, err := r.Store.Report(ctx, stack, notes)
	if now > 0 { // this process heeds it, even if the store cannot
		r.Changed(ctx, changes(notes, stack, now, false))
	}
	return err
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
