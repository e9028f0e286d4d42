package asynqpacer

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/pacer"
)

// Headers of a task.
const (
	header      = "headway-token"
	delayHeader = "headway-delay" // what ComesWithin set
)

// DefaultDelay is the longest time from when a task is due until a worker has it, with asynq's defaults: asynq looks for due tasks every 5
// seconds, and an idle worker for a task every 1.5 seconds at most.
const DefaultDelay = 6500 * time.Millisecond

// ErrNoToken is the error of a task without a token that the middleware should pace. It matches [asynq.SkipRetry]: no later attempt would
// have one.
var ErrNoToken = fmt.Errorf("asynqpacer: the task carries no token: make it with asynqpacer.NewTask: %w", asynq.SkipRetry)

// NewTask is [asynq.NewTask] for a task with the token of a booking, which comes to a worker before its slack is over: tok and wait are
// from [pacer.Pacer.Book]. Its ID begins with the time of the slot, since asynq orders tasks that are due in the same second by their IDs.
// Options override both.
func NewTask(typename string, payload []byte, tok string, wait time.Duration, opts ...asynq.Option) *asynq.Task {
	headers := map[string]string{header: tok}
	delay := DefaultDelay
	for _, o := range opts {
		if d, ok := o.(comesWithin); ok {
			delay = time.Duration(d)
			headers[delayHeader] = delay.String()
		}
	}
	return asynq.NewTaskWithHeaders(typename, payload, headers, append(options(time.Now(), tok, wait, delay), opts...)...)
}

// options returns the ID of a task and when it is due.
func options(now time.Time, tok string, wait, delay time.Duration) []asynq.Option {
	id := fnv.New64a()
	_, _ = id.Write([]byte(tok))
	return []asynq.Option{
		asynq.TaskID(fmt.Sprintf("%014x-%016x", max(0, now.Add(wait).UnixMicro()), id.Sum64())),
		asynq.ProcessIn(due(now, wait, pacer.SlackOf(tok), delay)),
	}
}

// comesWithin is an option of NewTask: asynq ignores it.
type comesWithin time.Duration

// ComesWithin is an option for [NewTask] that sets the longest time from when a task is due until a worker has it: the servers'
// DelayedTaskCheckInterval and 1.5 times their TaskCheckInterval. A task whose slack is shorter than that and a second is due so much
// earlier, and waits in the worker for its slot. Defaults to [DefaultDelay].
func ComesWithin(d time.Duration) asynq.Option { return comesWithin(max(0, d)) }

// String implements [asynq.Option].
func (c comesWithin) String() string { return fmt.Sprintf("ComesWithin(%v)", time.Duration(c)) }

// Type implements [asynq.Option]. It is none of asynq's types.
func (c comesWithin) Type() asynq.OptionType { return -1 }

// Value implements [asynq.Option].
func (c comesWithin) Value() any { return time.Duration(c) }

// Token returns the token that a task carries; "" if none.
func Token(task *asynq.Task) string { return task.Headers()[header] }

// delayOf returns the longest time from when a task is due until a worker has it.
func delayOf(task *asynq.Task) time.Duration {
	if d, err := time.ParseDuration(task.Headers()[delayHeader]); err == nil {
		return d
	}
	return DefaultDelay
}

// due returns the time from now until a task is due. asynq truncates it to a second. So a task whose slack lasts until it comes is due late
// enough not to be early, and any other early enough to come in time.
func due(now time.Time, wait, slack, delay time.Duration) time.Duration {
	at := now.Add(max(0, wait-pacer.RedeemEarly))
	if at.Equal(now) {
		return 0
	}
	whole := at.Truncate(time.Second)
	if whole.Before(at) {
		whole = whole.Add(time.Second)
	}
	if latest := now.Add(wait + slack - delay); latest.Before(whole) {
		whole = latest.Truncate(time.Second)
	}
	return max(0, whole.Sub(now))
}

type reservationKey struct{}

// Reservation returns the reservation of the present task, to report the upstream's feedback, or to settle what the call cost; nil outside
// of a task. It is released after the task.
func Reservation(ctx context.Context) *pacer.Reservation {
	r, _ := ctx.Value(reservationKey{}).(*pacer.Reservation)
	return r
}

// Middleware returns a middleware that redeems each task's booking before the task is processed. It panics if the Pacer is nil.
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
			failures, _ := asynq.GetRetryCount(ctx)                                                                // 0 without a task's context
			r, err := p.Redeem(ctx, tok, pacer.Attempt(int64(failures)+1), pacer.Early(delayOf(task)+time.Second)) // it is due by whole seconds
			turn(ctx, began, r, err)
			if err != nil {
				return err
			}
			defer r.Release()
			return next.ProcessTask(context.WithValue(ctx, reservationKey{}, r), task)
		})
	}
}

// RetryDelay returns an [asynq.RetryDelayFunc] that puts an early task back until its slot, and is other for all other errors. A nil other
// is [asynq.DefaultRetryDelayFunc].
func RetryDelay(other asynq.RetryDelayFunc) asynq.RetryDelayFunc {
	if other == nil {
		other = asynq.DefaultRetryDelayFunc
	}
	return func(n int, err error, task *asynq.Task) time.Duration {
		if later, ok := errors.AsType[*pacer.LimitError](err); ok && later.Reason == pacer.TooEarly {
			return due(time.Now(), later.Wait, later.Slack, delayOf(task))
		}
		return other(n, err, task)
	}
}

// IsFailure returns a function for [asynq.Config] that does not count a task that goes later as failed. For all other errors it is other; a
// nil other counts every error as a failure.
func IsFailure(other func(error) bool) func(error) bool {
	return func(err error) bool {
		if errors.Is(err, pacer.TooEarly) {
			return false
		}
		return other == nil || other(err)
	}
}
