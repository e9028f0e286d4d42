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
				stated(t, api, stack, start.Add(ban+time.Minute))
				require.LessOrEqual(t, refused, 64)
				require.WithinDuration(t, until, again, 2*time.Second)
			})
		})
	}
}

// Others have spent an hour's limit, which refusals do not state: a fleet calls rarely until there is more, and no call fails for good.
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
				require.Zero(t, failed)
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
