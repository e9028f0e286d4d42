package transport_test

import (
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// A ban of nearly a day is kept by a fleet: only the calls that are on their way when it begins are refused, and one goes first when it ends.
func TestABanOfADay(t *testing.T) {
	t.Parallel()
	const ban = 81654 * time.Second
	for name, stack := range map[string][]policies.Policy{
		"a rate": {policies.PerSecond(100)}, "a day": {policies.PerSecond(10), policies.Daily(100_000, time.UTC)},
		"permits": {policies.PerSecond(100), policies.InFlight(8)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var until, again time.Time
				good, refused := 0, 0
				start := time.Now()
				api := roundTripper(func(req *http.Request) (*http.Response, error) {
					time.Sleep(50 * time.Millisecond)
					mu.Lock()
					defer mu.Unlock()
					now := time.Now()
					if good == 500 && until.IsZero() {
						until = now.Add(ban)
					}
					if now.Before(until) {
						refused++
						return reply(req, http.StatusTooManyRequests, "", "Retry-After", strconv.Itoa(int(math.Ceil(until.Sub(now).Seconds())))), nil
					}
					if good++; !until.IsZero() && again.IsZero() {
						again = now
					}
					return reply(req, http.StatusOK, ""), nil
				})
				stated(t, api, stack, start.Add(ban+10*time.Second))
				require.LessOrEqual(t, refused, 64)
				require.WithinDuration(t, until, again, 2*time.Second)
			})
		})
	}
}

// Others have spent an hour's limit, which refusals do not state: a fleet calls rarely until there is more, and hardly a call fails for good.
func TestBareRefusalsOfAnHour(t *testing.T) {
	t.Parallel()
	for name, stack := range map[string][]policies.Policy{"declared": {policies.Sliding(1000, time.Hour)}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := (&stating{says: func(http.Header, upstreamtest.Reply) {}}).open(rand.New(rand.NewPCG(4, 1)), upstreamtest.Sliding(1000, time.Hour))
				for range 1000 {
					require.True(t, api.Spend(&http.Request{}))
					time.Sleep(3 * time.Second)
				}
				client := clientOf(t, api, stack)
				start, failed, early := time.Now(), 0, 0
				time.AfterFunc(10*time.Minute, func() { early = api.Refused() }) // until then nothing is left
				var mu sync.Mutex
				var all sync.WaitGroup
				for range 16 {
					all.Go(func() {
						for time.Since(start) < 3*time.Hour {
							resp, err := client.Get("http://api.example.com/")
							mu.Lock()
							if err != nil || resp.StatusCode != http.StatusOK {
								failed++
							}
							mu.Unlock()
							if err == nil {
								_ = resp.Body.Close()
							}
						}
					})
				}
				all.Wait()
				t.Logf("%d admitted, %d refused, %d of them early, %d failed", api.Admitted(), api.Refused(), early, failed)
				require.LessOrEqual(t, failed, 3) // a call that is refused five times: one in a hundred plays
				require.LessOrEqual(t, early, 40) // each of the 16 once
				require.LessOrEqual(t, (api.Refused()-early)*100, api.Admitted()*3)
				require.GreaterOrEqual(t, api.Admitted(), 1500)
			})
		})
	}
}

// clientOf returns a client of one process.
func clientOf(t *testing.T, api http.RoundTripper, stack []policies.Policy) *http.Client {
	t.Helper()
	p, err := pacer.New(pacer.Config{Upstream: "api", MaxWait: pacer.Forever, Policies: stack})
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	client, err := transport.NewClient(p, transport.WithBase(api))
	require.NoError(t, err)
	return client
}

// An upstream admits one call in ten seconds, and states with each reply that nothing is left for ten seconds: no call is refused, whatever
// policies are too high beside.
func TestNothingIsLeftAgainAndAgain(t *testing.T) {
	t.Parallel()
	for name, stack := range map[string][]policies.Policy{
		"a rate": {policies.PerSecond(100)}, "at most": {policies.AtMost(100, time.Second)}, "sliding": {policies.Sliding(1000, time.Hour)},
		"fixed": {policies.Fixed(1000, time.Minute)}, "a day": {policies.Daily(100_000, time.UTC)}, "permits": {policies.PerSecond(100), policies.InFlight(8)},
		"adaptive": {policies.PerSecond(100).Adaptive(policies.Adaptation{})}, "none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := (&stating{every: 1, says: func(h http.Header, r upstreamtest.Reply) {
					h.Set("X-Ratelimit-Remaining", strconv.Itoa(r.Limits[0].Remaining))
					h.Set("X-Ratelimit-Reset", upstreamtest.Seconds(r.Limits[0].Reset, r.Now))
				}}).open(rand.New(rand.NewPCG(4, 1)), upstreamtest.FromFirst(1, 10*time.Second))
				client := clientOf(t, api, stack)
				for start := time.Now(); time.Since(start) < 99*time.Second; {
					resp, err := client.Get("http://api.example.com/")
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				}
				require.Zero(t, api.Refused())
				require.GreaterOrEqual(t, api.Admitted(), 10)
			})
		})
	}
}

// A limit whose rest is not stated is kept as a pace, whether or not any policy fits it.
func TestALimitWithoutARestIsKept(t *testing.T) {
	t.Parallel()
	for name, stack := range map[string][]policies.Policy{"none": nil, "faster": {policies.PerSecond(100), policies.Daily(100_000, time.UTC)}} {
		for field, value := range map[string]string{"RateLimit-Policy": `"minute";q=300;w=60`, "x-amzn-RateLimit-Limit": "5.0"} {
			t.Run(name+", "+field, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					api := (&stating{every: 1, says: func(h http.Header, _ upstreamtest.Reply) { h.Set(field, value) }}).
						open(rand.New(rand.NewPCG(4, 1)), upstreamtest.Bucket(75, 200*ms))
					from := time.Now()
					stated(t, api, stack, from.Add(3*time.Minute))
					used := api.used(from.Add(time.Minute), from.Add(3*time.Minute))
					t.Logf("used %d of 600, refused %d", used, api.Refused())
					require.GreaterOrEqual(t, used, 560)
					require.LessOrEqual(t, api.Refused(), 10)
				})
			})
		}
	}
}
