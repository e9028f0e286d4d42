package riverpacer_test

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/riverpacer"
	"github.com/headway-go/headway/policies"
)

// A job is booked when it is inserted, and available shortly before its slot.
func ExampleInsertOpts() {
	p, err := pacer.New(pacer.Config{Upstream: "crm", Policies: []policies.Policy{policies.PerMinute(1).Burst(1)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	for range 3 {
		tok, wait, err := p.Book(context.Background(), pacer.MaxWait(time.Hour))
		if err != nil {
			fmt.Println(err)
			return
		}
		opts := riverpacer.InsertOpts(tok, wait, &river.InsertOpts{Queue: "crm"})
		// client.Insert(ctx, args, opts)
		fmt.Println(opts.Queue, wait.Round(time.Minute), opts.ScheduledAt.IsZero())
	}
	// Output:
	// crm 0s true
	// crm 1m0s false
	// crm 2m0s false
}
