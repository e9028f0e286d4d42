package openai_test

import (
	"fmt"

	"github.com/headway-go/headway/policies/openai"
)

// The numbers are those of the account's limits page.
func ExampleLimits() {
	for _, p := range append(openai.Limits(500, 200_000), openai.RequestsPerDay(10_000)) {
		fmt.Println(p)
	}
	// Output:
	// requests: 500 per 1m, burst 500, per project+model, optional
	// tokens: 200000 per 1m, burst 200000, per project+model, optional
	// requests-day: 10000 per 24h, burst 10000, per project+model, optional
}
