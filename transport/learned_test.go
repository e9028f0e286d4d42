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

// An undeclared is an upstream to a fleet without policies.
type undeclared struct {
	limits []upstreamtest.Limit
	every  int
	form   string
	most   int // that a fleet can use in a window
	period time.Duration
	more   *stating
}

type limits = []upstreamtest.Limit

// play returns the percentage that a fleet used after the first of some windows, and how many calls were refused in a window.
func (u *undeclared) play(t *testing.T, windows int) (used int, refused float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC))) // an instant of the year 2000 is none
		api := cmp.Or(u.more, &stating{}).open(rand.New(rand.NewPCG(4, 1)), u.limits...)
		api.every, api.form = u.every, u.form
		from := time.Now()
		stated(t, api, nil, from.Add(time.Duration(windows)*u.period))
		used = 100 * api.used(from.Add(u.period), from.Add(time.Duration(windows)*u.period)) / (u.most * (windows - 1))
		refused = float64(api.Refused()) / float64(windows)
		t.Logf("used %d %%, refused %.1f a window", used, refused)
	})
	return used, refused
}

// A fleet without policies learns the limits from replies: it uses nine tenths of each from the second window on, and next to no call is
// refused. Of two limits, replies state the one of which less is left.
func TestLimitsAreLearnedWithoutPolicies(t *testing.T) {
	t.Parallel()
	fixed, first, log, bucket := upstreamtest.Fixed, upstreamtest.FromFirst, upstreamtest.Sliding, upstreamtest.Bucket
	var few, many atomic.Int64
	t.Cleanup(func() { require.GreaterOrEqual(t, few.Load(), many.Load()*8/10) }) // of those that state a rest and its reset, when all have ended
	for name, u := range map[string]undeclared{
		"by the clock":                       {limits{fixed(300, time.Minute)}, 1, "ceil", 300, time.Minute, nil},
		"by the clock, an instant":           {limits{fixed(200, time.Hour)}, 1, "epoch", 200, time.Hour, nil},
		"by the clock, each tenth":           {limits{fixed(400, 10*time.Minute)}, 10, "ceil", 400, 10 * time.Minute, nil},
		"from the first call on":             {limits{first(300, time.Minute)}, 1, "floor", 300, time.Minute, nil},
		"from the first call on, each tenth": {limits{first(500, time.Hour)}, 10, "epoch", 500, time.Hour, nil},
		"sliding":                            {limits{log(200, 10*time.Second)}, 1, "ceil", 200, 10 * time.Second, nil},
		"sliding, each tenth":                {limits{log(300, time.Minute)}, 10, "ceil", 300, time.Minute, nil},
		"a bucket that says when it is full": {limits{bucket(50, 200*ms)}, 1, "ms", 300, time.Minute, nil},
		"two limits":                         {limits{log(50, 10*time.Second), fixed(200, time.Minute)}, 1, "ceil", 200, time.Minute, nil},
		"two limits, an instant":             {limits{fixed(100, time.Minute), fixed(500, 10*time.Minute)}, 1, "epoch", 500, 10 * time.Minute, nil},
		"two limits that are reset at once":  {limits{log(17, 50*time.Second), fixed(50, 5*time.Minute)}, 1, "ceil", 50, 5 * time.Minute, nil},
		"two limits, rounded down":           {limits{fixed(26, time.Minute), fixed(1500, time.Hour)}, 1, "floor", 1500, time.Hour, &stating{before: true}},
		"seven in three seconds":             {limits{fixed(7, 3*time.Second)}, 1, "ceil", 7, 3 * time.Second, nil},
		"a day":                              {limits{fixed(400, 24*time.Hour)}, 10, "floor", 400, 24 * time.Hour, nil},
		"thousands, from the first call on":  {limits{first(2000, time.Hour)}, 10, "epoch", 2000, time.Hour, nil},
		"a date":                             {limits{fixed(100, time.Minute)}, 1, "date", 100, time.Minute, nil},
		"what was left before the call":      {limits{log(300, time.Minute)}, 1, "ceil", 300, time.Minute, &stating{before: true}},
		"a wait of 0":                        {limits{fixed(100, time.Minute)}, 1, "ceil", 100, time.Minute, &stating{zero: true}},
		"a clock that is ahead":              {limits{fixed(100, time.Minute)}, 1, "epoch", 100, time.Minute, &stating{ahead: 37 * time.Second}},
		"a bucket that states its next token": {
			limits{bucket(50, 200*ms)}, 1, "ceil", 300, time.Minute, &stating{next: 200 * ms},
		},
		"two limits by their names":          {limits{log(20, 10*time.Second).Named("burst"), fixed(100, time.Minute).Named("minute")}, 1, "", 100, time.Minute, &stating{says: statesNames}},
		"no reset, by the clock":             {limits{fixed(300, time.Minute)}, 1, "", 300, time.Minute, &stating{says: statesRest}},
		"no reset, from the first call on":   {limits{first(500, time.Hour)}, 1, "", 500, time.Hour, &stating{says: statesRest}},
		"no reset, a bucket":                 {limits{bucket(50, 200*ms)}, 1, "", 300, time.Minute, &stating{says: statesRest}},
		"the longer one of two, Retry-After": {limits{log(20, 10*time.Second), fixed(100, time.Minute)}, 1, "", 100, time.Minute, &stating{says: statesLast, retryAfter: true}},
		"what is used":                       {limits{fixed(200, 10*time.Minute)}, 1, "", 200, 10 * time.Minute, &stating{says: statesUse}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			used, refused := u.play(t, 4)
			require.GreaterOrEqual(t, used, 90)
			require.LessOrEqual(t, refused, 10.0)
			if u.more == nil || u.more.says == nil {
				if many.Add(1); refused <= 3 {
					few.Add(1)
				}
			}
		})
	}
}

// Of two limits, replies state the one that is relatively tighter, and neither its name nor its number: resets that come nearer show that there
// are two. Of a limit that only bare refusals show beside a stated one, the pace is learned, and of a sliding window that states no reset, when
// its calls come back. An upstream that admits four calls at once, and states that nowhere, does not count as one of few calls a second.
func TestAHiddenLimitIsUsed(t *testing.T) {
	t.Parallel()
	fixed, log := upstreamtest.Fixed, upstreamtest.Sliding
	for name, c := range map[string]struct {
		undeclared

		used    int     // at least
		refused float64 // at most
	}{
		"a sliding one and one of the clock": { // 50 were refused before
			undeclared{limits{log(50, 10*time.Second), fixed(200, time.Minute)}, 1, "", 200, time.Minute, &stating{says: statesLeft}}, 90, 10,
		},
		"two of the clock": { // 25
			undeclared{limits{fixed(100, time.Minute), fixed(500, 10*time.Minute)}, 1, "", 500, 10 * time.Minute, &stating{says: statesLeft}}, 90, 10,
		},
		"a sliding one without a reset": { // 40 % were used before
			undeclared{limits{log(300, time.Minute)}, 1, "", 300, time.Minute, &stating{says: statesRest}}, 55, 10,
		},
		"one that is not stated": {
			undeclared{limits{log(20, 10*time.Second), fixed(100, time.Minute)}, 1, "", 100, time.Minute, &stating{says: statesLast}}, 50, 10,
		},
		"the longer one is not stated": {
			undeclared{limits{log(20, 10*time.Second), fixed(100, time.Minute)}, 1, "", 100, time.Minute, &stating{says: statesFirst}}, 90, 6,
		},
		"a sliding one and one of the clock, each tenth": { // see package readings
			undeclared{limits{log(50, 10*time.Second), fixed(200, time.Minute)}, 10, "", 200, time.Minute, &stating{says: statesLeft}}, 65, 24,
		},
		"two of the clock, each tenth": {
			undeclared{limits{fixed(100, time.Minute), fixed(500, 10*time.Minute)}, 10, "", 500, 10 * time.Minute, &stating{says: statesLeft}}, 80, 13,
		},
		"four at once": { // 29 % were used where three calls taught a pace
			undeclared{limits{fixed(300, time.Minute), upstreamtest.InFlight(4)}, 1, "ceil", 300, time.Minute, nil}, 80, 20,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			used, refused := c.play(t, 6)
			require.GreaterOrEqual(t, used, c.used)
			require.LessOrEqual(t, refused, c.refused)
		})
	}
}

// statesLeft states what is left, and its reset, and no limit.
func statesLeft(h http.Header, r upstreamtest.Reply) {
	statesRest(h, r)
	h.Del("X-Ratelimit-Limit")
	h.Set("X-Ratelimit-Reset", upstreamtest.Seconds(r.Tightest().Reset, r.Now))
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

// statesFirst states the first limit, and is silent about the others.
func statesFirst(h http.Header, r upstreamtest.Reply) {
	r.Limits = r.Limits[:1]
	statesLast(h, r)
}

// statesUse states what is left in decimals, and the use, and no limit.
func statesUse(h http.Header, r upstreamtest.Reply) {
	s := r.Tightest()
	h.Set("X-Ratelimit-Used", strconv.Itoa(s.Limit-s.Remaining))
	h.Set("X-Ratelimit-Remaining", fmt.Sprintf("%.1f", float64(s.Remaining)))
	h.Set("X-Ratelimit-Reset", upstreamtest.Seconds(s.Reset, r.Now))
}
