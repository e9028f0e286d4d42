package riverpacer_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/pacer/internal/testing/jobtest"
)

func TestMain(m *testing.M) {
	if know := os.Getenv(jobtest.Env); know != "" {
		work(know)
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/redis/go-redis/v9/maintnotifications.(*CircuitBreakerManager).cleanupLoop"))
}
