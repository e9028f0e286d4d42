package salesforce_test

import (
	"fmt"

	"github.com/headway-go/headway/policies/salesforce"
)

// An org of the Enterprise edition with 50 licences.
func ExampleLimits() {
	for _, p := range salesforce.Limits(salesforce.Enterprise, 50) {
		fmt.Println(p)
	}
	// Output:
	// daily: at most 150000 in any 24h, in 24 buckets, per org
	// concurrent: 25 in flight for longer than 20s, per org
}

// An org of the Enterprise edition with 50 licences. Batch work, whose calls carry the scope "batch", has four fifths of the allocation;
// the rest is kept for interactive calls.
func ExampleShare() {
	allocation := salesforce.Allocation(salesforce.Enterprise, 50)
	fmt.Println(salesforce.Daily(allocation))
	fmt.Println(salesforce.Share(allocation, 80, "batch"))
	// Output:
	// daily: at most 150000 in any 24h, in 24 buckets, per org
	// daily-share: at most 120000 in any 24h, in 24 buckets, per org+batch, optional
}
