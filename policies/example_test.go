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
		"at most 300 in any 5 minutes",
		"100_000 daily (Europe/Berlin), 80 % for lane batch",
		"25 in flight for longer than 20s",
		"100 per day",
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
	// policies: Text is "100 per day": "day" is no duration: write one such as 250ms, 10s, 1m30s or 24h, or a second, minute or hour; for days and months of a calendar, "100000 daily (UTC)" or "1000000 monthly (UTC)"
}

func ExamplePolicy_MarshalText() {
	stack := []policies.Policy{policies.PerSecond(25).Burst(10).Named("peak"), policies.Daily(100_000, time.UTC)}
	text, err := json.Marshal(stack)
	fmt.Println(string(text), err)
	// Output:
	// ["peak: 25 per 1s, burst 10","daily: 100000 daily (UTC)"] <nil>
}
