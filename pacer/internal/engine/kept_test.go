package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// A changing is the account of a key whose limit changes.
type changing struct {
	k *engine.Kept
}

// entry returns the account as a limit finds it now, and what is kept if something is charged.
func (c *changing) entry(now int64, s specs.Spec) (engine.Entry, engine.Kept) {
	l := engine.Limit{Spec: &s}
	if s.Calendar != nil {
		l.Bounds = s.Calendar.Bounds(epoch+now, epoch+now)
	}
	if c.k == nil {
		k := engine.NewKept(&l, engine.NewAccount(s.Algorithm))
		c.k = &k
	}
	next := *c.k
	if !c.k.Serves(&l, epoch+now, true) {
		next = c.k.Turned(&l, epoch+now)
	}
	return engine.Entry{Account: next.Account, Limit: l}, next
}

func (c *changing) ask(now int64, s specs.Spec, wait int64) engine.Grant {
	e, next := c.entry(now, s)
	g, _ := engine.Reserve(epoch+now, []engine.Entry{e}, engine.Call{Cost: 1, MaxWait: wait}, nil)
	if g.OK {
		*c.k = next
	}
	g.At -= epoch
	return g
}

// spend lets calls go now, as many as a limit lets go but not more than most.
func (c *changing) spend(now int64, s specs.Spec, most int) (n int) {
	for n < most && c.ask(now, s, 0).OK {
		n++
	}
	return n
}

const (
	second = 1000 * ms
	hour   = 3600 * second
	plenty = 1000 // more than any limit here lets go
)

// A new limit begins with what was spent under the old one, in its own terms.
func TestAChangedLimitBeginsWithWhatWasSpent(t *testing.T) {
	t.Parallel()
	exact := policies.AtMost(4, time.Second).Burst(3).Skew(0).Spec()
	require.Equal(t, int64(4), exact.Most)
	daily := func(z *time.Location) specs.Spec { return policies.Daily(10, z).Spec() }
	newYork := daily(time.FixedZone("EST", -5*3600))
	for name, c := range map[string]struct {
		before specs.Spec
		spent  int // at 0
		now    specs.Spec
		at     int64
		left   int
		next   int64
	}{
		"a slower rate lacks what is missing until its bucket is full": {rate(10, 100*ms), 5, rate(10, 250*ms), 0, 8, 250 * ms},
		"a faster rate goes between the calls of a slower one":         {rate(3, second), 3, rate(1, 400*ms), 100 * ms, 0, 400 * ms},
		"what has come back to a rate is forgotten":                    {rate(10, 100*ms), plenty, rate(10, second), second, 10, 2 * second},
		"another burst of the same rate has the same account":          {rate(10, 100*ms), 4, rate(6, 100*ms), 0, 2, 100 * ms},
		"a window counts what a rate lacks":                            {rate(10, 100*ms), 6, fixed(10, second, 0), 100 * ms, 5, second},
		"a rate lacks what a window counts":                            {fixed(10, second, 0), 4, rate(10, 100*ms), 500 * ms, 6, 600 * ms},
		"and at most its burst":                                        {fixed(10, second, 0), 10, rate(3, 100*ms), 500 * ms, 0, 600 * ms},
		"a window that is over says nothing":                           {fixed(10, second, 0), plenty, rate(10, 100*ms), second, 10, 1100 * ms},
		"another grid counts what the window holds in its bucket":      {sliding(10, 100*ms, 9), 7, sliding(10, 300*ms, 3), 400 * ms, 3, 1400 * ms}, // it begins 200 ms after
		"a longer window counts what a shorter one does":               {fixed(10, second, 0), 10, fixed(15, hour, 0), 100 * ms, 5, hour - epoch%hour},
		"a shorter one does, too":                                      {fixed(10, hour, 0), 10, fixed(15, second, 0), 100 * ms, 5, second},
		"the tail of an exact rate is all that a window knows":         {exact, 3, sliding(4, 100*ms, 9), 500 * ms, 3, 1500 * ms},
		"an exact rate is strict about what it has not logged":         {fixed(10, second, 0), 1, exact, 0, 0, 250 * ms},
		"a day elsewhere has what today has":                           {daily(time.UTC), 7, newYork, 0, 3, 5*hour - epoch},
		"also after midnight there":                                    {daily(time.UTC), 7, newYork, 6 * hour, 3, 29*hour - epoch},
		"and before that of the new day":                               {newYork, 7, daily(time.UTC), 2 * hour, 3, 24*hour - epoch},
		"but not on another day":                                       {daily(time.UTC), 7, newYork, 30 * hour, 10, 53*hour - epoch},
		"permits say nothing of what went":                             {inFlight(10, second), 0, rate(10, 100*ms), 0, 10, 100 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &changing{}
			l.entry(0, c.before)
			l.spend(0, c.before, c.spent)
			require.Equal(t, c.left, l.spend(c.at, c.now, plenty), "so many go at once")
			require.Equal(t, c.next, l.ask(c.at, c.now, always).At, "then the next")
		})
	}
}

// Reservations ahead count where they are, and the time between does not.
func TestAChangedLimitCountsWhatIsReserved(t *testing.T) {
	t.Parallel()
	reserve := func(l *changing, s specs.Spec, at int64) {
		e, next := l.entry(0, s)
		g, _ := engine.Reserve(epoch, []engine.Entry{e}, engine.Call{Cost: 1, NotBefore: at, MaxWait: always}, nil)
		require.True(t, g.OK)
		*l.k = next
	}
	window, minute := fixed(1, second, 0), fixed(3, 60*second, 0)
	l := &changing{}
	reserve(l, window, 10*second)
	reserve(l, window, 61*second)
	require.Equal(t, 2, l.spend(0, minute, plenty))

	slow, day := rate(1, second), fixed(10, 24*hour, 0)
	l = &changing{}
	reserve(l, slow, 0)
	reserve(l, slow, 12*hour)
	require.Equal(t, 8, l.spend(0, day, plenty))
}

// A call under another limit that is refused changes nothing.
func TestARefusedCallTurnsNothing(t *testing.T) {
	t.Parallel()
	one, two := rate(10, 100*ms), fixed(10, hour, 0)
	l := &changing{}
	l.spend(0, one, plenty)
	require.False(t, l.ask(0, two, 0).OK)
	require.True(t, l.k.Serves(&engine.Limit{Spec: &one}, epoch, true))
	require.Equal(t, 10, l.spend(second, one, plenty))
}

// A claim of a rate that had forgotten everything counts in a later window.
func TestAWindowCountsWhatWasClaimed(t *testing.T) {
	t.Parallel()
	one, two := rate(10, 100*ms), fixed(10, hour, 0)
	l := &changing{}
	l.spend(0, one, 1)
	e, _ := l.entry(10*second, one)
	e.Account.Claim(&e.Limit, epoch+10*second, engine.Charge{From: epoch + 10*second, To: epoch + 10*second + 300*ms})
	require.Equal(t, 7, l.spend(10*second, two, plenty))
}
