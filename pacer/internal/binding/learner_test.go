package binding_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

var (
	tokens = store.Key{Policy: "tokens", Scope: "m"}
	once   = policies.Learned{Times: 1}
)

func learn(l *binding.Learner, times int, actual int64, how policies.Learned) {
	for range times {
		l.Learn(tokens, actual, how)
	}
}

func TestAnEstimateIsLearnedOnceEnoughIsKnown(t *testing.T) {
	t.Parallel()
	var l binding.Learner
	learn(&l, binding.Enough-1, 100, once)
	require.Equal(t, int64(3000), l.Estimate(tokens, 3000, once))
	learn(&l, 1, 100, once)
	require.Equal(t, int64(103), l.Estimate(tokens, 3000, once), "the end of the bucket of 100")
	require.Equal(t, int64(3000), l.Estimate(store.Key{Policy: "tokens", Scope: "other"}, 3000, once), "another scope knows nothing")
}

func TestWhatIsKnownIsNotLearned(t *testing.T) {
	t.Parallel()
	var l binding.Learner
	learn(&l, binding.Enough, 1100, policies.Learned{Known: 1000, Times: 1})
	require.Equal(t, int64(10+103), l.Estimate(tokens, 1, policies.Learned{Known: 10, Times: 1}))
	require.Equal(t, int64(10+5*103), l.Estimate(tokens, 1, policies.Learned{Known: 10, Times: 5}), "five answers")
	require.Equal(t, int64(60), l.Estimate(tokens, 1, policies.Learned{Known: 10, Times: 1, Most: 60}), "never more than it can cost")
}

func TestAnswersAreLearnedOneByOne(t *testing.T) {
	t.Parallel()
	var l binding.Learner
	learn(&l, binding.Enough, 10+4*7, policies.Learned{Known: 10, Times: 4})
	require.Equal(t, int64(10+7), l.Estimate(tokens, 1, policies.Learned{Known: 10, Times: 1}))
}

// A call that failed costs nothing, and an answer that cost less than its prompt was estimated at costs nothing more.
func TestWhatFailedTellsNothing(t *testing.T) {
	t.Parallel()
	var l binding.Learner
	learn(&l, 100, 0, once)
	learn(&l, 100, -1, once)
	learn(&l, 100, 5, policies.Learned{})
	require.Equal(t, int64(3000), l.Estimate(tokens, 3000, once))
	learn(&l, binding.Enough, 5, policies.Learned{Known: 10, Times: 1})
	require.Equal(t, int64(10), l.Estimate(tokens, 3000, policies.Learned{Known: 10, Times: 1}))
	require.Equal(t, int64(1), l.Estimate(tokens, 3000, once), "never nothing")
}

// An estimate is between the 25th percentile of the last thousand costs and an eighth more.
func TestTheEstimateIsAQuantileOfWhatWasLately(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var l binding.Learner
		learn(&l, 1+rng.IntN(3000), 1+rng.Int64N(1_000_000), once) // it was something else before
		var all []int64
		for range 10_000 {
			n := 1 + int64(math.Exp(rng.NormFloat64()*float64(seed%4))*1000)
			all = append(all, n)
			l.Learn(tokens, n, once)
		}
		slices.Sort(all)
		got := float64(l.Estimate(tokens, 1, once))
		require.GreaterOrEqual(t, got, float64(all[len(all)*22/100]), "seed %d", seed)
		require.LessOrEqual(t, got, float64(all[len(all)*28/100])*1.125, "seed %d", seed)
	}
}

func TestNumbersOfAnySize(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1, 7, 8, 15, 16, 17, 1 << 20, specs.MaxLimit, math.MaxInt64} {
		var l binding.Learner
		learn(&l, 5000, n, once)
		got := l.Estimate(tokens, 1, once)
		require.GreaterOrEqual(t, got, min(n, specs.MaxLimit))
		require.LessOrEqual(t, float64(got), 1.126*float64(n))
		require.Positive(t, l.Estimate(tokens, 1, policies.Learned{Known: math.MaxInt64, Times: math.MaxInt64}))
		require.Positive(t, l.Estimate(tokens, 1, policies.Learned{Known: math.MinInt64, Times: 1}))
	}
}

func TestKeysWithoutEnd(t *testing.T) {
	t.Parallel()
	var l binding.Learner
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 2 * binding.MaxKeys {
				key := store.Key{Policy: "tokens", Scope: fmt.Sprint(g, i)}
				l.Learn(key, 10, once)
				l.Estimate(key, 10, once)
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, l.Len(), binding.MaxKeys)
}
