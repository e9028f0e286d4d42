package transport_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// strict is an upstream that admits so many calls in any period, counted when they arrive.
type strict struct {
	upstreamtest.Upstream

	admitted, refused int // when count was called last
}

func newStrict(limit int, period time.Duration, delay func(*rand.Rand) time.Duration) *strict {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(1, 1))
	s := &strict{}
	s.Limits, s.Delay = []upstreamtest.Limit{upstreamtest.Sliding(limit, period)}, func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return delay(rng)
	}
	return s
}

// after is a delay that is always the same.
func after(d time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return d }
}

// inject has the upstream refuse the next calls, although it has room.
func (s *strict) inject(n int) {
	s.Inject(n, upstreamtest.Refusal(http.StatusTooManyRequests, time.Second))
}

// count returns how many calls were admitted and refused since it was called last.
func (s *strict) count() (went, refused int) {
	went, refused = s.Admitted()-s.admitted, s.Refused()-s.refused
	s.admitted, s.refused = s.admitted+went, s.refused+refused
	return went, refused
}

// An uneven network delays calls on their way.
var uneven = []struct {
	name  string
	delay func(*rand.Rand) time.Duration
	least map[string]float64 // of what the upstream admits, by policy
	most  map[string]int     // refusals in a minute
}{
	{
		"even", func(*rand.Rand) time.Duration { return 0 },
		map[string]float64{"AtMost": 0.985, "Sliding": 0.995}, map[string]int{"AtMost": 0, "Sliding": 0},
	},
	{
		"15 ms and exponential 5 ms", func(r *rand.Rand) time.Duration { return 15*ms + time.Duration(r.ExpFloat64()*float64(5*ms)) },
		map[string]float64{"AtMost": 0.965, "Sliding": 0.97}, map[string]int{"AtMost": 4, "Sliding": 4},
	},
	{
		"from 20 to 70 ms", func(r *rand.Rand) time.Duration { return 20*ms + time.Duration(r.Int64N(int64(50*ms))) },
		map[string]float64{"AtMost": 0.94, "Sliding": 0.93}, map[string]int{"AtMost": 4, "Sliding": 10},
	},
	{
		"40 ms, normal with 10 ms", func(r *rand.Rand) time.Duration { return max(0, 40*ms+time.Duration(r.NormFloat64()*float64(10*ms))) },
		map[string]float64{"AtMost": 0.95, "Sliding": 0.96}, map[string]int{"AtMost": 4, "Sliding": 5},
	},
	{
		"20 ms, and 150 ms for one of a hundred", func(r *rand.Rand) time.Duration {
			if r.IntN(100) == 0 {
				return 150 * ms
			}
			return 20 * ms
		},
		// Calls of a window go together, so that one that is late meets a whole group: there the margin does not help.
		map[string]float64{"AtMost": 0.965, "Sliding": 0.9}, map[string]int{"AtMost": 4, "Sliding": 25},
	},
}

// The margin adapts to an uneven network: four processes of 16 callers, under an upstream that is strict. It is judged after ten seconds,
// for a minute.
func TestTheMarginFindsItself(t *testing.T) {
	t.Parallel()
	for _, network := range uneven {
		for name, policy := range map[string]policies.Policy{"AtMost": policies.AtMost(50, time.Second), "Sliding": policies.Sliding(50, time.Second)} {
			synctest.Test(t, func(t *testing.T) {
				u := newStrict(50, time.Second, network.delay)
				f := newFleet(t, u, policy)
				time.Sleep(10 * time.Second)
				_, early := u.count()
				time.Sleep(time.Minute)
				went, refused := u.count()
				used, margin := float64(went)/50/60, f.margin(t)
				f.leave()
				t.Logf("%s, %s: %.1f %%, %d refused, %d before, margin %v", network.name, name, 100*used, refused, early, margin)
				require.GreaterOrEqual(t, used, network.least[name], "%s, %s", network.name, name)
				require.LessOrEqual(t, refused, network.most[name], "%s, %s", network.name, name)
			})
		}
	}
}

// A limit per minute finds its margin, too, though it is refused rarely and a margin is a small part of a minute.
func TestTheMarginOfAMinuteFindsItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newStrict(100, time.Minute, uneven[2].delay)
		f := newFleet(t, u, policies.AtMost(100, time.Minute))
		time.Sleep(10 * time.Minute)
		_, early := u.count()
		time.Sleep(30 * time.Minute)
		went, refused := u.count()
		used, margin := float64(went)/3000, f.margin(t)
		f.leave()
		t.Logf("%.1f %%, %d refused, %d before, margin %v", 100*used, refused, early, margin)
		require.GreaterOrEqual(t, used, 0.98)
		require.LessOrEqual(t, refused, 24)
	})
}

// One refusal that the fleet has not caused holds back only the refused call.
func TestAStrayRefusalPausesNobody(t *testing.T) {
	t.Parallel()
	for _, list := range [][]policies.Policy{
		{policies.AtMost(50, time.Second)},
		{policies.AtMost(50, time.Second), policies.AtMost(10, time.Second).Per("tenant")},
	} {
		synctest.Test(t, func(t *testing.T) {
			u := newStrict(50, time.Second, after(ms))
			f := newFleet(t, u, list...)
			time.Sleep(5 * time.Second)
			u.count()
			time.Sleep(10 * time.Second)
			usual, refused := u.count()
			require.Zero(t, refused)
			u.inject(1)
			time.Sleep(10 * time.Second)
			went, refused := u.count()
			f.leave()
			require.Equal(t, 1, refused)
			require.GreaterOrEqual(t, float64(went)/float64(usual), 0.97)
		})
	}
}

// A second refusal within the period is no accident: then everyone heeds it.
func TestASecondRefusalPausesEveryone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newStrict(50, time.Second, after(ms))
		f := newFleet(t, u, policies.AtMost(50, time.Second))
		time.Sleep(5 * time.Second)
		u.inject(2)
		time.Sleep(200 * ms)
		u.count()
		time.Sleep(700 * ms)
		went, _ := u.count()
		f.leave()
		require.Zero(t, went, "the upstream asked for a second")
	})
}

// An adaptive rate follows an upstream that halves its limit for a while, also after a stray refusal: it loses a second at first, tries
// now and then whether there is more, and is back soon after there is.
func TestAnAdaptiveRateFollowsADip(t *testing.T) {
	t.Parallel()
	for dip, most := range map[int]int{5: 2, 10: 3} { // seconds; refusals
		for _, unfair := range []int{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				u := newStrict(50, time.Second, after(5*ms))
				f := newFleet(t, u, policies.AtMost(50, time.Second).Adaptive(policies.Adaptation{}))
				time.Sleep(5 * time.Second)
				u.inject(unfair)
				time.Sleep(3 * time.Second)
				u.count()
				u.SetLimits(upstreamtest.Sliding(25, time.Second))
				time.Sleep(time.Second)
				_, first := u.count()
				time.Sleep(time.Duration(dip-1) * time.Second)
				low, more := u.count()
				u.SetLimits(upstreamtest.Sliding(50, time.Second))
				time.Sleep(3 * time.Second)
				_, late := u.count()
				time.Sleep(10 * time.Second)
				high, last := u.count()
				f.leave()
				t.Logf("%d s: %d and %d of a second, %d refused", dip, low/(dip-1), high/10, first+more+late+last)
				require.LessOrEqual(t, first+more+late+last, most)
				require.GreaterOrEqual(t, float64(low)/float64(25*(dip-1)), 0.93)
				require.GreaterOrEqual(t, float64(high)/500, 0.95)
			})
		}
	}
}

// A fleet is four processes of 16 callers, of 5 tenants each.
type fleet struct {
	processes []*pacer.Pacer
	stop      context.CancelFunc
	all       sync.WaitGroup
}

func newFleet(t *testing.T, u http.RoundTripper, list ...policies.Policy) *fleet {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &fleet{stop: cancel}
	store := memstore.New()
	for range 4 {
		p, err := pacer.New(pacer.Config{Upstream: "test", Store: store, Policies: list, MaxWait: pacer.Forever})
		require.NoError(t, err)
		f.processes = append(f.processes, p)
		client, err := transport.NewClient(p, transport.WithBase(u))
		require.NoError(t, err)
		for i := range 16 {
			ctx := pacer.With(ctx, pacer.Scope("tenant", strconv.Itoa(i%5)))
			f.all.Go(func() {
				for ctx.Err() == nil {
					if resp, err := client.Do(request(ctx, t, http.MethodGet, nil)); err == nil {
						_ = resp.Body.Close()
					}
				}
			})
		}
	}
	return f
}

// margin returns that of the fleet's only policy.
func (f *fleet) margin(t *testing.T) time.Duration {
	t.Helper()
	status, err := f.processes[0].Status(t.Context())
	require.NoError(t, err)
	return status.Policies[0].Margin
}

func (f *fleet) leave() {
	f.stop()
	f.all.Wait()
	for _, p := range f.processes {
		_ = p.Close()
	}
}
