package fleet_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
)

// See how an upstream stands, stop it for a while, and let it go on.
func ExampleOperator() {
	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Policies: []policies.Policy{policies.Daily(1000, time.UTC)}})
	if err != nil {
		panic(err)
	}
	defer p.Close()

	op := fleet.Of(p) // fleet.Open, for a program that has nothing but the store
	ctx := context.Background()
	if err := p.Wait(ctx); err != nil {
		panic(err)
	}
	if err := op.Pause(ctx, 10*time.Minute, nil); err != nil {
		panic(err)
	}
	s, err := op.Snapshot(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Policies[0].Remaining, "left, paused for", s.PausedFor.Round(time.Minute))
	if err := op.Resume(ctx); err != nil {
		panic(err)
	}
	fmt.Println(p.Wait(ctx, pacer.MaxWait(0)))
	// Output:
	// 999 left, paused for 10m0s
	// <nil>
}
