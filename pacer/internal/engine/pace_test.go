package engine_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/specs"
)

// A rate goes at the pace that the upstream states, until then: never faster than the limit, which keeps its burst.
func TestPaceLearned(t *testing.T) {
	t.Parallel()
	r := newRig(t, rate(3, 10))
	a, l := r.account(), r.limit()
	learn := func(now, value, until int64) bool { return a.Learn(l, epoch+now, value, epoch+until) }
	pace := func(now int64) int64 { return r.inspect(now).Pace }
	require.True(t, learn(0, 40, 100))
	require.False(t, learn(0, 40, 100), "that is known")
	require.Equal(t, int64(40), pace(99))
	require.Equal(t, int64(10), pace(100))
	require.Equal(t, int64(1), r.inspect(0).Remaining, "τ stays, so the burst is smaller")
	var slots []int64
	for range 4 {
		slots = append(slots, r.book(0, 0, 1).At)
	}
	require.Equal(t, []int64{0, 20, 60, 100}, slots, "intervals of 40, of which calls go τ = 20 ahead")
	require.Equal(t, gaps(160), r.free())
	require.True(t, learn(0, 10, 100), "as fast as the limit")
	require.False(t, learn(0, 5, 100), "faster than the limit")
	require.False(t, learn(0, 40, 0), "until now")
	require.Equal(t, int64(140), r.book(0, 0, 1).At)
	require.Equal(t, gaps(170), r.free())
	require.True(t, learn(0, 40, 500))
	require.True(t, learn(0, 0, 500), "0 ends it")
	require.Equal(t, epoch+170, a.Expires())
}

// A limit that the upstream ends is forgotten with the first call after it.
func TestPaceForgets(t *testing.T) {
	t.Parallel()
	r := newRig(t, rate(1, 10))
	a, l := r.account(), r.limit()
	a.Learn(l, epoch, 20, epoch+100)
	r.book(0, 0, 1)
	require.Equal(t, epoch+100, a.Expires())
	r.book(99, 99, 1)
	require.Equal(t, epoch+119, a.Expires())
	require.True(t, a.Learn(l, epoch+99, 10, epoch+100))
	r.book(100, 100, 9)
	require.Equal(t, epoch+209, a.Expires())
	require.True(t, a.Learn(l, epoch+300, 20, epoch+400))
	require.True(t, a.Learn(l, epoch+300, 0, 0))
	require.Zero(t, a.Expires(), "with nothing else to know, it is as good as new")
}

// adaptive is a rate that a refusal halves, for a second, and that grows from nothing to whole in ten.
func adaptive() specs.Spec {
	s := rate(1, ms)
	s.Adapt = &specs.Adapt{Floor: 200_000, Decrease: 500_000, Hold: 1000 * ms, Recovery: 10_000 * ms}
	return s
}

// A refusal halves the rate. After a while it grows again, by equal shares in equal times.
func TestPaceSlows(t *testing.T) {
	t.Parallel()
	r := newRig(t, adaptive())
	a, l := r.account(), r.limit()
	pace := func(now int64) int64 { return r.inspect(now).Pace }
	require.Equal(t, ms, pace(0))
	require.True(t, a.Slow(l, epoch, epoch))
	for _, x := range []struct{ now, pace int64 }{
		{0, 2 * ms},
		{1000 * ms, 2 * ms},   // held
		{1001 * ms, 2*ms - 0}, // 500,100 of a million: 1999.6 µs, rounded up
		{2000 * ms, 1667},     // 600,000
		{3500 * ms, 1334},     // 750,000
		{5999 * ms, 1001},     // 999,900
		{6000 * ms, ms},       // whole
		{9999 * ms, ms},
		{11_000 * ms, ms},
		{math.MaxInt64/2 - epoch, ms}, // no sum overflows
	} {
		require.Equal(t, x.pace, pace(x.now), "at %d", x.now)
	}
	require.Equal(t, epoch+6000*ms+1, a.Expires())
	r.book(0, 0, 1)
	require.Equal(t, 2*ms, r.book(0, 0, 1).At)
	a.Learn(l, epoch, 3*ms, epoch+3000*ms)
	require.Equal(t, 3*ms, pace(0), "the slower of both")
	a.Learn(l, epoch, ms*3/2, epoch+3000*ms)
	require.Equal(t, 2*ms, pace(0))
	require.False(t, newRig(t, rate(1, 10)).account().Slow(newRig(t, rate(1, 10)).limit(), epoch, epoch), "a rate that does not adapt")
}

// The pace is rounded up, against the caller.
func TestPaceRoundsUp(t *testing.T) {
	t.Parallel()
	spec := adaptive()
	spec.Adapt.Decrease, spec.Adapt.Floor = 333_667, 1
	r := newRig(t, spec)
	require.True(t, r.account().Slow(r.limit(), epoch, epoch))
	require.Equal(t, int64(2998), r.inspect(0).Pace, "2997 µs, and the 333,667th part of one")
}

// Refusals of calls that had their slots before the last refusal was heeded teach nothing new, nor do those of the same second.
func TestPaceHeedsAnEpisodeOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now, at int64
		slower  bool
	}{
		"at the same time":               {0, 0, false},
		"a slot from before, long after": {1500 * ms, 0, false},
		"a slot from after, in a second": {1000*ms - 1, 500 * ms, false},
		"a slot from after, a second on": {1000 * ms, 500 * ms, true},
		"a slot from just after":         {1000 * ms, 1, true},
		"a new one":                      {1000 * ms, 1000 * ms, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, adaptive())
			a, l := r.account(), r.limit()
			require.True(t, a.Slow(l, epoch, epoch))
			require.Equal(t, c.slower, a.Slow(l, epoch+c.now, epoch+c.at))
			want := 2 * ms
			if c.slower {
				want = 4 * ms
			}
			require.Equal(t, want, r.inspect(1000*ms).Pace)
		})
	}
}

// It never gets slower than the floor. On its way up it falls back, but not below what held before.
func TestPaceFallsBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, adaptive())
	a, l := r.account(), r.limit()
	slow := func(now int64) int64 {
		require.True(t, a.Slow(l, epoch+now, epoch+now))
		return r.inspect(now).Pace
	}
	require.Equal(t, 2*ms, slow(0))
	require.Equal(t, 4*ms, slow(1000*ms), "not yet on its way up")
	require.Equal(t, 5*ms, slow(2000*ms), "the floor is a fifth")
	require.Equal(t, 5*ms, slow(4000*ms), "from three tenths, half of that is below the floor")
	require.Equal(t, int64(2500), slow(11_000*ms), "from eight tenths")
	require.Equal(t, int64(2500), slow(13_000*ms), "from five tenths back to four, which held before")
	require.Equal(t, int64(2500), r.inspect(14_000*ms).Pace)
	require.Equal(t, epoch+20_000*ms+1, a.Expires())

	// One that is whole again has forgotten it.
	require.Equal(t, 2*ms, slow(21_000*ms))
	require.Equal(t, 2*ms, slow(23_000*ms), "from six tenths back to five")
}
