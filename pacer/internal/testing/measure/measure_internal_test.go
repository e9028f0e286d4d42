package measure

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// recorder is a testing.TB that records its calls.
type recorder struct {
	testing.TB

	log    strings.Builder
	failed bool
}

func (r *recorder) Helper() {}

func (r *recorder) Logf(format string, args ...any) { fmt.Fprintf(&r.log, format+"\n", args...) }

func (r *recorder) Errorf(format string, args ...any) {
	r.failed = true
	r.Logf(format, args...)
}

func TestOnlyAMeasurementOnGoodTimersFails(t *testing.T) {
	for _, c := range []struct {
		on     bool
		late   time.Duration
		good   bool
		failed bool
		judged bool
	}{
		{false, 0, false, false, true},
		{true, 0, true, false, true},
		{true, 0, false, true, true},
		{true, time.Millisecond, false, true, true},
		{true, time.Millisecond + 1, false, false, false},
		{true, time.Second, true, false, true},
	} {
		r := &recorder{}
		judge(r, c.on, Lateness{Max: c.late}, time.Millisecond, "9 of 10", c.good)
		require.Equal(t, c.failed, r.failed, "%+v", c)
		require.Contains(t, r.log.String(), "9 of 10")
		require.Equal(t, c.judged, !strings.Contains(r.log.String(), "not judged"), "%+v", c)
	}
}

func TestTimersOfABubbleAreNeverLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		timers := Watch()
		time.Sleep(time.Second)
		require.Zero(t, timers.Stop())
	})
}

func TestMaxIsThatOfTheLatest(t *testing.T) {
	t.Parallel()
	require.Equal(t, Lateness{P50: 2, P99: 3, Max: 9}, Max(Lateness{P50: 1, P99: 3, Max: 4}, Lateness{P50: 2, P99: 2, Max: 9}))
}
