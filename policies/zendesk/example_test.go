package zendesk_test

import (
	"fmt"

	"github.com/headway-go/headway/policies/zendesk"
)

// The limits of an account with the Suite Professional plan: its calls, those to the Help Center, and those to some endpoints.
func ExampleLimits() {
	for _, p := range zendesk.Limits(zendesk.SuiteProfessional)[:6] {
		fmt.Println(p)
	}
	// Output:
	// account: at most 400 in any 1m, burst 2, skew 50ms, per account, optional
	// help-center: at most 400 in any 1m, burst 2, skew 50ms, per help-center, optional
	// tickets-index: at most 100 in any 1m, burst 2, skew 50ms, per tickets-index, optional
	// tickets-index-deep-pagination: at most 50 in any 1m, burst 2, skew 50ms, per tickets-index-deep-pagination, optional
	// tickets-update: at most 100 in any 1m, burst 2, skew 50ms, per tickets-update, optional
	// ticket: at most 30 in any 10m, in 100 buckets, skew 50ms, per ticket, optional
}
