package pacer_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/policies"
)

// A limit is observed first: calls go at once, and the hook reports what the limit would have done. Then it is enforced.
func Example_observe() {
	exports := policies.Every(time.Minute).Per("tenant").Named("exports")
	reported := make(chan hooks.Observed)
	p, err := pacer.New(pacer.Config{
		Upstream: "crm",
		Policies: []policies.Policy{exports.Observed()},
		Hooks:    []*hooks.Set{{Observed: func(_ context.Context, o hooks.Observed) { reported <- o }}},
	})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	ctx := pacer.With(context.Background(), pacer.Scope("tenant", "acme"))
	for range 2 {
		if err := p.Wait(ctx, pacer.MaxWait(pacer.Forever)); err != nil {
			panic(err)
		}
		switch o := <-reported; {
		case o.Refused != nil:
			fmt.Println("would be refused:", o.Refused)
		case o.Wait > 0:
			fmt.Println("would wait for", o.Policy, o.Scope, o.Wait.Round(time.Second))
		default:
			fmt.Println("would go at once")
		}
	}
	if err := p.Declare(exports); err != nil {
		panic(err)
	}
	fmt.Println("may go now:", p.Wait(ctx, pacer.MaxWait(0)) == nil)
	// Output:
	// would go at once
	// would wait for exports tenant=acme 1m0s
	// may go now: false
}
