package notion_test

import (
	"fmt"

	"github.com/headway-go/headway/policies/notion"
)

func ExampleLimits() {
	fmt.Println(notion.Limits()[0])
	// Output: integration: 3 per 1s, burst 3, per integration
}
