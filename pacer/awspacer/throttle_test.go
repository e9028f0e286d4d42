package awspacer_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/awspacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// once is a configuration whose clients repeat nothing.
func once(rt http.RoundTripper) aws.Config {
	cfg := config(rt)
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	return cfg
}

// answers handles every request with an error; headers come in pairs.
func answers(status int, code string, headers ...string) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		fail(w, r, status, code)
	}
}

// A throttling error pauses calls for its requested wait; any other error pauses none.
func TestThrottlingErrors(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		answer func(int, http.ResponseWriter, *http.Request)
		opts   []awspacer.Option
		paused time.Duration
		stray  bool // heeded as a refusal that does not concern others
	}{
		"milliseconds":            {answer: answers(400, "ThrottlingException", "X-Amz-Retry-After", "60500"), paused: 60500 * time.Millisecond},
		"seconds":                 {answer: answers(429, "TooManyRequestsException", "Retry-After", "60"), paused: time.Minute},
		"both":                    {answer: answers(503, "SlowDown", "Retry-After", "30", "X-Amz-Retry-After", "60000"), paused: time.Minute},
		"a hostile wait":          {answer: answers(400, "Throttling", "X-Amz-Retry-After", "99999999999999999999"), paused: year},
		"no number":               {answer: answers(400, "Throttling", "X-Amz-Retry-After", "soon"), stray: true},
		"a negative one":          {answer: answers(400, "Throttling", "X-Amz-Retry-After", "-1"), stray: true},
		"no wait":                 {answer: answers(400, "RequestLimitExceeded"), stray: true},
		"no wait, but an option":  {answer: answers(400, "RequestLimitExceeded"), opts: []awspacer.Option{awspacer.WithThrottlePause(time.Minute)}, paused: time.Minute},
		"a wait above the option": {answer: answers(400, "Throttling", "Retry-After", "60"), opts: []awspacer.Option{awspacer.WithThrottlePause(time.Second)}, paused: time.Minute},
		"a negative option":       {answer: answers(400, "Throttling"), opts: []awspacer.Option{awspacer.WithThrottlePause(-time.Minute)}, stray: true},
		"another error":           {answer: answers(400, "ValidationException", "Retry-After", "60")},
		"unavailable":             {answer: answers(503, "ServiceUnavailable", "Retry-After", "60")},
		"not to this user": {
			answer: answers(400, "LimitExceededException", "Retry-After", "60"),
			opts: []awspacer.Option{awspacer.WithThrottles(append([]retry.IsErrorThrottle{retry.IsErrorThrottleFunc(func(err error) aws.Ternary {
				var api smithy.APIError
				if errors.As(err, &api) && api.ErrorCode() == "LimitExceededException" {
					return aws.FalseTernary
				}
				return aws.UnknownTernary
			})}, retry.DefaultThrottles...)...)},
		},
		"nothing": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, err := pacer.New(pacer.Config{Upstream: "aws", Policies: []policies.Policy{policies.PerSecond(1000)}, MaxPause: 2 * year})
				require.NoError(t, err)
				defer func() { require.NoError(t, p.Close()) }()
				cfg := once(serve(t, &upstream{answer: c.answer}))
				awspacer.AppendMiddlewares(&cfg.APIOptions, p, c.opts...)
				_, err = dynamodb.NewFromConfig(cfg).ListTables(t.Context(), &dynamodb.ListTablesInput{})
				if c.answer != nil {
					var api smithy.APIError
					require.ErrorAs(t, err, &api, "the service's error is the caller's, as it is")
				} else {
					require.NoError(t, err)
				}
				s, err := p.Status(t.Context())
				require.NoError(t, err)
				require.Equal(t, c.paused, max(s.PausedFor, s.Policies[0].PausedFor))
				require.Equal(t, c.stray, s.Policies[0].Margin > 0)
			})
		})
	}
}

// A throttling error of a host to which the service redirects is not the service's.
func TestAThrottlingErrorOfAForeignHost(t *testing.T) {
	t.Parallel()
	for location, paused := range map[string]time.Duration{"http://other.test/": 0, "http://aws.test/again": time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			p := newPacer(t, policies.PerSecond(1000))
			cfg := once(roundTripper(func(r *http.Request) (*http.Response, error) {
				w := httptest.NewRecorder()
				if r.Response == nil {
					http.Redirect(w, r, location, http.StatusTemporaryRedirect)
				} else {
					answers(503, "SlowDown", "Retry-After", "60")(0, w, r)
				}
				resp := w.Result()
				resp.Request = r
				return resp, nil
			}))
			awspacer.AppendMiddlewares(&cfg.APIOptions, p)
			client := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
			_, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
			require.ErrorContains(t, err, "SlowDown")
			s, err := p.Status(t.Context())
			require.NoError(t, err)
			require.Equal(t, paused, s.PausedFor)
		})
	}
}

// An error that S3 sends in a 200 counts, too.
func TestAThrottlingErrorInA200(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.PerSecond(1000))
		cfg := once(serve(t, &upstream{answer: answers(200, "SlowDown", "Retry-After", "60")}))
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		_, err := s3.NewFromConfig(cfg).CopyObject(t.Context(), &s3.CopyObjectInput{Bucket: aws.String("b"), Key: aws.String("k"), CopySource: aws.String("b/l")})
		require.ErrorContains(t, err, "SlowDown")
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Minute, s.PausedFor)
	})
}

// A throttling error to one process holds back all, those that wait already included.
func TestTheWholeFleetPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var throttled time.Time
		u := &upstream{answer: func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 0 {
				throttled = time.Now()
				answers(400, "ThrottlingException", "X-Amz-Retry-After", "30000")(n, w, r)
				return
			}
			_, _ = w.Write([]byte("{}"))
		}}
		rt, shared := serve(t, u), memstore.New()
		client := func() *sqs.Client {
			p, err := pacer.New(pacer.Config{Upstream: "aws", Store: shared, Policies: []policies.Policy{policies.PerSecond(1)}, Jitter: pacer.NoJitter})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.Close()) })
			cfg := once(rt)
			awspacer.AppendMiddlewares(&cfg.APIOptions, p)
			return sqs.NewFromConfig(cfg)
		}
		one, other := client(), client()
		done := make(chan error)
		_, err := one.ListQueues(t.Context(), &sqs.ListQueuesInput{})
		require.Error(t, err)
		go func() {
			_, err := other.ListQueues(t.Context(), &sqs.ListQueuesInput{})
			done <- err
		}()
		require.NoError(t, <-done)
		require.GreaterOrEqual(t, time.Since(throttled), 30*time.Second)
	})
}

// A throttling error of one service does not hold back the others, and a narrower scope can be set.
func TestWhomAThrottlingErrorConcerns(t *testing.T) {
	t.Parallel()
	perService := policies.PerSecond(1000).Per(awspacer.ScopeService)
	for name, c := range map[string]struct {
		policy policies.Policy
		opts   []awspacer.Option
		paused map[string]bool
	}{
		"a policy per service":  {perService, nil, map[string]bool{"SQS ListQueues": true, "SQS SendMessage": true, "S3 ListQueues": false}},
		"none":                  {policies.PerSecond(1000), nil, map[string]bool{"SQS ListQueues": true, "SQS SendMessage": true, "S3 ListQueues": true}},
		"no bound":              {perService, []awspacer.Option{awspacer.WithThrottleScope("")}, map[string]bool{"SQS ListQueues": true, "S3 ListQueues": true}},
		"bounded by operations": {policies.PerSecond(1000).Per(awspacer.ScopeOperation), []awspacer.Option{awspacer.WithThrottleScope(awspacer.ScopeOperation)}, map[string]bool{"SQS ListQueues": true, "SQS SendMessage": false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, policies.PerSecond(2000).Named("account"), c.policy.Named("narrow"))
				cfg := once(serve(t, &upstream{answer: answers(400, "ThrottlingException", "X-Amz-Retry-After", "60000")}))
				awspacer.AppendMiddlewares(&cfg.APIOptions, p, c.opts...)
				_, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{})
				require.Error(t, err)
				for call, paused := range c.paused {
					service, operation, _ := strings.Cut(call, " ")
					_, err := p.TryAcquire(t.Context(), pacer.Scope(awspacer.ScopeService, service), pacer.Scope(awspacer.ScopeOperation, operation))
					require.Equal(t, paused, err != nil, "%s: %v", call, err)
				}
			})
		})
	}
}

// slow is a store for which a pause takes a second to apply. Like one that is shared, it does nothing for a context that has ended.
type slow struct{ store.Store }

func (s slow) Report(ctx context.Context, stack store.Stack, notes []store.Note) (store.Instant, int, error) {
	if slices.ContainsFunc(notes, func(n store.Note) bool { return n.Empties() > 0 }) {
		time.Sleep(time.Second)
	}
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	return s.Store.Report(ctx, stack, notes)
}

// The pause is known before another call gets the permit of the call that was refused.
func TestThePauseComesBeforeThePermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{answer: func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 0 {
				time.Sleep(time.Second)
				answers(400, "ThrottlingException", "X-Amz-Retry-After", "60000")(n, w, r)
				return
			}
			_, _ = w.Write([]byte("{}"))
		}}
		cfg := once(serve(t, u))
		p, err := pacer.New(pacer.Config{Upstream: "aws", Store: slow{memstore.New()}, Policies: []policies.Policy{policies.InFlight(1)}, MaxWait: pacer.Forever})
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		client := sqs.NewFromConfig(cfg)
		start := time.Now()
		done := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := client.ListQueues(context.WithoutCancel(t.Context()), &sqs.ListQueuesInput{})
				done <- err
			}()
			synctest.Wait()
		}
		require.Error(t, <-done)
		require.NoError(t, <-done)
		require.GreaterOrEqual(t, time.Since(start), 61*time.Second)
	})
}

// The service's feedback is heeded, though the caller has left.
func TestTheCallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := pacer.New(pacer.Config{Upstream: "aws", Store: slow{memstore.New()}, Policies: []policies.Policy{policies.PerSecond(1000)}})
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		cfg := once(serve(t, &upstream{answer: answers(400, "ThrottlingException", "X-Amz-Retry-After", "60000")}))
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		ctx, cancel := context.WithCancel(t.Context())
		cfg.APIOptions = append(cfg.APIOptions, afterwards(func() error {
			cancel()
			return nil
		}))
		_, err = sqs.NewFromConfig(cfg).ListQueues(ctx, &sqs.ListQueuesInput{})
		require.Error(t, err)
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Minute, s.PausedFor)
	})
}

// afterwards is an option that does something when the output has been read, and may fail the attempt.
func afterwards(do func() error) func(*middleware.Stack) error {
	return func(s *middleware.Stack) error {
		return s.Deserialize.Add(middleware.DeserializeMiddlewareFunc("afterwards", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			out, metadata, err := next.HandleDeserialize(ctx, in)
			return out, metadata, errors.Join(err, do())
		}), middleware.Before)
	}
}
