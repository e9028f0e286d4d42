package transport_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/openai"
	"github.com/headway-go/headway/transport"
)

// meteredTokens is an upstream that meters the tokens of each key and model, as a bucket of a minute's worth, by what the answers use. It
// answers at a thousandth of a second a token.
type meteredTokens struct {
	perMinute float64

	mu      sync.Mutex
	missing map[string]float64 // from a bucket, when it was last looked at
	looked  map[string]time.Time
	used    []int // in each minute
	began   time.Time
	refused int
}

func (u *meteredTokens) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var model string
	var tokens int
	if _, err := fmt.Sscanf(string(body), `{"max_tokens":2000,"model":"%5s","uses":%d}`, &model, &tokens); err != nil {
		return nil, err
	}
	of := req.Header.Get("Authorization") + model
	u.mu.Lock()
	u.look(of)
	if u.missing[of] > u.perMinute {
		u.refused++
		u.mu.Unlock()
		return reply(req, http.StatusTooManyRequests, "", "Retry-After", "1"), nil
	}
	u.mu.Unlock()
	time.Sleep(time.Duration(tokens) * time.Millisecond)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.look(of)
	u.missing[of] += float64(tokens)
	for len(u.used) <= int(time.Since(u.began).Minutes()) {
		u.used = append(u.used, 0)
	}
	u.used[len(u.used)-1] += tokens
	return reply(req, http.StatusOK, fmt.Sprintf(`{"usage":{"total_tokens":%d,"prompt_tokens":0,"completion_tokens":%[1]d}}`, tokens)), nil
}

// look fills a bucket up.
func (u *meteredTokens) look(of string) {
	now := time.Now()
	u.missing[of] = max(0, u.missing[of]-u.perMinute*now.Sub(u.looked[of]).Minutes())
	u.looked[of] = now
}

// Thirty workers of a batch keep five keys full, for two models, and people hardly wait: their calls are in no lane.
func TestPeopleBesideABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const perMinute, minutes = 60_000, 3
		u := &meteredTokens{perMinute: perMinute, missing: make(map[string]float64), looked: make(map[string]time.Time), began: time.Now()}
		limits := openai.Limits(10_000, perMinute)
		// A twentieth of the burst is for the tokens that the calls in flight use beyond their estimates.
		tokens := limits[1].Burst(perMinute*95/100).Lane("batch", 95)
		p, err := pacer.New(pacer.Config{
			Upstream: "openai", MaxWait: time.Hour, Store: memstore.New(), Policies: []policies.Policy{limits[0], tokens},
		})
		require.NoError(t, err)
		pool, err := p.Pool([]pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}, {ID: "e"}}, openai.ScopeProject)
		require.NoError(t, err)
		client := newClient(t, p, u, transport.WithProfile(openai.Profile), transport.WithPool(pool, bearer))
		ctx, cancel := context.WithTimeout(t.Context(), minutes*time.Minute)
		defer cancel()
		call := func(ctx context.Context, i, tokens int) error {
			body := fmt.Sprintf(`{"max_tokens":2000,"model":"%s","uses":%d}`, []string{"large", "small"}[i%2], tokens)
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.openai.com/v1/chat/completions", strings.NewReader(body))
			require.NoError(t, err)
			resp, err := client.Do(req)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			return err
		}
		var calls sync.WaitGroup
		for i := range 30 {
			calls.Go(func() {
				for call(pacer.With(ctx, pacer.Lane("batch")), i, 200+rand.IntN(1600)) == nil {
				}
			})
		}
		var mu sync.Mutex
		var waits []time.Duration
		for i := 0; ctx.Err() == nil; i++ {
			calls.Go(func() {
				began, tokens := time.Now(), 200+rand.IntN(400)
				if call(ctx, i, tokens) == nil {
					mu.Lock()
					defer mu.Unlock()
					waits = append(waits, time.Since(began)-time.Duration(tokens)*time.Millisecond)
				}
			})
			time.Sleep(time.Second)
		}
		calls.Wait()
		slices.Sort(waits)
		t.Logf("p50 %v, p99 %v, longest %v; %v tokens a minute of %d; %d refused", waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1], u.used, 10*perMinute, u.refused)
		require.Zero(t, u.refused)
		require.LessOrEqual(t, waits[len(waits)*99/100], 500*time.Millisecond)
		for _, n := range u.used[1:minutes] {
			require.GreaterOrEqual(t, n, 10*perMinute*95/100)
		}
	})
}
