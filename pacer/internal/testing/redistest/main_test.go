package redistest_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine outlives what started it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
