package transport_test

import (
	"context"
	"errors"
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
	"github.com/headway-go/headway/transport"
)

// strictKeys is an upstream that lets each key make so many calls in any second, and does not know others.
type strictKeys struct {
	mu      sync.Mutex
	limits  map[string]int
	revoked map[string]bool
	hits    map[string][]time.Time
	refused map[string]int // by key and status
}

func (u *strictKeys) RoundTrip(req *http.Request) (*http.Response, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer secret-of-")
	if u.hits == nil {
		u.hits, u.refused = make(map[string][]time.Time), make(map[string]int)
	}
	limit, known := u.limits[key]
	if !known || u.revoked[key] {
		u.refused[key+" 401"]++
		return reply(req, http.StatusUnauthorized, "who?"), nil
	}
	now, n := time.Now(), 0
	for _, at := range u.hits[key] {
		if now.Sub(at) < time.Second {
			n++
		}
	}
	if n >= limit {
		u.refused[key+" 429"]++
		return reply(req, http.StatusTooManyRequests, "", "Retry-After", "60"), nil
	}
	u.hits[key] = append(u.hits[key], now)
	return reply(req, http.StatusOK, "hello"), nil
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
		u := &strictKeys{limits: map[string]int{"a": 40, "b": 20, "c": 10, "d": 7}, revoked: make(map[string]bool)}
		shared := memstore.New()
		limits := policies.AtMost(40, time.Second).Skew(0).Per("key").Override(policies.AtMost(20, time.Second).Skew(0), "b").
			Override(policies.AtMost(10, time.Second).Skew(0), "c").Override(policies.AtMost(7, time.Second).Skew(0), "d")
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		var calls sync.WaitGroup
		for range 4 {
			p, err := pacer.New(pacer.Config{Upstream: "api", Store: shared, Policies: []policies.Policy{limits}, Jitter: pacer.NoJitter})
			require.NoError(t, err)
			pool, err := p.Pool(pacer.Credentials("a", "b", "c", "d"), "key")
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
		sent := func(key string) int {
			u.mu.Lock()
			defer u.mu.Unlock()
			return len(u.hits[key])
		}
		time.Sleep(10 * time.Second)
		for key, limit := range u.limits {
			require.GreaterOrEqual(t, sent(key)*1000, 10*limit*985, key)
		}
		u.mu.Lock()
		require.Empty(t, u.refused)
		u.revoked["a"] = true
		u.mu.Unlock()
		before := map[string]int{"a": sent("a"), "b": sent("b")}
		time.Sleep(10 * time.Second)
		u.mu.Lock()
		require.Equal(t, map[string]int{"a 401": 1}, u.refused)
		u.revoked["a"] = false
		u.mu.Unlock()
		require.Equal(t, before["a"], sent("a"))
		require.GreaterOrEqual(t, (sent("b")-before["b"])*1000, 10*20*985)
		cancel()
		calls.Wait()

		time.Sleep(transport.CredentialRest)
		p, err := pacer.New(pacer.Config{Upstream: "api", Store: shared, Policies: []policies.Policy{limits}, Jitter: pacer.NoJitter})
		require.NoError(t, err)
		pool, err := p.Pool(pacer.Credentials("a"), "key")
		require.NoError(t, err)
		resp, err := newClient(t, p, u, transport.WithPool(pool, bearer)).Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		_ = resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
	})
}

// A call that is refused because of its key's limit goes by another key, and leaves the caller's request as it was.
func TestARefusedCallGoesByAnotherKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &strictKeys{limits: map[string]int{"a": 0, "b": 50}}
		p := newPacer(t, policies.PerSecond(10).Per("key"))
		pool, err := p.Pool(pacer.Credentials("a", "b"), "key")
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
		require.Equal(t, 1, u.refused["a 429"])
	})
}

// If the function has no credential, the request is not sent, and nothing is left of it.
func TestACredentialThatCannotBeSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &strictKeys{limits: map[string]int{"a": 5}}
		p := newPacer(t, policies.PerSecond(10).Per("key"))
		pool, err := p.Pool(pacer.Credentials("a"), "key")
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
		require.Empty(t, u.hits)
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

// What is wrong with a pool is reported when the transport is made.
func TestAPoolOfAnotherPacer(t *testing.T) {
	t.Parallel()
	p, other := newPacer(t, policies.PerSecond(10).Per("key")), newPacer(t, policies.PerSecond(10).Per("key"))
	pool, err := other.Pool(pacer.Credentials("a"), "key")
	require.NoError(t, err)
	for says, opt := range map[string]transport.Option{
		"another pacer's":    transport.WithPool(pool, bearer),
		"Pool is nil":        transport.WithPool(nil, bearer),
		"without a function": transport.WithPool(pool, nil),
	} {
		_, err := transport.New(p, opt)
		_, ok := errors.AsType[*pacer.ConfigError](err)
		require.True(t, ok, says)
		require.ErrorContains(t, err, says)
	}
}
