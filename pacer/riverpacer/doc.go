// Package riverpacer runs the jobs of River (https://riverqueue.com), a queue in PostgreSQL, at a Pacer's pace: a job that may not go yet
// is snoozed until shortly before its slot.
//
//	client, err := river.NewClient(driver, &river.Config{
//		Middleware: []rivertype.Middleware{riverpacer.New(p)},
//		...
//	})
//
// Book a job's slot when you insert the job:
//
//	tok, wait, err := p.Book(ctx, pacer.Scope("tenant", tenant), pacer.MaxWait(time.Hour))
//	_, err = client.Insert(ctx, args, riverpacer.InsertOpts(tok, wait, nil))
//
// The token is in the job's metadata. A job that was inserted without one is booked when a worker first has it, with the options of
// [WithOptions], and snoozed. If the insertion fails, or if you delete or cancel the job, cancel the booking with pacer.Pacer.CancelBooking
// and the job's [Token]: otherwise the slot stays charged, unused.
//
// A handler whose client is paced by package transport makes its request under pacer.WithReservation(ctx, riverpacer.Reservation(ctx)):
// otherwise the call is charged twice.
//
// # Timing
//
// A slot that is past is not given back, so a job has to be fetched in time. River fetches every FetchPollInterval, a second by default. So
// a job is available that much before its slack is over: it comes in time, and waits in the worker for the rest, at most [DefaultDelay].
// With a longer slack, such as that of windows of minutes, no worker waits. To wait less, let the clients fetch more often, such as every
// 25 ms, and set [ComesWithin] for both [New] and [InsertOpts]. A job that is too late nevertheless gets another slot, behind all booked
// ones, and no policy is exceeded.
//
// # Attempts
//
// Each attempt of a job goes once, however often River runs it. An attempt after a failure has a slot of its own. Snoozing is no attempt.
// All errors but those that mean "later" are the attempt's: if the store is out of reach, River tries again by its own policy.
package riverpacer
