package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
)

func Example() {
	p, err := pacer.New(pacer.Config{
		Upstream: "salesforce",
		Policies: []policies.Policy{
			policies.Daily(100_000, time.UTC),
			policies.PerSecond(25).Burst(10).Named("peak"),
			policies.PerSecond(2).Per("tenant"),
		},
	})
	if err != nil {
		panic(err)
	}
	defer p.Close()

	ctx := pacer.With(context.Background(), pacer.Scope("tenant", "acme"))
	start := time.Now()
	for range 2 {
		if err := p.Wait(ctx); err != nil {
			panic(err)
		}
	}
	fmt.Println(time.Now().After(start.Add(500 * time.Millisecond)))
	// Output: true
}

// A job queue should not block a worker for minutes: it snoozes the job instead. It waits for a near slot. A far one is refused without a
// charge, and the error contains when to come back.
func ExamplePacer_Reserve_jobQueue() {
	p, err := pacer.New(pacer.Config{Upstream: "reports", Policies: []policies.Policy{policies.Every(10 * time.Minute)}})
	if err != nil {
		panic(err)
	}
	defer p.Close()

	handle := func(ctx context.Context, job string) {
		r, err := p.Reserve(ctx, pacer.MaxWait(2*time.Second))
		wait, later := pacer.RetryAfter(err)
		switch {
		case later:
			fmt.Printf("%s: snooze for %v\n", job, wait.Round(time.Minute))
			return
		case err != nil:
			panic(err)
		}
		if err := r.Wait(ctx); err != nil {
			panic(err)
		}
		fmt.Printf("%s: run\n", job)
	}
	handle(context.Background(), "first")
	handle(context.Background(), "second")
	// Output:
	// first: run
	// second: snooze for 10m0s
}

// A reservation keeps its position in the queue while the job sleeps; one that is not needed is given back.
func ExampleReservation_Cancel() {
	p, err := pacer.New(pacer.Config{Upstream: "reports", Policies: []policies.Policy{policies.Every(time.Minute)}, Jitter: pacer.NoJitter})
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
		fmt.Println(r.Delay().Round(time.Minute))
		if r.Delay() > 0 {
			_ = r.Cancel(ctx)
		}
	}
	r, err := p.Reserve(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Delay().Round(time.Minute))
	// Output:
	// 0s
	// 1m0s
	// 1m0s
}

func ExampleMaxWait() {
	p, err := pacer.New(pacer.Config{Upstream: "search", Policies: []policies.Policy{policies.Every(time.Hour)}})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	fmt.Println(p.Wait(context.Background(), pacer.MaxWait(0)))
	err = p.Wait(context.Background(), pacer.MaxWait(0))
	fmt.Println(errors.Is(err, pacer.ErrNotYet), errors.Is(err, pacer.TooCostly))
	// Output:
	// <nil>
	// true false
}

// A call to a language model is one request and some tokens, whose number is only estimated when it goes.
func ExampleReservation_Settle() {
	p, err := pacer.New(pacer.Config{
		Upstream: "llm",
		Policies: []policies.Policy{
			policies.PerMinute(500).Burst(10).Named("requests"),
			policies.PerMinute(30_000).Burst(30_000).Named("tokens"),
		},
	})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	ctx := context.Background()
	r, err := p.Reserve(ctx, pacer.CostOf("tokens", 20_000))
	if err != nil {
		panic(err)
	}
	if err := r.Wait(ctx); err != nil {
		panic(err)
	}
	// Call. It took fewer tokens than that.
	if err := r.Settle(ctx, policies.Cost{Policy: "tokens", N: 1_500}); err != nil {
		panic(err)
	}
	fmt.Println(p.Wait(ctx, pacer.CostOf("tokens", 28_000), pacer.MaxWait(0)))
	// Output: <nil>
}

// busyError is the error of a client when its upstream refuses a call, such as a gRPC status with RetryInfo.
type busyError struct{ retryIn time.Duration }

func (e *busyError) Error() string { return "busy: again in " + e.retryIn.String() }

// A call without HTTP: Do waits, calls, and reports the limits that the upstream stated. A stray refusal pauses no other call, so the
// repeated call has to wait by itself.
func ExamplePacer_Do() {
	p, err := pacer.New(pacer.Config{Upstream: "messages", Policies: []policies.Policy{policies.AtMost(100, time.Second)}})
	if err != nil {
		panic(err)
	}
	defer p.Close()

	accepts := false
	send := func(context.Context) error { // of a client
		if !accepts {
			accepts = true
			return &busyError{50 * time.Millisecond}
		}
		return nil
	}
	call := func(ctx context.Context) (policies.Reading, error) {
		err := send(ctx)
		if busy, ok := errors.AsType[*busyError](err); ok {
			return policies.Reading{Feedback: []policies.Feedback{{Refused: true, Wait: busy.retryIn}}}, err
		}
		return policies.Reading{}, err
	}
	ctx := context.Background()
	err = p.Do(ctx, call)
	fmt.Println(err)
	if busy, ok := errors.AsType[*busyError](err); ok {
		err = p.Do(ctx, call, pacer.NotBefore(busy.retryIn))
	}
	fmt.Println(err)
	// Output:
	// busy: again in 50ms
	// <nil>
}

// A limit that an upstream states outside of any call, such as in a message of its own, is reported without one.
func ExamplePacer_Report() {
	p, err := pacer.New(pacer.Config{
		Upstream: "crm",
		Policies: []policies.Policy{policies.PerSecond(10).Per("tenant")},
	})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	acme := pacer.With(context.Background(), pacer.Scope("tenant", "acme"))
	if err := p.Report(acme, policies.Feedback{Source: "SLOW_DOWN", Refused: true, Wait: 5 * time.Minute}); err != nil {
		panic(err)
	}
	fmt.Println(errors.Is(p.Wait(acme), pacer.ErrNotYet))
	fmt.Println(p.Wait(pacer.With(context.Background(), pacer.Scope("tenant", "globex"))))

	// An operator knows better.
	if err := fleet.Of(p).Resume(acme); err != nil {
		panic(err)
	}
	fmt.Println(p.Wait(acme))
	// Output:
	// true
	// <nil>
	// <nil>
}

// Calls that an upstream counts while they run take a permit, and give it back.
func ExamplePacer_Acquire() {
	p, err := pacer.New(pacer.Config{Upstream: "reports", Policies: []policies.Policy{policies.InFlight(2)}})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	for _, name := range []string{"sales", "stock", "staff"} {
		call, err := p.Acquire(context.Background())
		if err != nil {
			panic(err)
		}
		fmt.Println(name)
		call.Release() // usually deferred
	}
	// Output:
	// sales
	// stock
	// staff
}

// Batch work leaves a part of the rate to other calls, and uses what they leave of it.
func ExampleWith_lane() {
	p, err := pacer.New(pacer.Config{Upstream: "crm", Policies: []policies.Policy{
		policies.PerSecond(100).Burst(10).Lane("batch", 80),
	}})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	batch := pacer.With(context.Background(), pacer.Lane("batch"))
	fmt.Println(p.Wait(batch), p.Wait(context.Background()))
	// Output: <nil> <nil>
}
