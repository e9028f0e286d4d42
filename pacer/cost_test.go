package pacer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// llm is a stack of requests and tokens.
func llm() pacer.Config {
	return limits(
		policies.PerMinute(600).Burst(600).Named("requests"),
		policies.PerMinute(60_000).Burst(60_000).Named("tokens"),
	)
}

func TestACallCostsEachPolicySomethingElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, llm())
		require.NoError(t, p.Wait(t.Context(), pacer.CostOf("tokens", 50_000), pacer.MaxWait(0)))
		require.Equal(t, int64(599), status(t, p, "requests").Remaining)
		require.Equal(t, int64(10_000), status(t, p, "tokens").Remaining)
		err := p.Wait(t.Context(), pacer.CostOf("tokens", 20_000), pacer.MaxWait(0))
		var le *pacer.LimitError
		require.ErrorAs(t, err, &le)
		require.Equal(t, "tokens", le.Policy)
		require.Equal(t, int64(20_000), le.Cost)
		require.Equal(t, 10*time.Second, le.Wait)
		require.NoError(t, p.Wait(t.Context(), pacer.CostOf("tokens", 0), pacer.MaxWait(0)), "what costs a policy nothing is not bound by it")
		require.Equal(t, int64(598), status(t, p, "requests").Remaining)
		require.NoError(t, p.Wait(t.Context(), pacer.Cost(5), pacer.CostOf("requests", 100), pacer.CostOf("requests", 8), pacer.MaxWait(0)), "the last one counts")
		require.Equal(t, int64(590), status(t, p, "requests").Remaining)
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Minute, Policies: []string{"tokens"}}))
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
		require.NoError(t, p.Wait(t.Context(), pacer.CostOf("tokens", 0), pacer.MaxWait(0)), "nor held back when it is paused")
	})
}

func TestACostThatAPolicyNeverAdmits(t *testing.T) {
	t.Parallel()
	p := newPacer(t, llm())
	var le *pacer.LimitError
	require.ErrorAs(t, p.Wait(t.Context(), pacer.CostOf("tokens", 60_001)), &le)
	require.ErrorIs(t, le, pacer.TooCostly)
	require.Equal(t, "tokens", le.Policy)
	var ce *pacer.ConfigError
	require.ErrorAs(t, p.Wait(t.Context(), pacer.CostOf("token", 1)), &ce)
	require.EqualError(t, ce, `pacer: CostOf is "token": no policy of upstream "test" has that name`)
	require.ErrorAs(t, p.Wait(t.Context(), pacer.CostOf("tokens", -1)), &ce)
}

// An estimate is no more than each limit admits at once, down to the part that a lane has; what the call really cost is charged later.
func TestAnEstimateIsNoMoreThanALaneAdmits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerMinute(60_000).Burst(60_000).Named("tokens").Lane("batch", 10)))
		inLane := pacer.Lane("batch")
		var le *pacer.LimitError
		require.ErrorAs(t, p.Wait(t.Context(), inLane, pacer.CostOf("tokens", 20_000), pacer.MaxWait(0)), &le)
		require.ErrorIs(t, le, pacer.TooCostly)
		r, err := p.Acquire(t.Context(), inLane, pacer.EstimateOf("tokens", 100_000, policies.Learned{}))
		require.NoError(t, err)
		require.Zero(t, status(t, p, "tokens").Remaining)
		require.NoError(t, r.Settle(t.Context(), policies.Cost{Policy: "tokens", N: 1_000}))
		require.Equal(t, int64(59_000), status(t, p, "tokens").Remaining)
		require.NoError(t, p.Wait(t.Context(), inLane, pacer.CostOf("tokens", 5_000), pacer.MaxWait(0)), "the lane's part is settled, too: of 6,000 it has 5,000")
	})
}

// Costs are learned for each scope, and charged in place of the estimate, in lanes too.
func TestCostsAreLearned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Fixed(1_000_000, time.Hour).Per("model").Named("tokens").Lane("batch", 50)))
		charged := func(model string, n int64, how policies.Learned, scopes ...pacer.ScopeOption) int64 {
			ctx := pacer.With(t.Context(), append(scopes, pacer.Scope("model", model))...)
			before, err := p.Status(ctx)
			require.NoError(t, err)
			r, err := p.Acquire(ctx, pacer.EstimateOf("tokens", n, how))
			require.NoError(t, err)
			after, err := p.Status(ctx)
			require.NoError(t, err)
			require.NoError(t, r.Settle(t.Context(), policies.Cost{Policy: "tokens", N: 100}))
			return before.Policies[0].Remaining - after.Policies[0].Remaining
		}
		once := policies.Learned{Times: 1, Most: 3000}
		for range 20 {
			require.Equal(t, int64(3000), charged("a", 3000, once, pacer.Lane("batch")))
		}
		require.Equal(t, int64(103), charged("a", 3000, once), "the end of the bucket that 100 is in")
		require.Equal(t, int64(103), charged("a", 3000, once, pacer.Lane("batch")))
		require.Equal(t, int64(50), charged("a", 50, policies.Learned{Times: 1, Most: 50}), "never more than it can cost")
		require.Equal(t, int64(7+3*103), charged("a", 1, policies.Learned{Known: 7, Times: 3}), "three answers, and a prompt")
		require.Equal(t, int64(3000), charged("a", 3000, policies.Learned{}), "what is not learned is charged as it is")
		require.Equal(t, int64(3000), charged("b", 3000, once), "another scope")
	})
}

func TestACallIsSettledAtWhatItCost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, llm())
		ask := func(tokens int64) *pacer.Reservation {
			r, err := p.Reserve(t.Context(), pacer.CostOf("tokens", tokens), pacer.MaxWait(time.Hour))
			require.NoError(t, err)
			require.NoError(t, r.Wait(t.Context()))
			return r
		}
		r := ask(40_000)
		require.NoError(t, r.Settle(t.Context(), policies.Cost{Policy: "tokens", N: 1_000}))
		require.Equal(t, int64(59_000), status(t, p, "tokens").Remaining, "the difference is there for others")
		require.Equal(t, int64(599), status(t, p, "requests").Remaining, "what is not mentioned stays")
		require.ErrorIs(t, r.Settle(t.Context(), policies.Cost{Policy: "tokens", N: 1}), pacer.ErrSpent, "once")

		require.NoError(t, ask(9_000).Settle(t.Context(), policies.Cost{Policy: "tokens", N: 109_000}))
		start := time.Now()
		ask(10_000)
		require.Equal(t, time.Minute, time.Since(start), "a debt of 50,000 tokens, and room for 10,000")
	})
}

// A policy that a call cost nothing at first is charged if a later cost names it.
func TestWhatCostNothingAtFirstIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(90 * time.Second) // into a window
		p := newPacer(t, limits(
			policies.PerMinute(600).Burst(600).Named("rate"),
			policies.Fixed(600, time.Minute).Named("fixed").Lane("batch", 50),
			policies.Sliding(600, time.Minute).Named("sliding"),
			policies.PerSecond(10).Per("tenant").Optional().Named("other"),
			policies.InFlight(5).Named("running"),
		))
		free := []pacer.Option{
			pacer.Lane("batch"), pacer.CostOf("rate", 0), pacer.CostOf("fixed", 0), pacer.CostOf("sliding", 0), pacer.CostOf("other", 0), pacer.CostOf("running", 0),
		}
		r, err := p.Acquire(t.Context(), free...)
		require.NoError(t, err)
		require.NoError(t, r.Settle(t.Context(), policies.Cost{N: 7}), "which none of them is said to cost")
		r, err = p.Acquire(t.Context(), free...)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, r.Settle(t.Context(),
			policies.Cost{Policy: "rate", N: 100}, policies.Cost{Policy: "fixed", N: 200}, policies.Cost{Policy: "sliding", N: 300}, policies.Cost{Policy: "other", N: 5}, policies.Cost{Policy: "running", N: 1}))
		require.Equal(t, int64(500), status(t, p, "rate").Remaining)
		require.Equal(t, int64(400), status(t, p, "fixed").Remaining)
		require.Equal(t, int64(300), status(t, p, "sliding").Remaining)
		require.Equal(t, int64(5), status(t, p, "running").Remaining)
		require.NoError(t, p.Wait(t.Context(), pacer.Lane("batch"), pacer.CostOf("fixed", 100), pacer.CostOf("running", 0), pacer.MaxWait(0)), "the lane's part has 100 left")
		require.ErrorIs(t, p.Wait(t.Context(), pacer.Lane("batch"), pacer.CostOf("running", 0), pacer.MaxWait(0)), pacer.ErrNotYet)
		require.ErrorIs(t, r.Settle(t.Context(), policies.Cost{Policy: "rate", N: 1}), pacer.ErrSpent)
		require.EqualError(t, r.Settle(t.Context(), policies.Cost{Policy: "rate", N: 1}), "pacer: the call was settled before: settle it once, at all that it cost")
	})
}

func TestBadSettlements(t *testing.T) {
	t.Parallel()
	p := newPacer(t, llm())
	r, err := p.Reserve(t.Context())
	require.NoError(t, err)
	var ce *pacer.ConfigError
	for _, cost := range []policies.Cost{{Policy: "tokens", N: -1}, {Policy: "token", N: 1}, {N: -1}, {N: specs.MaxLimit + 1}} {
		require.ErrorAs(t, r.Settle(t.Context(), cost), &ce)
	}
	require.NoError(t, r.Settle(t.Context(), policies.Cost{N: 0}), "a caller that slept by itself can settle as well")
	require.Equal(t, int64(600), status(t, p, "requests").Remaining)
	given, err := p.Reserve(t.Context())
	require.NoError(t, err)
	require.NoError(t, given.NotUsed(t.Context()))
	require.ErrorIs(t, given.Settle(t.Context(), policies.Cost{N: 1}), pacer.ErrSpent)
}
