package transport_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/github"
	"github.com/headway-go/headway/policies/google"
	"github.com/headway-go/headway/policies/openai"
	"github.com/headway-go/headway/policies/salesforce"
	"github.com/headway-go/headway/policies/shopify"
	"github.com/headway-go/headway/transport"
)

// encode applies a content coding.
func encode(t *testing.T, coding, body string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "deflate without zlib":
		var err error
		w, err = flate.NewWriter(&b, flate.DefaultCompression)
		require.NoError(t, err)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		var err error
		w, err = zstd.NewWriter(&b)
		require.NoError(t, err)
	default:
		return body
	}
	_, err := io.WriteString(w, body)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// randomBytes returns n bytes that cannot be compressed, the same each time.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// A profile sees the content of an encoded body, and the caller gets the body as it came.
func TestAProfileSeesIntoEncodedBodies(t *testing.T) {
	t.Parallel()
	short, long := `{"error":"slow down"}`, strings.Repeat("slow down, ", 100_000)
	gzipped := encode(t, "gzip", short)
	for name, c := range map[string]struct {
		coding   string
		body     string // as it is sent
		saw      string
		complete bool
	}{
		"gzip":                {"gzip", gzipped, short, true},
		"GZIP":                {"GZIP", gzipped, short, true},
		"x-gzip":              {"x-gzip", gzipped, short, true},
		"deflate":             {"deflate", encode(t, "deflate", short), short, true},
		"deflate, no zlib":    {"deflate", encode(t, "deflate without zlib", short), short, true},
		"br":                  {"br", encode(t, "br", short), short, true},
		"zstd":                {"zstd", encode(t, "zstd", short), short, true},
		"twice":               {"gzip, br", encode(t, "br", gzipped), short, true},
		"identity":            {"identity", short, short, true},
		"more than is asked":  {"zstd", encode(t, "zstd", long), long[:100], false},
		"cut":                 {"gzip", encode(t, "gzip", long)[:500], long[:100], false},
		"cut at the start":    {"gzip", gzipped[:len(gzipped)-10], short[:len(short)-8], false},
		"empty":               {"gzip", "", "", true},
		"not gzip at all":     {"gzip", short, short, true},
		"not zstd at all":     {"zstd", short, short, true},
		"a coding of its own": {"acme", short, "", false},
		"too many codings":    {"gzip, br, gzip, br", short, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var saw []policies.Reply
				u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
					return reply(req, http.StatusOK, c.body, "Content-Encoding", c.coding), nil
				})
				client := newClient(t, newPacer(t), u, transport.WithProfile(peeking(100, &saw)))
				resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
				require.NoError(t, err)
				if name == "cut at the start" { // how much of it can be decoded is the decoder's affair
					require.LessOrEqual(t, len(saw[0].Body), len(short))
					require.True(t, strings.HasPrefix(short, string(saw[0].Body)))
				} else {
					require.Equal(t, c.saw, string(saw[0].Body))
				}
				require.Equal(t, c.complete, saw[0].Complete)
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, c.body, string(got))
				require.Equal(t, c.coding, resp.Header.Get("Content-Encoding"))
			})
		})
	}
}

// However large an encoded body becomes, no more is decoded than the profile requests, and little is read of it.
func TestAnEncodedBodyIsDecodedNoFurtherThanRequested(t *testing.T) {
	t.Parallel()
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		synctest.Test(t, func(t *testing.T) {
			var saw []policies.Reply
			bomb := encode(t, coding, strings.Repeat("\x00", 1<<20))
			noise := encode(t, coding, string(randomBytes(64<<10)))
			for _, sent := range []string{bomb, noise} {
				var body *replyBody
				u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
					var resp *http.Response
					resp, body = withBody(reply(req, http.StatusOK, "", "Content-Encoding", coding), sent)
					return resp, nil
				})
				_, err := newClient(t, newPacer(t), u, transport.WithProfile(peeking(4<<10, &saw))).Do(request(t.Context(), t, http.MethodGet, nil))
				require.NoError(t, err)
				require.Len(t, saw[len(saw)-1].Body, 4<<10, coding)
				require.LessOrEqual(t, body.read.Load(), int64(32<<10), coding)
			}
		})
	}
}

// SDKs that set Accept-Encoding get bodies that net/http does not decode. Vendors' refusals are recognized in them.
func TestEncodedRefusalsAreRecognized(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		profile policies.Profile
		url     string
		status  int
		body    string
		want    policies.Verdict
	}{
		"salesforce": {
			salesforce.Profile, "https://acme.my.salesforce.com/services/data/v63.0/query", http.StatusForbidden,
			`[{"message":"TotalRequests Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]`, policies.Spent,
		},
		"github": {
			github.Profile, "https://api.github.com/repos/o/r/issues", http.StatusForbidden,
			`{"message":"You have exceeded a secondary rate limit."}`, policies.Limited,
		},
		"shopify": {
			shopify.Profile, "https://acme.myshopify.com/admin/api/2026-10/graphql.json", http.StatusOK,
			`{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}]}`, policies.Limited,
		},
		"google": {
			google.Profile, "https://gmail.googleapis.com/gmail/v1/users/me/messages", http.StatusForbidden,
			`{"error":{"errors":[{"domain":"usageLimits","reason":"userRateLimitExceeded"}],"code":403}}`, policies.Limited,
		},
		"openai": {
			openai.Profile, "https://api.openai.com/v1/chat/completions", http.StatusTooManyRequests,
			`{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, policies.Spent,
		},
	} {
		for _, coding := range []string{"", "gzip", "deflate", "br", "zstd"} {
			t.Run(name+" "+coding, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var got policies.Reading
					profile, read := c.profile, c.profile.Read
					profile.Read = func(r *policies.Reply) policies.Reading {
						got = read(r)
						return got
					}
					u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
						return reply(req, c.status, encode(t, coding, c.body), "Content-Encoding", coding), nil
					})
					client := newClient(t, newPacer(t), u, transport.WithProfile(profile), transport.WithRetries(0))
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
					require.NoError(t, err)
					_, err = client.Do(req)
					require.NoError(t, err)
					require.Equal(t, c.want, got.Verdict)
				})
			})
		}
	}
}

// A body that does not come holds back neither the response nor its retry.
func TestABodyThatStallsHoldsBackNoRetry(t *testing.T) {
	t.Parallel()
	for name, profile := range map[string]policies.Profile{"peeked at": openai.Profile, "drained": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(func(n int, req *http.Request) (*http.Response, error) {
					if n > 0 {
						return reply(req, http.StatusOK, "fine"), nil
					}
					resp := reply(req, http.StatusTooManyRequests, "", "Retry-After", "2")
					resp.Body, _ = io.Pipe() // nobody writes
					return resp, nil
				})
				client := newClient(t, newPacer(t), u, transport.WithProfile(profile))
				resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Len(t, u.hits, 2)
				require.LessOrEqual(t, u.hits[1], 3100*time.Millisecond)
			})
		})
	}
}

// The start of a body that comes late is not lost to the caller.
func TestABodyThatComesLateIsWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var saw []policies.Reply
		u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
			resp := reply(req, http.StatusOK, "")
			r, w := io.Pipe()
			resp.Body = r
			go func() {
				_, _ = io.WriteString(w, "early ")
				time.Sleep(time.Minute)
				_, _ = io.WriteString(w, "late")
				_ = w.Close()
			}()
			return resp, nil
		})
		start := time.Now()
		resp, err := newClient(t, newPacer(t), u, transport.WithProfile(peeking(100, &saw))).Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start))
		require.Empty(t, saw[0].Body)
		require.False(t, saw[0].Complete)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "early late", string(got))
	})
}
