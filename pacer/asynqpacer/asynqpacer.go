package asynqpacer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/pacer"
)

// header is the header of a task that has its token.
const header = "headway-token"

// ErrNoToken is the error of a task that the middleware is to pace and that carries no token. It matches [asynq.SkipRetry]: no later
// attempt would have one.
var ErrNoToken = fmt.Errorf("asynqpacer: the task carries no token: make it with asynqpacer.NewTask: %w", asynq.SkipRetry)

// NewTask is [asynq.NewTask] for a task that carries the token of a booking and is to be processed at its slot: what [pacer.Pacer.Book]
// returned. Options override the time.
func NewTask(typename string, payload []byte, tok string, wait time.Duration, opts ...asynq.Option) *asynq.Task {
	all := append([]asynq.Option{asynq.ProcessIn(wholeSeconds(time.Now(), wait))}, opts...)
	return asynq.NewTaskWithHeaders(typename, payload, map[string]string{header: tok}, all...)
}

// Token returns the token that a task carries; "" if none.
func Token(task *asynq.Task) string { return task.Headers()[header] }

// wholeSeconds returns a delay from now that ends with the second in which a wait ends, unless a booking may be redeemed earlier: what asynq
// would cut off.
func wholeSeconds(now time.Time, wait time.Duration) time.Duration {
	if wait <= pacer.RedeemEarly {
		return 0
	}
	at := now.Add(wait - pacer.RedeemEarly)
	if whole := at.Truncate(time.Second); whole.Before(at) {
		at = whole.Add(time.Second)
	}
	return at.Sub(now)
}

type reservationKey struct{}

// Reservation returns the reservation of the task that is being processed, to report what the upstream said, or to settle what the call
// cost. It is nil outside of one. It is released when the task has been processed.
func Reservation(ctx context.Context) *pacer.Reservation {
	r, _ := ctx.Value(reservationKey{}).(*pacer.Reservation)
	return r
}

// Middleware returns a middleware that has each task redeem its booking before it is processed. It panics if the Pacer is nil.
func Middleware(p *pacer.Pacer) asynq.MiddlewareFunc {
	return middleware(p, func(context.Context, time.Time, *pacer.Reservation, error) {})
}

func middleware(p *pacer.Pacer, turn func(context.Context, time.Time, *pacer.Reservation, error)) asynq.MiddlewareFunc {
	if p == nil {
		panic("asynqpacer: Middleware needs a Pacer")
	}
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			tok := Token(task)
			if tok == "" {
				return ErrNoToken
			}
			began := time.Now()
			failures, _ := asynq.GetRetryCount(ctx) // 0 without a task's context
			r, err := p.Redeem(ctx, tok, pacer.Attempt(int64(failures)+1))
			turn(ctx, began, r, err)
			if err != nil {
				return err
			}
			defer r.Release()
			return next.ProcessTask(context.WithValue(ctx, reservationKey{}, r), task)
		})
	}
}

// RetryDelay returns an [asynq.RetryDelayFunc] that puts a task back until its slot if it is to go later, and is other for all other errors.
// A nil other is [asynq.DefaultRetryDelayFunc].
func RetryDelay(other asynq.RetryDelayFunc) asynq.RetryDelayFunc {
	if other == nil {
		other = asynq.DefaultRetryDelayFunc
	}
	return func(n int, err error, task *asynq.Task) time.Duration {
		if later, ok := errors.AsType[*pacer.LaterError](err); ok {
			return wholeSeconds(time.Now(), later.Wait)
		}
		return other(n, err, task)
	}
}

// IsFailure returns a function for [asynq.Config] that takes no task for failed that is to go later, and is other for all other errors. A nil
// other takes every error for a failure.
func IsFailure(other func(error) bool) func(error) bool {
	return func(err error) bool {
		if _, ok := errors.AsType[*pacer.LaterError](err); ok {
			return false
		}
		return other == nil || other(err)
	}
}
