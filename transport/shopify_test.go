package transport_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/shopify"
	"github.com/headway-go/headway/transport"
)

// A shop is a store that restores 2 points a second, up to 40: fewer than any plan. A query costs it 10.
type shop struct {
	mu                sync.Mutex
	points            float64
	at                time.Time
	served, throttled int
}

func (s *shop) answer(_ int, req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.points, s.at = min(40, s.points+2*time.Since(s.at).Seconds()), time.Now()
	start, actual := `"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}]`, "null"
	if s.points >= 10 {
		s.points -= 10
		s.served++
		start, actual = `"data":{}`, "10"
	} else {
		s.throttled++
	}
	return reply(req, http.StatusOK, fmt.Sprintf(`{%s,"extensions":{"cost":{"requestedQueryCost":10,"actualQueryCost":%s,`+
		`"throttleStatus":{"maximumAvailable":40,"currentlyAvailable":%g,"restoreRate":2}}}}`, start, actual, s.points)), nil
}

// A store whose points are fewer than those of the declared plan is believed: calls go by its stated restore rate.
func TestAShopWithFewPointsRefusesNoQuery(t *testing.T) {
	t.Parallel()
	known := shopify.Profile
	known.Costs = func(*http.Request) []policies.Cost { return []policies.Cost{{Policy: shopify.PolicyGraphQL, N: 10}} }
	for name, c := range map[string]struct {
		profile policies.Profile
		workers int
		used    float64 // of what the store allows, at least
	}{"one caller": {known, 1, 0.9}, "eight": {known, 8, 0.9}, "the estimate is too high": {shopify.Profile, 8, 0.3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &shop{points: 40, at: time.Now()}
				u := newUpstream(s.answer)
				client := newClient(t, newPacer(t, shopify.Limits(shopify.Standard)...), u, transport.WithProfile(c.profile))
				call := func() {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://acme.myshopify.com/admin/api/2026-10/graphql.json",
						strings.NewReader(`{"query":"{ shop { name } }"}`))
					require.NoError(t, err)
					req.Header.Set("X-Shopify-Access-Token", "x")
					resp, err := client.Do(req)
					if err != nil {
						time.Sleep(time.Second) // further away than MaxWait
						return
					}
					readAll(t, resp.Body)
					require.NoError(t, resp.Body.Close())
				}
				call() // whose answer states it
				var calls sync.WaitGroup
				for range c.workers {
					calls.Go(func() {
						for time.Since(u.start) < 5*time.Minute {
							call()
						}
					})
				}
				calls.Wait()
				t.Logf("%d served, %d throttled in %v", s.served, s.throttled, time.Since(u.start))
				require.Zero(t, s.throttled)
				require.GreaterOrEqual(t, float64(10*s.served), c.used*(40+2*time.Since(u.start).Seconds()))
			})
		})
	}
}
