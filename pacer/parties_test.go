package pacer_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
)

// Parties of a rate have their parts of the cost of all calls, and calls in none have the rest. The others have what one does not need, by
// their parts, and one that comes back has its part within a second.
func TestPartiesOfARate(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]policies.Policy{
		"a rate":        policies.PerSecond(1000).Burst(50),
		"an exact rate": policies.AtMost(1000, time.Second).Burst(50),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shared, began := memstore.New(), time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				var calls sync.WaitGroup
				var mu sync.Mutex
				var spent [30]map[string]int64 // in each second
				var away atomic.Bool
				for range 2 {
					p := newPacer(t, pacer.Config{
						Upstream: "api", Store: shared, MaxWait: time.Hour,
						Policies: []policies.Policy{of.Reserve("support", 30).Reserve("sync", 20), policies.Daily(1_000_000, time.UTC).Lane("other", 99)},
					})
					for party, most := range map[string]int64{"support": 40, "sync": 4, "other": 10, "": 20} { // those in other are in no party of the rate
						for range 8 {
							calls.Go(func() {
								for ctx.Err() == nil {
									if party == "support" && away.Load() {
										time.Sleep(time.Millisecond)
										continue
									}
									cost := 1 + rand.Int64N(most)
									if p.Wait(ctx, pacer.Lane(party), pacer.Cost(cost)) != nil {
										return
									}
									mu.Lock()
									second := &spent[min(29, int(time.Since(began).Seconds()))]
									if *second == nil {
										*second = make(map[string]int64)
									}
									(*second)[party] += cost
									mu.Unlock()
								}
							})
						}
					}
				}
				time.Sleep(12 * time.Second)
				away.Store(true)
				time.Sleep(8 * time.Second)
				away.Store(false)
				calls.Wait()
				sum := func(from, to int, parties ...string) (n int64) {
					for i := from; i < to; i++ {
						for _, party := range parties {
							n += spent[i][party]
						}
					}
					return n
				}
				pace := 1e6 / float64(of.Spec().Interval)
				require.InDelta(t, 8*pace*0.3, sum(4, 12, "support"), 8*pace*0.03, "within 3 %")
				require.InDelta(t, 8*pace*0.2, sum(4, 12, "sync"), 8*pace*0.03)
				require.InDelta(t, 8*pace*0.5, sum(4, 12, "", "other"), 8*pace*0.03)
				require.InDelta(t, 5*pace*2/7, sum(15, 20, "sync"), 5*pace*0.03, "the others have what one does not need, by their parts")
				require.InDelta(t, 5*pace*5/7, sum(15, 20, "", "other"), 5*pace*0.03)
				require.GreaterOrEqual(t, float64(sum(21, 23, "support")), 2*pace*0.3*0.85, "a second after it is back")
				for i := 5; i < 29; i++ {
					require.GreaterOrEqual(t, float64(sum(i, i+1, "support", "sync", "", "other")), 0.93*pace, "second %d", i)
				}
			})
		})
	}
}

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
