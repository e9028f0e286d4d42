package readings_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

var errBroken = errors.New("broken")

// A fake is a store that only takes reports.
type fake struct {
	store.Store

	changed int // by each report
	err     error
	got     [][]store.NoteKind
}

func (f *fake) Report(_ context.Context, _ store.Stack, notes []store.Note) (store.Instant, int, error) {
	f.got = append(f.got, kinds(notes))
	return 1, f.changed, f.err
}

func kinds(notes []store.Note) (all []store.NoteKind) {
	for i := range notes {
		all = append(all, notes[i].Kind)
	}
	return all
}

// A rig is a Reporter on a fake store, a call that a policy with a margin binds, and what others learn of reports.
type rig struct {
	readings.Reporter

	store   fake
	rules   *readings.Rules
	call    readings.Answer
	applied [][]store.NoteKind
	changes []store.Change
	said    []string // the names of allowances
}

func newRig() *rig {
	p := policies.AtMost(100, time.Second).Named("p")
	r := &rig{rules: readings.NewRules([]policies.Policy{p}, time.Hour, true)}
	r.call = readings.Answer{Limits: []store.Limit{{Policy: "p", Spec: p.Spec()}}, Grant: &store.Grant{OK: true}}
	r.Reporter = readings.Reporter{
		Upstream: "test", Store: &r.store, Far: true,
		Events: r,
	}
	return r
}

func (r *rig) Unbound(names []string) { r.said = append(r.said, names...) }

func (r *rig) Applied(_ context.Context, _ store.Instant, _ store.Stack, notes []store.Note, changes []store.Change) {
	r.applied, r.changes = append(r.applied, kinds(notes)), append(r.changes, changes...)
}

func (r *rig) apply(t *testing.T, fs ...policies.Feedback) error {
	t.Helper()
	return r.Apply(t.Context(), r.rules, &r.call, time.Unix(1_800_000_000, 0), fs...)
}

// A refusal that is a stray one pauses nobody, and one that the store takes for more than that does.
func TestAStrayRefusalIsReportedFirst(t *testing.T) {
	t.Parallel()
	refusal := policies.Feedback{Refused: true, Wait: time.Second}
	stray := newRig()
	require.NoError(t, stray.apply(t, refusal))
	require.Equal(t, [][]store.NoteKind{{store.NoteStray}}, stray.store.got)
	require.Equal(t, stray.store.got, stray.applied)
	require.Empty(t, stray.changes)

	genuine := newRig()
	genuine.store.changed = 1
	require.NoError(t, genuine.apply(t, refusal))
	require.Equal(t, [][]store.NoteKind{{store.NoteStray}, {store.NoteAnswer}}, genuine.store.got)
	require.Equal(t, genuine.store.got, genuine.applied)
	require.Len(t, genuine.changes, 1)
	require.Equal(t, store.Paused, genuine.changes[0].Kind)
}

// Feedback that the store did not receive is not applied, and the error is the store's.
func TestWhatTheStoreDoesNotReceive(t *testing.T) {
	t.Parallel()
	r := newRig()
	for _, f := range []policies.Feedback{{Limit: policies.Reported(50), Window: time.Second}, {Refused: true, Wait: time.Second}, {Wait: time.Second, Certain: true}} {
		r.store.err = errBroken
		require.Equal(t, errBroken, r.apply(t, f))
	}
	require.Equal(t, [][]store.NoteKind{{store.NoteLearn}, {store.NoteStray}, {store.NoteAnswer}}, r.store.got, "the refusal does not follow")
	require.Empty(t, r.applied)
	require.Empty(t, r.changes)
}

// Feedback on a policy that does not bind the call goes nowhere, and empty feedback costs no request.
func TestNothingToReport(t *testing.T) {
	t.Parallel()
	r := newRig()
	var unbound *readings.UnboundError
	require.ErrorAs(t, r.apply(t, policies.Feedback{Wait: time.Second, Policies: []string{"other"}}), &unbound)
	require.NoError(t, r.apply(t))
	require.NoError(t, r.apply(t, policies.Feedback{}))
	require.Empty(t, r.store.got)
}

// Undoing concerns each limit, or each allowance, and calls follow by the store's news, if there is some.
func TestUndo(t *testing.T) {
	t.Parallel()
	for _, kind := range []store.NoteKind{store.NoteResume, store.NoteReset} {
		r := newRig()
		limits := []store.Limit{r.call.Limits[0], readings.AllowanceOf(r.call.Limits[0])}
		changes, err := r.Undo(t.Context(), kind, limits)
		require.NoError(t, err)
		want := []store.NoteKind{store.NoteReset, store.NoteReset}
		if kind == store.NoteResume {
			want = []store.NoteKind{store.NoteResume}
		}
		require.Equal(t, [][]store.NoteKind{want}, r.store.got)
		require.Empty(t, r.applied, "it is no feedback")
		require.Len(t, changes, len(want))
		require.Equal(t, "p/left", changes[len(want)-1].Policy)
	}
	r := newRig()
	r.store.err = errBroken
	changes, err := r.Undo(t.Context(), store.NoteReset, r.call.Limits)
	require.Equal(t, errBroken, err)
	require.Len(t, changes, 1, "this process heeds it")
}

// Good answers go to the store together, what refuses or is nearly spent at once, and what is pending when the process
// ends.
func TestGoodAnswersGoTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		left := func(n int64) policies.Feedback {
			return policies.Feedback{Limit: policies.Reported(60), Remaining: policies.Reported(n), Reset: time.Minute}
		}
		require.NoError(t, r.apply(t, left(60)))
		require.Len(t, r.store.got, 1, "the first one")
		for n := range int64(20) {
			require.NoError(t, r.apply(t, left(50-n)))
		}
		require.Contains(t, r.said, "/left.60", "it is to bind calls from now on")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, r.store.got, 2)
		require.Len(t, r.store.got[1], 20)
		require.NoError(t, r.apply(t, left(8)))
		require.Len(t, r.store.got, 3, "it is nearly spent")
		require.NoError(t, r.apply(t, left(50)))
		require.NoError(t, r.apply(t, left(12)))
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		require.Len(t, r.store.got, 4, "it soon is")
		time.Sleep(time.Second)
		require.NoError(t, r.apply(t, left(40)))
		time.Sleep(time.Microsecond)
		synctest.Wait()
		require.Len(t, r.store.got, 5, "the first for a while")
		require.NoError(t, r.apply(t, left(30)))
		r.Close()
		require.Len(t, r.store.got, 6)
		r.Close()
		require.Len(t, r.store.got, 6)
	})
}
