package engine_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/specs"
)

// However calls are settled after they have gone, and in any order, their real costs conform to the limit.
func TestSettledCallsConform(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 41))
		spec := rate(8+rng.Int64N(60), 10)
		gone := settled(t, spec, rng)
		slices.SortStableFunc(gone, func(a, b call) int { return cmp.Compare(a.At, b.At) })
		tat := int64(0)
		for _, c := range gone {
			if c.actual == 0 {
				continue
			}
			require.GreaterOrEqual(t, c.At, tat+(c.actual-1)*spec.Interval-spec.Tolerance(), "seed %d: %+v", seed, c)
			tat = max(tat, c.At) + c.actual*spec.Interval
		}
	}
}

// A call is one that went, and what it really cost.
type call struct {
	booking

	cost, actual int64
}

// settled plays a random history of calls that go, and are settled at no more than their estimates, or are given back before their slots.
func settled(t *testing.T, spec specs.Spec, rng *rand.Rand) (all []call) {
	t.Helper()
	r := newRig(t, spec)
	var open []call
	for now := int64(0); len(all) < 40; now += rng.Int64N(30) {
		cost := 1 + rng.Int64N(spec.Limit)
		from := now
		if rng.IntN(4) == 0 {
			from += rng.Int64N(300)
		}
		open = append(open, call{r.book(now, from, cost), cost, cost})
		for i := 0; i < len(open); i++ {
			c := &open[i]
			switch {
			case c.At > now && rng.IntN(20) == 0:
				r.cancel(now, c.booking)
			case c.At <= now && rng.IntN(4) == 0:
				c.actual, c.charges[0].Made = rng.Int64N(c.cost+1), epoch
				r.settle(now, c.booking, c.cost, c.actual)
				all = append(all, *c)
			default:
				continue
			}
			open = slices.Delete(open, i, i+1)
			i--
		}
	}
	return append(all, open...)
}
