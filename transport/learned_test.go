package transport_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/transport/upstreamtest"
)

// A fleet without policies learns the limits from replies: it uses nine tenths of each from the second window on, and next to no call is
// refused. Of two limits, replies state the one of which less is left.
func TestLimitsAreLearnedWithoutPolicies(t *testing.T) {
	t.Parallel()
	fixed, first, log, bucket := upstreamtest.Fixed, upstreamtest.FromFirst, upstreamtest.Sliding, upstreamtest.Bucket
	type limits = []upstreamtest.Limit
	var few, many atomic.Int64
	t.Cleanup(func() { require.GreaterOrEqual(t, few.Load(), many.Load()*8/10) }) // when all have ended
	type upstream struct {
		limits

		every  int
		form   string
		most   int // that a fleet can use in a window
		period time.Duration
		more   *stating
	}
	for name, u := range map[string]upstream{
		"by the clock":                       {limits{fixed(300, time.Minute)}, 1, "ceil", 300, time.Minute, nil},
		"by the clock, an instant":           {limits{fixed(500, time.Hour)}, 1, "epoch", 500, time.Hour, nil},
		"by the clock, each tenth":           {limits{fixed(400, 10*time.Minute)}, 10, "ceil", 400, 10 * time.Minute, nil},
		"from the first call on":             {limits{first(300, time.Minute)}, 1, "floor", 300, time.Minute, nil},
		"from the first call on, each tenth": {limits{first(500, time.Hour)}, 10, "epoch", 500, time.Hour, nil},
		"sliding":                            {limits{log(200, 10*time.Second)}, 1, "ceil", 200, 10 * time.Second, nil},
		"sliding, each tenth":                {limits{log(300, time.Minute)}, 10, "ceil", 300, time.Minute, nil},
		"a bucket that says when it is full": {limits{bucket(100, 200*ms)}, 1, "ms", 300, time.Minute, nil},
		"two limits":                         {limits{log(50, 10*time.Second), fixed(200, time.Minute)}, 1, "ceil", 200, time.Minute, nil},
		"two limits, an instant":             {limits{fixed(100, time.Minute), fixed(500, 10*time.Minute)}, 1, "epoch", 500, 10 * time.Minute, nil},
		"seven in three seconds":             {limits{fixed(7, 3*time.Second)}, 1, "ceil", 7, 3 * time.Second, nil},
		"a day":                              {limits{fixed(600, 24*time.Hour)}, 10, "floor", 600, 24 * time.Hour, nil},
		"thousands, from the first call on":  {limits{first(2000, time.Hour)}, 10, "epoch", 2000, time.Hour, nil},
		"a date":                             {limits{fixed(300, time.Minute)}, 1, "date", 300, time.Minute, nil},
		"what was left before the call":      {limits{log(300, time.Minute)}, 1, "ceil", 300, time.Minute, &stating{before: true}},
		"a wait of 0":                        {limits{fixed(300, time.Minute)}, 1, "ceil", 300, time.Minute, &stating{zero: true}},
		"a clock that is ahead":              {limits{fixed(300, time.Minute)}, 1, "epoch", 300, time.Minute, &stating{ahead: 37 * time.Second}},
		"a bucket that states its next token": {
			limits{bucket(50, 200*ms)}, 1, "ceil", 300, time.Minute, &stating{next: 200 * ms},
		},
		"two limits by their names":          {limits{log(20, 10*time.Second).Named("burst"), fixed(100, time.Minute).Named("minute")}, 1, "", 100, time.Minute, &stating{says: statesNames}},
		"no reset, by the clock":             {limits{fixed(300, time.Minute)}, 1, "", 300, time.Minute, &stating{says: statesRest}},
		"no reset, from the first call on":   {limits{first(500, time.Hour)}, 1, "", 500, time.Hour, &stating{says: statesRest}},
		"no reset, a bucket":                 {limits{bucket(50, 200*ms)}, 1, "", 300, time.Minute, &stating{says: statesRest}},
		"the longer one of two, Retry-After": {limits{log(20, 10*time.Second), fixed(100, time.Minute)}, 1, "", 100, time.Minute, &stating{says: statesLast, retryAfter: true}},
		"what is used":                       {limits{fixed(600, 10*time.Minute)}, 1, "", 600, 10 * time.Minute, &stating{says: statesUse}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC))) // an instant of the year 2000 is none
				api := cmp.Or(u.more, &stating{}).open(rand.New(rand.NewPCG(4, 1)), u.limits...)
				api.every, api.form = u.every, u.form
				const windows = 6
				from := time.Now()
				stated(t, api, nil, from.Add(windows*u.period))
				used := make([]int, windows+1)
				for _, at := range api.came(true) {
					used[min(windows, at.Sub(from)/u.period)]++
				}
				refused := float64(api.Refused()) / windows
				t.Logf("used %v of %d, refused %.1f a window", used[:windows], u.most, refused)
				sum := 0
				for _, n := range used[1:windows] {
					sum += n
				}
				require.GreaterOrEqual(t, sum, 9*u.most*(windows-1)/10)
				require.LessOrEqual(t, refused, 10.0)
				if many.Add(1); refused <= 3 {
					few.Add(1)
				}
			})
		})
	}
}

// Of two limits, replies state the one that is relatively tighter, and neither its name nor its number: resets that come nearer show that there
// are two. Of a limit that only bare refusals show beside a stated one, the pace is learned, and of a sliding window that states no reset, when
// its calls come back.
func TestAHiddenLimitIsUsed(t *testing.T) {
	t.Parallel()
	unnamed := func(h http.Header, r upstreamtest.Reply) {
		statesRest(h, r)
		h.Del("X-Ratelimit-Limit")
		h.Set("X-Ratelimit-Reset", upstreamtest.Seconds(r.Tightest().Reset, r.Now))
	}
	for name, c := range map[string]struct {
		limits      []upstreamtest.Limit
		says        func(http.Header, upstreamtest.Reply)
		period      time.Duration
		most, least int
		refused     int // in a window
	}{
		"a sliding one and one of the clock": {
			[]upstreamtest.Limit{upstreamtest.Sliding(50, 10*time.Second), upstreamtest.Fixed(200, time.Minute)}, unnamed, time.Minute, 200, 90, 10, // 50 were refused before
		},
		"two of the clock": {
			[]upstreamtest.Limit{upstreamtest.Fixed(100, time.Minute), upstreamtest.Fixed(500, 10*time.Minute)}, unnamed, 10 * time.Minute, 500, 90, 10, // 25
		},
		"a sliding one without a reset": {[]upstreamtest.Limit{upstreamtest.Sliding(300, time.Minute)}, statesRest, time.Minute, 300, 50, 30}, // 40 % before
		"one that is not stated": {
			[]upstreamtest.Limit{upstreamtest.Sliding(20, 10*time.Second), upstreamtest.Fixed(100, time.Minute)}, statesLast, time.Minute, 100, 50, 10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC)))
				api := (&stating{every: 1, says: c.says}).open(rand.New(rand.NewPCG(4, 1)), c.limits...)
				const windows = 6
				from := time.Now()
				stated(t, api, nil, from.Add(windows*c.period))
				used := 100 * api.used(from.Add(c.period), from.Add(windows*c.period)) / (c.most * (windows - 1))
				t.Logf("used %d %%, refused %.1f a window", used, float64(api.Refused())/windows)
				require.GreaterOrEqual(t, used, c.least)
				require.LessOrEqual(t, api.Refused(), c.refused*windows)
			})
		})
	}
}

// statesNames states each limit by a name, and not how many calls it admits.
func statesNames(h http.Header, r upstreamtest.Reply) {
	upstreamtest.RateLimit(h, r)
	h.Del("Ratelimit-Policy")
}

// statesRest states the limit and its rest, and no reset.
func statesRest(h http.Header, r upstreamtest.Reply) {
	s := r.Tightest()
	h.Set("X-Ratelimit-Limit", strconv.Itoa(s.Limit))
	h.Set("X-Ratelimit-Remaining", strconv.Itoa(s.Remaining))
}

// statesLast states the last limit, and is silent about the others.
func statesLast(h http.Header, r upstreamtest.Reply) {
	r.Limits = r.Limits[len(r.Limits)-1:]
	statesRest(h, r)
	h.Set("X-Ratelimit-Reset", upstreamtest.Seconds(r.Limits[0].Reset, r.Now))
}

// statesUse states what is left in decimals, and the use, and no limit.
func statesUse(h http.Header, r upstreamtest.Reply) {
	s := r.Tightest()
	h.Set("X-Ratelimit-Used", strconv.Itoa(s.Limit-s.Remaining))
	h.Set("X-Ratelimit-Remaining", fmt.Sprintf("%.1f", float64(s.Remaining)))
	h.Set("X-Ratelimit-Reset", upstreamtest.Seconds(s.Reset, r.Now))
}

// An upstream that admits four calls at once, and states that nowhere, does not count as one of few calls a second: its statements are
// used.
func TestFewCallsAtOnceTeachNoSlowPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC)))
		api := (&stating{every: 1, form: "ceil"}).open(rand.New(rand.NewPCG(4, 1)), upstreamtest.Fixed(300, time.Minute), upstreamtest.InFlight(4))
		from := time.Now()
		stated(t, api, nil, from.Add(6*time.Minute))
		used := api.used(from.Add(time.Minute), from.Add(6*time.Minute))
		t.Logf("used %d of 1500, refused %d", used, api.Refused())
		require.GreaterOrEqual(t, used, 1200) // 29 % where three calls taught a pace
		require.LessOrEqual(t, api.Refused(), 120)
	})
}
