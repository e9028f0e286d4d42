package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// ids returns who stands in a queue, in order.
func (q *Queue) ids() []int64 {
	var ids []int64
	for _, w := range q.waiting {
		ids = append(ids, w.id)
	}
	return ids
}

// enqueue adds a queued call that polls at now and is expected until then, and returns how many are before it.
func (q *Queue) enqueue(c Call, now, until int64, fair bool) int64 {
	rank, score := q.position(&c, now, fair)
	var t toll
	if fair {
		t.length = numbers.TagStep
	}
	q.join(&c, score, until, t)
	return rank
}

// The queue has the order of the calls' first requests, whenever they joined it.
func TestLineOrder(t *testing.T) {
	t.Parallel()
	var q Queue
	for i, c := range []struct {
		call Call
		now  int64
		rank int64
	}{
		{Call{ID: 9}, 100, 0},
		{Call{ID: 8}, 100, 1},             // at the same time, but later
		{Call{ID: 7}, 90, 2},              // by a clock that stepped back
		{Call{ID: 6, Since: 50}, 200, 0},  // it came first, and was forgotten
		{Call{ID: 9}, 300, 1},             // it stands there already
		{Call{ID: 5, Since: 101}, 300, 2}, // as early as 8
		{Call{ID: 4}, 300, 5},
	} {
		require.Equal(t, c.rank, q.enqueue(c.call, c.now, 1000, false), "step %d", i)
		require.Equal(t, c.call.ID, q.ids()[c.rank], "step %d", i)
	}
	require.Equal(t, []int64{6, 9, 5, 8, 7, 4}, q.ids(), "of two with the same score, the one whose digits come first")
	require.True(t, q.remove(9))
	require.False(t, q.remove(9))
	require.Equal(t, []int64{6, 5, 8, 7, 4}, q.ids())
	rank, score := q.position(&Call{ID: 7}, 500, false)
	require.Equal(t, []int64{3, 102}, []int64{rank, score})
}

// Waiters of the same score are in the order of the digits of their ids, as in a sorted set of Redis.
func TestLineOrderOfDigits(t *testing.T) {
	t.Parallel()
	var q Queue
	for _, id := range []int64{9, 10, 100, 1, 2, 11} {
		q.enqueue(Call{ID: id, Since: 5}, 5, 1000, false)
	}
	require.Equal(t, []int64{1, 10, 100, 11, 2, 9}, q.ids())
	require.Equal(t, 0, (&waiter{id: 1, score: 2, until: 3}).compare(waiter{id: 1, score: 2, until: 4}))
}

// A call that does not poll in time counts as dead. A call that polls again is expected anew.
func TestLinePurge(t *testing.T) {
	t.Parallel()
	var q Queue
	q.enqueue(Call{ID: 1}, 0, 100, false)
	q.enqueue(Call{ID: 2}, 0, 80, false)
	q.enqueue(Call{ID: 3}, 0, 120, false)
	require.False(t, q.purge(79))
	require.Equal(t, int64(3), q.length(79))
	require.Equal(t, int64(2), q.length(80), "it counts no more, though nobody has dropped it")
	require.Equal(t, []int64{1, 2, 3}, q.ids())
	require.True(t, q.purge(80))
	require.Equal(t, []int64{1, 3}, q.ids())
	require.False(t, q.purge(80))
	require.Equal(t, int64(2), q.enqueue(Call{ID: 2}, 85, 90, false), "it comes after all, as a new one")
	require.Equal(t, []int64{1, 3, 2}, q.ids())
	require.True(t, q.purge(90))
	q.enqueue(Call{ID: 1}, 90, 200, false)
	require.False(t, q.purge(100))
	require.True(t, q.purge(120))
	require.Equal(t, []int64{1}, q.ids())
	require.Equal(t, int64(200), q.furthest)
	require.True(t, q.purge(200))
	require.Equal(t, Queue{}, q, "everything is forgotten when nobody waits")
	require.False(t, q.purge(300))
}

// Calls whose turn it is are woken, at most 32, and are expected within so much time.
func TestLineCall(t *testing.T) {
	t.Parallel()
	var q Queue
	require.Empty(t, q.call(0, 5, 0, numbers.CalledLives))
	for id := int64(1); id <= 40; id++ {
		q.enqueue(Call{ID: id}, 0, 1_000_000, false)
	}
	require.Empty(t, q.call(0, 0, 0, numbers.CalledLives))
	require.Empty(t, q.call(0, -3, 0, numbers.CalledLives))
	require.Equal(t, []int64{1, 2, 3}, q.call(0, 3, 0, numbers.CalledLives))
	require.Equal(t, []int64{1, 3}, q.call(0, 3, 2, numbers.CalledLives), "but for one")
	require.Len(t, q.call(0, forever, 0, numbers.CalledLives), 32)
	require.Equal(t, int64(40), q.length(numbers.CalledLives-1))
	require.Equal(t, int64(8), q.length(numbers.CalledLives))
	q.enqueue(Call{ID: 1}, 50_000, 80_000, false)
	require.Equal(t, []int64{1}, q.call(70_000, 1, 0, numbers.CalledLives))
	require.Equal(t, int64(39), q.length(80_000), "one that was to come sooner is not expected later")
}

// A flow's calls begin a step apart, which is shorter the greater its weight; a new one begins where the call did that was
// served last.
func TestLineTags(t *testing.T) {
	t.Parallel()
	var q Queue
	call := func(id, flow, weight int64) Call { return Call{ID: id, Flow: flow, Weight: weight} }
	require.Equal(t, int64(0), q.enqueue(call(1, 1, 1), 0, 1000, true)) // begins at 0
	require.Equal(t, int64(1), q.enqueue(call(2, 1, 1), 0, 1000, true)) // at a step
	require.Equal(t, int64(2), q.enqueue(call(3, 1, 1), 0, 1000, true)) // at two
	require.Equal(t, int64(1), q.enqueue(call(4, 2, 3), 0, 1000, true)) // at 0, behind 1, which came first
	require.Equal(t, int64(2), q.enqueue(call(5, 2, 3), 0, 1000, true)) // at a third
	require.Equal(t, int64(3), q.enqueue(call(6, 2, 3), 0, 1000, true)) // at two thirds
	require.Equal(t, int64(4), q.enqueue(call(7, 2, 3), 0, 1000, true)) // just before one: tags are whole units, rounded down
	require.Equal(t, int64(2), q.enqueue(call(8, 3, 0), 0, 1000, true)) // a weight of 0 is 1
	require.Equal(t, int64(7), q.enqueue(call(9, 3, 1), 0, 1000, true)) // at a step, behind 2
	require.Equal(t, []int64{1, 4, 8, 5, 6, 7, 2, 9, 3}, q.ids())
	scores := make(map[int64]int64)
	for _, w := range q.waiting {
		scores[w.id] = w.score
	}
	require.Equal(t, map[int64]int64{1: 0, 4: 1, 8: 2, 5: 337_400, 6: 674_800, 7: 1_012_200, 2: numbers.TagStep, 9: numbers.TagStep + 1, 3: 2 * numbers.TagStep}, scores)

	serve := func(c Call, inTurn bool) {
		_, score := q.position(&c, 0, true)
		q.served(&c, score, toll{length: numbers.TagStep}, inTurn)
		q.remove(c.ID)
	}
	serve(call(5, 2, 3), false)
	require.Zero(t, q.virtual, "a call that is not in its turn does not move the queue on")
	serve(call(6, 2, 3), true)
	require.Zero(t, q.virtual, "nor does one that goes before the first: its flow would lose what it lags behind")
	for _, c := range []Call{call(1, 1, 1), call(4, 2, 3), call(8, 3, 0), call(7, 2, 3)} {
		serve(c, true)
	}
	require.Equal(t, int64(1_012_200), q.virtual)
	require.Equal(t, int64(0), q.enqueue(call(10, 4, 1), 0, 1000, true), "one that comes")
	require.Equal(t, int64(1_012_200), q.scores[10])
	require.Equal(t, int64(4), q.enqueue(call(11, 1, 1), 0, 1000, true))
	serve(call(9, 3, 1), true)
	require.Equal(t, int64(1_012_200), q.virtual)
	require.Equal(t, map[int64]int64{1: 4 * numbers.TagStep, 2: 1_349_600, 3: 2 * numbers.TagStep, 4: 1_012_200 + numbers.TagStep}, q.finish)
	for _, c := range []Call{call(10, 4, 1), call(2, 1, 1), call(3, 1, 1)} {
		serve(c, true)
	}
	require.Equal(t, map[int64]int64{1: 4 * numbers.TagStep}, q.finish, "who has no lead is forgotten")

	// A call that is served without having been queued is one of its flow all the same.
	serve(call(20, 5, 1), true)
	require.Equal(t, int64(3*numbers.TagStep), q.finish[5])
	for len(q.waiting) > 0 {
		q.remove(q.waiting[0].id)
	}
	require.Equal(t, Queue{}, q, "without a queue there is nobody to be fair to")
	serve(call(21, 5, 1), true)
	require.Equal(t, Queue{}, q)
}

// Calls with the same tag do not reach into the next tag, however many there are.
func TestLineOfOneTag(t *testing.T) {
	t.Parallel()
	var q Queue
	for id := range int64(150) {
		q.enqueue(Call{ID: id + 1, Flow: id + 1, Weight: 1}, 0, 1000, true)
		require.Less(t, q.scores[id+1], int64(numbers.TagUnit))
	}
	require.Equal(t, int64(150), q.enqueue(Call{ID: 200, Flow: 1, Weight: 1000}, 0, 1000, true))
	require.Equal(t, int64(numbers.TagStep), q.scores[200])
	require.Equal(t, int64(151), q.enqueue(Call{ID: 201, Flow: 1, Weight: 1000}, 0, 1000, true))
	require.Equal(t, int64(numbers.TagStep+1000), q.scores[201])
}

// No more than so many flows are remembered. Flows with the least lead are dropped first.
func TestLineForgetsFlows(t *testing.T) {
	t.Parallel()
	var q Queue
	for flow := range int64(numbers.MaxFlows) {
		q.advance(&Call{Flow: flow + 1, Weight: 1}, 1000*numbers.TagUnit+flow*numbers.TagUnit, toll{length: numbers.TagStep})
	}
	require.Len(t, q.finish, numbers.MaxFlows)
	q.advance(&Call{Flow: 9999, Weight: 1}, 5000*numbers.TagUnit, toll{length: numbers.TagStep})
	require.Len(t, q.finish, numbers.MaxFlows)
	require.NotContains(t, q.finish, int64(1))
	require.Contains(t, q.finish, int64(2))
	q.advance(&Call{Flow: 10_000, Weight: 1}, 0, toll{length: numbers.TagStep})
	require.NotContains(t, q.finish, int64(10_000))
}

// Flows that always have queued calls get their parts by weight: at no time does one get more than a call ahead of its part.
func TestLineIsFair(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var q Queue
		weights, got := make([]int64, 2+rng.IntN(6)), make([]float64, 8)
		next := int64(1)
		stand := func(flow int) {
			q.enqueue(Call{ID: next*10 + int64(flow), Flow: int64(flow) + 1, Weight: weights[flow]}, 0, 1000, true)
			next++
		}
		for f := range weights {
			weights[f] = 1 + rng.Int64N(5)
			for range 1 + rng.IntN(4) {
				stand(f)
			}
		}
		for range 500 {
			first := Call{ID: q.waiting[0].id}
			f := int(first.ID % 10)
			first.Flow, first.Weight = int64(f)+1, weights[f]
			q.served(&first, q.scores[first.ID], toll{length: numbers.TagStep}, true)
			stand(f) // before the queue can be empty
			q.remove(first.ID)
			got[f]++
			for a := range weights {
				for b := range weights {
					lead := got[a]/float64(weights[a]) - got[b]/float64(weights[b])
					bound := 1/float64(weights[a]) + 1/float64(weights[b])
					if lead > bound+0.2 { // tags are rounded
						t.Fatalf("seed %d: flow %d is ahead of flow %d by %v, weights %v", seed, a, b, lead, weights)
					}
				}
			}
		}
	}
}

// However great their weights, flows get their parts by weight, within a hundredth.
func TestTagsOfGreatWeights(t *testing.T) {
	t.Parallel()
	for weight := int64(1); weight <= 100; weight++ {
		var q Queue
		const calls = 100
		for id := range int64(calls) {
			q.enqueue(Call{ID: id + 1, Flow: 1, Weight: weight}, 0, 1000, true)
		}
		require.InEpsilon(t, float64(calls*numbers.TagStep)/float64(weight), q.finish[1], 0.01, "weight %d", weight)
	}
}

// A debt of earlier calls of a flow to a rate changes nothing for the permits beside it.
func TestPermitsAreOwedNothing(t *testing.T) {
	t.Parallel()
	for _, p := range []policies.Policy{policies.PerSecond(10).Fair("tenant"), policies.InFlight(10).Fair("tenant")} {
		spec := p.Spec()
		e := Entry{Limit: Limit{Spec: &spec}}
		before := (&Call{Cost: 1}).left(0).toll(&e.Limit)
		after := (&Call{Cost: 1, Owed: []int64{3}}).left(0).toll(&e.Limit)
		require.Equal(t, before.length, after.length)
		require.Equal(t, spec.Algorithm == specs.GCRA, after.owed > 0)
	}
}
