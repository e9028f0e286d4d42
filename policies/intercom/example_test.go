package intercom_test

import (
	"fmt"

	"github.com/headway-go/headway/policies/intercom"
)

func ExampleLimits() {
	for _, p := range intercom.Limits() {
		fmt.Println(p)
	}
	// Output:
	// app: at most 1666 in any 10s, burst 100, skew 10ms, per app
	// workspace: at most 4166 in any 10s, burst 100, skew 10ms, per workspace, optional
}
