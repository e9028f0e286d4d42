package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// A job keeps the slot that was booked for it, and redeems it in whichever process runs it.
func ExamplePacer_Book() {
	p, err := pacer.New(pacer.Config{Upstream: "crm", Policies: []policies.Policy{policies.PerMinute(1).Burst(1)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	ctx := context.Background()

	if err := p.Wait(ctx); err != nil { // a call before it
		fmt.Println(err)
		return
	}
	tok, wait, err := p.Book(ctx, pacer.MaxWait(time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the job runs in", wait.Round(time.Minute))

	// A worker has the job too early.
	_, err = p.Redeem(ctx, tok)
	if later, ok := errors.AsType[*pacer.LimitError](err); ok {
		fmt.Println("snooze for", later.Wait.Round(time.Minute))
	}

	// The job is not needed after all.
	if err := p.CancelBooking(ctx, tok); err != nil {
		fmt.Println(err)
		return
	}
	_, err = p.Redeem(ctx, tok)
	fmt.Println(errors.Is(err, pacer.ErrSpent))
	// Output:
	// the job runs in 1m0s
	// snooze for 1m0s
	// true
}
