package transport_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// tenants are an upstream that counts each tenant by itself, without any sign of it.
type tenants map[string]*stating

func (u tenants) RoundTrip(req *http.Request) (*http.Response, error) {
	return u[req.Header.Get("X-Tenant")].RoundTrip(req)
}

// By readings that rise when the tenant changes, and not otherwise, a fleet finds out that an upstream counts tenants apart, and uses what each
// has. Where all tenants have one limit together, readings that rise by themselves are no such sign, however many tenants there are.
func TestTenantsThatAreCountedApart(t *testing.T) {
	t.Parallel()
	minute, bucket, log := upstreamtest.Fixed(300, time.Minute), upstreamtest.Bucket(100, 200*ms), upstreamtest.Sliding(100, 20*time.Second)
	for name, c := range map[string]struct {
		limit   upstreamtest.Limit
		tenants int
		apart   bool
	}{
		"apart, in windows":          {minute, 3, true},
		"apart, sliding":             {log, 3, true},
		"together, in windows":       {minute, 3, false},
		"together, sliding":          {log, 3, false},
		"together, a bucket":         {bucket, 3, false},
		"together, sliding, of many": {log, 24, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC)))
				one := func() *stating {
					return (&stating{every: 1, form: "ceil"}).open(rand.New(rand.NewPCG(4, 1)), c.limit)
				}
				api, all := make(tenants), one()
				for i := range c.tenants {
					if c.apart {
						all = one()
					}
					api[fmt.Sprint("t", i)] = all
				}
				const windows = 6
				from := time.Now()
				config := pacer.Config{Upstream: "api", Store: memstore.New(), MaxWait: pacer.Forever}
				if c.apart {
					config.Policies = []policies.Policy{policies.PerSecond(20), policies.Daily(1_000_000, time.UTC)}
				}
				var callers sync.WaitGroup
				var some *pacer.Pacer
				var longest atomic.Int64 // that a call of a tenant with few calls took, in the second half
				for range 2 {
					p, err := pacer.New(config)
					require.NoError(t, err)
					defer p.Close()
					some = p
					client := newClient(t, p, api)
					for i := range 24 {
						callers.Go(func() {
							tenant := fmt.Sprint("t", i%c.tenants)
							ctx := pacer.With(t.Context(), pacer.Scope("tenant", tenant))
							for time.Since(from) < windows*time.Minute {
								began := time.Now()
								req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.example.com/", http.NoBody)
								require.NoError(t, err)
								req.Header.Set("X-Tenant", tenant)
								if resp, err := client.Do(req); err == nil {
									_ = resp.Body.Close()
								}
								if c.apart && tenant != "t0" {
									if took := int64(time.Since(began)); began.Sub(from) > windows/2*time.Minute && took > longest.Load() {
										longest.Store(took)
									}
									time.Sleep(4 * time.Second)
								}
							}
						})
					}
				}
				time.Sleep(windows*time.Minute - 10*time.Second)
				s, err := some.Status(pacer.With(t.Context(), pacer.Scope("tenant", "t0")))
				require.NoError(t, err)
				scopes := ""
				for _, a := range s.Allowances {
					scopes += a.Scope
				}
				callers.Wait()
				for name, u := range api {
					late := 0 // that went in the second half
					for _, at := range u.came(true) {
						if at.Sub(from) > windows/2*time.Minute {
							late++
						}
					}
					t.Logf("%s: %d and later %d admitted, %d refused, %q", name, u.Admitted(), late, u.Refused(), scopes)
					if c.apart && name == "t0" {
						require.GreaterOrEqual(t, late, 9*300*windows/2/10)
					}
					require.LessOrEqual(t, u.Refused(), 10*windows)
				}
				if c.apart {
					require.LessOrEqual(t, time.Duration(longest.Load()), 2*time.Second)
				}
				require.Equal(t, map[bool]string{true: "tenant=t0"}[c.apart], scopes)
			})
		})
	}
}
