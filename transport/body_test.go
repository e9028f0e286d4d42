package transport_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// Trap: go-retryablehttp reads whole bodies into memory before the first attempt, and ignores GetBody.
func TestBodiesAreNotReadAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 8 << 20
		var readBefore int64
		first := &trackedBody{Reader: io.LimitReader(zeros{}, size)}
		var got atomic.Int64
		var opened []*trackedBody
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			if got.Load() == 0 {
				readBefore = first.read.Load()
			}
			n, err := io.Copy(io.Discard, req.Body)
			require.NoError(t, err)
			require.NoError(t, req.Body.Close())
			require.Equal(t, int64(size), req.ContentLength)
			if got.Add(n) == size {
				return reply(req, http.StatusTooManyRequests, "", "Retry-After", "1"), nil
			}
			return reply(req, http.StatusOK, ""), nil
		})
		client := newClient(t, newPacer(t), base)
		req := request(t.Context(), t, http.MethodPost, first)
		req.ContentLength = size
		req.GetBody = func() (io.ReadCloser, error) {
			b := &trackedBody{Reader: io.LimitReader(zeros{}, size)}
			opened = append(opened, b)
			return b, nil
		}
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Zero(t, readBefore)
		require.Equal(t, int64(2*size), got.Load())
		require.Equal(t, int64(1), first.closed.Load(), "the original is closed")
		require.Len(t, opened, 1, "GetBody is used, and no body opened for nothing")
		require.Equal(t, int64(1), opened[0].closed.Load())
	})
}

// A stream can be sent once: it is not retried, and not read into memory to make it so.
func TestAStreamIsSentOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(1, refuse(http.StatusTooManyRequests)))
		client := newClient(t, newPacer(t), u)
		body := newBody("stream")
		resp, err := client.Do(request(t.Context(), t, http.MethodPut, body))
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		require.Len(t, u.hits, 1)
		require.Equal(t, int64(1), body.closed.Load())
	})
}

// A slot that was reserved for an attempt which then cannot be made is given back.
func TestABodyThatCannotBeRewoundGivesTheSlotBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(1, refuse(http.StatusTooManyRequests)))
		p := newPacer(t, policies.Every(time.Hour).Burst(2))
		client := newClient(t, p, u)
		req := request(t.Context(), t, http.MethodPut, newBody("x"))
		broken := errors.New("the file is gone")
		req.GetBody = func() (io.ReadCloser, error) { return nil, broken }
		_, err := client.Do(req)
		require.ErrorIs(t, err, broken)
		require.Len(t, u.hits, 1)
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)), "one of two is left")
	})
}

// Trap: a response that is not returned must be drained and closed, one that is returned must be neither.
func TestOnlyResponsesThatAreRetriedAreDrained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bodies []*replyBody
		u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
			resp, b := withBody(reply(req, http.StatusTooManyRequests, ""), "slow down")
			bodies = append(bodies, b)
			return resp, nil
		})
		resp, err := newClient(t, newPacer(t), u, transport.WithRetries(2)).Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Len(t, bodies, 3)
		for _, b := range bodies[:2] {
			require.Equal(t, b.size, b.read.Load())
			require.Equal(t, int64(1), b.closed.Load())
		}
		last := bodies[2]
		require.Zero(t, last.read.Load())
		require.Zero(t, last.closed.Load())
		require.NoError(t, resp.Body.Close())
	})
}

// A caller that leaves while a response is drained gets the context's error, and not that response.
func TestADrainedResponseIsNotReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
			resp := reply(req, http.StatusTooManyRequests, "slow down")
			resp.Body = leavingBody{resp.Body, cancel}
			return resp, nil
		})
		p := newPacer(t, policies.Every(time.Hour).Burst(2))
		resp, err := newClient(t, p, u).Transport.RoundTrip(request(ctx, t, http.MethodGet, nil))
		require.ErrorIs(t, err, context.Canceled)
		require.Nil(t, resp)
		require.Len(t, u.hits, 1)
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)), "one of two is left")
	})
}

// leavingBody is a body whose reader leaves when it closes it.
type leavingBody struct {
	io.ReadCloser

	leave func()
}

func (b leavingBody) Close() error {
	b.leave()
	return b.ReadCloser.Close()
}
