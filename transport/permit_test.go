package transport_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// counted is a store that counts how often each call returned its permit, and how often one was renewed.
type counted struct {
	*memstore.Store

	mu       sync.Mutex
	released map[int64]int
	renewed  int
}

func (c *counted) Report(ctx context.Context, stack store.Stack, notes []store.Note) (store.Instant, int, error) {
	c.mu.Lock()
	for i := range notes {
		switch notes[i].Kind { //nolint:exhaustive // the others are not about permits
		case store.NoteRelease:
			c.released[notes[i].Value]++
		case store.NoteRenew:
			c.renewed++
		}
	}
	c.mu.Unlock()
	return c.Store.Report(ctx, stack, notes)
}

// releases returns how many calls returned their permits, and fails if one did so twice.
func (c *counted) releases(t *testing.T) int {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, n := range c.released {
		require.Equal(t, 1, n, "call %d returned its permit", id)
	}
	return len(c.released)
}

// permits returns a client whose calls share two permits with a lease of 3 s, and its store.
func permits(t *testing.T, base http.RoundTripper, opts ...transport.Option) (*http.Client, *pacer.Pacer, *counted) {
	t.Helper()
	store := &counted{Store: memstore.New(), released: make(map[int64]int)}
	p, err := pacer.New(pacer.Config{
		Upstream: "test", Store: store, Policies: []policies.Policy{policies.InFlight(2).Lease(3 * time.Second)},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	client, err := transport.NewClient(p, append(opts, transport.WithBase(base))...)
	require.NoError(t, err)
	return client, p, store
}

// free returns how many permits are free.
func free(t *testing.T, p *pacer.Pacer) int64 {
	t.Helper()
	s, err := p.Status(t.Context())
	require.NoError(t, err)
	return s.Policies[0].Remaining
}

// failing is a body that fails after its first byte.
type failing struct{ n int }

func (f *failing) Read(p []byte) (int, error) {
	if f.n++; f.n == 1 {
		p[0] = 'x'
		return 1, nil
	}
	return 0, io.ErrUnexpectedEOF
}

func (*failing) Close() error { return nil }

// However a call ends, its permit comes back, and once.
func TestEveryPermitComesBackOnce(t *testing.T) {
	t.Parallel()
	answered := func(_ int, req *http.Request) (*http.Response, error) { return reply(req, 200, "a body"), nil }
	type getter = func(context.Context) (*http.Response, error)
	for _, c := range []struct {
		name   string
		answer func(int, *http.Request) (*http.Response, error)
		call   func(ctx context.Context, get getter) error
		after  time.Duration // when the permit is back
		quiet  bool          // nobody returns it: the lease runs out
	}{
		{"closed", answered, func(ctx context.Context, get getter) error {
			resp, err := get(ctx)
			return errors.Join(err, resp.Body.Close())
		}, 0, false},
		{"closed twice", answered, func(ctx context.Context, get getter) error {
			resp, err := get(ctx)
			return errors.Join(err, resp.Body.Close(), resp.Body.Close())
		}, 0, false},
		{"read to its end, and never closed", answered, func(ctx context.Context, get getter) error {
			resp, err := get(ctx)
			_, failed := io.ReadAll(resp.Body)
			return errors.Join(err, failed)
		}, 0, false},
		{"read to its end, and closed", answered, func(ctx context.Context, get getter) error {
			resp, err := get(ctx)
			_, failed := io.ReadAll(resp.Body)
			return errors.Join(err, failed, resp.Body.Close())
		}, 0, false},
		{"read until it fails", func(_ int, req *http.Request) (*http.Response, error) {
			resp := reply(req, 200, "")
			resp.Body, resp.ContentLength = &failing{}, -1
			return resp, nil
		}, func(ctx context.Context, get getter) error {
			resp, err := get(ctx)
			if _, failed := io.ReadAll(resp.Body); !errors.Is(failed, io.ErrUnexpectedEOF) {
				return errors.New("the body did not fail")
			}
			return err
		}, 0, false},
		{"abandoned with its context", answered, func(ctx context.Context, get getter) error {
			ctx, cancel := context.WithCancel(ctx)
			_, err := get(ctx)
			cancel()
			return err
		}, 0, false},
		{"abandoned with its context, and closed", answered, func(ctx context.Context, get getter) error {
			ctx, cancel := context.WithCancel(ctx)
			resp, err := get(ctx)
			cancel()
			_ = resp.Body.Close()
			return err
		}, 0, false},
		{"never closed, nor read", answered, func(ctx context.Context, get getter) error {
			_, err := get(ctx)
			return err
		}, 6 * time.Second, true},
		{"without a body", func(_ int, req *http.Request) (*http.Response, error) {
			resp := reply(req, 204, "")
			resp.Body = http.NoBody
			return resp, nil
		}, func(ctx context.Context, get getter) error {
			_, err := get(ctx)
			return err
		}, 0, false},
		{"a call that fails", func(int, *http.Request) (*http.Response, error) { return nil, http.ErrSchemeMismatch }, func(ctx context.Context, get getter) error {
			if _, err := get(ctx); !errors.Is(err, http.ErrSchemeMismatch) {
				return errors.New("it did not fail")
			}
			return nil
		}, 0, false},
		{"a transport that panics", func(int, *http.Request) (*http.Response, error) { panic("broken") }, func(ctx context.Context, get getter) (err error) {
			defer func() {
				if recover() == nil {
					err = errors.New("it did not panic")
				}
			}()
			_, err = get(ctx)
			return err
		}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, p, store := permits(t, newUpstream(c.answer))
				require.NoError(t, c.call(t.Context(), func(ctx context.Context) (*http.Response, error) {
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://upstream.test/", http.NoBody)
					if err != nil {
						return nil, err
					}
					return client.Do(req)
				}))
				synctest.Wait()
				if c.after > 0 {
					require.Equal(t, int64(1), free(t, p), "the lease has not run out yet")
					time.Sleep(c.after)
				}
				synctest.Wait()
				require.Equal(t, int64(2), free(t, p))
				want := 1
				if c.quiet {
					want = 0
				}
				require.Equal(t, want, store.releases(t))
			})
		})
	}
}

// A call keeps its permit until it is answered, and while its body is read, however slowly.
func TestAPermitIsKeptWhileTheCallLives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		body, feed := io.Pipe()
		client, p, store := permits(t, newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
			time.Sleep(10 * time.Second) // longer than a lease
			resp := reply(req, 200, "")
			resp.Body, resp.ContentLength = body, -1
			return resp, nil
		}))
		began := time.Now()
		go func() {
			for i := range 10 {
				time.Sleep(2 * time.Second)
				if i%5 == 0 {
					continue
				}
				if time.Since(began) > 10*time.Second {
					_, _ = feed.Write([]byte("x"))
				}
			}
			_ = feed.Close()
		}()
		go func() {
			for range 19 {
				time.Sleep(time.Second)
				if time.Since(began) < 19*time.Second {
					if s, err := p.Status(t.Context()); err != nil || s.Policies[0].Remaining != 1 {
						t.Errorf("after %v: %+v, %v: want one permit to be taken", time.Since(began), s, err)
					}
				}
			}
		}()
		resp, err := client.Get("http://upstream.test/")
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		synctest.Wait()
		require.Equal(t, int64(2), free(t, p))
		require.Equal(t, 1, store.releases(t))
		require.Positive(t, store.renewed)
	})
}

// Calls beyond the permits wait for one, and there are never more at the upstream.
func TestTheTransportKeepsToThePermits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		client, p, store := permits(t, newUpstream(func(n int, req *http.Request) (*http.Response, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Duration(1+n%7) * 100 * ms)
			mu.Lock()
			running--
			mu.Unlock()
			return reply(req, 200, "x"), nil
		}))
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				resp, err := client.Get("http://upstream.test/")
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
			})
		}
		all.Wait()
		synctest.Wait()
		require.Equal(t, 2, most)
		require.Equal(t, 20, store.releases(t))
		require.Equal(t, int64(2), free(t, p))
	})
}

// Each attempt has its own permit, one after the other: a retry does not wait for the permit of its own last attempt.
func TestARetryTakesItsOwnPermit(t *testing.T) {
	t.Parallel()
	for name, backoff := range map[string]time.Duration{"at once": 0, "later": 700 * ms} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, err := pacer.New(pacer.Config{Upstream: "test", Policies: []policies.Policy{policies.InFlight(1)}})
				require.NoError(t, err)
				t.Cleanup(func() { _ = p.Close() })
				u := newUpstream(ok(3, func(req *http.Request) (*http.Response, error) { return reply(req, 503, "sorry"), nil }))
				client, err := transport.NewClient(p, transport.WithBase(u), transport.WithBackoff(backoff, backoff))
				require.NoError(t, err)
				resp, err := client.Get("http://upstream.test/")
				require.NoError(t, err)
				require.Equal(t, 200, resp.StatusCode)
				require.NoError(t, resp.Body.Close())
				require.Len(t, u.hits, 4)
				require.Less(t, u.hits[3], 3*time.Second)
			})
		})
	}
}

// connection is the body of a protocol switch.
type connection struct {
	io.Reader
	strings.Builder

	halfClosed bool
}

func (c *connection) Close() error { return nil }

func (c *connection) CloseWrite() error {
	c.halfClosed = true
	return nil
}

// The body of a protocol switch can still be written to, and that direction closed.
func TestAPermitDoesNotBreakAProtocolSwitch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := &connection{Reader: strings.NewReader("x")}
		var saw []policies.Reply
		client, p, _ := permits(t, newUpstream(func(n int, req *http.Request) (*http.Response, error) {
			resp := reply(req, http.StatusSwitchingProtocols, "")
			resp.Body = conn
			if n == 0 {
				resp.Body = struct {
					io.ReadCloser
					io.Writer
				}{conn, conn}
			}
			return resp, nil
		}), transport.WithProfile(peeking(10, &saw)))
		for _, closes := range []bool{false, true} {
			resp, err := client.Get("http://upstream.test/")
			require.NoError(t, err)
			w, ok := resp.Body.(io.ReadWriteCloser)
			require.True(t, ok)
			_, err = w.Write([]byte("y"))
			require.NoError(t, err)
			half, ok := w.(interface{ CloseWrite() error })
			require.Equal(t, closes, ok)
			if closes {
				require.NoError(t, half.CloseWrite())
			}
			require.NoError(t, w.Close())
		}
		synctest.Wait()
		require.Equal(t, "yy", conn.String())
		require.True(t, conn.halfClosed)
		require.Equal(t, int64(2), free(t, p))
	})
}
