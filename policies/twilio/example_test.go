package twilio_test

import (
	"fmt"

	"github.com/headway-go/headway/policies/twilio"
)

// The first number and the last are your own choice, the second is what Twilio granted.
func ExampleLimits() {
	for _, p := range append(twilio.Limits(50), twilio.Calls(1), twilio.Concurrent(20)) {
		fmt.Println(p)
	}
	// Output:
	// account: 50 per 1s, per account
	// calls: 1 per 1s, per account+endpoint, optional
	// concurrent: 20 in flight, per account
}
