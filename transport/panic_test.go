package transport_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// A function of the user's that panics after the call must not leak the response.
func TestAPanickingFeedbackClosesTheResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var body *replyBody
		u := newUpstream(func(_ int, req *http.Request) (resp *http.Response, err error) {
			resp, body = withBody(reply(req, http.StatusOK, ""), "fine")
			return resp, nil
		})
		client := newClient(t, newPacer(t), u, transport.WithProfile(policies.Profile{Read: func(*policies.Reply) policies.Reading { panic("user code") }}))
		require.PanicsWithValue(t, "user code", func() { _, _ = client.Do(request(t.Context(), t, http.MethodGet, nil)) })
		require.Equal(t, int64(1), body.closed.Load())
	})
}

// A function of the user's that panics harms no other call, wherever it does: others go on, a call that was not made is not charged and
// keeps no permit, and the pacer can be closed.
func TestAPanicHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	fine := func(*policies.Reply) policies.Reading { return policies.Reading{} }
	settle := func(bad *bool, begins bool) transport.Option {
		return transport.WithProfile(policies.Profile{Read: fine, Settle: func(r *policies.Reply) []policies.Cost {
			explode(*bad && begins == (r.Body == nil), "")
			return nil
		}})
	}
	base := func(bad *bool, sends bool) transport.Option {
		return transport.WithBase(roundTripper(func(req *http.Request) (*http.Response, error) {
			explode(*bad && sends, "")
			resp := reply(req, http.StatusOK, "")
			resp.Body = &explosive{bad, newBody("fine")}
			return resp, nil
		}))
	}
	for name, c := range map[string]struct {
		option  func(bad *bool) transport.Option
		charged int64
	}{
		"scope": {func(bad *bool) transport.Option {
			return transport.WithScope("tenant", func(*http.Request) string { return explode(*bad, "acme") })
		}, 1},
		"cost": {func(bad *bool) transport.Option {
			return transport.WithCost(func(*http.Request) int64 { return int64(len(explode(*bad, "1"))) })
		}, 1},
		"read": {func(bad *bool) transport.Option {
			return transport.WithProfile(policies.Profile{Read: func(*policies.Reply) policies.Reading { explode(*bad, ""); return policies.Reading{} }})
		}, 2},
		"peek": {func(bad *bool) transport.Option {
			return transport.WithProfile(policies.Profile{Read: fine, Peek: func(*http.Response) int { return len(explode(*bad, "")) }})
		}, 2},
		"settle":              {func(bad *bool) transport.Option { return settle(bad, true) }, 2},
		"settle at the close": {func(bad *bool) transport.Option { return settle(bad, false) }, 2},
		"base":                {func(bad *bool) transport.Option { return base(bad, true) }, 2},
		"body":                {func(bad *bool) transport.Option { return base(bad, false) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bad := true
				p := newPacer(t, policies.Daily(100, time.UTC), policies.InFlight(1))
				client := newClient(t, p, newUpstream(ok(0, nil)), c.option(&bad))
				get := func() {
					resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
					require.NoError(t, err)
					_, err = resp.Body.Read(make([]byte, 1)) // not to its end
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				}
				require.PanicsWithValue(t, "user code", get)
				bad = false
				start := time.Now()
				get()
				require.Zero(t, time.Since(start), "the permit is back")
				s, err := p.Status(t.Context())
				require.NoError(t, err)
				require.Equal(t, 100-c.charged, s.Policies[0].Remaining)
				require.NoError(t, p.Close())
			})
		})
	}
}

// An explosive is a body that panics when it is read, while bad is set.
type explosive struct {
	bad *bool
	*trackedBody
}

func (e *explosive) Read(p []byte) (int, error) {
	explode(*e.bad, "")
	return e.trackedBody.Read(p)
}

func explode(bad bool, otherwise string) string {
	if bad {
		panic("user code")
	}
	return otherwise
}

// A base transport that returns nothing at all is an error, not a panic in code that reads the response.
func TestABaseThatReturnsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := roundTripper(func(*http.Request) (*http.Response, error) { return nil, nil }) //nolint:nilnil // that is the point
		for _, retries := range []int{0, 1} {
			_, err := newClient(t, newPacer(t), base, transport.WithRetries(retries)).Do(request(t.Context(), t, http.MethodGet, nil))
			require.ErrorContains(t, err, "neither a response nor an error")
		}
	})
}
