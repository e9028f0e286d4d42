package transport_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/github"
	"github.com/headway-go/headway/policies/shopify"
	"github.com/headway-go/headway/transport"
)

// peeking is a profile that reads n bytes of each body, and records them.
func peeking(n int, saw *[]policies.Reply) policies.Profile {
	return policies.Profile{
		Peek: func(*http.Response) int { return n },
		Read: func(r *policies.Reply) policies.Reading {
			*saw = append(*saw, *r)
			return policies.Reading{}
		},
	}
}

// The bytes that a profile reads are put back: the caller reads the whole body, whatever its size.
func TestAPeekIsPutBack(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 9, 10, 11, 100_000} {
		for name, split := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "the end with the data": iotest.DataErrReader,
		} {
			synctest.Test(t, func(t *testing.T) {
				body := strings.Repeat("x", size)
				var saw []policies.Reply
				var tracked *trackedBody
				u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
					resp := reply(req, http.StatusOK, "")
					tracked = &trackedBody{Reader: split(strings.NewReader(body))}
					resp.Body = tracked
					return resp, nil
				})
				client := newClient(t, newPacer(t), u, transport.WithProfile(peeking(10, &saw)))
				resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
				require.NoError(t, err)
				require.Len(t, saw, 1)
				require.Len(t, saw[0].Body, min(size, 10), "%d bytes, %s", size, name)
				require.Equal(t, size <= 10, saw[0].Complete, "%d bytes, %s", size, name)
				require.LessOrEqual(t, tracked.read.Load(), int64(11), "no more than that was read")
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, body, string(got), "%d bytes, %s", size, name)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, int64(1), tracked.closed.Load())
			})
		}
	}
}

// A body that breaks while the profile looks at it breaks for the caller, at the same byte.
func TestABodyThatBreaksWhilePeeking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		var saw []policies.Reply
		u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
			resp := reply(req, http.StatusOK, "")
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)))
			return resp, nil
		})
		client := newClient(t, newPacer(t), u, transport.WithProfile(peeking(10, &saw)))
		resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Equal(t, "abc", string(saw[0].Body))
		require.False(t, saw[0].Complete)
		got, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, broken)
		require.Equal(t, "abc", string(got))
	})
}

func TestAPeekIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var saw []policies.Reply
		body := bytes.Repeat([]byte("x"), 10*policies.MaxPeek)
		u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
			return reply(req, http.StatusOK, string(body)), nil
		})
		client := newClient(t, newPacer(t), u, transport.WithProfile(peeking(1<<40, &saw)))
		resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Len(t, saw[0].Body, policies.MaxPeek)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, body, got)
	})
}

// points is a profile whose calls are estimated at ten points and report their real cost in the body.
var points = policies.Profile{
	Name:   "points",
	Scopes: []policies.Scope{{Name: "shop", Value: func(r *http.Request) string { return r.URL.Hostname() }}},
	Costs: func(*http.Request) []policies.Cost {
		return []policies.Cost{{Policy: "points", N: 10}, {Policy: "a policy that nobody has", N: 7}}
	},
	Settle: func(r *policies.Reply) []policies.Cost {
		if n, err := strconv.ParseInt(r.Header.Get("Points"), 10, 64); err == nil {
			return []policies.Cost{{Policy: "points", N: n}}
		}
		_, cost, ok := bytes.Cut(r.Body, []byte("cost="))
		cost, _, _ = bytes.Cut(cost, []byte(";"))
		n, err := strconv.ParseInt(string(cost), 10, 64)
		if !ok || err != nil {
			return nil
		}
		return []policies.Cost{{Policy: "points", N: n}}
	},
}

// reader reads some of a body.
type reader func(t *testing.T, body io.Reader)

func readAll(t *testing.T, body io.Reader) {
	t.Helper()
	_, err := io.Copy(io.Discard, body)
	require.NoError(t, err)
}

func readNothing(*testing.T, io.Reader) {}

func readBytes(n int64) reader {
	return func(t *testing.T, body io.Reader) {
		t.Helper()
		_, err := io.CopyN(io.Discard, body, n)
		require.NoError(t, err)
	}
}

func TestACallIsSettledWhenItsCostIsKnown(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5*policies.MaxPeek) + "cost=4"
	half := strings.Repeat("x", 100_000)
	start, middle, end := "cost=4;"+half+half, half+"cost=4;"+half, half+half+"cost=4;"
	noise := string(randomBytes(400_000))
	for name, c := range map[string]struct {
		status  int
		body    string
		headers []string
		read    reader
		want    int64 // remaining of 100
	}{
		"cheaper":                   {http.StatusOK, "data cost=3", nil, readAll, 97},
		"dearer":                    {http.StatusOK, "data cost=30", nil, readAll, 70},
		"as estimated":              {http.StatusOK, "data cost=10", nil, readAll, 90},
		"it has no cost":            {http.StatusOK, "data", nil, readAll, 90},
		"nobody reads it":           {http.StatusOK, "data cost=3", nil, readNothing, 90},
		"read to the cost":          {http.StatusOK, "data cost=3", nil, readBytes(11), 97},
		"cut before the cost":       {http.StatusOK, "data cost=3", nil, readBytes(8), 90},
		"an error":                  {http.StatusBadRequest, "data cost=3", nil, readAll, 97},
		"a refusal":                 {http.StatusTooManyRequests, "data cost=0", nil, readAll, 100},
		"after a long body":         {http.StatusOK, long, nil, readAll, 96},
		"in the header":             {http.StatusOK, "data", []string{"Points", "7"}, readNothing, 93},
		"in the header of a 404":    {http.StatusNotFound, "data cost=3", []string{"Points", "7"}, readAll, 93},
		"in the header, no body":    {http.StatusNoContent, "", []string{"Points", "0"}, readNothing, 100},
		"at the start of 200 KB":    {http.StatusOK, start, nil, readAll, 96},
		"in the middle, unseen":     {http.StatusOK, middle, nil, readAll, 90},
		"at the end of 200 KB":      {http.StatusOK, end, nil, readAll, 96},
		"at the start, then closed": {http.StatusOK, start, nil, readBytes(150_000), 96},
		"closed before the end":     {http.StatusOK, end, nil, readBytes(150_000), 90},
		"encoded, at the start":     {http.StatusOK, encode(t, "gzip", start), []string{"Content-Encoding", "gzip"}, readAll, 96},
		"encoded, in the middle":    {http.StatusOK, encode(t, "gzip", middle), []string{"Content-Encoding", "gzip"}, readAll, 90},
		"encoded, at the end":       {http.StatusOK, encode(t, "gzip", end), []string{"Content-Encoding", "gzip"}, readAll, 96},
		"encoded, of 400 KB":        {http.StatusOK, encode(t, "gzip", noise+"cost=4;"), []string{"Content-Encoding", "gzip"}, readAll, 96},
		"encoded, too long":         {http.StatusOK, encode(t, "gzip", "cost=4;"+noise+noise), []string{"Content-Encoding", "gzip"}, readAll, 90},
		"in an encoded body":        {http.StatusOK, encode(t, "gzip", "data cost=3"), []string{"Content-Encoding", "gzip"}, readAll, 97},
		"in a long encoded body":    {http.StatusOK, encode(t, "zstd", long), []string{"Content-Encoding", "zstd"}, readAll, 96},
		"in what nobody can decode": {http.StatusOK, "data cost=3", []string{"Content-Encoding", "acme"}, readAll, 90},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, policies.Fixed(100, time.Minute).Per("shop").Named("points"))
				u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
					return reply(req, c.status, c.body, c.headers...), nil
				})
				client := newClient(t, p, u, transport.WithProfile(points), transport.WithRetries(0))
				resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
				require.NoError(t, err)
				c.read(t, resp.Body)
				require.NoError(t, resp.Body.Close())
				require.NoError(t, resp.Body.Close(), "which settles it no second time")
				s, err := p.Status(t.Context(), pacer.Scope("shop", resp.Request.URL.Hostname()))
				require.NoError(t, err)
				require.Equal(t, c.want, s.Policies[0].Remaining)
			})
		})
	}
}

// A call with its cost in the header is settled before its body is read, and one whose body breaks, by the part that came.
func TestACallIsSettledAtOnceOrAsFarAsItsBodyGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.Fixed(100, time.Minute).Per("shop").Named("points"))
		remaining := func() int64 {
			s, err := p.Status(t.Context(), pacer.Scope("shop", "upstream.test"))
			require.NoError(t, err)
			return s.Policies[0].Remaining
		}
		u := newUpstream(func(n int, req *http.Request) (*http.Response, error) {
			if n == 0 {
				return reply(req, http.StatusOK, "data", "Points", "7"), nil
			}
			resp := reply(req, http.StatusOK, "")
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("cost=3"), iotest.ErrReader(errors.New("broken"))))
			return resp, nil
		})
		client := newClient(t, p, u, transport.WithProfile(points))
		resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Equal(t, int64(93), remaining())
		require.NoError(t, resp.Body.Close())
		resp, err = client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.ErrorContains(t, err, "broken")
		require.Equal(t, int64(90), remaining())
		require.NoError(t, resp.Body.Close())
	})
}

// verdict is a profile that judges every 403.
func verdict(v policies.Verdict, fs ...policies.Feedback) policies.Profile {
	return policies.Profile{Read: func(r *policies.Reply) policies.Reading {
		if r.Status != http.StatusForbidden && r.Status != http.StatusTooManyRequests {
			return policies.Reading{}
		}
		return policies.Reading{Verdict: v, Feedback: fs}
	}}
}

// The profile decides whether a refused call is repeated, if it can.
func TestWhatIsRefusedIsRepeatedAsTheProfileJudges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verdict policies.Verdict
		status  int
		method  string
		hits    int
	}{
		"a limit reported by 403":         {policies.Limited, http.StatusForbidden, http.MethodPost, 2},
		"403 is not a limit":              {policies.Unjudged, http.StatusForbidden, http.MethodGet, 1},
		"429 that is not worth repeating": {policies.Spent, http.StatusTooManyRequests, http.MethodGet, 1},
		"429 that nobody judged":          {policies.Unjudged, http.StatusTooManyRequests, http.MethodPost, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(ok(1, refuse(c.status)))
				client := newClient(t, newPacer(t), u, transport.WithProfile(verdict(c.verdict)))
				resp, err := client.Do(request(t.Context(), t, c.method, nil))
				require.NoError(t, err)
				require.Len(t, u.hits, c.hits)
				require.NoError(t, resp.Body.Close())
			})
		})
	}
}

// A wait for a limit that the stack does not have holds back the refused call only.
func TestAWaitOfOneCallHoldsBackNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(1, refuse(http.StatusForbidden)))
		p := newPacer(t, policies.PerSecond(1000).Burst(10).Named("all"))
		client := newClient(t, p, u, transport.WithProfile(verdict(policies.Limited, policies.Feedback{
			Refused: true, Wait: 7 * time.Second, Policies: []string{"search"}, Otherwise: policies.TheCall,
		})))
		req := request(t.Context(), t, http.MethodGet, nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			resp, err := client.Do(req)
			if assert.NoError(t, err) {
				assert.NoError(t, resp.Body.Close())
			}
		}()
		synctest.Wait()
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		<-done
		require.Equal(t, []time.Duration{0, 7 * time.Second}, u.hits)
	})
}

// A profile that reads nothing reads as the generic one does.
func TestAProfileWithoutReadStillReadsARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(1, refuse(http.StatusTooManyRequests, "Retry-After", "3")))
		client := newClient(t, newPacer(t), u, transport.WithProfile(policies.Profile{Name: "only scopes"}))
		resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, []time.Duration{0, 3 * time.Second}, u.hits)
	})
}

// An estimate that a policy never admits at once is charged as far as it admits, and the rest afterwards.
func TestAnEstimateThatIsTooHighIsNotRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.PerSecond(1).Burst(8).Per("shop").Named("points"))
		u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
			return reply(req, http.StatusOK, "cost=13"), nil
		})
		client := newClient(t, p, u, transport.WithProfile(points))
		for range 2 {
			resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
		}
		require.Equal(t, []time.Duration{0, 13 * time.Second}, u.hits)
	})
}

// An estimate for every policy is at most what each of them admits, beside a cost of its own, and except for permits, which return. Policies
// that came after the client count, too.
func TestAnEstimateForEveryPolicyIsNotRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		profile := policies.Profile{
			Name: "all",
			Costs: func(*http.Request) []policies.Cost {
				return []policies.Cost{{Policy: "calls", N: 1}, {N: 13}, {Policy: "a policy that nobody has", N: 7}}
			},
			Settle: func(*policies.Reply) []policies.Cost { return nil },
		}
		for _, opts := range [][]transport.Option{nil, {transport.WithCost(func(*http.Request) int64 { return 5 })}} {
			p := newPacer(t, policies.PerSecond(9))
			client := newClient(t, p, newUpstream(ok(0, nil)), append(opts, transport.WithProfile(profile))...)
			require.NoError(t, p.Declare(policies.Fixed(8, time.Hour).Named("points"), policies.Fixed(100, time.Hour).Named("tokens"),
				policies.Fixed(100, time.Hour).Named("calls"), policies.InFlight(9)))
			resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			s, err := p.Status(t.Context())
			require.NoError(t, err)
			want := []int64{0, 87, 99, 9}
			if opts != nil { // WithCost overrides the profile
				want = []int64{3, 95, 99, 9}
			}
			require.Equal(t, want, []int64{s.Policies[0].Remaining, s.Policies[1].Remaining, s.Policies[2].Remaining, s.Policies[3].Remaining})
		}
	})
}

// A scope of the user's goes before the profile's, and an empty value takes the call out of it.
func TestAScopeOverridesTheProfiles(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "mine"} {
		synctest.Test(t, func(t *testing.T) {
			p := newPacer(t, policies.Fixed(100, time.Minute).Per("shop").Optional().Named("points"))
			u := newUpstream(ok(0, nil))
			client := newClient(t, p, u, transport.WithProfile(points), transport.WithScope("shop", func(*http.Request) string { return value }))
			resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			for shop, want := range map[string]int64{"upstream.test": 100, "mine": 90} {
				if value == "" {
					want = 100
				}
				s, err := p.Status(t.Context(), pacer.Scope("shop", shop))
				require.NoError(t, err)
				require.Equal(t, want, s.Policies[0].Remaining, shop)
			}
		})
	}
}

// A profile that distinguishes callers by credentials warns, once, where it sees none.
func TestCallersWithoutACredentialAreWarnedOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		profile policies.Profile
		field   string
		opts    []transport.Option
		want    int
	}{
		"authentication below":  {github.Profile, "", nil, 1},
		"authentication above":  {github.Profile, "Authorization", nil, 0},
		"in a field of its own": {shopify.Profile, "X-Shopify-Access-Token", nil, 0},
		"no credential needed":  {points, "", nil, 0},
		"named by the user":     {github.Profile, "", []transport.Option{transport.WithScope("core", func(*http.Request) string { return "me" })}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var logged bytes.Buffer
				u := newUpstream(ok(0, nil))
				client := newClient(t, newPacer(t), u, append(c.opts, transport.WithProfile(c.profile),
					transport.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))...)
				for range 10 {
					req := request(t.Context(), t, http.MethodGet, nil)
					if c.field != "" {
						req.Header.Set(c.field, "secret")
					}
					resp, err := client.Do(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				}
				synctest.Wait()
				require.Equal(t, c.want, strings.Count(logged.String(), "no credential"), logged.String())
				require.NotContains(t, logged.String(), "secret")
			})
		})
	}
}
