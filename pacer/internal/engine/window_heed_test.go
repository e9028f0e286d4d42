package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
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

// An account of windows expires when its last call counts no more.
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
	require.False(t, a.Release(l, engine.Left{ID: 1}), "a window has no permits")
	require.Equal(t, map[int64]int64{0: 1, 50: 1}, r.counts())
}
