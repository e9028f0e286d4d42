package telemetry_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/telemetry"
)

// Each subject is logged at most so often, independently of others, and few subjects are remembered.
func TestThrottle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := telemetry.Throttle{Every: time.Minute, Most: 3}
		require.Zero(t, th.May("a"))
		time.Sleep(20 * time.Second)
		require.Equal(t, 40*time.Second, th.May("a"))
		require.Zero(t, th.May("b"))
		time.Sleep(40 * time.Second)
		require.Zero(t, th.May("a"))
		require.Equal(t, 20*time.Second, th.May("b"))
		for i := range 10 {
			require.Zero(t, th.May(fmt.Sprint(i)))
		}
	})
}
