package github_test

import (
	"fmt"

	"github.com/headway-go/headway/policies/github"
)

// The limits of an App's installation that has 30 repositories, in an organization of 40 people.
func ExampleLimits() {
	for _, p := range github.Limits(github.Installation(30, 40)) {
		fmt.Println(p)
	}
	// Output:
	// core: at most 6500 in any 1h, in 100 buckets, per core, optional
	// search: at most 30 in any 1m, burst 5, skew 10ms, per search, optional
	// code_search: at most 9 in any 1m, burst 1, skew 10ms, per code_search, optional
	// graphql: at most 6500 in any 1h, in 100 buckets, per graphql, optional
	// points: at most 900 in any 1m, burst 50, skew 10ms, per rest, optional
	// graphql-points: at most 2000 in any 1m, burst 50, skew 10ms, per graphql, optional
	// content: at most 80 in any 1m, burst 5, skew 10ms, per content, optional
	// content-hour: at most 500 in any 1h, in 100 buckets, per content, optional
	// concurrent: 100 in flight, per credential, optional
}
