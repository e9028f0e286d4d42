package simulate_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/cmd/headway/internal/simulate"
	"github.com/headway-go/headway/policies"
)

// Mistakes in a plan are reported at once, with what to do about them.
func TestBadPlans(t *testing.T) {
	t.Parallel()

	second := policies.PerSecond(50)
	for name, one := range map[string]struct {
		change  func(*simulate.Plan, *simulate.Load)
		reports string
	}{
		"no policies":   {func(p *simulate.Plan, _ *simulate.Load) { p.Policies = nil }, "policy is missing: give at least one"},
		"two of a name": {func(p *simulate.Plan, _ *simulate.Load) { p.Policies = append(p.Policies, second) }, "give one of them another with Named"},
		"not valid":     {func(p *simulate.Plan, _ *simulate.Load) { p.Policies[0] = policies.PerSecond(0) }, "Limit is 0: must be at least 1"},
		"no time":       {func(p *simulate.Plan, _ *simulate.Load) { p.For = 0 }, "for is 0s: must be from 1ms"},
		"back in time":  {func(p *simulate.Plan, _ *simulate.Load) { p.For = -1 }, "for is -1ns"},
		"long":          {func(p *simulate.Plan, _ *simulate.Load) { p.For = math.MaxInt64 }, "for is 2562047h"},
		"start":         {func(p *simulate.Plan, _ *simulate.Load) { p.Start = "noon" }, `start is "noon": must be a time such as "09:30"`},
		"early start":   {func(p *simulate.Plan, _ *simulate.Load) { p.Start = "0001-01-01" }, "must be from 1971 to 2200"},
		"max wait":      {func(p *simulate.Plan, _ *simulate.Load) { p.MaxWait = -1 }, "max-wait is -1ns"},
		"retry":         {func(p *simulate.Plan, _ *simulate.Load) { p.Retry = -1 }, "retry is -1ns"},
		"store":         {func(p *simulate.Plan, _ *simulate.Load) { p.StoreLatency = simulate.Duration(time.Hour) }, "store-latency is 1h0m0s"},
		"jitter":        {func(p *simulate.Plan, _ *simulate.Load) { p.Jitter = simulate.Duration(pacer.NoJitter) }, "jitter is -1ns"},
		"timer":         {func(p *simulate.Plan, _ *simulate.Load) { p.TimerLate = -5 }, "timer-late is -5ns"},
		"no loads":      {func(p *simulate.Plan, _ *simulate.Load) { p.Loads = []simulate.Load{} }, "loads is empty"},
		"name":          {func(_ *simulate.Plan, l *simulate.Load) { l.Name = "a b" }, `name is "a b"`},
		"processes":     {func(_ *simulate.Plan, l *simulate.Load) { l.Processes = 0 }, "processes is 0"},
		"workers":       {func(_ *simulate.Plan, l *simulate.Load) { l.Processes, l.Workers = 2000, 2000 }, "workers is 2000"},
		"overflow":      {func(_ *simulate.Plan, l *simulate.Load) { l.Processes, l.Workers = 4, math.MaxInt }, "workers is"},
		"rate":          {func(_ *simulate.Plan, l *simulate.Load) { l.Rate = math.NaN() }, "rate is NaN"},
		"endless rate":  {func(_ *simulate.Plan, l *simulate.Load) { l.Rate = math.Inf(1) }, "rate is +Inf"},
		"steady":        {func(_ *simulate.Plan, l *simulate.Load) { l.Steady = true }, "steady is true: it needs a rate"},
		"think":         {func(_ *simulate.Plan, l *simulate.Load) { l.Rate, l.Think = 1, 1 }, "think is 1ns"},
		"tenants":       {func(_ *simulate.Plan, l *simulate.Load) { l.Tenants = 17 }, "are more than the 16 workers"},
		"no tenants":    {func(_ *simulate.Plan, l *simulate.Load) { l.Tenants = 0 }, "tenants is 0"},
		"greedy":        {func(_ *simulate.Plan, l *simulate.Load) { l.Tenants, l.Greedy = 2, 1 }, "greedy is 1: must be at least 0 and less than 1"},
		"greedy alone":  {func(_ *simulate.Plan, l *simulate.Load) { l.Greedy = 0.5 }, "there is only one tenant"},
		"too greedy":    {func(_ *simulate.Plan, l *simulate.Load) { l.Tenants, l.Greedy = 10, 0.9 }, "leaves fewer workers than the 9 other tenants"},
		"call time":     {func(_ *simulate.Plan, l *simulate.Load) { l.CallTime = -1 }, "call-time is -1ns"},
		"no time at all": {func(p *simulate.Plan, l *simulate.Load) {
			l.CallTime, p.StoreLatency = 0, 0
		}, "a worker that needs no time makes calls without end"},
		"lane":       {func(_ *simulate.Plan, l *simulate.Load) { l.Lane = "batch" }, `lane is "batch": no policy has that lane`},
		"lane part":  {func(_ *simulate.Plan, l *simulate.Load) { l.Lane = "batch=2" }, `such as "batch=0.5"`},
		"lane text":  {func(_ *simulate.Plan, l *simulate.Load) { l.Lane = "=0.5" }, `such as "batch=0.5"`},
		"cost":       {func(_ *simulate.Plan, l *simulate.Load) { l.Cost = 0 }, "cost is 0"},
		"high cost":  {func(_ *simulate.Plan, l *simulate.Load) { l.Cost = 2 }, `cost is 2: such a call can never start, because policy "per-second" admits at most 1 at once`},
		"scope":      {func(_ *simulate.Plan, l *simulate.Load) { l.Scopes = map[string]string{"x": "y"} }, `scope is "x": no policy has that scope`},
		"needs":      {func(_ *simulate.Plan, l *simulate.Load) { l.Scopes = map[string]string{"tenant": ""} }, `policy "mine" needs it`},
		"too many":   {func(_ *simulate.Plan, l *simulate.Load) { l.Rate = 1e6 }, "for is 1h0m0s: about 3.6e+09 calls would be made in that time, and at most 5e+07 are simulated: make it 50s or less"},
		"by workers": {func(p *simulate.Plan, _ *simulate.Load) { p.For, p.Policies = p.For*24*365, p.Policies[1:] }, `or lower the load of "tenant"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan(time.Hour, func(*simulate.Plan, *simulate.Load) {}, second, policies.PerSecond(10).Per("tenant").Named("mine"))
			one.change(&p, &p.Loads[0])
			_, err := simulate.Run(t.Context(), p)
			require.ErrorContains(t, err, one.reports)
		})
	}
}

// Calls that are refused and come again at once are not simulated without end.
func TestTooManyRetries(t *testing.T) {
	t.Parallel()

	p := plan(24*time.Hour, func(p *simulate.Plan, l *simulate.Load) {
		l.Workers, p.Retry = 100, simulate.Duration(time.Millisecond)
	},
		policies.Daily(1, time.UTC))
	_, err := simulate.RunAtMost(t.Context(), p, 1_000)
	require.ErrorContains(t, err, "let refused calls come back later")
}
