// Package asynqpacer runs the tasks of asynq (https://github.com/hibiken/asynq), a queue in Redis, at a Pacer's pace: a task comes to a
// worker shortly before its slot.
//
//	server := asynq.NewServer(redis, asynq.Config{
//		RetryDelayFunc: asynqpacer.RetryDelay(nil),
//		IsFailure:      asynqpacer.IsFailure(nil),
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
// The token is in a header of the task. If Enqueue fails, or if you delete the task, cancel the booking with pacer.Pacer.CancelBooking:
// otherwise the slot stays charged, unused.
//
// A handler whose client is paced by package transport makes its request under pacer.WithReservation(ctx, asynqpacer.Reservation(ctx)):
// otherwise the call is charged twice.
//
// # Timing
//
// Asynq looks for due tasks every 5 seconds, an idle worker looks for a task every second, and delays are whole seconds. A slot that is
// past is not given back. So a task is due that much before its slack is over: it comes in time, and waits in the worker for the rest, at
// most [DefaultDelay] and a second. With a longer slack, such as that of windows of minutes, no worker waits. To wait less, let the servers
// look more often, and set [ComesWithin] for [NewTask]. Have at least as many workers as calls that may be in flight or start at once: what
// all windows admit together. A task that is too late nevertheless gets another slot, behind all booked ones, and no policy is exceeded.
//
// # Attempts
//
// Each attempt of a task goes once, however often asynq delivers it. An attempt after a failure has a slot of its own. Putting a task back
// is no failure and no attempt, but asynq archives one that has no retry left: set asynq.MaxRetry to one more than you want. All errors but
// those that mean "later" are the attempt's: if the store is out of reach, asynq tries again by its own policy.
package asynqpacer
