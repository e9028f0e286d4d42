package awspacer_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/awspacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// tokens notes what the SDK's retryer takes from its bucket, and what it puts back.
type tokens struct {
	mu    sync.Mutex
	moves []int
}

func (b *tokens) move(n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moves = append(b.moves, n)
	return nil
}

func (b *tokens) GetToken(_ context.Context, cost uint) (func() error, error) {
	return func() error { return b.move(int(cost)) }, b.move(-int(cost))
}

func (b *tokens) AddTokens(n uint) error { return b.move(int(n)) }

// withTokens gives a configuration the SDK's standard retryer, with a bucket that takes notes.
func withTokens(cfg *aws.Config) *tokens {
	b := &tokens{}
	cfg.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) { o.RateLimiter, o.MaxAttempts = b, 4 })
	}
	return b
}

// The retryer takes and puts back the same tokens, for the same outcomes, however long the calls wait. Each attempt is paced.
func TestWaitingCostsNoRetryTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := []string{"", "ThrottlingException", "", "InternalError", "ThrottlingException", "", "ValidationException", "InternalError", "InternalError", "InternalError", "InternalError"}
		run := func(p *pacer.Pacer) (moves []int, attempts int, took time.Duration) {
			u := &upstream{answer: func(n int, w http.ResponseWriter, r *http.Request) {
				switch code := script[n%len(script)]; code {
				case "":
					_, _ = w.Write([]byte("{}"))
				case "InternalError":
					fail(w, r, http.StatusInternalServerError, code)
				default:
					fail(w, r, http.StatusBadRequest, code)
				}
			}}
			cfg := config(serve(t, u))
			bucket := withTokens(&cfg)
			if p != nil {
				awspacer.AppendMiddlewares(&cfg.APIOptions, p)
			}
			client := sqs.NewFromConfig(cfg)
			start := time.Now()
			for range 5 {
				_, _ = client.ListQueues(t.Context(), &sqs.ListQueuesInput{})
			}
			_, attempts = u.seen()
			return bucket.moves, attempts, time.Since(start)
		}
		bare, attempts, _ := run(nil)
		paced, again, took := run(newPacer(t, everySixMinutes()))
		require.Equal(t, len(script), attempts)
		require.Equal(t, attempts, again)
		require.Equal(t, bare, paced)
		require.True(t, slices.ContainsFunc(bare, func(n int) bool { return n < 0 }), "some tokens were taken")
		require.GreaterOrEqual(t, took, time.Duration(len(script)-1)*6*time.Minute)
	})
}

// unreachable is a store that fails as a connection does that is refused.
type unreachable struct{ store.Store }

func (unreachable) Reserve(context.Context, store.Stack, []store.Call, []store.Grant) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// A call that the pacer refuses is not sent, is not repeated and costs no retry token. The caller gets the pacer's error.
func TestWhatThePacerRefusesIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy policies.Policy
		store  store.Store
		wait   time.Duration // what the deadline leaves; 0 for no deadline
		cost   int64
		is     func(error) bool
	}{
		"never": {policy: policies.PerSecond(1), cost: 2, is: func(err error) bool { return errors.Is(err, pacer.TooCostly) }},
		"not before the deadline": {policy: policies.PerMinute(1), wait: time.Second, is: func(err error) bool {
			_, ok := errors.AsType[*pacer.LimitError](err)
			return ok && errors.Is(err, context.DeadlineExceeded) // which the SDK would take for a timeout of the service
		}},
		"not within MaxWait": {policy: policies.Fixed(1, time.Hour), is: func(err error) bool {
			limit, ok := errors.AsType[*pacer.LimitError](err)
			return ok && !errors.Is(limit, context.DeadlineExceeded) && errors.Is(err, pacer.ErrNotYet)
		}},
		"lacks a scope": {policy: policies.PerSecond(1).Per("tenant"), is: func(err error) bool {
			scope, ok := errors.AsType[*pacer.LimitError](err)
			return ok && scope.Scope == "tenant"
		}},
		"the store fails": {policy: policies.PerSecond(1), store: unreachable{memstore.New()}, is: func(err error) bool {
			_, ok := errors.AsType[*pacer.StoreError](err)
			return ok && errors.Is(err, syscall.ECONNREFUSED) // which the SDK would take for a connection to the service
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, err := pacer.New(pacer.Config{Upstream: "aws", Store: c.store, Policies: []policies.Policy{c.policy}})
				require.NoError(t, err)
				defer func() { require.NoError(t, p.Close()) }()
				if c.cost == 0 {
					_, _ = p.TryAcquire(t.Context()) // the first one may go
				}
				u := &upstream{}
				cfg := config(serve(t, u))
				bucket := withTokens(&cfg)
				requested := 0
				awspacer.AppendMiddlewares(&cfg.APIOptions, p, awspacer.WithCallOptions(func(context.Context, string, string, any) []pacer.Option {
					requested++
					return []pacer.Option{pacer.Cost(max(1, c.cost))}
				}))
				ctx := t.Context()
				if c.wait > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.wait)
					defer cancel()
				}
				_, err = sqs.NewFromConfig(cfg).ListQueues(ctx, &sqs.ListQueuesInput{})
				var notSent *awspacer.Error
				require.ErrorAs(t, err, &notSent)
				require.True(t, c.is(err), "%v", err)
				require.Equal(t, 1, requested, "attempts")
				require.Empty(t, bucket.moves)
				require.Empty(t, u.ops)
			})
		})
	}
}

// A call whose context ends while it waits is over at once.
func TestTheContextEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, everySixMinutes())
		_, err := p.Acquire(t.Context())
		require.NoError(t, err)
		cfg := config(serve(t, &upstream{}))
		bucket := withTokens(&cfg)
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		start := time.Now()
		_, err = sqs.NewFromConfig(cfg).ListQueues(ctx, &sqs.ListQueuesInput{})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Minute, time.Since(start))
		require.Empty(t, bucket.moves)
	})
}

// The SDK finds out by how much its clock is wrong, though calls wait between attempts.
func TestAClockThatIsWrong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{ahead: time.Hour}
		cfg := config(serve(t, u))
		awspacer.AppendMiddlewares(&cfg.APIOptions, newPacer(t, everySixMinutes()))
		client := sqs.NewFromConfig(cfg)
		for range 3 {
			_, err := client.ListQueues(t.Context(), &sqs.ListQueuesInput{})
			require.NoError(t, err)
		}
		codes, accepted := u.seen()
		require.Equal(t, []string{"RequestTimeTooSkewed"}, codes, "only the first")
		require.Equal(t, 3, accepted)
	})
}
