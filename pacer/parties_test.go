package pacer_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
)

// A call has one part of all rates, so rates of a stack keep the same parts.
func TestRatesKeepTheSameParts(t *testing.T) {
	t.Parallel()
	one := policies.PerSecond(10).Reserve("support", 30)
	for reports, other := range map[string]policies.Policy{
		"keeps other parts":                        policies.PerMinute(100).Reserve("support", 20),
		"of them must name the same scope":         policies.PerMinute(100).Fair("tenant"),
		"and lanes do not go together in one rate": policies.PerMinute(100).Reserve("support", 30).Lane("batch", 50),
	} {
		_, err := pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{one, other}})
		require.ErrorContains(t, err, reports)
	}
	p := newPacer(t, pacer.Config{Upstream: "api", Policies: []policies.Policy{one, policies.PerMinute(100).Reserve("support", 30)}})
	require.NoError(t, p.Wait(t.Context(), pacer.Lane("support")))
	require.ErrorContains(t, p.Wait(t.Context(), pacer.Lane("sales")), "no policy of upstream")
}

// Parties of a policy of calls in flight have their parts of the permits, while calls of all wait.
func TestPartiesOfPermits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, began := memstore.New(), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		var calls sync.WaitGroup
		var mu sync.Mutex
		busy := make(map[string]time.Duration) // from a third of the time on
		var back, atPart time.Duration
		running := 0
		for range 2 {
			p := newPacer(t, pacer.Config{
				Upstream: "api", Store: shared, MaxWait: time.Hour, Policies: []policies.Policy{policies.InFlight(20).Reserve("support", 30).Reserve("sync", 20)},
			})
			for _, party := range []string{"support", "sync", ""} {
				for range 30 {
					calls.Go(func() {
						if party == "support" {
							time.Sleep(20 * time.Second)
							mu.Lock()
							back = time.Since(began)
							mu.Unlock()
						}
						for {
							r, err := p.Acquire(ctx, pacer.Lane(party))
							if err != nil {
								return
							}
							if party == "support" {
								mu.Lock()
								if running++; running == 6 && atPart == 0 {
									atPart = time.Since(began)
								}
								mu.Unlock()
							}
							d := 500*ms + rand.N(time.Second)
							time.Sleep(d)
							r.Release()
							mu.Lock()
							if party == "support" {
								running--
							}
							if time.Since(began) > 30*time.Second {
								busy[party] += d
							}
							mu.Unlock()
						}
					})
				}
			}
		}
		calls.Wait()
		all := busy["support"] + busy["sync"] + busy[""]
		for party, part := range map[string]float64{"support": 0.3, "sync": 0.2, "": 0.5} {
			require.InDelta(t, part, float64(busy[party])/float64(all), 0.03, party)
		}
		require.LessOrEqual(t, atPart-back, 2*time.Second, "a permit comes back when its call is over")
	})
}

// Ten thousand tenants that call at once delay no party with a part: it waits for its own calls, and for one of theirs.
func TestManyTenantsBesideAParty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var fleet []*pacer.Pacer
		for range 2 {
			fleet = append(fleet, newPacer(t, pacer.Config{
				Upstream: "api", Store: shared, MaxWait: pacer.Forever,
				Policies: []policies.Policy{
					policies.PerSecond(1000).Burst(200).Reserve("desk", 30), policies.PerSecond(500).Burst(500).Per("tenant").Named("tenant"),
				},
			}))
		}
		var calls sync.WaitGroup
		for i := range 10_000 {
			calls.Go(func() { _ = fleet[i%2].Wait(ctx, pacer.Scope("tenant", strconv.Itoa(i)), pacer.Cost(10)) })
		}
		var mu sync.Mutex
		var waits []time.Duration
		var desk sync.WaitGroup
		for i := range 250 { // a fifth of the rate
			time.Sleep(40 * ms)
			desk.Go(func() {
				began := time.Now()
				if fleet[i%2].Wait(ctx, pacer.Lane("desk"), pacer.Scope("tenant", "desk"), pacer.Cost(8)) != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, time.Since(began))
			})
		}
		desk.Wait()
		slices.Sort(waits)
		require.Len(t, waits, 250)
		require.LessOrEqual(t, waits[len(waits)*99/100], 500*ms)
		cancel()
		calls.Wait()
	})
}
