package transport_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A fleet without policies learns from replies what it may do: it uses nine tenths of each limit from the second window on, and next to no
// call is refused. Of two limits, replies state the one of which less is left.
func TestLimitsAreLearnedWithoutPolicies(t *testing.T) { //nolint:tparallel // what comes of all is counted
	t.Parallel()
	fixed := func(most int, period time.Duration) *fixedCounter { return &fixedCounter{most: most, period: period} }
	first := func(most int, period time.Duration) *fixedCounter {
		return &fixedCounter{most: most, period: period, first: true}
	}
	log := func(most int, period time.Duration) *logCounter { return &logCounter{most: most, period: period} }
	few := 0
	for name, u := range map[string]struct {
		counters []counter
		every    int
		form     string
		most     int // that a fleet can use in a window
		period   time.Duration
	}{
		"by the clock":                       {[]counter{fixed(300, time.Minute)}, 1, "ceil", 300, time.Minute},
		"by the clock, an instant":           {[]counter{fixed(500, time.Hour)}, 1, "epoch", 500, time.Hour},
		"by the clock, each tenth":           {[]counter{fixed(400, 10*time.Minute)}, 10, "ceil", 400, 10 * time.Minute},
		"from the first call on":             {[]counter{first(300, time.Minute)}, 1, "floor", 300, time.Minute},
		"from the first call on, each tenth": {[]counter{first(500, time.Hour)}, 10, "epoch", 500, time.Hour},
		"sliding":                            {[]counter{log(200, 10*time.Second)}, 1, "ceil", 200, 10 * time.Second},
		"sliding, each tenth":                {[]counter{log(300, time.Minute)}, 10, "ceil", 300, time.Minute},
		"a bucket that says when it is full": {[]counter{&bucketCounter{size: 100, step: 200 * time.Millisecond}}, 1, "ms", 300, time.Minute},
		"two limits":                         {[]counter{log(50, 10*time.Second), fixed(200, time.Minute)}, 1, "ceil", 200, time.Minute},
		"two limits, an instant":             {[]counter{fixed(100, time.Minute), fixed(500, 10*time.Minute)}, 1, "epoch", 500, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC))) // an instant of the year 2000 is none
				api := &stating{counters: u.counters, every: u.every, form: u.form, rng: rand.New(rand.NewPCG(4, 1))}
				const windows = 6
				from := time.Now()
				stated(t, api, nil, from.Add(windows*u.period))
				used := make([]int, windows+1)
				for _, at := range api.admitted {
					used[min(windows, at.Sub(from)/u.period)]++
				}
				refused := float64(len(api.denied)) / windows
				t.Logf("used %v of %d, refused %.1f a window", used[:windows], u.most, refused)
				sum := 0
				for _, n := range used[1:windows] {
					sum += n
				}
				require.GreaterOrEqual(t, sum, 9*u.most*(windows-1)/10)
				require.LessOrEqual(t, refused, 10.0)
				if refused <= 3 {
					few++
				}
			})
		})
	}
	require.GreaterOrEqual(t, few, 8)
}
