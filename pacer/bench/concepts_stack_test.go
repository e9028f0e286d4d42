package bench_test

import (
	"image/color"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// stackPicture shows the first instant at which all policies of a stack admit a call.
func stackPicture(t *testing.T) *timeline {
	t.Helper()
	stack := []policies.Policy{
		policies.Every(700 * ms).Per("tenant").Named("tenant"), policies.PerSecond(4).Burst(1).Named("rate"), policies.Fixed(6, 2*time.Second).Named("window"),
	}
	code := []string{`Every(700 ms).Per("tenant")`, "PerSecond(4).Burst(1)", "Fixed(6, 2*time.Second)"}
	const asks = 1300 * ms
	alone := make([]time.Duration, len(stack)) // what each policy would decide by itself
	var joint time.Duration
	calls := perform(t, stack, func(s *scene) {
		for _, who := range []string{"acme", "b", "c", "acme", "d", "e", "f"} {
			s.ask(1, who, 0)
		}
		s.at(asks)
		for i := range stack {
			p := s.pacer(stack[i])
			r, err := p.Reserve(t.Context(), pacer.Scope("tenant", "acme"))
			require.NoError(t, err)
			alone[i] = s.now() + r.Delay()
			require.NoError(t, r.NotUsed(t.Context()))
			require.NoError(t, p.Close())
		}
		s.ask(1, "acme", 0)
	})
	joint = calls[len(calls)-1].goes
	l := &timeline{
		title: "A call of acme asks at 1.3 s: three policies, one slot", to: 2500 * ms, step: 250 * ms, names: 158,
		keys: []key{
			{sign{0, grey, going}, "slots of earlier calls"}, {sign{0, orange, wanted}, "would admit it from here"}, {sign{0, blue, going}, "goes: all three admit it"},
		},
		lines: []instant{{asks, "asks"}},
	}
	for i := range stack {
		own := calls[:len(calls)-1]
		if i == 0 {
			own = of(own, "acme")
		}
		one := row{name: code[i], code: true, signs: gone(went(own), grey)}
		one.about = []string{"acme's own", "everybody's", "everybody's"}[i]
		if i == 2 {
			one.spans = []span{{from: 0, to: 2 * time.Second, form: shade, colour: pale, label: "6 of 6: full"}}
			one.room = 10
		}
		one.signs = append(one.signs, sign{alone[i], orange, wanted}, sign{joint, blue, going})
		l.rows = append(l.rows, one)
	}
	return l
}

// gapsPicture shows that a line of one tenant does not hold up others, and what a limiter does that remembers no gaps.
func gapsPicture(t *testing.T) *timeline {
	t.Helper()
	stack := []policies.Policy{policies.PerSecond(4).Burst(1).Named("shared"), policies.PerSecond(2).Per("tenant")}
	asks := []struct {
		at  time.Duration
		who string
		n   int
	}{{0, "acme", 10}, {200 * ms, "beta", 1}, {600 * ms, "core", 1}, {1200 * ms, "beta", 1}, {1600 * ms, "core", 1}, {2200 * ms, "beta", 1}}
	calls := perform(t, stack, func(s *scene) {
		for _, a := range asks {
			s.at(a.at)
			s.ask(a.n, a.who, 0)
		}
	})
	// A limiter that knows of each limit only when it is free again pushes that behind every slot it gives.
	var behind []*played
	free := make(map[string]time.Duration)
	const shared = "shared by all"
	for _, a := range asks {
		for range a.n {
			goes := max(a.at, free[shared], free[a.who])
			free[shared], free[a.who] = goes+250*ms, goes+500*ms
			behind = append(behind, &played{who: a.who, asks: a.at, goes: goes, went: true})
		}
	}
	l := &timeline{
		title: "4/s with Burst(1) shared, 2/s for each tenant: ten calls of acme ask at 0 s", to: 6500 * ms, step: 500 * ms, names: 112, keys: keysOf(grey),
	}
	for _, one := range []struct {
		by    string
		calls []*played
	}{{"Headway", calls}, {"no gaps kept", behind}} {
		for i, who := range []string{"acme", "beta", "core"} {
			r := row{name: who, about: one.by}
			r.spans, r.signs = lived(of(one.calls, who), []color.Color{acme, beta, core}[i])
			l.rows = append(l.rows, oneRing(r))
		}
	}
	return l
}

// slackPicture shows how much later than its slot a call may go, and how much of that jitter uses.
func slackPicture(t *testing.T) *timeline {
	t.Helper()
	l := &timeline{
		title: "Seven calls ask at once: from when to when each may go", to: 60 * ms, step: 10 * ms, ms: true, names: 150,
		keys: []key{
			{sign{0, blue, going}, "slot"}, {sign{0, slackColour, nil}, "slack"}, {sign{0, orange, nil}, "where jitter of up to 10 ms lets it go"},
		},
	}
	for _, r := range []struct {
		code, about string
		policy      policies.Policy
	}{
		{"PerSecond(100)", "no slack, so no jitter", policies.PerSecond(100)},
		{"PerSecond(100).Burst(3)", "slack of two intervals", policies.PerSecond(100).Burst(3)},
	} {
		grants := make([]store.Grant, 7)
		stack := store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: "peak", Spec: r.policy.Spec()}}}
		calls := slices.Repeat([]store.Call{{Cost: 1, MaxWait: time.Second}}, len(grants))
		store := memstore.New(memstore.WithClock(func() store.Instant { return 1e15 }))
		require.NoError(t, store.Reserve(t.Context(), stack, calls, grants))
		for i := range grants {
			g := &grants[i]
			one := row{low: i > 0, signs: []sign{{g.Wait(), blue, going}}}
			one.spans = []span{{from: g.Wait(), to: g.Wait() + g.Slack, form: bar, colour: slackColour}}
			if g.Wait() > 0 { // a call that goes at once is not delayed
				one.spans = append(one.spans, span{from: g.Wait(), to: g.Wait() + min(g.Slack, 10*time.Millisecond), form: bar, colour: orange})
			}
			if i == 0 {
				one.name, one.about, one.code = r.code, r.about, true
			}
			l.rows = append(l.rows, one)
		}
	}
	return l
}
