package engine_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies/specs"
)

// The rest of a free piece can be used: a whole number of T if that moves no slot, and no splinter shorter than T.
func TestGCRALeavesWholeGaps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec   specs.Spec
		before []step
		step
		charge engine.Charge
		free   []engine.Span
	}{
		"with a burst, the interval begins a whole number of T after now": {
			rate(2, 10), nil, step{0, 43, 1, 43, 7}, engine.Charge{From: 50, To: 60}, gaps(0, 50, 60),
		},
		"not if that moved the slot": {
			rate(1, 10), nil, step{0, 43, 1, 43, 0}, engine.Charge{From: 43, To: 53}, gaps(0, 43, 53),
		},
		"τ is just enough": {
			rate(2, 10), nil, step{0, 40, 1, 40, 0}, engine.Charge{From: 40, To: 50}, gaps(0, 40, 50),
		},
		"a call of cost 2 has no τ left to move by": {
			rate(2, 10), nil, step{0, 43, 2, 43, 0}, engine.Charge{From: 43, To: 63}, gaps(0, 43, 63),
		},
		"a call of cost 2 moves by the τ that it has": {
			rate(3, 10), nil, step{0, 41, 2, 41, 9}, engine.Charge{From: 50, To: 70}, gaps(0, 50, 70),
		},
		"a splinter goes with the call behind it": {
			rate(1, 10), nil, step{0, 9, 1, 9, 0}, engine.Charge{From: 0, To: 19}, gaps(19),
		},
		"a piece of exactly T is no splinter": {
			rate(1, 10), nil, step{0, 10, 1, 10, 0}, engine.Charge{From: 10, To: 20}, gaps(0, 10, 20),
		},
		"a splinter goes with the call before it": {
			rate(1, 10), []step{{0, 19, 1, 19, 0}}, step{0, 0, 1, 0, 0}, engine.Charge{From: 0, To: 19}, gaps(29),
		},
		"splinters on both sides": {
			rate(1, 10), []step{{0, 20, 1, 20, 0}}, step{0, 5, 1, 5, 0}, engine.Charge{From: 0, To: 20}, gaps(30),
		},
		"pieces of T on both sides": {
			rate(1, 10), []step{{0, 30, 1, 30, 0}}, step{0, 10, 1, 10, 0}, engine.Charge{From: 10, To: 20}, gaps(0, 10, 20, 30, 40),
		},
		"in a gap, it moves no further than the gap reaches": {
			rate(2, 10), []step{{0, 45, 2, 45, 0}}, step{0, 33, 1, 33, 0}, engine.Charge{From: 33, To: 45}, gaps(0, 33, 65),
		},
		"a rate with a phase": {
			specs.Spec{Algorithm: specs.GCRA, Limit: 1, Interval: 10, Phase: 4}, []step{{0, 0, 1, 4, 0}},
			step{7, 35, 1, 44, 0}, engine.Charge{From: 44, To: 54}, gaps(14, 44, 54),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.spec)
			for _, x := range append(slices.Clone(c.before), c.step) {
				b := r.book(x.now, x.from, x.cost)
				got := step{x.now, x.from, x.cost, b.At, b.Slack}
				require.Equal(t, x, got)
				if x == c.step {
					charge := engine.Charge{From: b.charges[0].From - epoch, To: b.charges[0].To - epoch}
					require.Equal(t, c.charge, charge)
				}
			}
			require.Equal(t, c.free, r.free())
		})
	}
}

// Five calls have [0, 50). A part that is given back joins the free pieces beside it.
func TestGCRACancel(t *testing.T) {
	t.Parallel()
	type give struct{ now, call int64 }
	for name, c := range map[string]struct {
		gives []give
		free  []engine.Span
	}{
		"nothing":                         {nil, gaps(50)},
		"a gap":                           {[]give{{0, 1}}, gaps(10, 20, 50)},
		"gaps that do not meet":           {[]give{{0, 3}, {0, 1}}, gaps(10, 20, 30, 40, 50)},
		"a gap before":                    {[]give{{0, 1}, {0, 2}}, gaps(10, 30, 50)},
		"a gap after":                     {[]give{{0, 2}, {0, 1}}, gaps(10, 30, 50)},
		"gaps before and after":           {[]give{{0, 1}, {0, 3}, {0, 2}}, gaps(10, 40, 50)},
		"the tail":                        {[]give{{0, 4}}, gaps(40)},
		"the tail and a gap before":       {[]give{{0, 3}, {0, 4}}, gaps(30)},
		"the tail, not the gap further":   {[]give{{0, 1}, {0, 4}}, gaps(10, 20, 40)},
		"a gap twice":                     {[]give{{0, 1}, {0, 1}}, gaps(10, 20, 50)},
		"twice, within a gap":             {[]give{{0, 1}, {0, 2}, {0, 3}, {0, 2}}, gaps(10, 40, 50)},
		"twice, at the start of a gap":    {[]give{{0, 1}, {0, 2}, {0, 1}}, gaps(10, 30, 50)},
		"twice, at the end of a gap":      {[]give{{0, 1}, {0, 2}, {0, 2}}, gaps(10, 30, 50)},
		"the tail twice":                  {[]give{{0, 4}, {0, 4}}, gaps(40)},
		"what is past":                    {[]give{{20, 1}}, gaps(50)},
		"what is not quite past":          {[]give{{19, 1}}, gaps(10, 20, 50)},
		"what is past, with a gap":        {[]give{{0, 1}, {20, 3}}, gaps(30, 40, 50)},
		"all, in order":                   {[]give{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}}, nil},
		"all, from the last to the first": {[]give{{0, 4}, {0, 3}, {0, 2}, {0, 1}, {0, 0}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rate(5, 10))
			var calls []booking
			for range 5 {
				calls = append(calls, r.book(0, 0, 1))
			}
			for _, g := range c.gives {
				r.cancel(g.now, calls[g.call])
			}
			require.Equal(t, c.free, r.free())
		})
	}
}

// A call that is given back leaves the account as it was: splinters that went with it come back too.
func TestGCRACancelUndoes(t *testing.T) {
	t.Parallel()
	r := newRig(t, rate(1, 10))
	r.book(0, 55, 1)
	before := r.free()
	for from := range int64(100) {
		r.cancel(0, r.book(0, from, 1))
		require.Equal(t, before, r.free(), "a call from %d on", from)
	}
}

// A call that turned out cheaper gives the end of its interval back, one that cost more is charged behind all others.
func TestGCRASettle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now, actual int64
		free        []engine.Span
	}{
		"as expected":                 {0, 3, gaps(60)},
		"cheaper":                     {0, 2, gaps(20, 30, 60)},
		"much cheaper":                {0, 1, gaps(10, 30, 60)},
		"for nothing":                 {0, 0, gaps(0, 30, 60)},
		"cheaper, but it is past":     {30, 1, gaps(60)},
		"cheaper, and half is past":   {15, 1, gaps(10, 30, 60)},
		"dearer":                      {0, 5, gaps(80)},
		"dearer, when all is past":    {70, 5, gaps(90)},
		"dearer than a period can be": {0, 1 << 60, gaps(60 + specs.MaxPeriod.Microseconds())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rate(3, 10))
			b := r.book(0, 0, 3) // [0, 30)
			r.book(0, 0, 3)      // [30, 60)
			r.settle(c.now, b, 3, c.actual)
			require.Equal(t, c.free, r.free())
		})
	}
}
