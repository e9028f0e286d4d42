package policies_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/headway-go/headway/policies"
)

func ExampleParse() {
	for _, text := range []string{
		"peak: 25/s, burst 10, per tenant",
		"at most 300 in any 5m",
		"100000 daily (Europe/Berlin), 80 % for lane batch",
		"25 in flight for longer than 20s",
		"100 per day",
		"100 daily",
	} {
		p, err := policies.Parse(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(p)
	}
	// Output:
	// peak: 25 per 1s, burst 10, per tenant
	// at-most-5m: at most 300 in any 5m, skew 10ms
	// daily: 100000 daily (Europe/Berlin), 80 % for lane batch
	// in-flight: 25 in flight for longer than 20s
	// sliding-24h: at most 100 in any 24h, in 100 buckets
	// policies: Text is "100 daily": name the time zone in parentheses, such as "100000 daily (UTC)" or "100000 daily (Europe/Berlin)"
}

func ExamplePolicy_MarshalText() {
	stack := []policies.Policy{policies.PerSecond(25).Burst(10).Named("peak"), policies.Daily(100_000, time.UTC)}
	text, err := json.Marshal(stack)
	fmt.Println(string(text), err)
	// Output:
	// ["peak: 25 per 1s, burst 10","daily: 100000 daily (UTC)"] <nil>
}

func ExampleParseAll() {
	list, err := policies.ParseAll("10/s, burst 5; 10000 daily (UTC) # the account's")
	fmt.Println(list, err)
	// Output:
	// [per-second: 10 per 1s, burst 5 daily: 10000 daily (UTC)] <nil>
}

func ExamplePolicy_Override() {
	p := policies.PerSecond(5).Per("tenant").Override(policies.PerSecond(50).Burst(10), "acme")
	fmt.Println(p.For("acme"))
	fmt.Println(p.For("globex"))
	// Output:
	// per-second.tenant: 50 per 1s, burst 10, per tenant <nil>
	// per-second.tenant: 5 per 1s, per tenant <nil>
}
