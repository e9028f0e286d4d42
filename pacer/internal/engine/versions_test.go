package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/luascripts/numbers"
	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies"
)

// A changing is a limit that is asked for in one shape and another.
type changing struct {
	t *testing.T
	v *engine.Versions
}

// entry returns the account of a shape that is asked for now.
func (c *changing) entry(now int64, s policies.Spec) engine.Entry {
	l := engine.Limit{Spec: &s}
	if s.Calendar != nil {
		l.Bounds = s.Calendar.Bounds(epoch+now, epoch+now)
	}
	if c.v == nil {
		v := engine.NewVersions(&l, engine.NewAccount(s.Algorithm))
		c.v = &v
	}
	c.v.Become(c.v.Turned(&l, epoch+now))
	return engine.Entry{Account: c.v.Account, Limit: l, Versions: c.v}
}

func (c *changing) ask(now int64, s policies.Spec, wait int64) engine.Grant {
	g, _ := engine.Reserve(epoch+now, []engine.Entry{c.entry(now, s)}, engine.Call{Cost: 1, MaxWait: wait}, nil)
	g.At -= epoch
	return g
}

// spend lets calls go now, as many as a shape lets go but not more than most.
func (c *changing) spend(now int64, s policies.Spec, most int) (n int) {
	for n < most && c.ask(now, s, 0).OK {
		n++
	}
	return n
}

const (
	second = 1000 * ms
	hour   = 3600 * second
	plenty = 1000 // more than any shape here lets go
)

// What was spent in one shape is what a new shape begins with, in its own terms.
func TestANewShapeBeginsWithWhatWasSpent(t *testing.T) {
	t.Parallel()
	exact := policies.AtMost(4, time.Second).Burst(3).Skew(0).Spec()
	require.Equal(t, int64(4), exact.Most)
	daily := func(z *time.Location) policies.Spec { return policies.Daily(10, z).Spec() }
	for name, c := range map[string]struct {
		before policies.Spec
		spent  int // at 0
		now    policies.Spec
		at     int64
		left   int
		next   int64
	}{
		"a slower rate keeps the level of the bucket":            {rate(10, 100*ms), 5, rate(10, second), 0, 5, second},
		"a faster rate keeps it, and is sooner full again":       {rate(10, hour), plenty, rate(10, second), 0, 0, second},
		"what has come back to a rate is forgotten":              {rate(10, 100*ms), plenty, rate(10, second), 300 * ms, 3, 1300 * ms},
		"a smaller burst is empty":                               {rate(10, 100*ms), plenty, rate(2, second), 0, 0, second},
		"another burst of the same rate has the same account":    {rate(10, 100*ms), 4, rate(6, 100*ms), 0, 2, 100 * ms},
		"a window counts what a rate has not got back":           {rate(10, 100*ms), 6, fixed(10, second, 0), 100 * ms, 5, second},
		"a rate takes a window's count as spent just now":        {fixed(10, second, 0), 4, rate(10, 100*ms), 500 * ms, 6, 600 * ms},
		"a window that is over says nothing":                     {fixed(10, second, 0), plenty, rate(10, 100*ms), second, 10, 1100 * ms},
		"another grid counts a bucket until the last it may be":  {sliding(10, 100*ms, 9), 7, sliding(10, 300*ms, 3), 60 * ms, 3, 1100 * ms}, // it begins 100 ms before
		"a longer window counts what a shorter one remembers":    {fixed(10, second, 0), 10, fixed(15, hour, 0), 100 * ms, 5, hour - epoch%hour},
		"a plain rate has forgotten calls that an exact one has": {rate(3, 250*ms), 3, sliding(4, 100*ms, 9), 900 * ms, 4, 1900 * ms},
		"a log of starts tells all of them":                      {exact, 3, sliding(4, 100*ms, 9), 900 * ms, 1, 1000 * ms},
		"an exact rate is strict about what it has not logged":   {fixed(10, second, 0), 1, exact, 0, 0, 250 * ms},
		"a day elsewhere has what today has":                     {daily(time.UTC), 7, daily(time.FixedZone("EST", -5*3600)), 0, 3, 5*hour - epoch},
		"permits say nothing of what went":                       {inFlight(10, second), 0, rate(10, 100*ms), 0, 10, 100 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &changing{t: t}
			l.entry(0, c.before)
			l.spend(0, c.before, c.spent)
			require.Equal(t, c.left, l.spend(c.at, c.now, plenty), "so many go at once")
			require.Equal(t, c.next, l.ask(c.at, c.now, always).At, "then the next")
		})
	}
}

// Each call counts in all versions that are in use: each holds for all of them, and none has more spent than its bucket holds.
func TestEachVersionCountsAllCalls(t *testing.T) {
	t.Parallel()
	slow, fast, window := rate(2, second), rate(10, 100*ms), fixed(30, hour, 0)
	l := &changing{t: t}
	require.Equal(t, 2, l.spend(0, slow, plenty))
	require.Equal(t, 8, l.spend(0, fast, plenty))
	require.Equal(t, 20, l.spend(0, window, plenty))
	require.Equal(t, 3, l.v.Known())
	require.Equal(t, second, l.ask(0, slow, always).At, "its bucket is empty, not more than that")
	require.Equal(t, 0, l.spend(second, window, plenty))
}

// A version that nobody asks for is kept for as long as a call of it counts, and a minute; then the others are counted alone.
func TestAVersionGoesThatNobodyAsksFor(t *testing.T) {
	t.Parallel()
	before, now := rate(10, 100*ms), rate(10, hour)
	l := &changing{t: t}
	l.spend(0, before, 1)
	l.spend(0, now, 1)
	const until = second + numbers.VersionLives
	l.entry(until-1, now)
	require.Equal(t, 2, l.v.Known())
	require.False(t, l.v.Serves(&engine.Limit{Spec: &now}))
	l.entry(until, now)
	require.Equal(t, 1, l.v.Known())
	require.True(t, l.v.Serves(&engine.Limit{Spec: &now}))
}

// A version that has recovered goes on counting what the others let go, for as long as somebody is likely to ask for it. When nobody is,
// and all have recovered, nothing is kept.
func TestAVersionThatHasRecoveredGoesOnCounting(t *testing.T) {
	t.Parallel()
	slow, window := rate(1, 100*ms), fixed(10, second, 0)
	l := &changing{t: t}
	l.spend(0, slow, 1)
	l.spend(0, window, 1)
	const idle = 5 * second // both have recovered
	require.Equal(t, 10, l.spend(idle, window, plenty))
	require.Equal(t, 0, l.spend(idle+99*ms, slow, plenty), "it counts what the other one let go")
	require.Equal(t, 1, l.spend(idle+100*ms, slow, plenty))

	const until = idle + 100*ms + second + second + numbers.VersionLives
	require.LessOrEqual(t, l.v.Expires(), epoch+until)
	l.entry(until, slow)
	require.Equal(t, 1, l.v.Known())
	require.Equal(t, 1, l.spend(until, slow, plenty), "a bucket of one, and not what it lacks of another one")
}

// Rates that differ in their burst alone share an account. It counts calls of other shapes up to the largest burst that is in use.
func TestTheLargestBurstCountsCallsOfOthers(t *testing.T) {
	t.Parallel()
	large, small, window := rate(10, 100*ms), rate(1, 100*ms), fixed(60, 60*second, 0)
	l := &changing{t: t}
	l.spend(0, large, 1)
	l.spend(99*ms, small, 1) // not yet all has come back
	require.Equal(t, 59, l.spend(99*ms, window, plenty))
	require.Equal(t, 0, l.spend(99*ms, large, plenty))
	require.Equal(t, 5, l.spend(600*ms, large, plenty))
}

// However often a policy changes, there are no more versions than a few.
func TestVersionsAreBounded(t *testing.T) {
	t.Parallel()
	l := &changing{t: t}
	for i := range int64(20) {
		l.spend(0, rate(10, (i+1)*second), 1)
		require.Equal(t, min(i+1, numbers.MaxVersions), int64(l.v.Known()))
	}
	require.Equal(t, 0, l.spend(0, rate(10, second), plenty), "what was spent counts, though the account of this shape is gone")
}

// A reset leaves nothing of any version.
func TestResetsConcernAllVersions(t *testing.T) {
	t.Parallel()
	one, two := rate(10, 100*ms), fixed(10, hour, 0)
	l := &changing{t: t}
	l.spend(0, one, plenty)
	e := l.entry(0, two)
	e.Reset(epoch)
	require.Equal(t, 1, l.v.Known())
	require.Equal(t, 10, l.spend(0, one, plenty))
}

// To look at a shape that nobody has asked for changes nothing, and shows nothing.
func TestLookingChangesNothing(t *testing.T) {
	t.Parallel()
	one, two := rate(10, 100*ms), fixed(10, hour, 0)
	l := &changing{t: t}
	l.spend(0, one, plenty)
	seen := l.v.Seen(&engine.Limit{Spec: &two}, epoch)
	require.Empty(t, seen.(*engine.Window).Counts())
	require.True(t, l.v.Serves(&engine.Limit{Spec: &one}))
	require.Same(t, l.v.Account, l.v.Seen(&engine.Limit{Spec: &one}, epoch))
}
