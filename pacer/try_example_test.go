package pacer_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// A preview is made if there is a permit for it, and otherwise left out.
func ExamplePacer_TryAcquire() {
	p, err := pacer.New(pacer.Config{Upstream: "previews", Policies: []policies.Policy{policies.InFlight(1), policies.PerSecond(10).Burst(5)}})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	first, err := p.TryAcquire(context.Background())
	if err != nil {
		panic(err)
	}
	_, err = p.TryAcquire(context.Background())
	if wait, ok := pacer.RetryAfter(err); ok {
		fmt.Println("no preview: try again in", wait)
	}
	first.Release() // usually deferred
	second, err := p.TryAcquire(context.Background())
	if err != nil {
		panic(err)
	}
	defer second.Release()
	fmt.Println("a preview")
	// Output:
	// no preview: try again in 100ms
	// a preview
}

// A scheduler of its own sleeps until the call may go.
func ExampleReservation_Delay() {
	p, err := pacer.New(pacer.Config{Upstream: "reports", Policies: []policies.Policy{policies.Every(time.Minute)}})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	ctx := context.Background()
	for range 2 {
		r, err := p.Reserve(ctx)
		if err != nil {
			panic(err)
		}
		fmt.Println("run in", r.Delay().Round(time.Minute))
	}
	// Output:
	// run in 0s
	// run in 1m0s
}
