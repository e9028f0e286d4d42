package redisstore_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// TryAcquire lets go what may go now and refuses the rest at once, whatever the policy.
func TestTryAcquireOnRedis(t *testing.T) {
	t.Parallel()
	slow := policies.Every(time.Hour)
	for name, c := range map[string]struct {
		policy policies.Policy
		opts   []pacer.TryOption
		binds  string
		goes   int
	}{
		"rate":     {policy: slow.Burst(3).Named("p"), binds: "p", goes: 3},
		"cost":     {policy: slow.Burst(5).Named("p"), opts: []pacer.TryOption{pacer.Cost(2)}, binds: "p", goes: 2},
		"window":   {policy: policies.Sliding(3, 100*time.Hour).Named("p"), binds: "p", goes: 3},
		"exact":    {policy: policies.AtMost(3, time.Hour).Burst(3).Named("p"), binds: "p", goes: 3},
		"permits":  {policy: policies.InFlight(3).Named("p"), binds: "p", goes: 3},
		"fairness": {policy: policies.InFlight(3).Fair("tenant").Named("p"), opts: []pacer.TryOption{pacer.Scope("tenant", "a")}, binds: "p", goes: 3},
		"lane":     {policy: slow.Burst(6).Lane("batch", 50).Named("p"), opts: []pacer.TryOption{pacer.Lane("batch")}, binds: "p.batch", goes: 3},
		"shares":   {policy: slow.Burst(3).Fair("tenant").Named("p"), opts: []pacer.TryOption{pacer.Scope("tenant", "a")}, binds: "p", goes: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPacer(t, redistest.Start(t).Client(), c.policy)
			var held []*pacer.Reservation
			var refused error
			for refused == nil && len(held) < 10 {
				var r *pacer.Reservation
				if r, refused = p.TryAcquire(t.Context(), c.opts...); refused == nil {
					held = append(held, r)
				}
			}
			require.Len(t, held, c.goes)
			var limit *pacer.LimitError
			require.ErrorAs(t, refused, &limit)
			require.ErrorIs(t, refused, pacer.ErrNotYet)
			require.Equal(t, c.binds, limit.Policy)
			wait, _ := pacer.RetryAfter(limit)
			require.Positive(t, wait)
			var scopes []pacer.ScopeOption
			for _, o := range c.opts {
				scopes = append(scopes, o.(pacer.ScopeOption))
			}
			s, err := p.Status(t.Context(), scopes...)
			require.NoError(t, err)
			for i := range s.Policies {
				require.Zero(t, s.Policies[i].Queued, "a refusal queues nothing")
			}
			if !errors.Is(limit, pacer.NoPermit) {
				return
			}
			held[0].Release() // in the background
			require.Eventually(t, func() bool {
				_, err := p.TryAcquire(t.Context(), c.opts...)
				return err == nil
			}, patience, time.Millisecond)
			_, err = p.TryAcquire(t.Context(), c.opts...)
			require.ErrorIs(t, err, pacer.ErrNotYet)
		})
	}
}

// A refusal because of the upstream's statement names its end, its field, and how many calls are before: to the process that received it,
// and except the field to all others.
func TestRefusalsNameTheAllowance(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]store.Store{"memory": memstore.New(), "redis": must(redisstore.New(redistest.Start(t).Client()))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := func() *pacer.Pacer {
				p, err := pacer.New(pacer.Config{Upstream: "crm", Store: shared, MaxWait: time.Hour})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, p.Close()) })
				return p
			}
			p, other := made(), made()
			require.NoError(t, p.Do(t.Context(), func(context.Context) (policies.Reading, error) {
				return policies.Reading{Feedback: []policies.Feedback{
					{Limit: policies.Reported(60), Remaining: policies.Reported(0), Reset: 10 * time.Minute, Source: "X-RateLimit"},
				}}, nil
			}))
			refusal := func(p *pacer.Pacer) (e *pacer.LimitError) {
				require.ErrorAs(t, p.Wait(t.Context(), pacer.MaxWait(0)), &e)
				require.Equal(t, pacer.Paused, e.Reason)
				return e
			}
			first := refusal(p)
			require.Equal(t, "X-RateLimit", first.Source)
			require.Zero(t, first.Ahead)
			wait, _ := pacer.RetryAfter(first)
			require.LessOrEqual(t, wait, 10*time.Minute)
			for range 2 {
				_, err := p.Reserve(t.Context())
				require.NoError(t, err)
			}
			second := refusal(p)
			require.Equal(t, int64(2), second.Ahead)
			require.Equal(t, first.Until, second.Until)
			require.ErrorContains(t, second, "paused until "+first.Until.UTC().Format(time.DateTime)+" by X-RateLimit, with 2 before this one: the next slot")
			require.Eventually(t, func() bool { return other.Wait(t.Context(), pacer.MaxWait(0)) != nil }, patience, time.Millisecond, "it knows of the allowance")
			third := refusal(other)
			require.Equal(t, first.Until, third.Until)
			require.Equal(t, int64(2), third.Ahead)
			require.Empty(t, third.Source)
		})
	}
}

// silent is a store without news.
type silent struct {
	store.Shared
	store.Settable
}

// A process that does not know of an allowance is granted nothing by the old limits in the request that reveals it: by any method, and
// however many calls there are at the same time.
func TestTheFirstRequestHeedsANewAllowance(t *testing.T) {
	t.Parallel()
	redis := must(redisstore.New(redistest.Start(t).Client()))
	for name, shared := range map[string]store.Store{"memory": memstore.New(), "redis": silent{redis, redis}} {
		for how, ask := range map[string]func(*pacer.Pacer) error{
			"Allow":      func(p *pacer.Pacer) error { return p.Wait(t.Context(), pacer.MaxWait(0)) },
			"TryAcquire": func(p *pacer.Pacer) error { _, err := p.TryAcquire(t.Context()); return err },
			"Wait":       func(p *pacer.Pacer) error { return p.Wait(t.Context(), pacer.MaxWait(time.Minute)) },
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				var all [2]*pacer.Pacer
				for i := range all {
					var err error
					all[i], err = pacer.New(pacer.Config{Upstream: how, Store: shared, Policies: []policies.Policy{policies.PerSecond(1000).Burst(1000)}})
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, all[i].Close()) })
					require.NoError(t, all[i].Wait(t.Context()))
				}
				require.NoError(t, all[0].Report(t.Context(), policies.Feedback{Remaining: policies.Reported(0), Reset: time.Hour}))
				var calls sync.WaitGroup
				for range 16 {
					calls.Go(func() { assert.ErrorIs(t, ask(all[1]), pacer.ErrNotYet) })
				}
				calls.Wait()
			})
		}
	}
}

// One process's finding of how calls are counted holds for all that share its store.
func TestThatTenantsAreCountedApartIsKnownToAll(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]store.Store{"memory": memstore.New(), "redis": must(redisstore.New(redistest.Start(t).Client()))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := func() *pacer.Pacer {
				p, err := pacer.New(pacer.Config{Upstream: "crm", Store: shared})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, p.Close()) })
				return p
			}
			p, other := made(), made()
			left, calls := []int64{500_000, 900_000}, 0
			require.Eventually(t, func() bool { // a process that loses the store for a moment learns nothing in it
				for range 10 {
					tenant := calls / 2 % 2
					calls, left[tenant] = calls+1, left[tenant]-1
					require.NoError(t, p.Do(t.Context(), func(context.Context) (policies.Reading, error) {
						return policies.Reading{Feedback: []policies.Feedback{
							{Limit: policies.Reported(1_000_000), Remaining: policies.Reported(left[tenant]), Reset: time.Hour, Source: "X-RateLimit"},
						}}, nil
					}, pacer.Scope("tenant", "t"+strconv.Itoa(tenant))))
				}
				_ = other.Wait(t.Context()) // a request reveals that there is something new
				s, err := other.Status(t.Context(), pacer.Scope("tenant", "t1"))
				require.NoError(t, err)
				return len(s.Allowances) == 1 && s.Allowances[0].Scope == "tenant=t1" && s.Allowances[0].Limit == "1000000" && s.Allowances[0].Left < left[1]+1000
			}, patience, 10*time.Millisecond)
			s, err := other.Status(t.Context())
			require.NoError(t, err)
			require.Len(t, s.Allowances, 1)
			require.Empty(t, s.Allowances[0].Scope, "of calls without a tenant")
			require.Zero(t, s.PausedFor)
		})
	}
}
