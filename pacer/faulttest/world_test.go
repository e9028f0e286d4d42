package faulttest_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// upstreams numbers the upstreams of this process, so that no two histories share one.
var upstreams atomic.Int64

// stacks makes up policies, and stacks of them, of one upstream. Policies that have a scope are in some stacks for one
// value of it and in some for another.
//
// A history takes some tens of milliseconds. Periods are shorter, so that windows turn, gaps pass and keys expire in the
// midst of it.
func stacks(rng *rand.Rand) []store.Stack {
	upstream := fmt.Sprintf("upstream-%d", upstreams.Add(1))
	type key struct {
		policy policies.Policy
		scoped bool
	}
	keys := make([]key, 1+rng.IntN(4))
	for i := range keys {
		keys[i] = key{policy(rng).Named(fmt.Sprintf("p%d", i)), rng.IntN(3) == 0}
	}
	all := make([]store.Stack, 1+rng.IntN(4))
	for i := range all {
		all[i].Upstream = upstream
		scope := store.EscapeScope([]string{"acme", "umbrella & co"}[rng.IntN(2)])
		some := rng.Perm(len(keys))[:1+rng.IntN(len(keys))]
		if rng.IntN(20) == 0 {
			some = nil // nothing but the allowance of the upstream
		}
		for _, k := range some {
			l := store.Limit{Policy: keys[k].policy.Name(), Spec: keys[k].policy.Spec()}
			if keys[k].scoped {
				l.Scope = scope
			}
			all[i].Limits = append(all[i].Limits, l)
		}
		if some == nil || rng.IntN(2) == 0 {
			all[i].Limits = append(all[i].Limits, readings.AllowanceOf(store.Limit{}))
		}
	}
	return all
}

// policy makes up a policy. Times are short and odd on purpose, and the limit is below the clients' demand, or above.
func policy(rng *rand.Rand) policies.Policy {
	limit := 1 + rng.Int64N(12)
	period := upTo(rng, 250*time.Microsecond<<rng.IntN(6)) + 20*time.Microsecond
	if rng.IntN(3) == 0 {
		period = period.Truncate(time.Millisecond) + time.Millisecond
	}
	var p policies.Policy
	switch rng.IntN(6) {
	case 0:
		p = policies.PerSecond(200 + rng.Int64N(20_000)).Burst(limit)
	case 1:
		p = policies.Rate(limit, period).Burst(1 + rng.Int64N(5))
	case 2:
		p = policies.AtMost(limit, period).Burst(1 + rng.Int64N(limit)).Skew(upTo(rng, period))
	case 3:
		p = policies.Fixed(limit, period).Skew(upTo(rng, period/4))
	default:
		p = policies.Sliding(limit, period).Buckets(1 + rng.Int64N(6))
	}
	if p.Spec().Algorithm == specs.GCRA && rng.IntN(3) == 0 {
		p = p.Adaptive(policies.Adaptation{
			Floor: 1 + rng.IntN(50), Decrease: 1 + rng.IntN(99),
			Hold: upTo(rng, 5*time.Millisecond) + time.Microsecond, Recovery: upTo(rng, 50*time.Millisecond) + time.Microsecond,
		})
	}
	if p.Validate() != nil { // such as more than one call per microsecond
		p = policies.PerSecond(1000)
	}
	return p
}

// upTo returns a whole number of microseconds below most, which is at least one.
func upTo(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(max(1, most.Microseconds()))) * time.Microsecond
}
