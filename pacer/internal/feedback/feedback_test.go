package feedback_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/feedback"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// start is when the first answer of a test is received.
var start = time.Unix(1_800_000_000, 0)

var (
	daily  = policies.Fixed(1000, 24*time.Hour).Named("daily")
	peak   = policies.PerSecond(10).Burst(10).Named("peak")
	tenant = policies.Fixed(100, time.Minute).Per("tenant").Named("tenant")
	user   = policies.PerMinute(60).Burst(5).Per("tenant", "user").Named("user")
	slowly = policies.PerSecond(10).Burst(10).Adaptive(policies.Adaptation{}).Named("slowly")
)

// A bench is rules, what is remembered, and a call that some policies bind.
type bench struct {
	t     *testing.T
	rules *feedback.Rules
	usage feedback.Usage
	now   time.Time

	feedback.Answer
}

// newBench returns a bench for an upstream with all policies of this file, and a call that some of them bind.
func newBench(t *testing.T, bound ...policies.Policy) *bench {
	t.Helper()
	b := &bench{t: t, now: start, rules: feedback.NewRules(append([]policies.Policy{daily, peak, tenant, user, slowly}, bound...), time.Hour, true)}
	for _, p := range bound {
		require.NoError(t, p.Validate())
		l := store.Limit{Policy: p.Name(), Spec: p.Spec()}
		for _, scope := range p.Scopes() {
			l.Scope += "/" + scope
		}
		b.Limits = append(b.Limits, l)
	}
	return b
}

// notes returns the notes that feedback becomes, and has the store receive them.
func (b *bench) notes(changed int, fs ...policies.Feedback) []store.Note {
	b.t.Helper()
	n, err := b.rules.Notes(&b.usage, &b.Answer, fs, b.now)
	require.NoError(b.t, err)
	b.usage.Delivered(n.Marks, changed)
	return append(append(n.Strays, n.Refusals...), n.Counts...)
}

// left is feedback that so much is left of a policy.
func left(n int64, policy ...string) policies.Feedback {
	return policies.Feedback{Policies: policy, Remaining: policies.Reported(n)}
}

func pause(limit int, d time.Duration) store.Note {
	return store.Note{Kind: store.NotePause, Limit: limit, For: d}
}

func TestAPauseIsOfTheWidestScope(t *testing.T) {
	t.Parallel()
	wait := policies.Feedback{Wait: time.Second}
	for name, c := range map[string]struct {
		bound   []policies.Policy
		partial bool
		want    []store.Note
	}{
		"nothing binds":        {nil, false, []store.Note{pause(store.WholeUpstream, time.Second)}},
		"one without scopes":   {[]policies.Policy{tenant, daily}, false, []store.Note{pause(store.WholeUpstream, time.Second)}},
		"the one of one scope": {[]policies.Policy{user, tenant}, false, []store.Note{pause(1, time.Second)}},
		"the only one":         {[]policies.Policy{user}, false, []store.Note{pause(0, time.Second)}},
		"a scope is not known": {[]policies.Policy{tenant}, true, []store.Note{pause(store.WholeUpstream, time.Second)}},
	} {
		b := newBench(t, c.bound...)
		b.Partial = c.partial
		require.Equal(t, c.want, b.notes(0, wait), name)
	}
}

func TestAPauseIsOfThePoliciesThatAreNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t, daily, tenant, user)
	require.Equal(t, []store.Note{pause(2, time.Second), pause(0, time.Second)},
		b.notes(0, policies.Feedback{Wait: time.Second, Policies: []string{"user", "daily"}}))
	require.Equal(t, []store.Note{pause(1, time.Second), pause(2, time.Minute)}, b.notes(0,
		policies.Feedback{Wait: time.Second, Policies: []string{"tenant"}},
		policies.Feedback{Wait: time.Minute, Policies: []string{"user"}}), "of each feedback its own")
	require.Equal(t, []store.Note{pause(0, time.Hour)}, b.notes(0, policies.Feedback{Wait: 99 * time.Hour, Policies: []string{"daily"}}), "it is capped")
}

func TestFeedbackOnPoliciesThatDoNotBind(t *testing.T) {
	t.Parallel()
	b := newBench(t, daily)
	for name, want := range map[string]feedback.UnboundError{
		"user":  {Policy: "user", Scope: "tenant"},
		"peak":  {Policy: "peak"},
		"other": {Policy: "other"},
	} {
		n, err := b.rules.Notes(&b.usage, &b.Answer, []policies.Feedback{
			left(9, "daily"), {Wait: time.Second, Policies: []string{"daily", name}},
		}, b.now)
		var unbound *feedback.UnboundError
		require.ErrorAs(t, err, &unbound)
		require.Equal(t, want, *unbound)
		require.ErrorContains(t, err, strconv.Quote(name))
		require.Zero(t, n)
	}
	require.Len(t, b.notes(0, left(9, "daily")), 1, "it is as if nothing had been reported")

	other := policies.Feedback{Wait: time.Second, Policies: []string{"user"}, Otherwise: policies.Everyone}
	require.Equal(t, []store.Note{pause(store.WholeUpstream, time.Second)}, b.notes(0, other))
	other.Otherwise, other.Remaining = policies.TheCall, policies.Reported(1)
	require.Empty(t, b.notes(0, other), "nobody else is concerned")
	other.Policies = append(other.Policies, "daily")
	b.now = b.now.Add(time.Second)
	require.Len(t, b.notes(0, other), 2, "but those that do bind")
}

// What nobody can place is about a scope, if it is bounded to one; what is known to be everyone's is not bounded.
func TestFeedbackWithinAScope(t *testing.T) {
	t.Parallel()
	nothing := policies.Feedback{Remaining: policies.Reported(0), Reset: time.Second}
	wait := policies.Feedback{Wait: time.Second}
	over := func(f policies.Feedback, window time.Duration) policies.Feedback {
		f.Window = window
		return f
	}
	named := func(f policies.Feedback, o policies.Otherwise) policies.Feedback {
		f.Policies, f.Otherwise = []string{"other"}, o
		return f
	}
	all, two := []policies.Policy{daily, user, tenant}, []policies.Policy{daily, tenant}
	first, second := []store.Note{pause(1, time.Second)}, []store.Note{pause(2, time.Second)}
	everyone := []store.Note{pause(store.WholeUpstream, time.Second)}
	for name, c := range map[string]struct {
		within   string
		bound    []policies.Policy
		partial  bool
		feedback policies.Feedback
		want     []store.Note
	}{
		"a wait":                     {"tenant", all, false, wait, second},
		"of a narrower scope":        {"user", all, false, wait, first},
		"that no policy has":         {"other", two, false, wait, everyone},
		"a scope is lacking":         {"tenant", two, true, wait, first},
		"an unknown limit":           {"tenant", two, false, named(wait, policies.Unknown), first},
		"a limit of everyone":        {"tenant", two, false, named(wait, policies.Everyone), everyone},
		"a limit of the call":        {"tenant", two, false, named(wait, policies.TheCall), nil},
		"nothing left":               {"tenant", two, false, nothing, first},
		"nothing left of one of two": {"tenant", all, false, nothing, nil},
		"in its window":              {"tenant", all, false, over(nothing, time.Minute), second},
		"in another's window":        {"tenant", two, false, over(nothing, 24*time.Hour), nil},
	} {
		b := newBench(t, c.bound...)
		b.Partial, c.feedback.Within = c.partial, c.within
		require.Equal(t, c.want, b.notes(0, c.feedback), name)
	}
}

func TestARefusalSlowsAdaptiveRates(t *testing.T) {
	t.Parallel()
	b := newBench(t, peak, slowly)
	refused := policies.Feedback{Refused: true}
	require.Equal(t, []store.Note{{Kind: store.NoteSlow, Limit: 1}}, b.notes(0, refused))
	b.Call, b.Grant = &store.Call{Cost: 1}, &store.Grant{At: 42, Charges: make([]store.Charge, 2)}
	slow := store.Note{Kind: store.NoteSlow, Limit: 1, At: 42}
	require.Equal(t, []store.Note{stray(0, 42), slow}, b.notes(0, refused), "as of its slot")
	refused.Policies = []string{"peak"}
	require.Equal(t, []store.Note{stray(0, 42)}, b.notes(0, refused))
}

// stray is the note of a refusal because of a limit of one second.
func stray(limit int, at store.Instant) store.Note {
	return store.Note{Kind: store.NoteStray, Limit: limit, At: at, For: time.Second, Value: 8_000, Remaining: 100_000}
}

func TestARefusalThatMayBeStray(t *testing.T) {
	t.Parallel()
	second, minute := policies.AtMost(10, time.Second).Named("second"), policies.Sliding(100, time.Minute).Named("minute")
	pinned, day := policies.AtMost(10, time.Second).Skew(time.Millisecond).Named("pinned"), policies.Daily(10, time.UTC).Named("day")
	all := pause(store.WholeUpstream, time.Second)
	for name, c := range map[string]struct {
		bound    []policies.Policy
		binds    int
		feedback policies.Feedback
		local    bool
		want     []store.Note
	}{
		"the limit that it waited for": {[]policies.Policy{minute, second}, 1, policies.Feedback{Wait: time.Second}, false, []store.Note{stray(1, 7), all}},
		"of a minute": {
			[]policies.Policy{minute, second}, 0, policies.Feedback{Wait: time.Second}, false,
			[]store.Note{{Kind: store.NoteStray, Limit: 0, At: 7, For: time.Minute, Value: 1000, Remaining: 16_666}, all},
		},
		"it waited for none":               {[]policies.Policy{minute, second}, -1, policies.Feedback{Wait: time.Second}, false, []store.Note{stray(1, 7), all}},
		"it waited for one without margin": {[]policies.Policy{day, second}, 0, policies.Feedback{Wait: time.Second}, false, []store.Note{stray(1, 7), all}},
		"the limit that is named": {
			[]policies.Policy{minute, second}, 0, policies.Feedback{Wait: time.Second, Policies: []string{"second"}}, false,
			[]store.Note{stray(1, 7), pause(1, time.Second)},
		},
		"the skew is set":      {[]policies.Policy{pinned}, 0, policies.Feedback{Wait: time.Second}, false, []store.Note{all}},
		"a calendar":           {[]policies.Policy{day}, 0, policies.Feedback{Wait: time.Second}, false, []store.Note{all}},
		"a punishment":         {[]policies.Policy{second}, 0, policies.Feedback{Wait: 30 * time.Second}, false, []store.Note{pause(store.WholeUpstream, 30*time.Second)}},
		"the profile knows":    {[]policies.Policy{second}, 0, policies.Feedback{Wait: time.Second, Certain: true}, false, []store.Note{all}},
		"granted locally":      {[]policies.Policy{second}, 0, policies.Feedback{Wait: time.Second}, true, []store.Note{all}},
		"it says what is left": {[]policies.Policy{second}, 0, policies.Feedback{Wait: time.Second, Remaining: policies.Reported(3)}, false, []store.Note{all}},
	} {
		b := newBench(t, c.bound...)
		b.Call, b.Grant = &store.Call{Cost: 1}, &store.Grant{At: 7, Binds: c.binds, Local: c.local, Charges: make([]store.Charge, len(c.bound))}
		c.feedback.Refused = true
		require.Equal(t, c.want, b.notes(0, c.feedback), name)
	}
	b := newBench(t, second)
	b.Call, b.Grant = &store.Call{Cost: 1}, &store.Grant{At: 7, Charges: make([]store.Charge, 1)}
	require.Equal(t, []store.Note{pause(store.WholeUpstream, time.Second)}, b.notes(0, policies.Feedback{Wait: time.Second}), "it was not refused")
	require.Equal(t, []store.Note{all, pause(store.WholeUpstream, time.Minute)}, b.notes(0,
		policies.Feedback{Refused: true, Wait: time.Second}, policies.Feedback{Refused: true, Wait: time.Minute}), "one of two cannot be stray")
	b.Grant = nil
	require.Equal(t, []store.Note{all}, b.notes(0, policies.Feedback{Refused: true, Wait: time.Second}), "nobody knows of which call")
}

func TestCountsOfAWindow(t *testing.T) {
	t.Parallel()
	b := newBench(t, daily, tenant)
	require.Equal(t, []store.Note{{Kind: store.NoteRemaining, Limit: 0, Remaining: 700, For: -15 * time.Minute}}, b.notes(1, left(700, "daily")))
	b.now = b.now.Add(time.Minute)
	require.Empty(t, b.notes(1, left(700, "daily")), "it is known")
	b.now = b.now.Add(time.Minute)
	require.Len(t, b.notes(1, left(700, "daily")), 1, "it is confirmed before it is asked for")
	used := policies.Feedback{
		Policies: []string{"tenant"}, Used: policies.Reported(30), Limit: policies.Reported(100), Window: time.Minute, Reset: 20 * time.Second,
	}
	require.Equal(t, []store.Note{{Kind: store.NoteRemaining, Limit: 1, Remaining: 70, For: 20 * time.Second}}, b.notes(1, used))
	b.now = b.now.Add(time.Second)
	used.Used = policies.Reported(100)
	require.Equal(t, []store.Note{pause(1, 20*time.Second)}, b.notes(1, used), "nothing is left: until there is more")
	used.Reset, used.Used = 99*time.Hour, policies.Reported(99)
	b.now = b.now.Add(time.Second)
	require.Equal(t, time.Hour, b.notes(1, used)[0].For, "it is capped")
	b.now, b.Took = b.now.Add(time.Second), 11*time.Second
	require.Empty(t, b.notes(1, left(1, "daily")), "it says too little about now")
}

func TestCountsOfARate(t *testing.T) {
	t.Parallel()
	b := newBench(t, peak)
	count := func(n int64, reset time.Duration) policies.Feedback {
		return policies.Feedback{Remaining: policies.Reported(n), Window: time.Second, Reset: reset}
	}
	require.Empty(t, b.notes(0, count(10, time.Second)), "as fast as the policy")
	require.Empty(t, b.notes(0, count(9, 980*time.Millisecond)), "hardly slower")
	require.Empty(t, b.notes(0, count(5, 0)), "it may be over at once")
	require.Equal(t, []store.Note{{Kind: store.NoteLearn, Limit: 0, Value: 200_000, For: time.Second}}, b.notes(1, count(5, time.Second)),
		"what is left lasts until there is more")
	b.now = b.now.Add(time.Second)
	require.Equal(t, []store.Note{pause(0, time.Second)}, b.notes(1, count(0, time.Second)))

	b = newBench(t, peak)
	flight := make([]feedback.Tracked, 3)
	for i := range flight {
		b.usage.Enter(&flight[i], b.Limits, &store.Call{Cost: 1, Tracked: true})
	}
	require.Equal(t, int64(500_000), b.notes(1, count(5, time.Second))[0].Value, "three of them are for calls in flight")
}

func TestWhichLimitCountsAreAbout(t *testing.T) {
	t.Parallel()
	b := newBench(t, user, daily, tenant)
	about := func(f policies.Feedback) (limits []int) {
		for _, n := range b.notes(1, f) {
			limits = append(limits, n.Limit)
		}
		b.now = b.now.Add(time.Second)
		return limits
	}
	count := func(n int64, window, reset time.Duration) policies.Feedback {
		return policies.Feedback{Remaining: policies.Reported(n), Window: window, Reset: reset}
	}
	require.Equal(t, []int{1}, about(count(9, 24*time.Hour, 0)))
	require.Equal(t, []int{2}, about(count(8, time.Minute, 0)), "of two with that window, the one of more calls")
	require.Empty(t, about(count(7, time.Hour, 0)), "no policy has that window")
	require.Empty(t, about(count(6, 0, time.Minute)), "it could be about any")
	b.Partial = true
	require.Empty(t, about(count(5, 24*time.Hour, 0)), "there are other limits, which are not known")

	b = newBench(t, daily)
	require.Equal(t, []int{0}, about(count(5, 0, time.Minute)), "there is one only")
	require.Empty(t, about(count(4, 0, 0)), "but when there is more must be known")

	b.rules = feedback.NewRules([]policies.Policy{daily}, time.Hour, false)
	require.Empty(t, about(policies.Feedback{Policies: []string{"daily"}, Limit: policies.Reported(5), Remaining: policies.Reported(1), Window: 24 * time.Hour}))
	require.Equal(t, []int{0}, about(policies.Feedback{Policies: []string{"daily"}, Wait: time.Second}), "counts alone are ignored")
}

// A call that asks when nothing is left must not go: that the store knows at once, however soon after the last note.
func TestThatNothingIsLeftIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, daily)
	require.NotEmpty(t, b.notes(1, left(3, "daily")))
	require.Empty(t, b.notes(1, left(2, "daily")), "so soon after the last one")
	require.NotEmpty(t, b.notes(1, left(0, "daily")))
	require.Empty(t, b.notes(1, left(0, "daily")), "once")
}

func TestOnlyWhatIsMaterialBecomesANote(t *testing.T) {
	t.Parallel()
	b := newBench(t, daily) // of 1000: steps of 5, and each one among the last 50
	noted := func(n int64, changed int) bool { return len(b.notes(changed, left(n, "daily"))) > 0 }
	later := func() { b.now = b.now.Add(20 * time.Millisecond) }
	require.True(t, noted(900, 1), "the first one")
	later()
	require.False(t, noted(896, 1))
	require.False(t, noted(904, 1))
	require.True(t, noted(895, 1), "a step")
	require.False(t, noted(800, 1), "so soon after the last one")
	b.now = b.now.Add(19 * time.Millisecond)
	require.False(t, noted(800, 1))
	b.now = b.now.Add(time.Millisecond)
	require.True(t, noted(800, 0), "which the store knew already")
	at := int64(800)
	for _, step := range []int64{10, 20, 40, 40} {
		later()
		require.False(t, noted(at-step+1, 0), step)
		at -= step
		require.True(t, noted(at, 0), step)
	}
	later()
	require.True(t, noted(at-40, 1), "which made a difference")
	later()
	require.True(t, noted(at-45, 0), "so that the next step is small again")
	later()
	require.True(t, noted(50, 0))
	for n := int64(49); n > 45; n-- {
		later()
		require.True(t, noted(n, 0), "near the end")
	}
	later()
	require.False(t, noted(46, 0), "that is the last one")
	var flight feedback.Tracked
	call := &store.Call{Cost: 30, Tracked: true}
	b.usage.Enter(&flight, b.Limits, call)
	require.True(t, noted(80, 0), "with what is in flight, near the end, too")
	b.usage.Leave(&flight, call)
	later()
	require.False(t, noted(79, 0))
}

func TestALimitOverAnotherPeriod(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy policies.Policy
		limit  int64
		window time.Duration
		value  int64
		hold   time.Duration
	}{
		"a rate, by the minute":               {peak, 300, time.Minute, 200_000, 2 * time.Minute},
		"a rate, less than one by its period": {peak, 30, time.Minute, 2_000_000, 2 * time.Minute},
		"a rate, by the hour":                 {peak, 1000, time.Hour, 3_600_000, 10 * time.Minute},
		"a rate, in odd parts":                {peak, 7, time.Minute, 8_571_429, 2 * time.Minute},
		"a rate, by the month":                {peak, 1, 30 * 24 * time.Hour, 3_600_000_000, 10 * time.Minute}, // the longest pause
		"a rate, of nothing":                  {peak, 0, time.Minute, 60_000_000, 2 * time.Minute},
		"a rate, by its own period":           {peak, 4, time.Second, 250_000, 10 * time.Second},
		"a window, by its own period":         {tenant, 60, time.Minute, 60, 2 * time.Minute},
		"a window, by the second":             {tenant, 1, time.Second, 60, 10 * time.Second},
		"a window, by the day":                {tenant, 1440, 24 * time.Hour, 1, 10 * time.Minute},
		"at least one must be admitted":       {tenant, 1, 24 * time.Hour, 1, 10 * time.Minute},
	} {
		b := newBench(t, c.policy)
		f := policies.Feedback{Policies: []string{c.policy.Name()}, Limit: policies.Reported(c.limit), Window: c.window}
		require.Equal(t, []store.Note{{Kind: store.NoteLearn, Limit: 0, Value: c.value, For: c.hold}}, b.notes(1, f), name)
		b.now = b.now.Add(c.hold/2 - 1)
		require.Empty(t, b.notes(1, f), name)
		b.now = b.now.Add(1)
		require.Len(t, b.notes(1, f), 1, "%s: before it is forgotten, it is repeated", name)
		f.Limit = policies.Reported(math.MaxInt64)
		require.Equal(t, []store.Note{{Kind: store.NoteLearn, Limit: 0, For: c.hold}}, b.notes(1, f), "%s: the policy's own holds again", name)
		b.now = b.now.Add(time.Hour)
		require.Empty(t, b.notes(1, f), "%s: which needs no repetition", name)
	}
}

// What was done when a call was admitted, and the call itself, had reached the upstream when it answered; the store learns of each call once.
func TestCallsInFlightAreNotTakenForOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, daily)
	call := &store.Call{Cost: 2, Tracked: true}
	admit := func(bucket int64) (*feedback.Tracked, *store.Grant) {
		tracked, grant := new(feedback.Tracked), &store.Grant{Charges: []store.Charge{{From: bucket}}}
		b.usage.Enter(tracked, b.Limits, call)
		b.usage.Enter(tracked, b.Limits, call) // it is counted once
		b.usage.Admit(tracked, call, grant.Charges)
		return tracked, grant
	}
	answered := func(tracked *feedback.Tracked, grant *store.Grant, n int64) store.Note {
		b.usage.Answered(tracked, call, grant.Charges)
		b.Tracked, b.Grant, b.Call = tracked, grant, call
		b.now = b.now.Add(time.Second)
		notes := b.notes(1, left(n, "daily"))
		require.Len(t, notes, 1)
		require.Equal(t, store.NoteRemaining, notes[0].Kind)
		require.Equal(t, grant.Charges[0].From, notes[0].Bucket)
		return notes[0]
	}
	first, firstGrant := admit(7)
	second, secondGrant := admit(7)
	require.Equal(t, int64(2), answered(second, secondGrant, 900).Done, "itself, not the one in flight")
	third, thirdGrant := admit(7)
	require.Equal(t, int64(0), answered(first, firstGrant, 800).Done, "nothing new: it was admitted before the second was done")
	fourth, fourthGrant := admit(7)
	require.Equal(t, int64(2), answered(third, thirdGrant, 700).Done, "the second and itself, of which two are known")
	require.Equal(t, int64(2), answered(fourth, fourthGrant, 600).Done, "the first two and itself, of which four are known")

	fifth, fifthGrant := admit(8)
	require.Equal(t, int64(2), answered(fifth, fifthGrant, 500).Done, "a new window begins with nothing")

	untracked := &store.Call{Cost: 2}
	var none feedback.Tracked
	b.usage.Enter(&none, b.Limits, untracked)
	b.usage.Admit(&none, untracked, fifthGrant.Charges)
	b.usage.Answered(&none, untracked, fifthGrant.Charges)
	require.Zero(t, none)
}
