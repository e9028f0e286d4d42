package transport_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
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
	few, many := 0, 0
	type upstream struct {
		counters []counter
		every    int
		form     string
		most     int // that a fleet can use in a window
		period   time.Duration
		more     *stating
	}
	for name, u := range map[string]upstream{
		"by the clock":                       {[]counter{fixed(300, time.Minute)}, 1, "ceil", 300, time.Minute, nil},
		"by the clock, an instant":           {[]counter{fixed(500, time.Hour)}, 1, "epoch", 500, time.Hour, nil},
		"by the clock, each tenth":           {[]counter{fixed(400, 10*time.Minute)}, 10, "ceil", 400, 10 * time.Minute, nil},
		"from the first call on":             {[]counter{first(300, time.Minute)}, 1, "floor", 300, time.Minute, nil},
		"from the first call on, each tenth": {[]counter{first(500, time.Hour)}, 10, "epoch", 500, time.Hour, nil},
		"sliding":                            {[]counter{log(200, 10*time.Second)}, 1, "ceil", 200, 10 * time.Second, nil},
		"sliding, each tenth":                {[]counter{log(300, time.Minute)}, 10, "ceil", 300, time.Minute, nil},
		"a bucket that says when it is full": {[]counter{&bucketCounter{size: 100, step: 200 * time.Millisecond}}, 1, "ms", 300, time.Minute, nil},
		"two limits":                         {[]counter{log(50, 10*time.Second), fixed(200, time.Minute)}, 1, "ceil", 200, time.Minute, nil},
		"two limits, an instant":             {[]counter{fixed(100, time.Minute), fixed(500, 10*time.Minute)}, 1, "epoch", 500, 10 * time.Minute, nil},
		"seven in three seconds":             {[]counter{fixed(7, 3*time.Second)}, 1, "ceil", 7, 3 * time.Second, nil},
		"a day":                              {[]counter{fixed(600, 24*time.Hour)}, 10, "floor", 600, 24 * time.Hour, nil},
		"thousands, from the first call on":  {[]counter{first(5000, time.Hour)}, 10, "epoch", 5000, time.Hour, nil},
		"a date":                             {[]counter{fixed(300, time.Minute)}, 1, "date", 300, time.Minute, nil},
		"what was left before the call":      {[]counter{log(300, time.Minute)}, 1, "ceil", 300, time.Minute, &stating{before: true}},
		"a wait of 0":                        {[]counter{fixed(300, time.Minute)}, 1, "ceil", 300, time.Minute, &stating{zero: true}},
		"a clock that is ahead":              {[]counter{&ahead{fixed(300, time.Minute)}}, 1, "", 300, time.Minute, &stating{says: statesByItsClock}},
		"a bucket that states its next token": {
			[]counter{&bucketCounter{size: 50, step: 200 * time.Millisecond, next: true}}, 1, "ceil", 300, time.Minute, nil,
		},
		"two limits by their names": {[]counter{log(20, 10*time.Second), fixed(100, time.Minute)}, 1, "", 100, time.Minute, &stating{says: statesNames}},
		"what is used":              {[]counter{fixed(600, 10*time.Minute)}, 1, "", 600, 10 * time.Minute, &stating{says: statesUse}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC))) // an instant of the year 2000 is none
				api := cmp.Or(u.more, &stating{})
				api.counters, api.every, api.form, api.rng = u.counters, u.every, u.form, rand.New(rand.NewPCG(4, 1))
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
				if many++; refused <= 3 {
					few++
				}
			})
		})
	}
	require.GreaterOrEqual(t, few, many*8/10)
}

// ahead is a limit by a clock that is 37 s ahead.
type ahead struct{ *fixedCounter }

const aheadBy = 37 * time.Second

func (c ahead) left(now time.Time) int { return c.fixedCounter.left(now.Add(aheadBy)) }
func (c ahead) take(now time.Time)     { c.fixedCounter.take(now.Add(aheadBy)) }
func (c ahead) reset(now time.Time) time.Time {
	return c.fixedCounter.reset(now.Add(aheadBy)).Add(-aheadBy)
}
func (c ahead) free(now time.Time) time.Time { return c.reset(now) }

// statesByItsClock states the instant of a reset, and that of the reply, by a clock that is ahead.
func statesByItsClock(s *stating, now time.Time) []string {
	c := s.counters[0]
	return []string{
		"Date", now.Add(aheadBy).UTC().Format(http.TimeFormat), "X-RateLimit-Limit", strconv.Itoa(c.limit()),
		"X-RateLimit-Remaining", strconv.Itoa(c.left(now)), "X-RateLimit-Reset", strconv.FormatInt(c.reset(now).Add(aheadBy+time.Second-1).Unix(), 10),
	}
}

// statesNames states each limit by a name.
func statesNames(s *stating, now time.Time) []string {
	s.form = "ceil"
	one := func(name string, c counter) string {
		return fmt.Sprintf("%q;r=%d;t=%s", name, c.left(now), s.states(c.reset(now), now))
	}
	return []string{"RateLimit", one("burst", s.counters[0]) + ", " + one("minute", s.counters[1])}
}

// statesUse states what is left in decimals, and what is used, and no limit.
func statesUse(s *stating, now time.Time) []string {
	s.form = "ceil"
	c := s.counters[0]
	return []string{
		"X-Ratelimit-Used", strconv.Itoa(c.limit() - c.left(now)), "X-Ratelimit-Remaining", fmt.Sprintf("%.1f", float64(c.left(now))),
		"X-Ratelimit-Reset", s.states(c.reset(now), now),
	}
}

// An upstream that admits four calls at once, and states that nowhere, is not taken for one of few calls a second: what it states is used.
func TestFewCallsAtOnceTeachNoSlowPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC)))
		api := &stating{counters: []counter{&fixedCounter{most: 300, period: time.Minute}}, every: 1, form: "ceil", atOnce: 4, rng: rand.New(rand.NewPCG(4, 1))}
		from := time.Now()
		stated(t, api, nil, from.Add(6*time.Minute))
		used := 0
		for _, at := range api.admitted {
			if at.Sub(from) >= time.Minute && at.Sub(from) < 6*time.Minute {
				used++
			}
		}
		t.Logf("used %d of 1500, refused %d", used, len(api.denied))
		require.GreaterOrEqual(t, used, 1200) // 29 % where three calls taught a pace
		require.LessOrEqual(t, len(api.denied), 120)
	})
}
