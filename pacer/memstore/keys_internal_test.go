package memstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// looked counts the queries for its expiry.
type looked struct {
	engine.Account

	times *int
	until int64
}

func (l looked) Expires() int64   { *l.times++; return l.until }
func (l looked) Remembers() int64 { return 0 }

// A call that needs a new key where there is no room looks at few keys, under the locks of all. Calls that follow look at the others: a
// key that means nothing any more is found in the end.
func TestAFullStoreSearchesALittle(t *testing.T) {
	t.Parallel()
	const held, now = 20_000, int64(1e15)
	times := 0
	m := New(WithMaxKeys(held), WithClock(func() store.Instant { return store.Instant(now) }))
	for i := range held {
		key := accountKey{upstream: "api", policy: "rate", scope: strconv.Itoa(i)}
		at := m.keys.scoped(m.keys.of(key.upstream, key.policy), key.scope)
		a := looked{engine.NewAccount(specs.GCRA), &times, now + time.Hour.Microseconds()}
		if i == held/2 {
			a.until = 0
		}
		m.keys.at(at).add(&account{Kept: engine.Kept{Account: a}, key: key, hash: at.hash})
		m.keys.count.Add(1)
	}
	reserve := func() error {
		stack := store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: "rate", Scope: "new", Spec: policies.PerSecond(1).Spec()}}}
		return m.Reserve(t.Context(), stack, []store.Call{{Cost: 1}}, make([]store.Grant, 1))
	}
	for calls := 0; ; calls++ {
		err := reserve()
		require.LessOrEqual(t, times, 512+sweepKeys+shards*evictBeside)
		if err == nil {
			return
		}
		require.ErrorIs(t, err, ErrFull)
		require.LessOrEqual(t, calls, shards*2, "it is never found")
		times = 0
	}
}

// BenchmarkFull measures a call that finds no room in a store of a million keys.
func BenchmarkFull(b *testing.B) {
	m := New()
	stack := store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: "rate", Spec: policies.Every(1000 * time.Hour).Spec()}}}
	grants := make([]store.Grant, 1)
	for i := range DefaultMaxKeys {
		stack.Limits[0].Scope = strconv.Itoa(i)
		require.NoError(b, m.Reserve(b.Context(), stack, []store.Call{{Cost: 1}}, grants))
	}
	stack.Limits[0].Scope = "new"
	for b.Loop() {
		require.ErrorIs(b, m.Reserve(b.Context(), stack, []store.Call{{Cost: 1}}, grants), ErrFull)
		_ = m.Cancel(b.Context(), store.Stack{Upstream: "api"}, nil) // so that something may have changed
	}
}

// Keys whose hashes are the same by chance are different keys all the same.
func TestKeysOfOneHash(t *testing.T) {
	t.Parallel()
	var sh shard
	all := make([]*account, 4)
	for i := range all {
		all[i] = &account{key: accountKey{upstream: "u", policy: "p", scope: string(rune('a' + i))}, hash: 7}
		require.Nil(t, sh.get(7, &all[i].key))
		sh.add(all[i])
	}
	for _, gone := range []int{2, 3, 0, 1} { // from the middle, the front and the end of the chain, and the last one
		sh.remove(all[gone])
		for i, a := range all {
			if a.gone {
				require.Nil(t, sh.get(7, &a.key), "key %d without %d", i, gone)
			} else {
				require.Same(t, a, sh.get(7, &a.key), "key %d without %d", i, gone)
			}
		}
		require.True(t, all[gone].gone)
	}
	require.Empty(t, sh.keys)
}
