package pacer_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/shares"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
)

// A batch job that spends a daily quota from midnight on leaves the desk its part, and spends the rest by the end of the day.
func TestADeskFindsItsPartOfTheDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)))
		p, err := pacer.New(pacer.Config{Upstream: "crm", Policies: []policies.Policy{policies.Daily(2000, time.UTC).Reserve("support", 30).Named("day")}})
		require.NoError(t, err)
		defer p.Close()
		ctx, end := context.WithTimeout(t.Context(), 24*time.Hour-time.Second)
		defer end()
		var batch, night atomic.Int64
		for range 4 {
			go func() {
				for p.Wait(ctx, pacer.MaxWait(pacer.Forever)) == nil {
					if batch.Add(1); time.Now().Hour() < 9 {
						night.Add(1)
					}
					time.Sleep(time.Second)
				}
			}()
		}
		time.Sleep(9 * time.Hour)
		require.Equal(t, int64(1400), night.Load())
		desk := pacer.With(t.Context(), pacer.Lane("support"))
		for range 480 {
			require.NoError(t, p.Wait(desk, pacer.MaxWait(0)), "at %v", time.Now())
			time.Sleep(time.Minute)
		}
		s, err := p.Status(desk)
		require.NoError(t, err)
		require.Equal(t, []string{"day", "day.support"}, []string{s.Policies[0].Policy.Name(), s.Policies[1].Policy.Name()})
		require.Equal(t, int64(120), s.Policies[1].Remaining)
		<-ctx.Done()
		synctest.Wait()
		require.GreaterOrEqual(t, batch.Load()+480, int64(1990))
		require.LessOrEqual(t, batch.Load()+480, int64(2000))
	})
}

// However many processes and costs a batch has, it books nothing of what is let go late: the desk finds its part, and all is spent.
func TestAFleetBooksNothingOfAPart(t *testing.T) {
	t.Parallel()
	for name, beside := range map[string]policies.Policy{"slots": policies.PerSecond(100_000).Burst(1000), "permits": policies.InFlight(10_000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shared := memstore.New()
				ctx, end := context.WithCancel(t.Context())
				var spent atomic.Int64
				var calls sync.WaitGroup
				var p *pacer.Pacer
				for range 8 {
					p = newPacer(t, pacer.Config{
						Store: shared, MaxWait: pacer.Forever, Policies: []policies.Policy{policies.Fixed(1000, time.Minute).Reserve("desk", 30).Named("quota"), beside},
					})
					one := p
					for i := range int64(20) {
						calls.Go(func() {
							for one.Wait(ctx, pacer.Cost(1+i)) == nil {
								spent.Add(1 + i)
							}
						})
					}
				}
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
				for range 3 {
					synctest.Wait()
					for range 58 {
						require.NoError(t, p.Wait(t.Context(), pacer.Lane("desk"), pacer.Cost(5), pacer.MaxWait(0)), "at %v", time.Now())
						time.Sleep(time.Second - time.Nanosecond)
					}
					time.Sleep(2*time.Second + 58*time.Nanosecond)
				}
				end()
				calls.Wait()
				require.GreaterOrEqual(t, spent.Load(), int64(3*690))
			})
		})
	}
}

// Parties that share a window over a store that is away cost about one request a call, although no call has a slot far ahead.
func TestPartsCostFewRequests(t *testing.T) {
	t.Parallel()
	for _, kind := range []shares.Kind{shares.Fixed, shares.Sliding} {
		for _, estimates := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, estimates), func(t *testing.T) {
				t.Parallel()
				requests, granted := 0, 0
				for seed := range extent[uint64](1, 17) {
					synctest.Test(t, func(t *testing.T) {
						r := newRemote(2)
						r.hangs = ms
						m := shares.New(kind, seed, estimates)
						var fleet []*pacer.Pacer
						for range 2 {
							fleet = append(fleet, newPacer(t, pacer.Config{Store: r, MaxWait: pacer.Forever, Policies: m.Policies()}))
							defer closing(t, fleet[len(fleet)-1])
						}
						m.Play(t, fleet)
						requests, granted = requests+len(r.sent), granted+r.granted
					})
				}
				t.Logf("%.2f requests a call", float64(requests)/float64(granted))
				require.LessOrEqual(t, requests, granted*5/4)
			})
		}
	}
}

// A crowd of processes does not poll for each slot that is let go: a process polls no more often than it gets slots ahead.
func TestACrowdPollsRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const processes = 80
		r := newRemote(processes)
		r.hangs = ms
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var calls sync.WaitGroup
		for range processes {
			p := newPacer(t, pacer.Config{Store: r, MaxWait: pacer.Forever, Policies: []policies.Policy{policies.Fixed(processes, time.Second).Reserve("desk", 30)}})
			defer closing(t, p)
			for range 3 {
				calls.Go(func() {
					for p.Wait(ctx) == nil {
						continue
					}
				})
			}
		}
		calls.Wait()
		t.Logf("%d requests for %d calls", len(r.sent), r.granted)
		require.GreaterOrEqual(t, r.granted, 5*processes)
		require.LessOrEqual(t, len(r.sent), 10*r.granted, "14 for each without that")
	})
}

// Calls that found no room in a window with parts go soon after this process settles others, also if they wait for permits or for a rate.
func TestASettlementMakesRoom(t *testing.T) {
	t.Parallel()
	for name, beside := range map[string]policies.Policy{"slots": policies.PerSecond(1000), "permits": policies.InFlight(10)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, pacer.Config{
					MaxWait:  pacer.Forever,
					Policies: []policies.Policy{policies.Fixed(100, time.Hour).Reserve("support", 50).Named("quota"), beside.Named("beside")},
				})
				time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
				r, err := p.Acquire(t.Context(), pacer.Lane("support"), pacer.EstimateOf("quota", 50, policies.Learned{}))
				require.NoError(t, err)
				went := make(chan time.Duration, 1)
				began := time.Now()
				go func() {
					assert.NoError(t, p.Wait(t.Context(), pacer.Lane("support"), pacer.CostOf("quota", 40)))
					went <- time.Since(began)
				}()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				require.Empty(t, went, "what is left is kept for calls in no party")
				require.NoError(t, r.Settle(t.Context(), policies.Cost{Policy: "quota", N: 10}))
				r.Release()
				require.LessOrEqual(t, <-went, 10*time.Minute+2*time.Second)
			})
		})
	}
}

// With a burst, a batch job does not spend a daily quota at night, and Status shows when one without will be spent.
func TestAWindowWithABurstLasts(t *testing.T) {
	t.Parallel()
	for burst, c := range map[int64]struct {
		spent int64         // by noon
		gone  time.Duration // from 3 o'clock on
	}{0: {2400, time.Hour}, 24: {1224, 0}} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)))
			policy := policies.Daily(2400, time.UTC).Named("day")
			if burst > 0 {
				policy = policy.Burst(burst)
			}
			p, err := pacer.New(pacer.Config{Upstream: "crm", Policies: []policies.Policy{policy}})
			require.NoError(t, err)
			defer p.Close()
			ctx, end := context.WithTimeout(t.Context(), 24*time.Hour-time.Second)
			defer end()
			var spent int64
			go func() {
				for p.Wait(ctx, pacer.MaxWait(pacer.Forever)) == nil {
					spent++
					time.Sleep(6 * time.Second) // 600 an hour
				}
			}()
			status := func() *pacer.PolicyStatus {
				synctest.Wait()
				s, err := p.Status(t.Context())
				require.NoError(t, err)
				return &s.Policies[0]
			}
			time.Sleep(6 * time.Minute)
			require.Zero(t, status().Gone, "less than a tenth is spent")
			time.Sleep(2*time.Hour + 54*time.Minute)
			require.InDelta(t, c.gone, status().Gone, float64(10*time.Second))
			time.Sleep(9 * time.Hour)
			require.InDelta(t, c.spent, 2400-status().Remaining, 2)
			<-ctx.Done()
			synctest.Wait()
			require.InDelta(t, 2400, spent, 2)
		})
	}
}

// Calls of no party are refused at once if they cannot wait until a part is released, and settlements count only for the party.
func TestWhatIsKeptIsSettledToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := pacer.New(pacer.Config{
			Upstream: "crm", MaxWait: time.Second,
			Policies: []policies.Policy{policies.Fixed(100, time.Minute).Reserve("support", 50).Reserve("sync", 10).Named("quota")},
		})
		require.NoError(t, err)
		defer p.Close()
		r, err := p.Reserve(t.Context(), pacer.Lane("support"), pacer.EstimateOf("quota", 10, policies.Learned{}))
		require.NoError(t, err)
		require.NoError(t, r.Wait(t.Context()))
		require.NoError(t, r.Settle(t.Context(), policies.Cost{Policy: "quota", N: 30}))
		require.NoError(t, p.Wait(t.Context(), pacer.Cost(40)))
		var limit *pacer.LimitError
		err = p.Wait(t.Context())
		require.ErrorAs(t, err, &limit)
		require.Equal(t, "quota", limit.Policy)
		require.NoError(t, p.Wait(t.Context(), pacer.Lane("support"), pacer.Cost(19)))
		_, _, err = p.Book(t.Context())
		require.ErrorIs(t, err, pacer.ErrNotYet)
		tok, wait, err := p.Book(t.Context(), pacer.Lane("support"))
		require.NoError(t, err)
		require.Zero(t, wait)
		_, err = p.Redeem(t.Context(), tok)
		require.NoError(t, err)
		require.NoError(t, p.Wait(t.Context(), pacer.Lane("sync"), pacer.Cost(10)))
		synctest.Wait()
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(0), s.Policies[0].Remaining)

		time.Sleep(time.Minute)
		r, err = p.Acquire(t.Context(), pacer.CostOf("quota", 0))
		require.NoError(t, err)
		require.NoError(t, r.Settle(t.Context(), policies.Cost{Policy: "quota", N: 30}))
		require.NoError(t, p.Wait(t.Context(), pacer.Cost(10)))
		require.ErrorIs(t, p.Wait(t.Context()), pacer.ErrNotYet, "what a call of no party cost in the end is not of the parties' parts")
	})
}
