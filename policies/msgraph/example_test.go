package msgraph_test

import (
	"fmt"

	"github.com/headway-go/headway/policies/msgraph"
)

// The limits of an app whose tenants have 50 users or more, and SharePoint's limit for a tenant with up to 1,000 licences.
func ExampleLimits() {
	for _, p := range append(msgraph.Limits(msgraph.Medium), msgraph.SharePoint(1_200)) {
		fmt.Println(p)
	}
	// Output:
	// global: at most 130000 in any 10s, in 100 buckets
	// identity: at most 5000 in any 10s, in 100 buckets, per identity, optional
	// identity-writes: at most 3000 in any 2m30s, in 100 buckets, per identity-writes, optional
	// reports: at most 5 in any 10s, in 100 buckets, per reports, optional
	// mailbox: 4 in flight, per tenant+mailbox, optional
	// sharepoint: at most 1200 in any 1m, in 100 buckets, per sharepoint, optional
}
