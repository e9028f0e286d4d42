package pacer_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/faulty"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Beside permits that are not short, tenants get a rate by their weights, from a store in memory as from one that processes share.
func TestFairSharesBesidePermits(t *testing.T) {
	t.Parallel()
	for name, backing := range map[string]func() store.Store{
		"memory": func() store.Store { return memstore.New() },
		"shared": func() store.Store {
			s := faulty.New()
			s.Suffer(faulty.Faults{Away: time.Millisecond})
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				is := backing()
				ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
				defer stop()
				var callers sync.WaitGroup
				var went [2]atomic.Int64
				for range 2 {
					p := opened(t, pacer.Config{
						Upstream: "api", Store: is, Jitter: pacer.NoJitter,
						Policies: []policies.Policy{policies.PerSecond(100).Burst(5).Fair("tenant"), policies.InFlight(2)},
					})
					for i := range went {
						for range 10 {
							callers.Go(func() {
								for {
									r, err := p.Acquire(ctx, pacer.Scope("tenant", string(rune('a'+i))), pacer.Weight(int64(1+2*i)), pacer.MaxWait(pacer.Forever))
									if err != nil {
										return
									}
									time.Sleep(5 * time.Millisecond)
									r.Release()
									went[i].Add(1)
								}
							})
						}
					}
				}
				callers.Wait()
				t.Log(went[0].Load(), went[1].Load())
				assert.InEpsilon(t, 250, went[0].Load(), 0.06)
				assert.InEpsilon(t, 750, went[1].Load(), 0.06)
			})
		})
	}
}
