package airtable_test

import (
	"fmt"

	"github.com/headway-go/headway/policies/airtable"
)

func ExampleLimits() {
	for _, p := range airtable.Limits() {
		fmt.Println(p)
	}
	// Output:
	// base: at most 5 in any 1s, skew 10ms, per base, optional
	// user: at most 50 in any 1s, skew 10ms, per user
}
