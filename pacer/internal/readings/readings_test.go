package readings_test

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
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

// A bench is rules, a memory, and a call that some policies bind.
type bench struct {
	t     *testing.T
	rules *readings.Rules
	known readings.Memory
	now   time.Time

	readings.Answer
}

// newBench returns a bench for an upstream with all policies of this file, and a call that some of them bind.
func newBench(t *testing.T, bound ...policies.Policy) *bench {
	t.Helper()
	b := &bench{t: t, now: start, rules: readings.NewRules(append([]policies.Policy{daily, peak, tenant, user, slowly}, bound...), time.Hour, true)}
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

// notes returns the notes that feedback becomes, without what is left: pauses are about the limits whose allowances they empty.
func (b *bench) notes(fs ...policies.Feedback) []store.Note {
	all, err := b.rules.Strays(&b.Answer, fs)
	require.NoError(b.t, err)
	n := b.all(fs...)
	for _, one := range n.Answers {
		if one.Remaining < 0 && one.Empties() > 0 {
			about := slices.IndexFunc(b.Limits, func(l store.Limit) bool { l = readings.AllowanceOf(l); return l.Key() == n.Limits[one.Limit].Key() })
			all = append(all, pause(about, one.For))
		}
	}
	return append(all, n.Rates...)
}

// all returns all notes that feedback becomes.
func (b *bench) all(fs ...policies.Feedback) readings.Notes {
	b.t.Helper()
	n, err := b.rules.Notes(&b.known, &b.Answer, fs, false, b.now)
	require.NoError(b.t, err)
	return n
}

// said returns what is left by some feedback, by the names of allowances.
func (b *bench) said(fs ...policies.Feedback) map[string]store.Note {
	b.t.Helper()
	all := make(map[string]store.Note)
	for n := b.all(fs...); len(n.Answers) > 0; n.Answers = n.Answers[1:] {
		one := n.Answers[0]
		require.Equal(b.t, store.NoteAnswer, one.Kind)
		name := n.Limits[one.Limit].Policy
		one.Kind, one.Limit = 0, 0
		all[name] = one
	}
	return all
}

// left is feedback that so much is left of a policy.
func left(n int64, policy ...string) policies.Feedback {
	return policies.Feedback{Policies: policy, Remaining: policies.Reported(n)}
}

// everyone stands for the whole upstream.
const everyone = -1

func pause(limit int, d time.Duration) store.Note { return store.Pause(limit, d) }

func TestAPauseIsOfTheWidestScope(t *testing.T) {
	t.Parallel()
	wait := policies.Feedback{Wait: time.Second}
	for name, c := range map[string]struct {
		bound   []policies.Policy
		partial bool
		want    []store.Note
	}{
		"nothing binds":        {nil, false, []store.Note{pause(everyone, time.Second)}},
		"one without scopes":   {[]policies.Policy{tenant, daily}, false, []store.Note{pause(everyone, time.Second)}},
		"the one of one scope": {[]policies.Policy{user, tenant}, false, []store.Note{pause(1, time.Second)}},
		"the only one":         {[]policies.Policy{user}, false, []store.Note{pause(0, time.Second)}},
		"a scope is not known": {[]policies.Policy{tenant}, true, []store.Note{pause(everyone, time.Second)}},
	} {
		b := newBench(t, c.bound...)
		b.Partial = c.partial
		require.Equal(t, c.want, b.notes(wait), name)
	}
}

func TestAPauseIsOfThePoliciesThatAreNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t, daily, tenant, user)
	require.Equal(t, []store.Note{pause(2, time.Second), pause(0, time.Second)},
		b.notes(policies.Feedback{Wait: time.Second, Policies: []string{"user", "daily"}}))
	require.Equal(t, []store.Note{pause(1, time.Second), pause(2, time.Minute)}, b.notes(
		policies.Feedback{Wait: time.Second, Policies: []string{"tenant"}},
		policies.Feedback{Wait: time.Minute, Policies: []string{"user"}}), "of each feedback its own")
	require.Equal(t, []store.Note{pause(0, time.Hour)}, b.notes(policies.Feedback{Wait: 99 * time.Hour, Policies: []string{"daily"}}), "it is capped")
	b.rules = readings.NewRules([]policies.Policy{daily}, 31*24*time.Hour, true)
	for wait, want := range map[time.Duration]time.Duration{81654 * time.Second: 81654 * time.Second, 32 * 24 * time.Hour: time.Hour} {
		require.Equal(t, []store.Note{pause(0, want)}, b.notes(policies.Feedback{Wait: wait, Policies: []string{"daily"}}))
	}
}

func TestFeedbackOnPoliciesThatDoNotBind(t *testing.T) {
	t.Parallel()
	b := newBench(t, daily)
	for name, want := range map[string]readings.UnboundError{
		"user":  {Policy: "user", Scope: "tenant"},
		"peak":  {Policy: "peak"},
		"other": {Policy: "other"},
	} {
		n, err := b.rules.Notes(&b.known, &b.Answer, []policies.Feedback{
			left(9, "daily"), {Wait: time.Second, Policies: []string{"daily", name}},
		}, false, b.now)
		var unbound *readings.UnboundError
		require.ErrorAs(t, err, &unbound)
		require.Equal(t, want, *unbound)
		require.ErrorContains(t, err, strconv.Quote(name))
		require.Zero(t, n)
	}
	require.Len(t, b.said(left(9, "daily")), 1, "it is as if nothing had been reported")

	other := policies.Feedback{Wait: time.Second, Policies: []string{"user"}, Otherwise: policies.Everyone}
	require.Equal(t, []store.Note{pause(everyone, time.Second)}, b.notes(other))
	other.Otherwise, other.Remaining = policies.TheCall, policies.Reported(1)
	require.Empty(t, b.notes(other), "nobody else is concerned")
	require.Empty(t, b.said(other))
	other.Policies = append(other.Policies, "daily")
	require.Len(t, b.notes(other), 1, "but those that do bind")
	require.Len(t, b.said(other), 1)
}

// Unplaced feedback is about a scope, if it is bounded to one; feedback that is known to be everyone's is not bounded.
func TestFeedbackWithinAScope(t *testing.T) {
	t.Parallel()
	wait := policies.Feedback{Wait: time.Second}
	named := func(f policies.Feedback, o policies.Otherwise) policies.Feedback {
		f.Policies, f.Otherwise = []string{"other"}, o
		return f
	}
	all, two := []policies.Policy{daily, user, tenant}, []policies.Policy{daily, tenant}
	first, second := []store.Note{pause(1, time.Second)}, []store.Note{pause(2, time.Second)}
	whole := []store.Note{pause(everyone, time.Second)}
	for name, c := range map[string]struct {
		within   string
		bound    []policies.Policy
		partial  bool
		feedback policies.Feedback
		want     []store.Note
	}{
		"a wait":              {"tenant", all, false, wait, second},
		"of a narrower scope": {"user", all, false, wait, first},
		"that no policy has":  {"other", two, false, wait, whole},
		"a scope is lacking":  {"tenant", two, true, wait, first},
		"an unknown limit":    {"tenant", two, false, named(wait, policies.Unknown), first},
		"a limit of everyone": {"tenant", two, false, named(wait, policies.Everyone), whole},
		"a limit of the call": {"tenant", two, false, named(wait, policies.TheCall), nil},
	} {
		b := newBench(t, c.bound...)
		b.Partial, c.feedback.Within = c.partial, c.within
		require.Equal(t, c.want, b.notes(c.feedback), name)
	}
}

func TestARefusalSlowsAdaptiveRates(t *testing.T) {
	t.Parallel()
	b := newBench(t, peak, slowly)
	refused := policies.Feedback{Refused: true}
	require.Equal(t, []store.Note{{Kind: store.NoteSlow, Limit: 1}}, b.notes(refused))
	b.Grant = &store.Grant{At: 42, Charges: make([]store.Charge, 2)}
	slow := store.Note{Kind: store.NoteSlow, Limit: 1, At: 42}
	require.Equal(t, []store.Note{stray(0, 42), slow}, b.notes(refused), "as of its slot")
	refused.Policies = []string{"peak"}
	require.Equal(t, []store.Note{stray(0, 42)}, b.notes(refused))
}

// stray is the note of a refusal because of a limit of one second.
func stray(limit int, at store.Instant) store.Note {
	return store.Note{Kind: store.NoteStray, Limit: limit, At: at, For: time.Second, Value: 8_000, Remaining: 100_000}
}

func TestARefusalThatMayBeStray(t *testing.T) {
	t.Parallel()
	second, minute := policies.AtMost(10, time.Second).Named("second"), policies.Sliding(100, time.Minute).Named("minute")
	pinned, day := policies.AtMost(10, time.Second).Skew(time.Millisecond).Named("pinned"), policies.Daily(10, time.UTC).Named("day")
	all := pause(everyone, time.Second)
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
		"a punishment":         {[]policies.Policy{second}, 0, policies.Feedback{Wait: 30 * time.Second}, false, []store.Note{pause(everyone, 30*time.Second)}},
		"the profile knows":    {[]policies.Policy{second}, 0, policies.Feedback{Wait: time.Second, Certain: true}, false, []store.Note{all}},
		"granted locally":      {[]policies.Policy{second}, 0, policies.Feedback{Wait: time.Second}, true, []store.Note{all}},
		"it says what is left": {[]policies.Policy{second}, 0, policies.Feedback{Wait: time.Second, Remaining: policies.Reported(3)}, false, []store.Note{all}},
	} {
		b := newBench(t, c.bound...)
		b.Grant = &store.Grant{At: 7, Binds: c.binds, Local: c.local, Charges: make([]store.Charge, len(c.bound))}
		c.feedback.Refused = true
		require.Equal(t, c.want, b.notes(c.feedback), name)
	}
	b := newBench(t, second)
	b.Grant = &store.Grant{At: 7, Charges: make([]store.Charge, 1)}
	require.Equal(t, []store.Note{pause(everyone, time.Second)}, b.notes(policies.Feedback{Wait: time.Second}), "it was not refused")
	require.Equal(t, []store.Note{pause(everyone, time.Minute)}, b.notes(
		policies.Feedback{Refused: true, Wait: time.Second}, policies.Feedback{Refused: true, Wait: time.Minute}), "one of two cannot be stray")
	b.Grant = nil
	require.Equal(t, []store.Note{all}, b.notes(policies.Feedback{Refused: true, Wait: time.Second}), "nobody knows of which call")
	n, err := b.rules.Notes(&b.known, &b.Answer, []policies.Feedback{{Refused: true, Wait: time.Second}}, true, b.now)
	require.NoError(t, err)
	require.Empty(t, n.Answers, "one that is alone pauses nobody")
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
		require.Equal(t, []store.Note{{Kind: store.NoteLearn, Limit: 0, Value: c.value, For: c.hold}}, b.notes(f), name)
		b.now = b.now.Add(c.hold/2 - 1)
		require.Empty(t, b.notes(f), name)
		b.now = b.now.Add(1)
		require.Len(t, b.notes(f), 1, "%s: before it is forgotten, it is repeated", name)
		f.Limit = policies.Reported(math.MaxInt64)
		require.Equal(t, []store.Note{{Kind: store.NoteLearn, Limit: 0, For: c.hold}}, b.notes(f), "%s: the policy's own holds again", name)
		b.now = b.now.Add(time.Hour)
		require.Empty(t, b.notes(f), "%s: which needs no repetition", name)
	}
}

// A limit that is stated without what is left of it, and fits no policy, is a pace of the upstream's, under the key that a reading would have.
func TestALimitThatFitsNothingIsAPace(t *testing.T) {
	t.Parallel()
	stated := policies.Feedback{Limit: policies.Reported(100), Window: time.Minute}
	named, within := stated, stated
	named.Policies, named.Otherwise, within.Within = []string{"burst"}, policies.Unknown, "tenant"
	for name, c := range map[string]struct {
		bound []policies.Policy
		said  policies.Feedback
		want  string
	}{
		"no policies":        {nil, stated, "/left.100"},
		"nothing":            {[]policies.Policy{peak, daily}, stated, "/left.100"},
		"by a name":          {[]policies.Policy{peak}, named, "/left.burst"},
		"within a scope":     {[]policies.Policy{daily}, within, "/left.100"},
		"that scope's limit": {[]policies.Policy{daily, policies.Fixed(1000, time.Hour).Per("tenant").Named("tenant-hour")}, within, "tenant-hour/left"},
	} {
		b := newBench(t, c.bound...)
		n := b.all(c.said)
		require.Len(t, n.Rates, 1, name)
		require.Equal(t, c.want, n.Limits[n.Rates[0].Limit].Policy, name)
		require.Equal(t, store.Note{Kind: store.NoteLearn, Limit: n.Rates[0].Limit, Value: 600_000, For: 2 * time.Minute}, n.Rates[0], name)
		require.Equal(t, store.Note{Remaining: -1}, b.said(c.said)[c.want], "%s: it binds the calls of all processes", name)
		require.Empty(t, b.all(c.said).Rates, "%s: the store knows", name)
		counted := c.said
		counted.Remaining, counted.Reset = policies.Reported(90), time.Minute
		require.Empty(t, newBench(t, c.bound...).all(counted).Rates, "%s: what is left says more", name)
	}
}

// A reading binds what it names, or else what has its number or its period, and the upstream if nothing has.
func TestWhichAllowanceAReadingIsAbout(t *testing.T) {
	t.Parallel()
	count := func(limit, n int64, window time.Duration) policies.Feedback {
		return policies.Feedback{Limit: policies.Reported(limit), Remaining: policies.Reported(n), Window: window, Reset: 7 * time.Second}
	}
	named := func(f policies.Feedback, names ...string) policies.Feedback { f.Policies = names; return f }
	within := func(f policies.Feedback, scope string) policies.Feedback { f.Within = scope; return f }
	many := policies.Fixed(600, time.Minute).Named("many")
	flying := policies.InFlight(5).Named("flying")
	for name, c := range map[string]struct {
		bound   []policies.Policy
		partial bool
		said    policies.Feedback
		want    string
	}{
		"it is named":                    {[]policies.Policy{user, daily}, false, named(count(5, 5, 0), "daily"), "daily/left"},
		"its number":                     {[]policies.Policy{many, tenant}, false, count(100, 5, 0), "tenant/left"},
		"its number and its period":      {[]policies.Policy{many, tenant}, false, count(600, 5, time.Minute), "many/left"},
		"its period":                     {[]policies.Policy{daily, tenant}, false, count(70, 5, time.Minute), "tenant/left"},
		"its period, the most scopes":    {[]policies.Policy{many, tenant}, false, count(70, 5, time.Minute), "tenant/left"},
		"its number, and not its time":   {[]policies.Policy{daily}, false, count(1000, 5, time.Minute), "/left.1000"},
		"nothing":                        {[]policies.Policy{peak, daily}, false, count(60, 5, 0), "/left.60"},
		"a number of calls in flight":    {[]policies.Policy{peak, flying}, false, count(5, 5, 0), "/left.5"},
		"nothing, and no number":         {[]policies.Policy{peak}, false, left(3), "/left"},
		"nothing, and of a second":       {[]policies.Policy{peak}, false, policies.Feedback{Limit: policies.Reported(60), Remaining: policies.Reported(5), Reset: time.Second}, ""},
		"a second, beside a day":         {[]policies.Policy{peak, daily}, false, policies.Feedback{Limit: policies.Reported(60), Remaining: policies.Reported(5), Reset: time.Second}, "/left.60"},
		"no policies":                    {nil, false, count(60, 5, 0), "/left.60"},
		"within a scope":                 {[]policies.Policy{daily, tenant}, false, within(count(60, 5, 0), "tenant"), "tenant/left"},
		"a scope is lacking":             {[]policies.Policy{daily}, true, count(60, 5, 0), "/left.60"},
		"a second, which comes too late": {[]policies.Policy{policies.AtMost(50, time.Second).Named("s")}, false, policies.Feedback{Limit: policies.Reported(50), Remaining: policies.Reported(0), Window: time.Second, Reset: time.Second}, ""},
	} {
		b := newBench(t, c.bound...)
		b.Partial = c.partial
		said := b.said(c.said)
		if c.want == "" {
			require.Empty(t, said, name)
			continue
		}
		require.Len(t, said, 1, name)
		require.Contains(t, said, c.want, name)
	}
	b := newBench(t, daily)
	b.rules = readings.NewRules([]policies.Policy{daily}, time.Hour, false)
	require.Empty(t, b.said(named(count(5, 5, 0), "daily")), "counts are not wanted")
}

// carried are the values of a call's scopes.
type carried map[string]string

func (c carried) Carried() map[string]string { return c }

// The reset of one limit never comes nearer. If a later call of the same kind states that it does, by half, there are two limits, and the one
// that is reset sooner has an allowance of its own.
func TestTwoLimitsWithoutANameOrANumber(t *testing.T) {
	t.Parallel()
	const later, sooner = "/left", "/left.sooner"
	b := newBench(t, peak)
	state := func(want string, at, reset time.Duration, tenant string) {
		t.Helper()
		b.Scopes, b.Took = carried{"tenant": tenant}, 100*time.Millisecond
		b.Grant = &store.Grant{At: store.Instant(at.Microseconds()), Charges: make([]store.Charge, 1)}
		said := b.said(policies.Feedback{Remaining: policies.Reported(50), Reset: reset})
		require.Len(t, said, 1)
		require.Contains(t, said, want)
	}
	for _, c := range []struct {
		want      string
		at, reset time.Duration
		tenant    string
	}{
		{later, 0, time.Minute, "a"},
		{later, 50 * time.Millisecond, 10 * time.Second, "a"}, // under way with the first
		{later, time.Second, 30 * time.Second, "a"},           // not by half
		{later, 2 * time.Second, 10 * time.Second, "b"},       // tenants may be counted apart
		{sooner, 3 * time.Second, 10 * time.Second, "a"},
		{later, 4 * time.Second, 55 * time.Second, "a"},
		{sooner, 4 * time.Second, 40 * time.Second, "b"},
		{later, 57 * time.Second, 3 * time.Second, "a"},
		{sooner, 61 * time.Second, 10 * time.Second, "a"},
		{later, 61 * time.Second, time.Minute, "a"},
	} {
		state(c.want, c.at, c.reset, c.tenant)
	}
	b.known, b.rules = readings.Memory{}, readings.NewRules([]policies.Policy{peak}, time.Hour, true, sooner)
	state(later, 0, time.Minute, "a")
	state(sooner, 50*time.Millisecond, 10*time.Second, "b") // the fleet knows that there are two
}

// An answer's feedback goes to each allowance that binds the call, with the slot and the cost that were charged.
func TestEachAllowanceReceivesAnAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, daily, tenant)
	for _, l := range []store.Limit{b.Limits[0], b.Limits[1], {}} {
		b.Limits = append(b.Limits, readings.AllowanceOf(l))
	}
	b.Grant = &store.Grant{At: 7, Charges: []store.Charge{{}, {}, {From: 7, To: 3}, {From: 7, To: 3}, {}}}
	one := policies.Feedback{Policies: []string{"daily"}, Remaining: policies.Reported(9), Reset: 20 * time.Second}
	require.Equal(t, map[string]store.Note{
		"daily/left": {At: 7, Cost: 3, Remaining: 9, For: 20 * time.Second}, "tenant/left": {At: 7, Cost: 3, Remaining: -1},
	}, b.said(one), "that of the upstream did not bind it")
	require.False(t, b.all(one).Soon)
	require.Equal(t, map[string]store.Note{"daily/left": {At: 7, Cost: 3, Remaining: -1}, "tenant/left": {At: 7, Cost: 3, Remaining: -1}}, b.said())
	refused := policies.Feedback{Refused: true}
	require.Equal(t, store.Note{At: 7, Cost: 3, Remaining: -1, Refused: true}, b.said(refused)["daily/left"])
	require.True(t, b.all(refused).Soon)
	one.Remaining = policies.Reported(8)
	require.True(t, b.all(one).Soon, "few are left")
	b.Again = true
	require.Equal(t, map[string]store.Note{"daily/left": {At: 7, Remaining: 8, For: 20 * time.Second}}, b.said(one), "the call was answered before")
	b.Again, b.Grant.Local = false, true
	require.True(t, b.said(one)["daily/left"].Local)
	b.Grant, b.Blind = nil, 2
	require.Equal(t, store.Note{Cost: 2, Remaining: 8, For: 20 * time.Second}, b.said(one)["daily/left"], "of a call of which only the cost is known")
}

// The first refusal of an allowance that did not bind the calls before it comes with what was admitted of them.
func TestARefusalComesWithWhatWasAdmitted(t *testing.T) {
	t.Parallel()
	b := newBench(t, daily)
	refused := policies.Feedback{Refused: true, Wait: time.Minute}
	for i, at := range []store.Instant{1, 20_000_000, 21_000_000} {
		b.Grant, b.Cost = &store.Grant{At: at, Charges: make([]store.Charge, 1)}, int64(1+i)
		require.Empty(t, b.all().Answers)
	}
	b.Cost = 7
	all := b.all(refused).Answers
	require.Len(t, all, 2)
	require.Equal(t, store.Note{Kind: store.NoteAnswer, Limit: 1, At: 20_000_000, Cost: 5, Remaining: -1}, all[0], "since the last long break")
	require.True(t, all[1].Refused)
	require.Len(t, b.all(refused).Answers, 1, "the store knows")
}

// The notes of a refusal, and readings without any.
func TestWhatAReadingMeans(t *testing.T) {
	t.Parallel()
	b := newBench(t, tenant)
	f := policies.Feedback{Policies: []string{"tenant"}, Refused: true, Wait: 5 * time.Second, Remaining: policies.Reported(0), Reset: 20 * time.Second}
	require.Equal(t, store.Note{Refused: true, Teaches: true, For: 5 * time.Second}, b.said(f)["tenant/left"], "the shorter one counts")
	f.Refused, f.Wait = false, 0
	require.Equal(t, store.Note{Refused: true, Teaches: true, For: 20 * time.Second}, b.said(policies.Feedback{Refused: true, Wait: time.Minute}, f)["tenant/left"],
		"the refusal is reported beside what is left")
	f.Refused, f.Wait = true, 5*time.Second
	f.Reset, f.Wait = 32*24*time.Hour, 0
	require.Equal(t, store.Note{Refused: true, Teaches: true, Guessed: true, For: time.Minute}, b.said(f)["tenant/left"],
		"that is implausible: when the policy has more")
	f.Remaining = policies.Reported(3)
	guess := store.Note{Remaining: -1, Refused: true, Guessed: true, Teaches: true}
	require.Equal(t, map[string]store.Note{"tenant/left": guess}, b.said(f), "another limit refused, for as long as the store guesses")
	f.Wait = 5 * time.Second
	require.Equal(t, map[string]store.Note{"tenant/left": {Remaining: -1, Refused: true, Teaches: true, For: 5 * time.Second}}, b.said(f), "or says")
	bare := policies.Feedback{Refused: true}
	guess.Teaches = false
	require.Equal(t, map[string]store.Note{"/left": guess}, newBench(t, peak).said(bare), "waits in whole seconds say little of a second")
	require.Empty(t, newBench(t, peak, slowly).said(bare), "the rate slows down")
	require.Empty(t, b.said(policies.Feedback{Policies: []string{"tenant"}, Limit: policies.Reported(0), Remaining: policies.Reported(0)}), "it says nothing")
	require.Equal(t, specs.MaxLimit, b.said(left(math.MaxInt64, "tenant"))["tenant/left"].Remaining, "a store can count no further")
	b.now = start.Add(-20 * time.Second)
	require.Equal(t, store.Note{Guessed: true, For: 20 * time.Second}, b.said(left(0, "tenant"))["tenant/left"])
}
