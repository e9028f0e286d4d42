package measure_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/measure"
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
		env    string
		late   time.Duration
		good   bool
		failed bool
		judged bool
	}{
		{"", 0, false, false, true},
		{"1", 0, true, false, true},
		{"1", 0, false, true, true},
		{"1", time.Millisecond, false, true, true},
		{"1", time.Millisecond + 1, false, false, false},
		{"1", time.Second, true, false, true},
	} {
		t.Setenv(measure.Env, c.env)
		r := &recorder{}
		measure.Judge(r, measure.Lateness{Max: c.late}, time.Millisecond, "9 of 10", c.good)
		require.Equal(t, c.failed, r.failed, "%+v", c)
		require.Contains(t, r.log.String(), "9 of 10")
		require.Equal(t, c.judged, !strings.Contains(r.log.String(), "not judged"), "%+v", c)
	}
}

func TestLengthFollowsTheEnvironment(t *testing.T) {
	t.Setenv(measure.Env, "")
	require.Equal(t, 1, measure.Length(1, 2))
	t.Setenv(measure.Env, "1")
	require.Equal(t, 2, measure.Length(1, 2))
}

func TestTimersOfABubbleAreNeverLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		timers := measure.Watch()
		time.Sleep(time.Second)
		require.Zero(t, timers.Stop())
	})
}

func TestMaxIsThatOfTheLatest(t *testing.T) {
	t.Parallel()
	require.Equal(t, measure.Lateness{P50: 2, P99: 3, Max: 9}, measure.Max(measure.Lateness{P50: 1, P99: 3, Max: 4}, measure.Lateness{P50: 2, P99: 2, Max: 9}))
}
