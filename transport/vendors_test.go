package transport_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/google"
	"github.com/headway-go/headway/policies/openai"
	"github.com/headway-go/headway/policies/salesforce"
	"github.com/headway-go/headway/policies/zendesk"
	"github.com/headway-go/headway/transport"
)

// Vendors' profiles at work: a refusal holds up the bucket that it names, of the account that met it, and nothing else.
func TestAPauseOfOneBucketHoldsBackNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodPut && strings.HasPrefix(req.URL.Host, "acme") {
				return reply(req, http.StatusTooManyRequests, "slow down", "Retry-After", "60", "X-Rate-Limit", "2500", "X-Rate-Limit-Remaining", "2400",
					"Zendesk-RateLimit-tickets-update", "total=300; remaining=0; resets=60"), nil
			}
			return reply(req, http.StatusOK, "{}"), nil
		})
		rt, err := transport.New(newPacer(t, zendesk.Limits(zendesk.HighVolume)...), transport.WithBase(u), transport.WithProfile(zendesk.Profile))
		require.NoError(t, err)
		client := &http.Client{Transport: rt, Timeout: 5 * time.Second}
		call := func(method, url string) error {
			req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
			require.NoError(t, err)
			resp, err := client.Do(req)
			if err == nil {
				require.NoError(t, resp.Body.Close())
			}
			return err
		}
		require.NoError(t, call(http.MethodPut, "https://acme.zendesk.com/api/v2/tickets/7.json"))
		err = call(http.MethodPut, "https://acme.zendesk.com/api/v2/tickets/8.json")
		le, ok := errors.AsType[*pacer.LimitError](err)
		require.True(t, ok)
		require.Equal(t, pacer.Paused, le.Reason)
		require.Equal(t, "tickets-update", le.Policy)
		require.NoError(t, call(http.MethodGet, "https://acme.zendesk.com/api/v2/tickets.json"))
		require.NoError(t, call(http.MethodPut, "https://other.zendesk.com/api/v2/tickets/8.json"))
		require.Len(t, u.hits, 3)
	})
}

// Google answers 403 with the reason rateLimitExceeded, whichever limit is exceeded: calls wait for the one that its message names, and for
// no other. The messages are those of policies/google/testdata.
func TestGooglesMessagesNameTheLimitThatIsHeld(t *testing.T) {
	t.Parallel()
	quota := func(limit string) string {
		return "Quota exceeded for quota metric 'Queries' and limit '" + limit + "' of service 'gmail.googleapis.com' for consumer 'project_number:528509232048'."
	}
	for name, c := range map[string]struct {
		message string
		held    bool // another user's calls, too
	}{
		"a user's":  {quota("Queries per minute per user"), false},
		"of a user": {"User-rate limit exceeded.", false},
		"a project": {quota("Queries per minute"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				body := `{"error":{"code":403,"message":"` + c.message + `","errors":[{"message":"Quota exceeded","domain":"usageLimits",` +
					`"reason":"rateLimitExceeded"}],"status":"PERMISSION_DENIED"}}`
				u := newUpstream(ok(1, func(req *http.Request) (*http.Response, error) { return reply(req, http.StatusForbidden, body), nil }))
				client := newClient(t, newPacer(t, google.Limits(600, 60)...), u,
					transport.WithProfile(google.Profile.BackOff(20*time.Second)), transport.WithRetries(0))
				call := func(user string) {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://gmail.googleapis.com/gmail/v1/users/me/messages", nil)
					require.NoError(t, err)
					req.Header.Set("Authorization", "Bearer "+user)
					resp, err := client.Do(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				}
				call("ann")
				call("bob")
				require.Equal(t, c.held, time.Since(u.start) >= 20*time.Second)
				call("ann")
				require.GreaterOrEqual(t, time.Since(u.start), 20*time.Second)
			})
		})
	}
}

// Tokens are reserved by an estimate, settled at what the answer reports, and bind only calls of their model.
func TestTokensAreReservedAndSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, openai.Limits(600, 6000)...)
		u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
			return reply(req, http.StatusOK, `{"choices":[],"usage":{"total_tokens":1000}}`), nil
		})
		client := newClient(t, p, u, transport.WithProfile(openai.Profile))
		for range 3 {
			body := `{"model":"m","max_tokens":5000,"messages":[]}`
			req := request(t.Context(), t, http.MethodPost, strings.NewReader(body))
			resp, err := client.Do(req)
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
		}
		// 5,011 are reserved each time, of a bucket of 6,000 that gets 100 a second. One settled call leaves 5,000, so that 11 are
		// missing; the next leaves 4,011.
		require.Equal(t, []time.Duration{0, 110 * ms, 10110 * ms}, roundAll(u.hits, 10*ms))
	})
}

// If a service meters reservations, an answer corrects no charge. A failed call costs nothing in either case.
func TestReservationsAreMeteredWhereTheProfileReportsThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		profile policies.Profile
		status  int
		want    int64 // tokens left of 6,000; 5,011 are reserved
	}{
		"use, an answer":          {openai.Profile, http.StatusOK, 5000},
		"use, a failure":          {openai.Profile, http.StatusBadRequest, 6000},
		"reservations, an answer": {openai.Reserved, http.StatusOK, 989},
		"reservations, a failure": {openai.Reserved, http.StatusBadRequest, 6000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, policies.Fixed(6000, time.Hour).Named(openai.PolicyTokens))
				u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
					return reply(req, c.status, `{"choices":[],"usage":{"total_tokens":1000}}`), nil
				})
				body := strings.NewReader(`{"model":"m","max_tokens":5000,"messages":[]}`)
				resp, err := newClient(t, p, u, transport.WithProfile(c.profile)).Do(request(t.Context(), t, http.MethodPost, body))
				require.NoError(t, err)
				readAll(t, resp.Body)
				require.NoError(t, resp.Body.Close())
				s, err := p.Status(t.Context())
				require.NoError(t, err)
				require.Equal(t, c.want, s.Policies[0].Remaining)
			})
		})
	}
}

func roundAll(ds []time.Duration, to time.Duration) []time.Duration {
	var out []time.Duration
	for _, d := range ds {
		out = append(out, d.Round(to))
	}
	return out
}

// A day that others have spent is over before the upstream refuses anything.
func TestADayThatOthersSpend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, salesforce.Daily(100_000))
		u := newUpstream(func(n int, req *http.Request) (*http.Response, error) {
			used := []string{"10/100000", "99999/100000", "100000/100000"}[n]
			return reply(req, http.StatusOK, "[]", "Sforce-Limit-Info", "api-usage="+used), nil
		})
		client := newClient(t, p, u, transport.WithProfile(salesforce.Profile))
		var err error
		calls := 0
		for err == nil && calls < 10 {
			var resp *http.Response
			if resp, err = client.Do(request(t.Context(), t, http.MethodGet, nil)); err == nil {
				calls++
				require.NoError(t, resp.Body.Close())
				time.Sleep(time.Second)
			}
		}
		require.ErrorIs(t, err, pacer.ErrNotYet)
		require.ErrorContains(t, err, `policy "daily"`)
		require.Equal(t, 3, calls)
	})
}
