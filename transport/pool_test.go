package transport_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/github"
	"github.com/headway-go/headway/policies/openai"
	"github.com/headway-go/headway/transport"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// keys has the upstream of each key.
type keys map[string]*upstreamtest.Upstream

func (k keys) RoundTrip(req *http.Request) (*http.Response, error) {
	return k[strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer secret-of-")].RoundTrip(req)
}

// strictly admits so many calls of a key in any second.
func strictly(n int) *upstreamtest.Upstream {
	return &upstreamtest.Upstream{Limits: []upstreamtest.Limit{upstreamtest.Sliding(n, time.Second)}}
}

// revoked refuses the next n calls of a key.
func revoked(n int, u *upstreamtest.Upstream) *upstreamtest.Upstream {
	u.Inject(n, upstreamtest.Refusal(http.StatusUnauthorized, 0))
	return u
}

// bearer sets a key's secret on a request.
func bearer(req *http.Request, key string) error {
	req.Header.Set("Authorization", "Bearer secret-of-"+key)
	return nil
}

// Four processes use four uneven keys through the transport for all that a strict upstream lets them, and are never refused. When one is
// revoked, they leave it after one reply, and repeat that call by another; when it is good again, they use it again.
func TestAPoolThroughTheTransport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		most := map[string]int{"a": 40, "b": 20, "c": 10, "d": 7}
		u := make(keys)
		for key, n := range most {
			u[key] = strictly(n)
		}
		shared := memstore.New()
		limits := policies.AtMost(40, time.Second).Skew(0).Per("key").Override(policies.AtMost(20, time.Second).Skew(0), "b").
			Override(policies.AtMost(10, time.Second).Skew(0), "c").Override(policies.AtMost(7, time.Second).Skew(0), "d")
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		var calls sync.WaitGroup
		for range 4 {
			p, err := pacer.New(pacer.Config{Upstream: "api", Store: shared, Policies: []policies.Policy{limits}, Jitter: pacer.NoJitter})
			require.NoError(t, err)
			pool, err := p.Pool([]pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}, "key")
			require.NoError(t, err)
			client := newClient(t, p, u, transport.WithPool(pool, bearer))
			for range 20 {
				calls.Go(func() {
					for ctx.Err() == nil {
						resp, err := client.Do(request(ctx, t, http.MethodGet, nil))
						if err != nil {
							continue // the time is over
						}
						_ = resp.Body.Close()
						require.Equal(t, http.StatusOK, resp.StatusCode)
					}
				})
			}
		}
		time.Sleep(10 * time.Second)
		for key, n := range most {
			require.GreaterOrEqual(t, u[key].Admitted()*1000, 10*n*985, key)
			require.Zero(t, u[key].Refused(), key)
		}
		a, b := revoked(1, u["a"]).Admitted(), u["b"].Admitted()
		time.Sleep(10 * time.Second)
		require.Equal(t, []int{a, 1}, []int{u["a"].Admitted(), u["a"].Refused()})
		require.GreaterOrEqual(t, (u["b"].Admitted()-b)*1000, 10*20*985)
		cancel()
		calls.Wait()

		time.Sleep(transport.CredentialRest)
		p, err := pacer.New(pacer.Config{Upstream: "api", Store: shared, Policies: []policies.Policy{limits}, Jitter: pacer.NoJitter})
		require.NoError(t, err)
		pool, err := p.Pool([]pacer.Credential{{ID: "a"}}, "key")
		require.NoError(t, err)
		resp, err := newClient(t, p, u, transport.WithPool(pool, bearer)).Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		_ = resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
	})
}

// A call that is refused because of its key's limit uses another key, and leaves the caller's request as it was.
func TestARefusedCallGoesByAnotherKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		none := &upstreamtest.Upstream{Limits: []upstreamtest.Limit{upstreamtest.FromFirst(0, time.Minute)}}
		u := keys{"a": none, "b": strictly(50)}
		p := newPacer(t, policies.PerSecond(10).Per("key"))
		pool, err := p.Pool([]pacer.Credential{{ID: "a"}, {ID: "b"}}, "key")
		require.NoError(t, err)
		client := newClient(t, p, u, transport.WithPool(pool, bearer))
		for range 10 {
			req := request(t.Context(), t, http.MethodPost, strings.NewReader("body"))
			began := time.Now()
			resp, err := client.Do(req)
			require.NoError(t, err)
			_ = resp.Body.Close()
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Less(t, time.Since(began), 2*time.Second)
			require.Empty(t, req.Header.Get("Authorization"))
		}
		require.Equal(t, 1, none.Refused())
	})
}

// A key that is refused without a Retry-After rests longer each time, without the others, and is used again when the upstream accepts it.
func TestARefusedKeyBacksOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		per      policies.Policy
		together int // calls that are under way
	}{"a rate": {policies.PerSecond(10), 1}, "an exact rate": {policies.AtMost(10, time.Second).Skew(0), 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := keys{"a": strictly(0), "b": strictly(100)} // that is silent about how long to wait
				p := newPacer(t, c.per.Per("key"), policies.PerSecond(1000).Named("all"))
				pool, err := p.Pool([]pacer.Credential{{ID: "a"}, {ID: "b"}}, "key")
				require.NoError(t, err)
				client := newClient(t, p, u, transport.WithPool(pool, bearer))
				ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
				defer cancel()
				var calls sync.WaitGroup
				for range 30 {
					calls.Go(func() {
						for ctx.Err() == nil {
							if resp, err := client.Do(request(ctx, t, http.MethodGet, nil)); err == nil {
								_ = resp.Body.Close()
							}
							time.Sleep(10 * ms)
						}
					})
				}
				time.Sleep(60 * time.Second)
				refused := u["a"].Refused()
				require.LessOrEqual(t, refused, 8*c.together, "one that is stray, and after 1, 2, 4, 8, 16 and 32 s")
				require.Greater(t, u["b"].Admitted(), 590)
				u["a"].SetLimits(upstreamtest.Sliding(100, time.Second))
				time.Sleep(30 * time.Second) // the rest that has begun
				a := u["a"].Admitted()
				time.Sleep(30 * time.Second)
				require.Greater(t, u["a"].Admitted()-a, 290)
				require.LessOrEqual(t, u["a"].Refused(), refused+c.together)
				cancel()
				calls.Wait()
			})
		})
	}
}

// If every key is revoked, no call waits: it gets a 401, or ErrNoCredential, whether it comes then or waits already, and the keys are not
// tried more often than once in a process. Later they are tried again. A call that is bound anew when the first key rests may lose its slot
// by another key, which is then tried one slot later.
func TestAllKeysAreRevoked(t *testing.T) {
	t.Parallel()
	const slot = 20 * time.Second
	for _, ids := range [][]string{{"a"}, {"a", "b", "c"}} {
		t.Run(strings.Join(ids, " "), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u, all := make(keys), []pacer.Credential(nil)
				lost := slot * time.Duration(min(1, len(ids)-1))
				for _, id := range ids {
					u[id], all = revoked(2, strictly(9)), append(all, pacer.Credential{ID: id})
				}
				shared := memstore.New()
				var clients []*http.Client
				for range 2 {
					p, err := pacer.New(pacer.Config{
						Upstream: "api", Store: shared, Policies: []policies.Policy{policies.Every(slot).Per("key")}, Jitter: pacer.NoJitter, MaxWait: time.Hour,
					})
					require.NoError(t, err)
					pool, err := p.Pool(all, "key")
					require.NoError(t, err)
					clients = append(clients, newClient(t, p, u, transport.WithPool(pool, bearer)))
				}
				get := func(client *http.Client) (status int) {
					resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
					if err == nil {
						require.NoError(t, resp.Body.Close())
						return resp.StatusCode
					}
					none, ok := errors.AsType[*pacer.LimitError](err)
					require.True(t, ok, "%v", err)
					require.ErrorIs(t, err, pacer.ErrRefused)
					require.InDelta(t, transport.CredentialRest-lost/2, none.Wait, float64(lost/2+2*time.Second))
					return 0
				}
				began := time.Now()
				var calls sync.WaitGroup
				for range 20 {
					calls.Go(func() { get(clients[0]) })
				}
				calls.Wait()
				require.Less(t, time.Since(began), lost+2*time.Second, "the back-off, for the next key")
				require.Zero(t, get(clients[0]))
				for _, id := range ids {
					require.Equal(t, []int{0, 1}, []int{u[id].Admitted(), u[id].Refused()})
				}
				if len(ids) > 1 {
					return // the other process waits for the first key that the store has paused
				}
				require.Equal(t, http.StatusUnauthorized, get(clients[1]))
				require.LessOrEqual(t, time.Since(began), slot+time.Second, "the slot after that of the first process, and no pause")
				time.Sleep(transport.CredentialRest)
				require.Equal(t, http.StatusOK, get(clients[0]))
				require.Equal(t, http.StatusOK, get(clients[1]))
			})
		})
	}
}

// If the function has no credential, the request is not sent, and nothing is left of it.
func TestACredentialThatCannotBeSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := keys{"a": strictly(5)}
		p := newPacer(t, policies.PerSecond(10).Per("key"))
		pool, err := p.Pool([]pacer.Credential{{ID: "a"}}, "key")
		require.NoError(t, err)
		vault := errors.New("the vault is sealed")
		client := newClient(t, p, u, transport.WithPool(pool, func(*http.Request, string) error { return vault }), transport.WithRetries(0))
		body := &closing{Reader: strings.NewReader("body")}
		_, err = client.Do(request(t.Context(), t, http.MethodPost, body))
		require.ErrorIs(t, err, vault)
		var unsigned *transport.SignError
		require.ErrorAs(t, err, &unsigned)
		st, err := p.Status(t.Context(), pacer.Scope("key", "a"))
		require.NoError(t, err)
		require.EqualValues(t, 1, st.Policies[0].Remaining, "what is not sent is not charged")
		require.True(t, body.closed)
		require.Empty(t, u["a"].Calls())
	})
}

type closing struct {
	*strings.Reader

	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// New reports mistakes in a pool.
func TestAPoolOfAnotherPacer(t *testing.T) {
	t.Parallel()
	p, other := newPacer(t, policies.PerSecond(10).Per("key")), newPacer(t, policies.PerSecond(10).Per("key"))
	pool, err := other.Pool([]pacer.Credential{{ID: "a"}}, "key")
	require.NoError(t, err)
	for reports, opt := range map[string]transport.Option{
		"another pacer's":    transport.WithPool(pool, bearer),
		"Pool is nil":        transport.WithPool(nil, bearer),
		"without a function": transport.WithPool(pool, nil),
	} {
		_, err := transport.New(p, opt)
		_, ok := errors.AsType[*pacer.ConfigError](err)
		require.True(t, ok, reports)
		require.ErrorContains(t, err, reports)
	}
}

// keysAtOnce is an upstream that lets each key have so many requests at once, each until its body is closed.
type keysAtOnce struct {
	limits map[string]int
	takes  time.Duration // each request; 0: up to 50 ms, at random

	mu      sync.Mutex
	revoked string
	running map[string]int
	served  map[string]int
	tooMany int
}

func (u *keysAtOnce) RoundTrip(req *http.Request) (*http.Response, error) {
	key := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer secret-of-")
	u.mu.Lock()
	u.running[key]++
	if u.running[key] > u.limits[key] {
		u.tooMany++
	}
	status := http.StatusOK
	if u.served[key]++; key == u.revoked {
		status = http.StatusUnauthorized
	}
	u.mu.Unlock()
	if u.takes == 0 {
		time.Sleep(time.Duration(rand.Int64N(int64(50 * time.Millisecond))))
	}
	time.Sleep(u.takes)
	resp := reply(req, status, "hello")
	resp.Body = &countedBody{ReadCloser: resp.Body, over: func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.running[key]--
	}}
	return resp, nil
}

// A countedBody counts how often it ends.
type countedBody struct {
	io.ReadCloser

	once sync.Once
	over func()
}

func (b *countedBody) Close() error {
	b.once.Do(b.over)
	return b.ReadCloser.Close()
}

// A request has a permit of its own key until its body is closed: no key ever has more in flight than it allows, also while one is revoked.
// When all are over, all permits are back.
func TestPermitsOfAPoolThroughTheTransport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &keysAtOnce{limits: map[string]int{"a": 2, "b": 4, "c": 8}, running: make(map[string]int), served: make(map[string]int)}
		shared := memstore.New()
		limits := policies.InFlight(2).Per("key").Override(policies.InFlight(4), "b").Override(policies.InFlight(8), "c")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var calls sync.WaitGroup
		var p *pacer.Pacer
		for range 3 {
			var err error
			p, err = pacer.New(pacer.Config{Upstream: "api", Store: shared, Policies: []policies.Policy{limits}, Jitter: pacer.NoJitter})
			require.NoError(t, err)
			pool, err := p.Pool([]pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}}, "key")
			require.NoError(t, err)
			client := newClient(t, p, u, transport.WithPool(pool, bearer))
			for range 10 {
				calls.Go(func() {
					for ctx.Err() == nil {
						resp, err := client.Do(request(ctx, t, http.MethodGet, nil))
						if err != nil {
							continue // the time is over
						}
						require.Equal(t, http.StatusOK, resp.StatusCode)
						time.Sleep(time.Duration(rand.Int64N(int64(50 * time.Millisecond))))
						_ = resp.Body.Close()
					}
				})
			}
		}
		look := func(change func()) map[string]int {
			u.mu.Lock()
			defer u.mu.Unlock()
			require.Zero(t, u.tooMany)
			change()
			return maps.Clone(u.served)
		}
		time.Sleep(5 * time.Second)
		first := look(func() { u.revoked = "b" })
		for key, n := range u.limits {
			require.InDelta(t, 5*20*n, first[key], float64(20*n), key) // 200 of a draw's lengths differ by a tenth, and more
		}
		time.Sleep(5 * time.Second)
		second := look(func() {})
		require.LessOrEqual(t, second["b"]-first["b"], 4, "those that were on their way when the first was refused")
		require.InDelta(t, 5*20*8, second["c"]-first["c"], 80)
		calls.Wait()
		look(func() {})
		for key, n := range u.limits {
			require.Zero(t, u.running[key])
			st, err := p.Status(t.Context(), pacer.Scope("key", key))
			require.NoError(t, err)
			require.Zero(t, st.Policies[0].Queued)
			if key != "b" { // which is paused
				require.EqualValues(t, n, st.Policies[0].Remaining)
			}
		}
	})
}

// The pool of docs/pools.md: each token of GitHub has its 100 requests at once, and its points.
func TestAPoolOfGitHubsTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &keysAtOnce{limits: map[string]int{"ci": 100, "bot": 100}, running: make(map[string]int), served: make(map[string]int), takes: 20 * time.Second}
		p, err := pacer.New(pacer.Config{Upstream: "github", Policies: github.Limits(github.User), MaxWait: time.Hour})
		require.NoError(t, err)
		pool, err := p.Pool([]pacer.Credential{{ID: "ci"}, {ID: "bot"}}, github.ScopeCredential,
			github.ScopeCore, github.ScopeSearch, github.ScopeCodeSearch, github.ScopeGraphQL, github.ScopeREST, github.ScopeContent)
		require.NoError(t, err)
		client := newClient(t, p, u, transport.WithProfile(github.Profile), transport.WithPool(pool, bearer))
		var calls sync.WaitGroup
		for range 300 {
			calls.Go(func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.github.com/user", http.NoBody)
				require.NoError(t, err)
				resp, err := client.Do(req)
				require.NoError(t, err)
				_ = resp.Body.Close()
			})
		}
		time.Sleep(15 * time.Second)
		u.mu.Lock()
		require.Equal(t, map[string]int{"ci": 100, "bot": 100}, u.running)
		u.mu.Unlock()
		calls.Wait()
		require.Zero(t, u.tooMany)
		require.Equal(t, 300, u.served["ci"]+u.served["bot"])
		require.InDelta(t, 150, u.served["ci"], 5, "all calls end at once, and a permit goes to whichever asks first")
	})
}

// Limits per project and model, as OpenAI's, are those of each key and model: five keys serve five times as much of each.
func TestAPoolOfOpenAIsKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keyAndModel := func(r *http.Request) string {
			return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer secret-of-") + " " + r.Header.Get("Model")
		}
		u := &upstreamtest.Upstream{Limits: []upstreamtest.Limit{upstreamtest.Bucket(10, time.Second).Per(keyAndModel)}}
		p, err := pacer.New(pacer.Config{Upstream: "openai", MaxWait: time.Hour, Policies: []policies.Policy{
			openai.Limits(60, 1_000_000)[0].Burst(10), openai.Limits(60, 1_000_000)[1],
		}})
		require.NoError(t, err)
		all := []pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}, {ID: "e"}}
		pool, err := p.Pool(all, openai.ScopeProject)
		require.NoError(t, err)
		client := newClient(t, p, u, transport.WithProfile(openai.Profile), transport.WithPool(pool, bearer))
		var calls sync.WaitGroup
		for i := range 200 {
			calls.Go(func() {
				model := []string{"large", "small"}[i%2]
				body := strings.NewReader(`{"model":"` + model + `","max_tokens":10}`)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.openai.com/v1/chat/completions", body)
				require.NoError(t, err)
				req.Header.Set("Model", model)
				resp, err := client.Do(req)
				require.NoError(t, err)
				_ = resp.Body.Close()
			})
		}
		began := time.Now()
		calls.Wait()
		require.Zero(t, u.Refused())
		require.LessOrEqual(t, time.Since(began), 11*time.Second, "100 of each model by five keys: 50 at once, and five a second")
		served := make(map[string]int)
		for _, c := range u.Calls() {
			served[keyAndModel(c.Request)]++
		}
		for _, key := range all {
			require.InDelta(t, 20, served[key.ID+" large"], 1)
			require.InDelta(t, 20, served[key.ID+" small"], 1)
		}
	})
}
