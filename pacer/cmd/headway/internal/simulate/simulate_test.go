package simulate_test

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/cmd/headway/internal/simulate"
	"github.com/headway-go/headway/policies"
)

// plan returns a plan for a time, changed by functions.
func plan(d time.Duration, change func(*simulate.Plan, *simulate.Load), all ...policies.Policy) simulate.Plan {
	p, l := simulate.DefaultPlan(), simulate.DefaultLoad()
	p.For, p.Policies = simulate.Duration(d), all
	change(&p, &l)
	if p.Loads == nil {
		p.Loads = []simulate.Load{l}
	}
	return p
}

// long returns how much virtual time a test takes. The race detector makes a simulation some ten times as slow.
func long(plain, race time.Duration) time.Duration {
	if underRace {
		return race
	}
	return plain
}

func steady(rate float64) func(*simulate.Plan, *simulate.Load) {
	return func(_ *simulate.Plan, l *simulate.Load) { l.Rate, l.Steady = rate, true }
}

func run(t *testing.T, p simulate.Plan) *simulate.Result {
	t.Helper()
	r, err := simulate.Run(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, r.Offered, r.Admitted+r.Refused+r.Waiting, "every call is one of them")
	require.Equal(t, r.Admitted, r.Waits.Calls)
	waited := int64(0)
	for i := range r.Policies {
		waited += r.Policies[i].Waits.Calls
	}
	require.LessOrEqual(t, waited, r.Admitted)
	return r
}

// A day's quota of 3,600 is spent after an hour of one call a second, and the next day has another.
func TestQuotaIsSpent(t *testing.T) {
	t.Parallel()

	p := plan(26*time.Hour, steady(0.1), policies.Daily(360, time.UTC).Named("quota"))
	r := run(t, p)
	spent := r.Policies[0].Spent
	require.NotNil(t, spent)
	require.InDelta(t, 3600, spent.At, 0.001)
	require.InDelta(t, 86400, spent.Until, 0)
	require.Equal(t, 2, spent.Times)
	// Calls of the last minute of the day wait for the next one, and so the next one is spent a minute earlier.
	require.InDelta(t, 82800+3660, spent.For, 0.01)
	require.EqualValues(t, 720, r.Admitted)
	require.EqualValues(t, 26*360-720, r.Refused)
	require.EqualValues(t, 6, r.Policies[0].Waits.Calls)
	require.InDelta(t, 60, r.Waits.Max, 0.1)
	require.InDelta(t, 1, r.Policies[0].Utilization, 0)
	left := r.Chart.Remaining["quota"]
	require.Len(t, left, len(r.Chart.Admitted))
	require.EqualValues(t, 360-130, left[0]) // the first of 72 intervals
	require.Zero(t, left[10])
}

// The day begins by the time zone, and Start has when that is.
func TestStartOfADay(t *testing.T) {
	t.Parallel()

	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for start, until := range map[string]float64{
		"2026-01-01T20:00":          3 * 3600,
		"20:00":                     3 * 3600,
		"2026-01-01T20:00:00+01:00": 4 * 3600,
		"2026-03-29T00:00:00+01:00": 23 * 3600, // summer time begins
	} {
		p := plan(2*time.Hour, steady(1), policies.Daily(100, berlin))
		p.Start = start
		require.InDelta(t, until, run(t, p).Policies[0].Spent.Until, 0, start)
	}
}

// 20 calls come each second for 10/s: the queue grows by 10/s until a call would wait longer than MaxWait.
func TestMaxWait(t *testing.T) {
	t.Parallel()

	p := plan(time.Minute, steady(20), policies.PerSecond(10))
	p.MaxWait = simulate.Duration(5 * time.Second)
	r := run(t, p)
	require.EqualValues(t, 1200, r.Offered)
	require.InDelta(t, 600, r.Admitted, 1)
	require.InDelta(t, 50, r.Waiting, 2)
	require.InDelta(t, 550, r.Refused, 3)
	require.Equal(t, r.Refused, r.Policies[0].Refused)
	require.InDelta(t, 5, r.Waits.Max, 0.1, "what waits behind others is refused by an estimate")
	require.InDelta(t, 51, r.Queue.Max, 2)
	require.InDelta(t, 1, r.Policies[0].Utilization, 0.01)

	p.MaxWait = simulate.Duration(pacer.Forever)
	r = run(t, p)
	require.Zero(t, r.Refused)
	require.InDelta(t, 600, r.Waiting, 2)
	require.InDelta(t, 30, r.Waits.Max, 0.1)
}

// A worker whose call was refused comes back after the wait in the error, or after Retry.
func TestRefusedWorkersComeBack(t *testing.T) {
	t.Parallel()

	one := func(p *simulate.Plan, l *simulate.Load) { l.Workers, p.MaxWait = 1, simulate.Duration(time.Second) }
	p := plan(time.Hour, one, policies.Daily(10, time.UTC))
	r := run(t, p)
	require.EqualValues(t, 10, r.Admitted)
	require.EqualValues(t, 1, r.Refused)

	p.Retry = simulate.Duration(time.Minute)
	r = run(t, p)
	require.EqualValues(t, 10, r.Admitted)
	require.EqualValues(t, 60, r.Refused)
}

// Half of the load that a rate admits uses half of it, and no call waits.
func TestUtilizationOfAHalfLoadedRate(t *testing.T) {
	t.Parallel()

	r := run(t, plan(10*time.Minute, steady(25), policies.PerSecond(50), policies.PerSecond(100).Named("wide")))
	require.InDelta(t, 0.5, r.Policies[0].Utilization, 0.001)
	require.InDelta(t, 0.25, r.Policies[1].Utilization, 0.001)
	require.InDelta(t, 25, r.Goodput, 0.01)
	require.InDelta(t, simulate.DefaultStoreLatency.Seconds(), r.Waits.Max, 0)
	require.Zero(t, r.Policies[0].Waits.Calls)
}

// A cost is what is used.
func TestCost(t *testing.T) {
	t.Parallel()

	r := run(t, plan(10*time.Minute, func(_ *simulate.Plan, l *simulate.Load) { l.Rate, l.Steady, l.Cost = 10, true, 4 },
		policies.PerSecond(50).Burst(10)))
	require.InDelta(t, 0.8, r.Policies[0].Utilization, 0.001)
}

// An M/M/5 queue, at 80 % of its permits: Erlang's formula gives how many calls wait and for how long, and Little's law how many permits
// are taken and how long the queue is.
func TestPermits(t *testing.T) {
	t.Parallel()

	const permits, rate, takes = 5, 20.0, 0.2
	p := plan(long(4*time.Hour, 20*time.Minute), func(p *simulate.Plan, l *simulate.Load) {
		l.Rate, l.CallTime, l.Exponential = rate, simulate.Duration(200*time.Millisecond), true
		p.StoreLatency, p.TimerLate, p.Jitter = 0, 0, 0
	}, policies.InFlight(permits))
	r := run(t, p)

	load := rate * takes
	sum, term := 0.0, 1.0
	for k := range permits {
		sum += term
		term *= load / float64(k+1)
	}
	term /= 1 - load/permits
	waits := term / (sum + term) // Erlang C
	mean := waits / (permits/takes - rate)

	allowed := 1.0 // in a shorter time, chance is larger
	if underRace {
		allowed = 4
	}
	require.InEpsilon(t, load/permits, r.Policies[0].Utilization, 0.01*allowed)
	require.InEpsilon(t, waits, float64(r.Policies[0].Waits.Calls)/float64(r.Admitted), 0.03*allowed)
	require.InEpsilon(t, mean, r.Waits.Mean, 0.05*allowed)
	require.InEpsilon(t, r.Goodput*r.Waits.Mean, r.Queue.Mean, 0.001) // of any queue
}

// Long calls keep their permits: leases are renewed.
func TestLongCallsKeepTheirPermits(t *testing.T) {
	t.Parallel()

	p := plan(time.Hour, func(p *simulate.Plan, l *simulate.Load) {
		l.CallTime, l.Workers, p.MaxWait = simulate.Duration(20*time.Second), 3, simulate.Duration(pacer.Forever)
	}, policies.InFlight(1).Lease(time.Second))
	r := run(t, p)
	require.InDelta(t, 180, r.Admitted, 1)
	require.InDelta(t, 1, r.Policies[0].Utilization, 0.001)
}

// A call that waits for its slot takes its permit only when that comes, and pays for its slot once.
func TestPermitsBehindSlots(t *testing.T) {
	t.Parallel()

	p := plan(10*time.Minute, func(_ *simulate.Plan, l *simulate.Load) { l.Workers, l.Tenants = 8, 2 },
		policies.InFlight(2), policies.PerSecond(2).Per("tenant"))
	r := run(t, p)
	require.InDelta(t, 4, r.Goodput, 0.05)
	require.InDelta(t, 0.2, r.Policies[0].Utilization, 0.01)
	require.InDelta(t, 1, r.Policies[1].Utilization, 0.01)
}

// A permit stays empty for its skew after each call.
func TestSkewOfPermits(t *testing.T) {
	t.Parallel()

	r := run(t, plan(time.Minute, func(_ *simulate.Plan, l *simulate.Load) { l.Workers = 2 }, policies.InFlight(1).Skew(100*time.Millisecond)))
	require.InDelta(t, 5, r.Goodput, 0.05)
	require.InDelta(t, 0.5, r.Policies[0].Utilization, 0.01)
}

// A call that only short waits are allowed leaves the queue when its time is over.
func TestMaxWaitInTheQueue(t *testing.T) {
	t.Parallel()

	p := plan(time.Minute, func(p *simulate.Plan, l *simulate.Load) {
		l.CallTime, l.Workers, p.MaxWait = simulate.Duration(10*time.Second), 2, simulate.Duration(2*time.Second)
	}, policies.InFlight(1))
	r := run(t, p)
	require.EqualValues(t, 6, r.Admitted)
	require.Positive(t, r.Refused)
	require.Equal(t, r.Refused, r.Policies[0].Refused)
	require.LessOrEqual(t, r.Waits.Max, 2.01)
	// Each refused call took two seconds, and its worker a second until the next.
	require.InDelta(t, 60/3, r.Refused, 4)
}

// A lane may have what others leave; while they want it, it has its part.
func TestLane(t *testing.T) {
	t.Parallel()

	p := plan(long(10*time.Minute, 2*time.Minute), func(p *simulate.Plan, _ *simulate.Load) {
		batch, others := simulate.DefaultLoad(), simulate.DefaultLoad()
		batch.Name, batch.Workers, batch.Lane = "batch", 64, "slow"
		others.Name, others.Rate = "others", 10
		p.Loads = []simulate.Load{batch, others}
	}, policies.PerSecond(100).Burst(10).Lane("slow", 80))
	r := run(t, p)
	require.Len(t, r.Loads, 2)
	require.Equal(t, "batch, in lane slow", r.Loads[0].Name)
	require.InDelta(t, 90, r.Loads[0].Goodput, 2)
	require.Less(t, r.Loads[1].Waits.P99, 0.05)
	require.Greater(t, r.Loads[0].Waits.P50, 0.5)
}

// Tenants that compete for a fair rate have equal parts of it, however many workers each has.
func TestFairShares(t *testing.T) {
	t.Parallel()

	p := plan(2*time.Minute, func(_ *simulate.Plan, l *simulate.Load) {
		l.Processes, l.Workers, l.Tenants, l.Greedy = 4, 50, 2, 0.9
	}, policies.PerSecond(50).Burst(5).Fair("tenant"))
	r := run(t, p)
	require.Len(t, r.Loads, 2)
	require.InDelta(t, 25, r.Loads[0].Goodput, 0.5)
	require.InDelta(t, 25, r.Loads[1].Goodput, 0.5)
}

// A limit for each tenant counts each by itself, and one that all share does not.
func TestTenants(t *testing.T) {
	t.Parallel()

	p := plan(time.Minute, func(_ *simulate.Plan, l *simulate.Load) {
		l.Rate, l.Steady, l.Tenants, l.Greedy = 40, true, 4, 0.7
		l.Scopes = map[string]string{"account": "acme", "ticket": ""}
	}, policies.PerSecond(20).Per("tenant"), policies.PerSecond(1000).Per("account"), policies.PerSecond(1).Per("ticket").Optional())
	r := run(t, p)
	require.Equal(t, 4, r.Policies[0].Limits)
	require.Equal(t, 1, r.Policies[1].Limits)
	require.Zero(t, r.Policies[2].Limits)
	require.InDelta(t, 1, r.Policies[0].Busiest, 0.01)
	require.InDelta(t, (20+4+4+4)/80.0, r.Policies[0].Utilization, 0.01)
	require.InDelta(t, 20, r.Loads[0].Goodput, 0.2)
	require.InDelta(t, 12, r.Loads[1].Goodput, 0.2)
}

// The same plan and seed have the same result, to the last bit; another seed has another.
func TestSeed(t *testing.T) {
	t.Parallel()

	p := plan(long(5*time.Minute, time.Minute), func(p *simulate.Plan, l *simulate.Load) {
		l.Rate, l.Tenants, l.Exponential, l.Lane = 60, 7, true, "slow=0.5"
		p.Seed = 7
	}, policies.PerSecond(50).Burst(10).Lane("slow", 50), policies.InFlight(10), policies.Sliding(2000, time.Minute), policies.PerSecond(10).Per("tenant"))
	text := func() string {
		r := run(t, p)
		r.Seed = 0
		out, err := json.Marshal(r)
		require.NoError(t, err)
		return string(out)
	}
	first := text()
	require.Equal(t, first, text())
	p.Seed = 8
	require.NotEqual(t, first, text())
}

// A strict policy gives what its skew leaves of the limit, which is what a fleet measures: 50 in 1.01 s.
func TestStrictPolicy(t *testing.T) {
	t.Parallel()
	r := run(t, plan(long(time.Hour, 10*time.Minute), func(_ *simulate.Plan, l *simulate.Load) { l.Processes = 4 }, policies.AtMost(50, time.Second)))
	require.InDelta(t, 50/1.01, r.Goodput, 0.01)
	require.EqualValues(t, 64, r.Queue.Max)
	// Little's law for the workers: 64 of them are in the queue or in a call of 100 ms.
	require.InDelta(t, 64, r.Queue.Mean+r.Goodput*0.1, 0.1)
}

// A run ends when its context does.
func TestCancelled(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := simulate.Run(ctx, plan(time.Hour, steady(1000), policies.PerSecond(50)))
	require.ErrorIs(t, err, context.Canceled)
}

// Without limits calls go when they are made; the chart has all of them.
func TestChart(t *testing.T) {
	t.Parallel()

	r := run(t, plan(100*time.Second+500*time.Millisecond, steady(10), policies.PerSecond(1000)))
	sum := 0.0
	for i, n := range r.Chart.Admitted {
		width := math.Min(r.Chart.Every, 100.5-float64(i)*r.Chart.Every)
		require.InDelta(t, 10, n, 1.01/width)
		sum += n * width
	}
	require.InDelta(t, 1005, sum, 1e-6)
	require.Len(t, r.Chart.Waiting, len(r.Chart.Admitted))
}
