package transport_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/anthropic"
	"github.com/headway-go/headway/policies/github"
	"github.com/headway-go/headway/policies/openai"
	"github.com/headway-go/headway/policies/shopify"
	"github.com/headway-go/headway/transport"
)

// lastWord is a profile that reads a pause of 30 s at the end of a body, and counts its calls.
func lastWord(peek int, asked *int) policies.Profile {
	return policies.Profile{
		Peek: func(*http.Response) int { return peek },
		Read: func(*policies.Reply) policies.Reading { return policies.Reading{} },
		ReadEnd: func(r *policies.Reply) []policies.Feedback {
			*asked++
			if !bytes.HasSuffix(r.Body, []byte("stop")) {
				return nil
			}
			return []policies.Feedback{{Refused: true, Certain: true, Wait: 30 * time.Second}}
		},
	}
}

// The report at the end of a long body is applied when the caller has read it, and before the end is returned.
func TestTheEndOfABodyIsReported(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000) + "stop"
	for name, c := range map[string]struct {
		peek   int
		body   string
		coding string
		split  func(io.Reader) io.Reader
		read   reader
		asked  int
		wait   time.Duration
	}{
		"a long body":           {100, long, "", nil, readAll, 1, 30 * time.Second},
		"in odd pieces":         {100, long, "", iotest.HalfReader, readAll, 1, 30 * time.Second},
		"the end with the data": {100, long, "", iotest.DataErrReader, readAll, 1, 30 * time.Second},
		"encoded":               {100, encode(t, "gzip", long), "gzip", nil, readAll, 1, 30 * time.Second},
		"Read sees no body":     {0, "stop", "", nil, readAll, 1, 30 * time.Second},
		"Read has seen it all":  {100, "stop", "", nil, readAll, 0, 0},
		"closed before the end": {100, long, "", nil, readBytes(1000), 1, 0},
		"no body":               {100, "", "", nil, readAll, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
					resp := reply(req, http.StatusOK, c.body, "Content-Encoding", c.coding)
					resp.ContentLength = -1
					if c.split != nil {
						resp.Body = io.NopCloser(c.split(resp.Body))
					}
					return resp, nil
				})
				client := newClient(t, newPacer(t, policies.PerSecond(1000)), u, transport.WithProfile(lastWord(c.peek, &asked)))
				resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
				require.NoError(t, err)
				c.read(t, resp.Body)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, c.asked, asked)
				resp, err = client.Do(request(t.Context(), t, http.MethodGet, nil))
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, c.wait, u.hits[1].Truncate(time.Second))
			})
		})
	}
}

// In a body of 200 KB, the cost at its start is charged, and the count at its end binds.
func TestBothEndsOfABodyCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		profile := policies.Profile{
			Peek:  func(*http.Response) int { return 100 },
			Read:  func(*policies.Reply) policies.Reading { return policies.Reading{} },
			Costs: func(*http.Request) []policies.Cost { return []policies.Cost{{Policy: "points", N: 40}} },
			Settle: func(r *policies.Reply) []policies.Cost {
				if !bytes.HasPrefix(r.Body, []byte("cost 7")) {
					return nil
				}
				return []policies.Cost{{Policy: "points", N: 7}}
			},
			ReadEnd: func(r *policies.Reply) []policies.Feedback {
				if !bytes.HasSuffix(r.Body, []byte("left 3")) {
					return nil
				}
				return []policies.Feedback{{Policies: []string{"daily"}, Remaining: policies.Reported(3), Reset: time.Hour}}
			},
		}
		p := newPacer(t, policies.Fixed(100, 24*time.Hour).Named("points"), policies.Fixed(1000, 24*time.Hour).Named("daily"))
		u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
			return reply(req, http.StatusOK, "cost 7"+strings.Repeat("x", 200_000)+"left 3"), nil
		})
		resp, err := newClient(t, p, u, transport.WithProfile(profile)).Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		readAll(t, resp.Body)
		require.NoError(t, resp.Body.Close())
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(100-7), s.Policies[0].Remaining)
		require.Equal(t, int64(3), s.Policies[1].Remaining)
	})
}

// A profile that waits for the end of a stream delays no event, and changes neither errors nor Close.
func TestAStreamPassesWhileItsEndsAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		r, w := io.Pipe()
		body := &trackedBody{Reader: r}
		u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
			resp := reply(req, http.StatusOK, "", "Content-Type", "text/event-stream")
			resp.Body = body
			return resp, nil
		})
		profile := points
		profile.ReadEnd = func(*policies.Reply) []policies.Feedback { return nil }
		resp, err := newClient(t, newPacer(t), u, transport.WithProfile(profile)).Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		buf := make([]byte, 100)
		for i := range 10 {
			event := fmt.Sprintf("data: %d\n\n", i)
			go func() { _, _ = io.WriteString(w, event) }()
			n, err := resp.Body.Read(buf)
			require.NoError(t, err)
			require.Equal(t, event, string(buf[:n]))
			time.Sleep(time.Minute)
		}
		require.NoError(t, w.CloseWithError(broken))
		_, err = resp.Body.Read(buf)
		require.ErrorIs(t, err, broken)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, int64(1), body.closed.Load())
	})
}

// Vendors' profiles find what they need at either end of 200 KB.
func TestVendorsReadBothEnds(t *testing.T) {
	t.Parallel()
	filler := `"` + strings.Repeat("x", 200_000) + `"`
	deltas := strings.Repeat("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"x\"}}\n\n", 3000)
	const (
		shop   = "https://acme.myshopify.com/admin/api/2026-10/graphql.json"
		points = `{"cost":{"requestedQueryCost":101,"actualQueryCost":46,` +
			`"throttleStatus":{"maximumAvailable":2000.0,"currentlyAvailable":1954,"restoreRate":100.0}}}`
		began = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n"
		ended = "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":900}}\n\n"
	)
	left := []policies.Feedback{{
		Source: "throttleStatus", Policies: []string{shopify.PolicyGraphQL}, Otherwise: policies.Everyone,
		Limit: policies.Reported(100), Window: time.Second,
	}, {
		Source: "throttleStatus", Policies: []string{shopify.PolicyGraphQL}, Otherwise: policies.Everyone,
		Limit: policies.Reported(2000), Remaining: policies.Reported(1954),
	}}
	tokens := []policies.Cost{{Policy: openai.PolicyTokens, N: 1000}, {Policy: openai.PolicyTokensDay, N: 1000}}
	for name, c := range map[string]struct {
		profile policies.Profile
		url     string
		body    string
		costs   []policies.Cost
		left    []policies.Feedback
	}{
		"openai, at the start": {
			openai.Profile, "https://api.openai.com/v1/responses", `{"usage":{"total_tokens":1000},"output":` + filler + `}`, tokens, nil,
		},
		"openai, at the end": {
			openai.Profile, "https://api.openai.com/v1/responses", `{"output":` + filler + `,"usage":{"total_tokens":1000}}`, tokens, nil,
		},
		"anthropic, a long stream": {
			anthropic.Profile, "https://api.anthropic.com/v1/messages", began + deltas + ended,
			[]policies.Cost{{Policy: anthropic.PolicyInputTokens, N: 25}, {Policy: anthropic.PolicyOutputTokens, N: 900}}, nil,
		},
		"anthropic, a stream that is cut": {
			anthropic.Profile, "https://api.anthropic.com/v1/messages", began + deltas,
			[]policies.Cost{{Policy: anthropic.PolicyInputTokens, N: 25}}, nil,
		},
		"github, at the start": {
			github.Profile, "https://api.github.com/graphql", `{"data":{"rateLimit":{"limit":5000,"cost":7},"search":` + filler + `}}`,
			[]policies.Cost{{Policy: github.PolicyGraphQL, N: 7}}, nil,
		},
		"github, at the end": {
			github.Profile, "https://api.github.com/graphql", `{"data":{"search":` + filler + `,"rateLimit":{"limit":5000,"cost":7}}}`,
			[]policies.Cost{{Policy: github.PolicyGraphQL, N: 7}}, nil,
		},
		"shopify, at the end": {
			shopify.Profile, shop, `{"data":` + filler + `,"extensions":` + points + `}`, []policies.Cost{{Policy: shopify.PolicyGraphQL, N: 46}}, left,
		},
		"shopify, at the start": {
			shopify.Profile, shop, `{"extensions":` + points + `,"data":` + filler + `}`, []policies.Cost{{Policy: shopify.PolicyGraphQL, N: 46}}, left,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var costs []policies.Cost
				var left []policies.Feedback
				profile := c.profile
				profile.Settle = func(r *policies.Reply) []policies.Cost {
					costs = c.profile.Settle(r)
					return costs
				}
				if c.profile.ReadEnd != nil {
					profile.ReadEnd = func(r *policies.Reply) []policies.Feedback {
						left = c.profile.ReadEnd(r)
						return left
					}
				}
				u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) { return reply(req, http.StatusOK, c.body), nil })
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, strings.NewReader("{}"))
				require.NoError(t, err)
				resp, err := newClient(t, newPacer(t), u, transport.WithProfile(profile)).Do(req)
				require.NoError(t, err)
				readAll(t, resp.Body)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, c.costs, costs)
				require.Equal(t, c.left, left)
			})
		})
	}
}
