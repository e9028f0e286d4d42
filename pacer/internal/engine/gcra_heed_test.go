package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies/specs"
)

// Somebody remembers an interval as charged: nobody else gets any of it. Splinters beside it go with it.
func TestGCRAClaim(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now, from, to int64
		free          []engine.Span
	}{
		// [30, 60) and [90, 100) are free.
		"what is charged":           {0, 0, 30, gaps(30, 60, 90, 100, 110)},
		"nothing":                   {0, 40, 40, gaps(30, 60, 90, 100, 110)},
		"less than nothing":         {0, 45, 40, gaps(30, 60, 90, 100, 110)},
		"what is past":              {40, 20, 40, gaps(30, 60, 90, 100, 110)},
		"the middle of a gap":       {0, 40, 50, gaps(30, 40, 50, 60, 90, 100, 110)},
		"with a splinter before":    {0, 35, 45, gaps(45, 60, 90, 100, 110)},
		"with a splinter behind":    {0, 45, 55, gaps(30, 45, 90, 100, 110)},
		"a whole gap":               {0, 30, 60, gaps(90, 100, 110)},
		"up to a gap":               {0, 60, 90, gaps(30, 60, 90, 100, 110)},
		"parts of two gaps":         {0, 50, 95, gaps(30, 50, 110)},
		"more than two gaps":        {0, 10, 105, gaps(110)},
		"up to the tail":            {0, 105, 110, gaps(30, 60, 90, 100, 110)},
		"the start of the tail":     {0, 100, 120, gaps(30, 60, 90, 100, 120)},
		"the tail, from a gap on":   {0, 95, 130, gaps(30, 60, 130)},
		"behind a splinter of tail": {0, 119, 130, gaps(30, 60, 90, 100, 130)},
		"in the tail":               {0, 120, 130, gaps(30, 60, 90, 100, 110, 120, 130)},
		"far in the tail":           {0, 200, 210, gaps(30, 60, 90, 100, 110, 200, 210)},
		"of which half is past":     {35, 20, 55, gaps(90, 100, 110)},
		"in an idle account":        {200, 210, 220, gaps(200, 210, 220)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rate(1, 10))
			var calls []booking
			for range 11 {
				calls = append(calls, r.book(0, 0, 1))
			}
			for _, i := range []int{3, 4, 5, 9} {
				r.cancel(0, calls[i])
			}
			claim := engine.Charge{From: epoch + c.from, To: epoch + c.to}
			r.account().Claim(r.limit(), epoch+c.now, claim)
			free := r.free()
			require.Equal(t, c.free, free)
			r.account().Claim(r.limit(), epoch+c.now, claim)
			require.Equal(t, free, r.free(), "claimed twice")
		})
	}
}

// A gap that a claim leaves in the tail is wide enough for calls that no other gap would hold.
func TestGCRAClaimLeavesRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, rate(5, 10))
	r.account().Claim(r.limit(), epoch, engine.Charge{From: epoch + 50, To: epoch + 100})
	b := r.book(0, 0, 5)
	require.Zero(t, b.At)
	require.Equal(t, gaps(100), r.free())
}

// A charge depends on the placement that it is given, and on nothing that other searches left behind.
func TestAPlacementIsAValue(t *testing.T) {
	t.Parallel()
	exact := rate(1, 10)
	exact.Most, exact.Within = 2, 20
	for name, spec := range map[string]specs.Spec{
		"rate": rate(1, 10), "exact": exact, "fixed": fixed(2, 10, 0), "sliding": sliding(2, 10, 3),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			charge := func(meanwhile func(a engine.Account, l *engine.Limit)) (engine.Charge, int64) {
				r := newRig(t, spec)
				r.book(0, 20, 1)
				r.book(0, 200, 1)
				a, l := r.account(), r.limit()
				p := a.Earliest(l, epoch, epoch+50, 1, 0)
				require.Equal(t, epoch+50, p.At)
				meanwhile(a, l)
				return a.Commit(l, epoch, p, 1)
			}
			alone, aloneSlack := charge(func(engine.Account, *engine.Limit) {})
			require.Equal(t, epoch+50, alone.From)
			among, amongSlack := charge(func(a engine.Account, l *engine.Limit) {
				for _, at := range []int64{0, 120, 1000} {
					a.Earliest(l, epoch, epoch+at, 1, 0)
				}
				a.Inspect(l, epoch)
			})
			require.Equal(t, alone, among)
			require.Equal(t, aloneSlack, amongSlack)
		})
	}
}

// An account is as good as new when all that it knows is past.
func TestGCRAExpires(t *testing.T) {
	t.Parallel()
	r := newRig(t, rate(1, 10))
	a, l := r.account(), r.limit()
	require.Zero(t, a.Expires())
	r.book(0, 0, 3)
	require.Equal(t, epoch+30, a.Expires())
	a.Learn(l, epoch, 20, epoch+40)
	require.Equal(t, epoch+40, a.Expires())
	a.Renew(l, epoch, 1, epoch)
	require.False(t, a.Release(l, engine.Left{ID: 1}), "a rate has no permits")
	require.Equal(t, engine.Forever, l.Horizon())
}

// A claim that begins in the past leaves no gap there, which a cancellation would take for the part of its charge that is free already.
func TestGCRAClaimLeavesNoGapInThePast(t *testing.T) {
	t.Parallel()
	r := newRig(t, rate(1, 10))
	r.book(0, 0, 1)
	first := r.book(0, 100, 1) // leaves [10, 100)
	r.account().Claim(r.limit(), epoch+50, engine.Charge{From: epoch + 20, To: epoch + 70})
	require.Equal(t, gaps(70, 100, 110), r.free())
	r.account().Cancel(r.limit(), epoch+50, engine.Charge{From: epoch + 45, To: epoch + 60})
	require.Equal(t, gaps(45, 60, 70, 100, 110), r.free())
	require.Equal(t, int64(100), first.At)
}
