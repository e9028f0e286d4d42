package transport_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
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
	"github.com/headway-go/headway/policies/openai"
	"github.com/headway-go/headway/transport"
)

// A model is an upstream that meters the tokens of a minute in a bucket that is refilled all the time, as OpenAI documents. It admits no
// call beyond that.
type model struct {
	perMinute float64
	mean      float64   // of the tokens of answers, which are lognormal
	reserves  bool      // it charges max_tokens, or what it makes of the prompt, when a request comes; otherwise what was used, with the answer
	warm, end time.Time // counts begin and end here

	mu             sync.Mutex
	rng            *rand.Rand
	level          float64
	at             time.Time
	calls, refused int
	charged        float64
	first          int // refusals before it was warm, which do not count above
}

// charge refills the bucket and takes tokens.
func (m *model) charge(tokens float64) {
	now := time.Now()
	m.level = min(m.perMinute, m.level+m.perMinute*now.Sub(m.at).Minutes()) - tokens
	m.at = now
	if now.After(m.warm) && now.Before(m.end) {
		m.charged += tokens
	}
}

func (m *model) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var requested struct {
		Most float64 `json:"max_tokens"` //nolint:tagliatelle // the vendor names it
	}
	if err := json.Unmarshal(body, &requested); err != nil {
		return nil, err
	}
	prompt := math.Floor(float64(len(body)) / 4)
	m.mu.Lock()
	wire := time.Duration(5+m.rng.IntN(15)) * ms
	answer := math.Ceil(math.Exp(m.rng.NormFloat64()-0.5) * m.mean)
	m.mu.Unlock()
	if requested.Most > 0 {
		answer = min(answer, requested.Most)
	}
	time.Sleep(wire)
	need := 1.0
	if m.reserves {
		need = max(requested.Most, prompt)
	}
	m.mu.Lock()
	m.charge(0)
	warm := time.Now().After(m.warm)
	if warm {
		m.calls++
	}
	if lacks := need - m.level; lacks > 1e-6 { // less is an error of adding up
		if warm {
			m.refused++
		} else {
			m.first++
		}
		m.mu.Unlock()
		return reply(req, http.StatusTooManyRequests, `{"error":{"type":"tokens","message":"Rate limit reached on tokens per min (TPM)"}}`,
			"Retry-After-Ms", fmt.Sprintf("%.0f", math.Ceil(lacks/m.perMinute*60_000))), nil
	}
	if m.reserves {
		m.charge(need)
	}
	m.mu.Unlock()
	time.Sleep(500*ms + time.Duration(answer)*20*ms)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.charge(0); !m.reserves {
		m.charge(prompt + answer)
	}
	return reply(req, http.StatusOK, fmt.Sprintf(`{"choices":[],"usage":{"total_tokens":%.0f}}`, prompt+answer),
		"X-Ratelimit-Limit-Tokens", fmt.Sprintf("%.0f", m.perMinute), "X-Ratelimit-Remaining-Tokens", fmt.Sprintf("%.0f", max(0, m.level))), nil
}

// Processes that share a store use the tokens of a minute, and are hardly ever refused, though nobody knows what a call will cost: requests
// name ten times the mean, or nothing. The tokens are those that the upstream meters. When the first bucket is spent, a few calls may be.
func TestTokensOfAMinuteAreUsed(t *testing.T) {
	t.Parallel()
	const mean = 300
	for name, c := range map[string]struct {
		profile  policies.Profile
		reserves bool
		most     int // 0: not in requests
		prompt   int // bytes
	}{
		"use metered, ten times the mean asked for":      {openai.Profile, false, 10 * mean, 200},
		"use metered, nothing said":                      {openai.Profile, false, 0, 200},
		"use metered, nothing said of long prompts":      {openai.Profile, false, 0, 4000},
		"reservations metered, ten times the mean":       {openai.Reserved, true, 10 * mean, 200},
		"reservations metered, nothing but long prompts": {openai.Reserved, true, 0, 4000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const perMinute, warm, measured = 150_000, 2 * time.Minute, 3 * time.Minute
				m := &model{
					perMinute: perMinute, mean: mean, reserves: c.reserves, warm: time.Now().Add(warm), end: time.Now().Add(warm + measured),
					rng: rand.New(rand.NewPCG(1, 19)), level: perMinute, at: time.Now(),
				}
				body := fmt.Sprintf(`{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, c.most, strings.Repeat("x", c.prompt))
				askModel(t, m, c.profile, body, warm+measured)
				used, refused := m.charged/(perMinute*measured.Minutes()), float64(m.refused)/float64(m.calls)
				t.Logf("%.1f %% used; %d of %d refused, and %d before", 100*used, m.refused, m.calls, m.first)
				require.GreaterOrEqual(t, used, 0.92) // 95 to 100 % of what three minutes have
				require.LessOrEqual(t, refused, 0.001)
				require.LessOrEqual(t, m.first, 20, "the bucket stood full while the first answers were on their way, and ours did not")
			})
		})
	}
}

// askModel has four processes of 25 callers call a model for some time, as often as they may.
func askModel(t *testing.T, m *model, profile policies.Profile, body string, span time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context()) // with a deadline, the last calls would be refused at once
	defer time.AfterFunc(span, cancel).Stop()
	store := memstore.New()
	var callers sync.WaitGroup
	for range 4 {
		p, err := pacer.New(pacer.Config{
			Upstream: "api", Policies: openai.Limits(100_000, int64(m.perMinute)), Store: store, Jitter: pacer.NoJitter, MaxWait: pacer.Forever,
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		client := newClient(t, p, m, transport.WithProfile(profile), transport.WithRetries(0))
		for range 25 {
			callers.Go(func() {
				for {
					req := request(ctx, t, http.MethodPost, strings.NewReader(body))
					req.Header.Set("Authorization", "Bearer k")
					resp, err := client.Do(req)
					if err != nil {
						require.ErrorIs(t, err, context.Canceled)
						return
					}
					readAll(t, resp.Body)
					require.NoError(t, resp.Body.Close())
				}
			})
		}
	}
	callers.Wait()
}
