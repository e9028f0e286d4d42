package awspacer_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/middleware"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/awspacer"
	"github.com/headway-go/headway/policies"
)

// get returns what GetObject does with one permit, and whether that is taken.
func get(t *testing.T, u *upstream, more ...func(*middleware.Stack) error) (object func(context.Context) (*s3.GetObjectOutput, error), taken func() bool) {
	t.Helper()
	p := newPacer(t, policies.InFlight(1).Lease(3*time.Second))
	cfg := once(serve(t, u))
	awspacer.AppendMiddlewares(&cfg.APIOptions, p)
	cfg.APIOptions = append(cfg.APIOptions, more...)
	client := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
	object = func(ctx context.Context) (*s3.GetObjectOutput, error) {
		return client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
	}
	return object, func() bool {
		synctest.Wait()
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		return s.Policies[0].Remaining == 0
	}
}

// object answers with a body of a megabyte.
func object(_ int, w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
}

// An output's body holds the permit until it is over, however that is.
func TestABodyHoldsThePermit(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]func(out *s3.GetObjectOutput, cancel func()) error{
		"read": func(out *s3.GetObjectOutput, _ func()) error {
			_, err := io.Copy(io.Discard, out.Body)
			return err
		},
		"closed": func(out *s3.GetObjectOutput, _ func()) error { return out.Body.Close() },
		"ended": func(_ *s3.GetObjectOutput, cancel func()) error {
			cancel()
			return nil
		},
		"left": func(*s3.GetObjectOutput, func()) error {
			time.Sleep(10 * time.Second)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				get, taken := get(t, &upstream{answer: object})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				out, err := get(ctx)
				require.NoError(t, err)
				defer out.Body.Close()
				require.True(t, taken())
				for range 10 { // it goes on while it is read
					time.Sleep(time.Second)
					_, err = io.ReadFull(out.Body, make([]byte, 100))
					require.NoError(t, err)
				}
				require.True(t, taken())
				require.NoError(t, over(out, cancel))
				require.False(t, taken())
			})
		})
	}
}

// A body that came a moment ago keeps its permit for a lease at least.
func TestAFreshBodyKeepsThePermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		get, taken := get(t, &upstream{answer: func(n int, w http.ResponseWriter, r *http.Request) {
			time.Sleep(10500 * time.Millisecond) // half a second after the lease was renewed
			object(n, w, r)
		}})
		out, err := get(t.Context())
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		require.True(t, taken())
		require.NoError(t, out.Body.Close())
	})
}

// A body that the caller does not get holds no permit.
func TestABodyThatIsLostHoldsNoPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		get, taken := get(t, &upstream{answer: object}, afterwards(func() error { return errors.New("not this one") }))
		_, err := get(t.Context())
		require.Error(t, err)
		require.False(t, taken())
	})
}

// endless is a context that others can only wait for with a goroutine.
type endless struct {
	context.Context

	done chan struct{}
}

func (e endless) Done() <-chan struct{} { return e.done }

// Nothing waits for the end of the context of a call that is over: the test would not end.
func TestNothingIsLeftOfACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.PerSecond(1000))
		cfg := once(roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		}))
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		_, err := sqs.NewFromConfig(cfg).ListQueues(endless{t.Context(), make(chan struct{})}, &sqs.ListQueuesInput{})
		require.NoError(t, err)
	})
}

// A read that waits for a slow service keeps the permit.
func TestASlowReadKeepsThePermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		get, taken := get(t, &upstream{answer: func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(20 * time.Second)
			_, _ = io.WriteString(w, "late")
		}})
		out, err := get(t.Context())
		require.NoError(t, err)
		read := make(chan string)
		go func() {
			b, _ := io.ReadAll(out.Body)
			read <- string(b)
		}()
		time.Sleep(15 * time.Second)
		require.True(t, taken())
		require.Equal(t, "late", <-read)
		require.False(t, taken())
	})
}

// A call holds its permit while the service works, and not longer, if its output has no body, or it fails.
func TestWhatHasNoBodyHoldsNoPermit(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(int, http.ResponseWriter, *http.Request){
		"empty":    func(int, http.ResponseWriter, *http.Request) {},
		"an error": answers(404, "NoSuchKey"),
		"a broken body": func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("x"))
		},
		"no response": func(int, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				get, taken := get(t, &upstream{answer: func(n int, w http.ResponseWriter, r *http.Request) {
					time.Sleep(10 * time.Second) // longer than the lease
					answer(n, w, r)
				}})
				during := make(chan bool, 1)
				time.AfterFunc(9*time.Second, func() { during <- taken() })
				out, err := get(t.Context())
				if err == nil {
					_, _ = io.Copy(io.Discard, out.Body)
				}
				require.True(t, <-during)
				require.False(t, taken())
			})
		})
	}
}

type explosive struct{}

func (explosive) Read([]byte) (int, error) { panic("no") }

// Nothing is left of a call whose later middlewares panic, or whose body does.
func TestAPanicReturnsThePermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.InFlight(1))
		cfg := once(roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(explosive{})}, nil
		}))
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		out, err := s3.NewFromConfig(cfg).GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
		require.NoError(t, err)
		require.Panics(t, func() { _, _ = io.ReadAll(out.Body) })
		cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { panic("no") })
		require.Panics(t, func() { _, _ = sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{}) })
		r, err := p.TryAcquire(t.Context())
		require.NoError(t, err)
		r.Release()
	})
}

// An attempt that fails before it is sent gives back its charge.
func TestWhatIsNotSentIsNotCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.Sliding(1, time.Hour), policies.Sliding(10, time.Hour).Named("points"))
		cfg := once(serve(t, &upstream{}))
		awspacer.AppendMiddlewares(&cfg.APIOptions, p, awspacer.WithCallOptions(func(context.Context, string, string, any) []pacer.Option {
			return []pacer.Option{pacer.CostOf("points", 10)}
		}))
		good := sqs.NewFromConfig(cfg)
		broken := errors.New("no credentials")
		cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, broken })
		_, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{})
		require.ErrorIs(t, err, broken)
		start := time.Now()
		_, err = good.ListQueues(t.Context(), &sqs.ListQueuesInput{})
		require.NoError(t, err)
		require.Less(t, time.Since(start), time.Minute, "there was nothing to wait for")

		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Zero(t, s.Policies[0].Remaining, "what was sent stays charged")
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A connection that fails may have reached the service: the charge stays.
func TestAFailedConnectionIsCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.Sliding(2, time.Hour), policies.InFlight(1))
		cfg := once(roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("reset") }))
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		_, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{})
		require.ErrorContains(t, err, "reset")
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, []int64{1, 1}, []int64{s.Policies[0].Remaining, s.Policies[1].Remaining})
	})
}

// A call that another call needs goes with the permit of that one, and is charged.
func TestCallsWithinCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.InFlight(1), policies.Sliding(10, time.Hour))
		u := &upstream{}
		cfg := once(serve(t, u))
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		sts := sqs.NewFromConfig(cfg) // in its place
		cfg.Credentials = aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			if _, err := sts.ListQueues(ctx, &sqs.ListQueuesInput{}); err != nil {
				return aws.Credentials{}, err
			}
			return credentials(ctx)
		}))
		start := time.Now()
		_, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{})
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, []int64{1, 8}, []int64{s.Policies[0].Remaining, s.Policies[1].Remaining})
	})
}

// A response that a middleware makes up is charged nothing, and holds nothing.
func TestAResponseThatIsMadeUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.InFlight(1), policies.Sliding(10, time.Hour))
		cfg := once(serve(t, &upstream{}))
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		cfg.APIOptions = append(cfg.APIOptions, func(s *middleware.Stack) error {
			return s.Deserialize.Add(middleware.DeserializeMiddlewareFunc("mock", func(context.Context, middleware.DeserializeInput, middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
				return middleware.DeserializeOutput{Result: &sqs.ListQueuesOutput{}}, middleware.Metadata{}, nil
			}), middleware.Before)
		})
		_, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{})
		require.NoError(t, err)
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, []int64{1, 10}, []int64{s.Policies[0].Remaining, s.Policies[1].Remaining})
	})
}
