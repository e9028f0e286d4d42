package anthropic_test

import (
	"fmt"

	"github.com/headway-go/headway/policies/anthropic"
)

// The numbers are those of the organization's console.
func ExampleLimits() {
	for _, p := range anthropic.Limits(50, 30_000, 8_000) {
		fmt.Println(p)
	}
	// Output:
	// requests: 50 per 1m, burst 50, per key+model, optional
	// input-tokens: 30000 per 1m, burst 30000, per key+model, optional
	// output-tokens: 8000 per 1m, burst 8000, per key+model, optional
}
