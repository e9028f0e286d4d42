package transport_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/ietf"
	"github.com/headway-go/headway/policies/notion"
	"github.com/headway-go/headway/transport"
)

// firstOf maps a request to the first element of its path; "" for the root.
func firstOf(r *http.Request) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return first
}

// A reply holds for the calls of its endpoint, unless it names a policy of the stack, or the profile knows that it is the account's.
func TestAReplyIsAboutItsEndpoint(t *testing.T) {
	t.Parallel()
	account := policies.PerSecond(100).Burst(100).Named("account")
	loose := policies.PerSecond(1000).Burst(1000).Optional()
	endpoint := loose.Per(transport.ScopeEndpoint).Named("endpoint")
	tenants := loose.Per("tenant", transport.ScopeEndpoint).Named("tenants")
	tenantsAlone, tenantsToo := []policies.Policy{account, tenants}, []policies.Policy{tenants, account, endpoint}
	const itself, everyone = "search", "search things other"
	for name, c := range map[string]struct {
		stack   []policies.Policy
		profile policies.Profile
		path    string // of the call that is answered with status and headers
		status  int
		headers []string
		paused  string // the endpoints that are
	}{
		"refused":                {[]policies.Policy{endpoint}, ietf.Profile, "/search/7", 429, []string{"Retry-After", "50"}, itself},
		"refused, with counts":   {nil, ietf.Profile, "/search", 429, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "50"}, itself},
		"refused, with a name":   {nil, ietf.Profile, "/search", 429, []string{"RateLimit", `"default";r=0;t=50`}, itself},
		"refused by a policy":    {nil, ietf.Profile, "/search", 429, []string{"RateLimit", `"account";r=0;t=50`}, everyone},
		"unavailable":            {nil, ietf.Profile, "/search", 503, []string{"Retry-After", "50"}, itself},
		"nothing left":           {nil, ietf.Profile, "/search", 200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "50"}, itself},
		"nothing left of a name": {nil, ietf.Profile, "/search", 200, []string{"RateLimit", `"default";r=0;t=50`}, itself},
		"no endpoint":            {nil, ietf.Profile, "/", 429, []string{"Retry-After", "50"}, everyone},
		"of each tenant":         {tenantsAlone, ietf.Profile, "/search", 429, []string{"Retry-After", "50"}, itself},
		"of each tenant, too":    {tenantsToo, ietf.Profile, "/search", 429, []string{"Retry-After", "50"}, itself},
		"a vendor's account":     {nil, notion.Profile, "/search", 429, []string{"Retry-After", "50"}, everyone},
		"a vendor's 503":         {nil, notion.Profile, "/search", 503, []string{"Retry-After", "50"}, itself},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if c.stack == nil {
					c.stack = []policies.Policy{account, endpoint}
				}
				p := newPacer(t, c.stack...)
				u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
					return reply(req, c.status, "", c.headers...), nil
				})
				rt, err := transport.New(p, transport.WithBase(u), transport.WithProfile(c.profile), transport.WithEndpoint(firstOf))
				require.NoError(t, err)
				ctx := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://upstream.test"+c.path, nil)
				require.NoError(t, err)
				resp, err := rt.RoundTrip(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())

				var paused []string
				for at := range strings.FieldsSeq(everyone) {
					if err := p.Wait(ctx, pacer.Scope(transport.ScopeEndpoint, at), pacer.MaxWait(0)); err != nil {
						require.ErrorIs(t, err, pacer.ErrNotYet)
						paused = append(paused, at)
					}
				}
				require.Equal(t, c.paused, strings.Join(paused, " "))
				time.Sleep(50 * time.Second)
				require.NoError(t, p.Wait(ctx, pacer.Scope(transport.ScopeEndpoint, "search"), pacer.MaxWait(0)), "until it is over")
			})
		})
	}
}

// Without WithEndpoint, nothing determines which calls a reply is about, so everyone heeds it.
func TestWithoutEndpointsAReplyIsAboutEveryone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.PerSecond(100).Named("account"))
		client := newClient(t, p, newUpstream(ok(1, refuse(http.StatusTooManyRequests, "Retry-After", "50"))), transport.WithRetries(0))
		resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
	})
}

// A refusal slows down an adaptive rate of the endpoint, and no other.
func TestARefusalSlowsDownItsEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		adaptive := policies.PerSecond(100).Burst(1).Adaptive(policies.Adaptation{})
		p := newPacer(t, adaptive.Named("account"), adaptive.Per(transport.ScopeEndpoint).Named("endpoint"))
		u := newUpstream(ok(2, refuse(http.StatusTooManyRequests)))
		client := newClient(t, p, u, transport.WithRetries(0), transport.WithEndpoint(firstOf))
		for range 2 { // one alone would be stray
			resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		s, err := p.Status(t.Context(), pacer.Scope(transport.ScopeEndpoint, "things"))
		require.NoError(t, err)
		require.Equal(t, int64(10_000), s.Policies[0].Pace)
		require.Greater(t, s.Policies[1].Pace, int64(10_000))
	})
}

func TestEndpointsNeedAPolicy(t *testing.T) {
	t.Parallel()
	var ce *pacer.ConfigError
	_, err := transport.New(newPacer(t, policies.PerSecond(1).Per("tenant")), transport.WithEndpoint(firstOf))
	require.ErrorAs(t, err, &ce)
	require.ErrorContains(t, err, `Endpoint is set: but no policy of upstream "test" is per endpoint`)
	_, err = transport.New(newPacer(t, policies.PerSecond(1).Per(transport.ScopeEndpoint)), transport.WithEndpoint(nil))
	require.ErrorAs(t, err, &ce)
}

// The rate of an operation binds its calls, and no others, if any policy is per endpoint.
func TestARateOfAnOperationIsThatOfItsCalls(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{ietf.PolicyOperation, "account"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
					return reply(req, http.StatusOK, "{}", "x-amzn-RateLimit-Limit", "5.0"), nil
				})
				stack := policies.PerSecond(1000).Per(transport.ScopeEndpoint).Named(policy)
				client := newClient(t, newPacer(t, stack), u, transport.WithEndpoint(firstOf))
				for _, path := range []string{"orders", "orders", "orders", "orders", "feeds"} {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://upstream.test/"+path, nil)
					require.NoError(t, err)
					resp, err := client.Do(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				}
				require.Equal(t, 200*ms, (u.hits[3] - u.hits[2]).Round(10*ms))
				require.Zero(t, u.hits[4]-u.hits[3], "another operation")
			})
		})
	}
}
