package google_test

import (
	"fmt"

	"github.com/headway-go/headway/policies/google"
)

// The numbers are those of the project's console.
func ExampleLimits() {
	for _, p := range google.Limits(10_000, 600) {
		fmt.Println(p)
	}
	// Output:
	// project: at most 10000 in any 1m, in 100 buckets, per project
	// user: at most 600 in any 1m, in 100 buckets, per user, optional
}
