package pacer_test

import (
	"context"
	"errors"
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
	var limit *pacer.LimitError
	if errors.As(err, &limit) && !limit.Never {
		fmt.Println("no preview: ask again in", limit.RetryAfter())
	}
	first.Release() // usually deferred
	second, err := p.TryAcquire(context.Background())
	if err != nil {
		panic(err)
	}
	defer second.Release()
	fmt.Println("a preview")
	// Output:
	// no preview: ask again in 100ms
	// a preview
}

// A worker takes as many rows of a batch as may go now, and leaves the others for later.
func ExamplePacer_AllowAtMost() {
	p, err := pacer.New(pacer.Config{Upstream: "crm", Policies: []policies.Policy{policies.Every(time.Hour).Burst(5)}})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	rows := []string{"a", "b", "c", "d", "e", "f", "g"}
	for {
		granted, err := p.AllowAtMost(context.Background(), int64(min(3, len(rows))))
		var limit *pacer.LimitError
		if errors.As(err, &limit) && !limit.Never {
			fmt.Println("the rest in", limit.RetryAfter().Round(time.Hour))
			return
		}
		if err != nil {
			panic(err)
		}
		fmt.Println(rows[:granted])
		rows = rows[granted:]
	}
	// Output:
	// [a b c]
	// [d e]
	// the rest in 1h0m0s
}

// A scheduler of its own sleeps until the call may go.
func ExampleReservation_At() {
	p, err := pacer.New(pacer.Config{Upstream: "reports", Policies: []policies.Policy{policies.Every(time.Minute)}})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	ctx, now := context.Background(), time.Now()
	for range 2 {
		r, err := p.Reserve(ctx)
		if err != nil {
			panic(err)
		}
		fmt.Println("run in", r.At().Sub(now).Round(time.Minute))
	}
	// Output:
	// run in 0s
	// run in 1m0s
}
