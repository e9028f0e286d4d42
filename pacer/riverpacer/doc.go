// Package riverpacer has the jobs of River (https://riverqueue.com), a queue in PostgreSQL, go at a Pacer's pace, and no worker wait for
// it: a job that may not go yet is snoozed until its slot.
//
//	middleware := riverpacer.New(p)
//	client, err := river.NewClient(driver, &river.Config{
//		Middleware:        []rivertype.Middleware{middleware},
//		FetchCooldown:     10 * time.Millisecond,
//		FetchPollInterval: 25 * time.Millisecond,
//		...
//	})
//
// Book a job's slot when you insert the job:
//
//	tok, wait, err := p.Book(ctx, pacer.Scope("tenant", tenant), pacer.MaxWait(time.Hour))
//	_, err = client.Insert(ctx, args, riverpacer.InsertOpts(tok, wait, nil))
//
// The token is in the job's metadata. A job that was inserted without one is booked when a worker first has it, and snoozed: with the
// options that [WithOptions] gives. If the insertion fails, cancel the booking with pacer.Pacer.CancelBooking, and so if you delete or
// cancel the job: [Token] returns what to cancel. A slot that nobody cancels stays charged, and nobody uses it.
//
// A handler whose client is paced by package transport makes its request under pacer.WithReservation(ctx, riverpacer.Reservation(ctx)):
// otherwise the call is charged twice.
//
// # Timing
//
// A slot that is past is not given back, so a job has to be fetched in time. River fetches every FetchPollInterval, a second by default.
// The middleware has a job available [Lead] before its slot, and waits for the rest, 30 ms at most. So FetchPollInterval should be about
// 20 ms, unless the policy has a slack (a burst, or windows): then it may be longer by that. A job that is too
// late nevertheless is snoozed once more, and no policy is exceeded.
//
// # Attempts
//
// Each attempt of a job goes once, however often River has it worked. An attempt after a failure has a slot of its own. Snoozing is no
// attempt. All errors but those that mean "later" are the attempt's: if the store is out of reach, River tries again by its own policy.
package riverpacer
