package ietf_test

import (
	"math"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/ietf"
)

// How the fields describe a policy: in whole seconds, and without bursts.
func TestQuotaOf(t *testing.T) {
	t.Parallel()
	lane := func(p policies.Policy) policies.Policy {
		part, ok := p.Lane("batch", 50).InLane("batch")
		require.True(t, ok)
		return part
	}
	for _, c := range []struct {
		policy policies.Policy
		want   string // RateLimit-Policy
	}{
		{policies.PerSecond(10), `"per-second";q=10;w=1`},
		{policies.PerSecond(10).Burst(3).Named("p"), `"p";q=10;w=1`},
		{policies.PerSecond(1).Burst(5).Named("p"), `"p";q=5;w=5`},
		{policies.PerSecond(4).Burst(9).Named("p"), `"p";q=12;w=3`},
		{policies.PerMinute(90).Named("p"), `"p";q=90;w=60`},
		{policies.Every(1500 * time.Millisecond).Named("p"), `"p";q=2;w=3`},
		{policies.Every(time.Hour).Named("p"), `"p";q=1;w=3600`},
		{policies.AtMost(50, time.Second).Named("p"), `"p";q=50;w=1`},
		{policies.AtMost(700, time.Minute).Burst(5).Named("p"), `"p";q=696;w=60`}, // the burst costs some of the rate
		{policies.AtMost(50, 100*time.Millisecond).Burst(50).Skew(0).Named("p"), `"p";q=500;w=1`},
		{policies.AtMost(100_000, time.Second).Burst(50_001).Skew(0).Named("p"), `"p";q=100000;w=2`},
		{policies.Rate(10, 333_333*time.Microsecond).Named("p"), `"p";q=1`}, // never whole seconds
		{policies.Fixed(300, 10*time.Second).Named("p"), `"p";q=300;w=10`},
		{policies.Fixed(5, 250*time.Millisecond).Named("p"), `"p";q=20;w=1`},
		{policies.Sliding(300, time.Minute).Named("p"), `"p";q=300;w=60`},
		{policies.Daily(100_000, time.UTC).Named("p"), `"p";q=100000;w=86400`},
		{policies.Hourly(5, time.UTC).Named("p"), `"p";q=5;w=3600`},
		{policies.InFlight(20).Named("p"), `"p";q=20;qu="concurrent-requests"`},
		{lane(policies.PerSecond(10).Burst(4).Named("p")), `"p.batch";q=5;w=1`},
		{lane(policies.Daily(100, time.UTC).Named("p")), `"p.batch";q=50;w=86400`},
	} {
		h := make(http.Header)
		ietf.Write(h, ietf.QuotaOf(c.policy, 0, 0))
		require.Equal(t, http.Header{"Ratelimit-Policy": {c.want}, "Ratelimit": {`"` + c.policy.Name() + `";r=0`}}, h, "%v", c.policy)
	}
}

// The fields are rounded to their precision: times upwards.
func TestWriteRounds(t *testing.T) {
	t.Parallel()
	h := make(http.Header)
	ietf.Write(h)
	require.Empty(t, h)
	ietf.Write(h,
		ietf.Quota{Name: "a", Limit: 10, Window: time.Second, Remaining: 3, Reset: time.Millisecond},
		ietf.Quota{Name: `"b\`, Limit: math.MaxInt64, Window: math.MaxInt64, Unit: "bytes", Remaining: -1, Reset: time.Second + 1},
		ietf.Quota{Name: "é", Limit: 1},
	)
	ietf.Write(h, ietf.Quota{Name: "c", Limit: 1, Remaining: 1, Reset: -1})
	require.Equal(t, http.Header{
		"Ratelimit-Policy": {`"a";q=10;w=1, "\"b\\";q=999999999999999;qu="bytes";w=9223372037`, `"c";q=1`},
		"Ratelimit":        {`"a";r=3;t=1, "\"b\\";r=0;t=2`, `"c";r=1`},
	}, h)
	h = make(http.Header)
	ietf.Write(h, make([]ietf.Quota, 40)...)
	require.Len(t, read(http.StatusOK, newYear, h).Feedback, 32, "the profile ignores a longer list")
}

// The profile reads exactly what is written: the counts of requests, and when there are more of them.
func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := make(http.Header)
		var want []policies.Feedback
		for i := range 1 + rng.IntN(6) {
			q := ietf.Quota{
				Name: string(rune('a' + i)), Limit: 1 + rng.Int64N(1e12), Window: time.Duration(rng.IntN(100_000)) * time.Second,
				Remaining: rng.Int64N(3), Reset: time.Duration(rng.IntN(50_000)) * time.Second,
			}
			if rng.IntN(4) == 0 {
				q.Unit = ietf.UnitInFlight
			}
			ietf.Write(h, q)
			if q.Unit == "" { // others are not about calls
				want = append(want, policies.Feedback{
					Policies: []string{q.Name}, Otherwise: policies.Unknown, Source: "RateLimit",
					Limit: policies.Reported(q.Limit), Window: q.Window, Remaining: policies.Reported(q.Remaining), Reset: q.Reset,
				})
			}
		}
		require.Equal(t, want, read(http.StatusOK, newYear, h).Feedback, "%v", h)
	}
}
