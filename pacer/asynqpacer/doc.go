// Package asynqpacer has the tasks of asynq (https://github.com/hibiken/asynq), a queue in Redis, go at a Pacer's pace, and no worker wait
// for it: a task that may not go yet is put back until its slot.
//
//	server := asynq.NewServer(redis, asynq.Config{
//		RetryDelayFunc:           asynqpacer.RetryDelay(nil),
//		IsFailure:                asynqpacer.IsFailure(nil),
//		DelayedTaskCheckInterval: 50 * time.Millisecond,
//		TaskCheckInterval:        50 * time.Millisecond,
//		...
//	})
//	mux := asynq.NewServeMux()
//	mux.Use(asynqpacer.Middleware(p))
//
// Book a task's slot when you enqueue it:
//
//	tok, wait, err := p.Book(ctx, pacer.Scope("tenant", tenant), pacer.MaxWait(time.Hour))
//	_, err = client.Enqueue(asynqpacer.NewTask("call", payload, tok, wait))
//
// The token is in a header of the task. If Enqueue fails, cancel the booking with pacer.Pacer.CancelBooking, and so if you delete the task:
// a slot that nobody cancels stays charged, and nobody uses it.
//
// A handler whose client is paced by package transport makes its request under pacer.WithReservation(ctx, asynqpacer.Reservation(ctx)):
// otherwise the call is charged twice.
//
// # Timing
//
// Asynq delays tasks by whole seconds: its scores are Unix times. So a task runs up to a second after its slot, and
// all those of a second run at its end. A slot that is past is not given back: give each policy a slack of more than a second, such as a
// burst of 1.2 seconds' worth of its rate, if the upstream admits that, or use windows of minutes. Under a policy with less slack, most tasks come
// too late and are put back once more, and no policy is exceeded. Package riverpacer is for these.
//
// # Attempts
//
// Each attempt of a task goes once, however often asynq delivers it. An attempt after a failure has a slot of its own. To be put back is no
// failure and no attempt, but asynq archives a task that is put back when it has no retry left: set asynq.MaxRetry to one more than you
// want. All errors but those that mean "later" are the attempt's: if the store is out of reach, asynq tries again by its own policy.
package asynqpacer
