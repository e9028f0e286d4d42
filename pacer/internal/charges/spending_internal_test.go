package charges

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Two numbers of a rate are as good as all intervals of its calls: what processes owe together is at least what the upstream still counts, and
// at most one more call for each.
func TestTwoNumbersOfARateAreEnough(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(1, seed))
		n := 2 + rng.IntN(4)
		policy := policies.PerSecond(40).Burst(int64(n + rng.IntN(60))).Named("rate")
		now := store.Instant(1_700_000_000_000_000)
		limit, share := store.Limit{Policy: "rate", Spec: policy.Spec()}, policy.Share(n)
		own := store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: "rate", Spec: share}}}
		accounts, spent, exact := make([]*memstore.Store, n), make([]spending, n), make([]spans, n)
		for i := range accounts {
			accounts[i], spent[i].limit = memstore.New(memstore.WithClock(func() store.Instant { return now })), limit
			if seeded := rng.Int64N(1_000_000); seed%2 == 0 { // others were granted so much before
				_, _, err := accounts[i].Report(t.Context(), own, []store.Note{claim(0, int64(now), int64(now)+seeded)})
				require.NoError(t, err)
			}
		}
		upstream := int64(now) // counts only from the starts of calls
		for range 300 {
			now = now.Add(time.Duration(rng.Int64N(int64(40 * time.Millisecond))))
			i := rng.IntN(n)
			var g [1]store.Grant
			require.NoError(t, accounts[i].Reserve(t.Context(), own, []store.Call{{Cost: 1 + rng.Int64N(2)}}, g[:]))
			if !g[0].OK {
				continue
			}
			c := g[0].Charges[0]
			spent[i].add(&share, c, int64(now))
			exact[i] = exact[i].with(c.From, c.To)
			upstream = max(upstream, int64(now)) + (c.To-c.From)/int64(n)
			owed := int64(0)
			for j := range spent {
				left := int64(0)
				exact[j] = exact[j].after(int64(now))
				for _, s := range exact[j] {
					left += s.to - max(s.from, int64(now))
				}
				calls := int64(0)
				for _, note := range spent[j].due(int64(now)) {
					calls += note.Actual
				}
				require.Equal(t, (left+share.Interval-1)/share.Interval, calls, "seed %d", seed)
				owed += calls
			}
			require.GreaterOrEqual(t, owed*limit.Spec.Interval, upstream-int64(now), "seed %d", seed)
		}
	}
}
