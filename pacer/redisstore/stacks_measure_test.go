//go:build measure

package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/internal/testing/stacks"
	"github.com/headway-go/headway/pacer/redisstore"
)

// Random stacks lose on Redis in real time no more than on a memory store in virtual time (see package pacer): all limits are obeyed.
// Measured: 98.5 % of what any schedule can send goes.
func TestFleetOfRandomStacks(t *testing.T) { //nolint:paralleltest // when it measures, it is alone
	for seed := range uint64(12) {
		s := stacks.Random(seed + 1)
		t.Run(fmt.Sprint("stack ", seed+1), func(t *testing.T) {
			server := redistest.Start(t)
			var fleet []*pacer.Pacer
			for range s.Processes {
				rdb := redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true, ContextTimeoutEnabled: true})
				t.Cleanup(func() { _ = rdb.Close() })
				store, err := redisstore.New(rdb)
				require.NoError(t, err)
				p, err := pacer.New(pacer.Config{
					Upstream: "stack", Store: store, Policies: s.Policies(), MaxWait: pacer.Forever, Jitter: pacer.NoJitter, StoreTimeout: patience,
				})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, p.Close()) })
				fleet = append(fleet, p)
			}
			timers := measure.Watch()
			w := s.Play(t, fleet, 20*time.Second)
			late := timers.Stop()
			require.Empty(t, w.Broken())
			most, used := time.Duration(0), w.Used()
			for _, one := range w.Newcomers(dispatch.MinReach) {
				most = max(most, one.Waited)
			}
			measure.Judge(t, late, tolerated, fmt.Sprintf("%.1f %% used, a newcomer waits %v at most: %v", 100*used, most, s), s.Class != stacks.Plain || used >= 0.985)
		})
	}
}
