package engine_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies"
)

// Somebody remembers so many calls in a bucket: it holds at least as many.
func TestWindowClaim(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now, begin, n int64
		want          map[int64]int64
	}{
		"more":                     {0, 0, 3, map[int64]int64{0: 3}},
		"over the limit":           {0, 0, 9, map[int64]int64{0: 9}},
		"as many":                  {0, 0, 2, map[int64]int64{0: 2}},
		"fewer":                    {0, 0, 1, map[int64]int64{0: 2}},
		"in a bucket without any":  {0, 100, 2, map[int64]int64{0: 2, 100: 2}},
		"in one that still counts": {99, 0, 3, map[int64]int64{0: 3}},
		"in one that is over":      {100, 0, 3, map[int64]int64{0: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, fixed(3, 100, 0))
			r.book(0, 0, 2)
			for range 2 { // the second time changes nothing
				r.account().Claim(r.limit(), epoch+c.now, engine.Charge{From: epoch + c.begin, To: c.n})
				require.Equal(t, c.want, r.counts())
			}
		})
	}
}

// The upstream says that it allows fewer calls, for a while. It can only say less than the limit, and no less than one.
func TestWindowLearn(t *testing.T) {
	t.Parallel()
	r := newRig(t, fixed(5, 100, 0))
	a, l := r.account(), r.limit()
	learn := func(now, value, until int64) bool { return a.Learn(l, epoch+now, value, epoch+until) }
	pace := func(now int64) int64 { return r.inspect(now).Pace }
	require.True(t, learn(0, 3, 150))
	require.False(t, learn(0, 3, 150), "that is known")
	require.Equal(t, int64(3), pace(149))
	require.Equal(t, int64(5), pace(150))
	require.Equal(t, epoch+150, a.Expires())
	l.Spec.Limit = 2
	require.Equal(t, int64(2), pace(0), "a limit that was lowered meanwhile")
	l.Spec.Limit = 5
	require.True(t, learn(0, 4, 50), "more, for a shorter time: what it says last holds")
	require.Equal(t, int64(4), pace(49))
	require.Equal(t, int64(5), pace(50))
	require.True(t, learn(0, 5, 50), "the whole limit")
	require.Equal(t, engine.NewAccount(l.Spec.Algorithm), a)
	require.False(t, learn(0, 7, 50), "more than the limit")
	require.False(t, learn(0, 4, 0), "until now")
	require.True(t, learn(0, 1, 50))
	require.True(t, learn(0, 0, 50), "0 ends it")
	require.False(t, learn(0, -3, 50))

	require.True(t, learn(0, 2, 150))
	require.Equal(t, int64(0), r.book(0, 0, 2).At)
	require.Equal(t, int64(100), r.book(0, 0, 2).At, "the present limit holds for windows to come")
	require.Equal(t, int64(200), r.book(0, 0, 3).At, "a call of more has a window to itself")
	require.Equal(t, int64(300), r.book(0, 0, 1).At)
	require.Equal(t, int64(150), r.book(150, 150, 3).At, "the whole limit again")
}

// The upstream says how much is left of its window: what others spent is charged to ours, and a little more for those on
// their way if calls of ours are.
func TestWindowRemainingIsCharged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spent   int64 // by us, before
		bucket  int64 // that the call which was answered was charged to
		left    int64
		changed bool
		want    int64
	}{
		"all that we know of": {400, 0, 600, false, 400},
		"more":                {400, 0, 601, false, 400},
		"less":                {400, 0, 500, true, 500},
		"nothing":             {400, 0, 0, true, 1000},
		"of this window":      {400, epoch, 500, true, 500},
		"of one that is over": {400, epoch - 100, 500, false, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, fixed(1000, 100, 0))
			r.book(0, 0, c.spent)
			require.Equal(t, c.changed, r.account().Remaining(r.limit(), epoch+10, c.bucket, c.left, 0, 0))
			require.Equal(t, c.want, r.counts()[0])
		})
	}
	t.Run("sliding", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, sliding(1000, 10, 3))
		r.book(0, 0, 400)
		r.book(15, 15, 100)
		a, l := r.account(), r.limit()
		require.False(t, a.Remaining(l, epoch+35, epoch, 500, 0, 0), "what we spent in earlier buckets counts")
		require.True(t, a.Remaining(l, epoch+35, epoch, 450, 0, 0), "a bucket before counts too, so what it says is about now")
		require.Equal(t, map[int64]int64{0: 400, 10: 100, 30: 50}, r.counts())
		require.True(t, a.Remaining(l, epoch+45, 0, 800, 0, 0), "the first no longer counts")
		require.Equal(t, int64(100), r.counts()[40], "all that others must have spent, as far as is known now")
		require.Zero(t, r.counts()[30])
	})
}

// What others are believed to have spent is what the last reading says: a higher one gives back, unless it was overtaken by a lower one.
func TestWindowRemainingIsTakenBack(t *testing.T) {
	t.Parallel()
	const second = 1_000_000
	r := newRig(t, sliding(1000, 1000*second, 10))
	r.book(0, 0, 100)
	a, l := r.account(), r.limit()
	require.True(t, a.Remaining(l, epoch, 0, 0, 0, epoch))
	require.Equal(t, int64(1000), r.counts()[0])
	require.False(t, a.Remaining(l, epoch+second, 0, 700, 0, epoch+second), "it may be older")
	require.True(t, a.Remaining(l, epoch+10*second, 0, 700, 0, epoch+10*second))
	require.Equal(t, int64(300), r.counts()[0])
	require.True(t, a.Remaining(l, epoch+20*second, 0, 1000, 0, epoch+20*second))
	require.Equal(t, int64(100), r.counts()[0], "no more than our own is never given back")
	require.True(t, a.Remaining(l, epoch+30*second, 0, 0, 0, epoch+30*second))
	a.Resume(epoch + 31*second)
	require.Equal(t, int64(100), r.counts()[0], "an operator knows better")
}

// A reading that says that nothing is left is believed for a time. Then one call may go to ask, and others a while after each other, until
// there is a reading: no more than the limit.
func TestWindowAsksWhenAReadingIsOld(t *testing.T) {
	t.Parallel()
	const second, period = 1_000_000, 900_000_000
	for name, spec := range map[string]policies.Spec{"sliding": sliding(10, 100_000*second, 10), "fixed": fixed(10, 1_000_000*second, 0)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, spec)
			r.book(0, 0, 7)
			a, l := r.account(), r.limit()
			require.True(t, a.Remaining(l, epoch, 0, 0, 0, epoch))
			for i := range int64(3) {
				require.Equal(t, period+i*period/5, r.ask(second, engine.Call{Cost: 1, MaxWait: always}).At, "call %d", i)
			}
			require.Greater(t, r.ask(second, engine.Call{Cost: 1, MaxWait: always}).At, int64(90_000*second), "all that is known is our own")
		})
	}
	t.Run("as long as is said", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, sliding(10, 100_000*second, 10))
		require.True(t, r.account().Remaining(r.limit(), epoch, 0, 0, 0, epoch-60*second))
		require.Equal(t, int64(60*second), r.ask(0, engine.Call{Cost: 1, MaxWait: always}).At)
		require.Equal(t, int64(72*second), r.ask(0, engine.Call{Cost: 2, MaxWait: always}).At, "a call of cost 2 in place of two")
	})
}

// Calls that are tracked are on their way until it is known that they were answered. The upstream has not seen them, so
// what it has left is theirs before it is others'.
func TestWindowRemainingKnowsWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	r := newRig(t, fixed(1000, 100, 0))
	a, l, w := r.account(), r.limit(), r.account().(*engine.Window)
	b := r.ask(0, engine.Call{Cost: 300, Tracked: true, MaxWait: always})
	require.Equal(t, engine.Charge{From: epoch, To: -300, Seen: 300}, b.charges[0])
	require.Equal(t, int64(300), w.Open(epoch))
	require.False(t, a.Remaining(l, epoch, epoch, 900, 100, 0), "the upstream has seen 100, and the others are on their way")
	require.Equal(t, int64(200), w.Open(epoch))
	require.Equal(t, int64(300), r.counts()[0])
	require.True(t, a.Remaining(l, epoch, epoch, 700, 100, 0))
	require.Equal(t, int64(100), w.Open(epoch))
	// Of 1000, 700 are left and 100 on their way: of the 400 that will be spent, 100 are others'. They are about to spend
	// more: 0.6 % of the limit, for that is less than what is on its way.
	require.Equal(t, int64(300+100+6), r.counts()[0])
	require.False(t, a.Remaining(l, epoch, epoch, 1000, 500, 0))
	require.Zero(t, w.Open(epoch), "never less than nothing")

	b = r.ask(0, engine.Call{Cost: 3, Tracked: true, MaxWait: always})
	require.True(t, a.Remaining(l, epoch, 0, 500, 9, 0), "no call was answered: it is said of no bucket")
	require.Equal(t, int64(500+3+3), r.counts()[0], "no more is expected of others than is on its way")
	r.cancel(0, b)
	require.Equal(t, int64(500+3), r.counts()[0])
	require.Zero(t, w.Open(epoch), "what was given back is not on its way")
}

// If the upstream says when there is more, its window need not be ours: till then the limit is what we spent and what is left.
func TestWindowRemainingUntil(t *testing.T) {
	t.Parallel()
	r := newRig(t, fixed(10, 100, 0))
	a, l := r.account(), r.limit()
	r.book(0, 0, 3)
	require.False(t, a.Remaining(l, epoch, 0, 7, 0, epoch+250), "that is known")
	require.True(t, a.Remaining(l, epoch, 0, 2, 0, epoch+250))
	require.False(t, a.Remaining(l, epoch, 0, 2, 0, epoch+400))
	require.Equal(t, map[int64]int64{0: 3}, r.counts(), "nothing is charged")
	require.Equal(t, int64(5), r.inspect(0).Pace)
	require.Equal(t, int64(2), r.inspect(0).Remaining)
	require.Equal(t, int64(5), r.inspect(249).Pace)
	require.Equal(t, int64(10), r.inspect(250).Pace)
	require.True(t, a.Remaining(l, epoch+100, 0, 0, 0, epoch+250), "nothing is left in a new window")
	require.Equal(t, int64(1), r.inspect(100).Pace, "but never less than one call per window")

	r = newRig(t, fixed(10, 100, 0))
	require.True(t, r.account().Remaining(r.limit(), epoch, 0, 4, 0, epoch))
	require.Equal(t, map[int64]int64{0: 6}, r.counts(), "now is no time that it says")

	r = newRig(t, fixed(10, 100, 0))
	r.ask(0, engine.Call{Cost: 4, Tracked: true, MaxWait: always})
	require.True(t, r.account().Remaining(r.limit(), epoch, epoch, 5, 1, epoch+250))
	require.Equal(t, int64(4-3+5), r.inspect(0).Pace, "of what is left, 3 are on their way")
}

// How a window stands.
func TestWindowInspect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		r     *rig
		calls []step
		now   int64
		want  engine.Inspection
	}{
		"a new one":         {newRig(t, fixed(3, 100, 10)), nil, 50, engine.Inspection{Remaining: 3, Next: 50, Full: 50}},
		"two went":          {newRig(t, fixed(3, 100, 10)), []step{{cost: 2}}, 50, engine.Inspection{Remaining: 1, Next: 50, Full: 100}},
		"all went":          {newRig(t, fixed(3, 100, 10)), []step{{cost: 3}}, 50, engine.Inspection{Next: 100, Full: 100}},
		"some are to come":  {newRig(t, fixed(3, 100, 10)), []step{{cost: 3}, {cost: 2}, {cost: 3}}, 50, engine.Inspection{Next: 100, Backlog: 5, Full: 300}},
		"before the guard":  {newRig(t, fixed(3, 100, 10)), nil, 89, engine.Inspection{Remaining: 3, Next: 89, Full: 89}},
		"in the guard":      {newRig(t, fixed(3, 100, 10)), nil, 90, engine.Inspection{Next: 100, Full: 100}},
		"more than allowed": {newRig(t, fixed(3, 100, 10)), []step{{cost: 9}}, 0, engine.Inspection{Next: 100, Full: 100}},
		"sliding":           {newRig(t, sliding(3, 10, 3)), []step{{cost: 2}}, 35, engine.Inspection{Remaining: 1, Next: 35, Full: 40}},
		"sliding, later":    {newRig(t, sliding(3, 10, 3)), []step{{cost: 2}}, 40, engine.Inspection{Remaining: 3, Next: 40, Full: 40}},
		"before others":     {newRig(t, sliding(3, 10, 3)), []step{{from: 30, cost: 2}}, 0, engine.Inspection{Remaining: 1, Next: 0, Backlog: 2, Full: 70}},
		"of this bucket":    {newRig(t, sliding(3, 10, 3)), []step{{from: 31, cost: 2}}, 30, engine.Inspection{Remaining: 1, Next: 30, Full: 70}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, x := range c.calls {
				c.r.book(0, x.from, x.cost)
			}
			c.want.Pace = 3
			require.Equal(t, c.want, c.r.inspect(c.now))
		})
	}
}

// What an account of windows knows is past when the last call counts no more.
func TestWindowExpires(t *testing.T) {
	t.Parallel()
	r := newRig(t, sliding(3, 10, 3))
	a, l := r.account(), r.limit()
	require.Zero(t, a.Expires())
	r.book(0, 50, 1)
	r.book(0, 0, 1)
	require.Equal(t, epoch+90, a.Expires())
	a.Learn(l, epoch, 2, epoch+100)
	require.Equal(t, epoch+100, a.Expires())
	require.Equal(t, engine.Forever, l.Horizon())
	require.False(t, a.Slow(l, epoch, epoch), "windows do not adapt")
	a.Renew(l, epoch, 1, epoch)
	require.False(t, a.Release(1), "a window has no permits")
	require.Equal(t, map[int64]int64{0: 1, 50: 1}, r.counts())
}

// An upstream may say any number: one that is larger than the limit does not lower it, however large it is.
func TestWindowRemainingIsHuge(t *testing.T) {
	t.Parallel()
	for _, left := range []int64{5, 6, policies.MaxLimit, math.MaxInt64 - 1, math.MaxInt64} {
		for _, until := range []int64{0, 50} {
			r := newRig(t, fixed(5, 100, 0))
			r.book(0, 0, 3)
			require.False(t, r.account().Remaining(r.limit(), epoch, 0, left, 0, epoch+until), "%d left until %d", left, until)
			in := r.inspect(0)
			require.Equal(t, int64(5), in.Pace)
			require.Equal(t, int64(2), in.Remaining)
		}
	}
}
