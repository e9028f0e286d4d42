package redisstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A variable that was never set is a mistake that New names.
func TestATypedNilStore(t *testing.T) {
	t.Parallel()
	var forgotten *redisstore.Store
	var memory *memstore.Store
	for want, s := range map[string]store.Store{"*redisstore.Store": forgotten, "*memstore.Store": memory} {
		_, err := pacer.New(pacer.Config{Upstream: "test", Store: s})
		var bad *pacer.ConfigError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "Store", bad.Field)
		require.ErrorContains(t, err, want)
	}
}

// Processes that start before Redis do not know their number: no call goes before Redis has come. Then all of them go.
func TestProcessesThatStartBeforeRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var came atomic.Bool
	var early, late atomic.Int64
	var wg, tried sync.WaitGroup
	for range 20 {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
		t.Cleanup(func() { require.NoError(t, rdb.Close()) })
		p, err := pacer.New(pacer.Config{
			Upstream: "test", Store: must(redisstore.New(rdb)), Policies: []policies.Policy{policies.AtMost(200, time.Second)}, MaxWait: pacer.Forever,
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		for range 4 {
			wg.Go(func() {
				err := p.Wait(ctx)
				switch {
				case err != nil:
				case came.Load():
					late.Add(1)
				default:
					early.Add(1)
				}
			})
		}
		tried.Go(func() { assert.ErrorIs(t, p.Wait(ctx, pacer.MaxWait(0)), store.ErrNoContact) })
	}
	tried.Wait()
	came.Store(true)
	server.Restart()
	wg.Wait()
	require.Zero(t, early.Load())
	require.Equal(t, int64(80), late.Load())
}
