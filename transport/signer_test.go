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
	"github.com/headway-go/headway/transport"
)

// sign signs a request as of now: its date and its payload.
func sign(req *http.Request) error {
	payload, err := req.GetBody()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(payload)
	req.Header.Set("Signature", time.Now().Format(time.RFC3339)+" "+string(text))
	return err
}

// Each attempt is signed when its wait is over, whatever a signer above has left. The caller's request stays as it is.
func TestEachAttemptIsSignedAfterItsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var signatures []string
		u := &upstream{start: time.Now(), answer: func(n int, req *http.Request) (*http.Response, error) {
			signatures = append(signatures, req.Header.Get("Signature"))
			at, _, _ := strings.Cut(req.Header.Get("Signature"), " ")
			if signed, _ := time.Parse(time.RFC3339, at); time.Since(signed) > 5*time.Minute {
				return reply(req, http.StatusForbidden, "expired"), nil
			}
			if n == 0 {
				return reply(req, http.StatusTooManyRequests, "", "Retry-After", "360"), nil
			}
			return reply(req, http.StatusOK, "ok"), nil
		}}
		p, err := pacer.New(pacer.Config{Upstream: "test", Policies: []policies.Policy{policies.Sliding(1, 6*time.Minute)}, MaxWait: time.Hour})
		require.NoError(t, err)
		defer p.Close()
		_, err = p.Acquire(t.Context())
		require.NoError(t, err)
		req := request(t.Context(), t, http.MethodPut, strings.NewReader("payload"))
		req.Header.Set("Signature", time.Now().Format(time.RFC3339))
		before := req.Header.Clone()
		resp, err := newClient(t, p, u, transport.WithSigner(sign)).Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Len(t, signatures, 2)
		require.NotEqual(t, signatures[0], signatures[1])
		require.Equal(t, []string{"payload", "payload"}, u.bodies)
		require.Equal(t, before, req.Header)
	})
}

// closed is a body that notes whether it was closed.
type closed struct {
	io.Reader

	yes bool
}

func (c *closed) Close() error {
	c.yes = true
	return nil
}

// A request that cannot be signed is not sent, not repeated and not charged, and leaves nothing.
func TestWhatCannotBeSigned(t *testing.T) {
	t.Parallel()
	for name, panics := range map[string]bool{"an error": false, "a panic": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, policies.Fixed(10, time.Hour), policies.InFlight(1))
				defer p.Close()
				u := &upstream{start: time.Now()}
				tried := 0
				client := newClient(t, p, u, transport.WithCost(func(*http.Request) int64 { return 5 }), transport.WithSigner(func(*http.Request) error {
					tried++
					if panics {
						panic("no key")
					}
					return io.ErrUnexpectedEOF // which is worth repeating, of a connection
				}))
				body := &closed{Reader: strings.NewReader("payload")}
				req := request(t.Context(), t, http.MethodPut, nil)
				req.Body, req.GetBody = body, func() (io.ReadCloser, error) { return http.NoBody, nil }
				call := func() error {
					resp, err := client.Do(req)
					if err == nil {
						_ = resp.Body.Close()
					}
					return err
				}
				if panics {
					require.PanicsWithValue(t, "no key", func() { _ = call() })
				} else {
					failed, ok := errors.AsType[*transport.SignError](call())
					require.True(t, ok)
					require.ErrorIs(t, failed, io.ErrUnexpectedEOF)
					require.EqualError(t, failed, `transport: upstream "test": the request could not be signed, and was not sent: unexpected EOF`)
				}
				require.Equal(t, 1, tried)
				require.Empty(t, u.hits)
				require.True(t, body.yes)
				s, err := p.Status(t.Context())
				require.NoError(t, err)
				require.Equal(t, []int64{10, 1}, []int64{s.Policies[0].Remaining, s.Policies[1].Remaining})
			})
		})
	}
}

// A request that was sent stays charged, even if there is no answer: the upstream may have seen it.
func TestWhatWasSentStaysCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.Fixed(10, time.Hour))
		defer p.Close()
		u := &upstream{start: time.Now(), answer: func(int, *http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }}
		resp, err := newClient(t, p, u, transport.WithRetries(0)).Do(request(t.Context(), t, http.MethodGet, nil))
		if err == nil {
			_ = resp.Body.Close()
		}
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(9), s.Policies[0].Remaining)
	})
}

func TestANilSigner(t *testing.T) {
	t.Parallel()
	_, err := transport.New(newPacer(t, policies.PerSecond(1)), transport.WithSigner(nil))
	require.ErrorContains(t, err, "transport: Signer is nil: give a function that signs a request")
}
