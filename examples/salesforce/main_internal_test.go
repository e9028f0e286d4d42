package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/examples/salesforce/standin"
	"github.com/headway-go/headway/pacer"
	headway "github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies/salesforce"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// noEnv is an environment without a real org.
func noEnv(string) string { return "" }

// realOrg is an environment with one.
func realOrg(name string) string {
	return map[string]string{"SALESFORCE_DOMAIN": "acme.my.salesforce.com", "SALESFORCE_ACCESS_TOKEN": "secret"}[name]
}

// directly returns a transport that calls a handler directly. A test in virtual time ends after the timeouts of its calls: the SDK does not
// close the bodies of all replies, and then the timers of its client remain.
func directly(t *testing.T) func(http.Handler) http.RoundTripper {
	t.Helper()
	t.Cleanup(func() { time.Sleep(time.Minute) }) //realtime: in virtual time
	return func(h http.Handler) http.RoundTripper { return &upstreamtest.Upstream{Handler: h} }
}

// workThrough runs the whole program, through a network if connect is nil.
func workThrough(t *testing.T, connect func(http.Handler) http.RoundTripper, args ...string) (*result, string) {
	t.Helper()
	var out, messages bytes.Buffer
	c, err := parse(args, noEnv, &messages)
	require.NoError(t, err)
	c.connect = connect
	r, err := execute(t.Context(), c, &out, &messages)
	require.NoError(t, err, messages.String())
	t.Log(messages.String() + out.String())
	require.Zero(t, r.meter.failures, "%v", r.meter.failure)
	return r, out.String()
}

func TestTheDayIsSpentAndNoMoreThanThat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// Another consumer makes a third of the calls, and has made them when the end comes.
		r, out := workThrough(t, directly(t), "-allocation", "90", "-other", "20", "-other-calls", "30", "-reserve", "5")
		require.Zero(t, r.stats.Consumers[ownConsumer].Refused)
		require.Equal(t, 90, r.stats.Used)
		require.Equal(t, 30, r.stats.Consumers[otherConsumer].Admitted)

		require.NotNil(t, r.spent, "it ends because the day is spent")
		require.Equal(t, salesforce.PolicyDaily, r.spent.Policy)
		require.Positive(t, r.spent.Wait)
		require.LessOrEqual(t, r.spent.Wait, salesforce.DailyProbe, "another consumer may have spent less than it seems")
		require.Contains(t, out, "The day is spent, as far as the org says. In 0h1")
		require.Contains(t, out, "90 of 90 calls used: 60 by Headway, 30 by another consumer")
		require.Contains(t, out, "calls of the day")
	})
}

func TestInteractiveCallsGoOnWhenTheReadersHaveStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, out := workThrough(t, directly(t), "-allocation", "50", "-other", "0", "-reserve", "30")
		require.NotNil(t, r.stopped)
		require.Equal(t, salesforce.PolicyShare, r.stopped.Policy)
		require.InDelta(t, 35, r.atStop.used, 1, "their share, and an interactive call since then")
		require.NotNil(t, r.spent)
		require.Equal(t, salesforce.PolicyDaily, r.spent.Policy)
		require.Contains(t, out, fmt.Sprintf("%d interactive calls went afterwards", 50-r.atStop.used))
		for _, tenant := range []string{"acme", "globex", "initech"} {
			require.Positive(t, r.meter.calls[tenant], tenant)
			require.Contains(t, out, tenant)
		}
	})
}

func TestAnotherConsumerThatNeverEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// Its last calls come between two answers, where nobody can see them. A call that meets them is refused by the org; then all know.
		r, out := workThrough(t, directly(t), "-allocation", "200", "-other", "60", "-other-calls", "1000")
		require.Equal(t, 200, r.stats.Used)
		require.Greater(t, r.stats.Consumers[otherConsumer].Admitted, 100, "more than half")
		require.LessOrEqual(t, r.stats.Consumers[ownConsumer].Refused, 1, "nobody asks twice")
		require.NotNil(t, r.spent)
		require.Contains(t, out, "he day is spent")
	})
}

// How much went of what was there depends on the machine.
func TestARunThroughRealConnections(t *testing.T) {
	t.Parallel()
	r, out := workThrough(t, nil, "-allocation", "30", "-other", "0")
	require.Empty(t, r.stats.Consumers[otherConsumer])
	require.LessOrEqual(t, r.stats.Used, 30)
	require.Zero(t, r.stats.Consumers[ownConsumer].RefusedBy["daily"], "no call has met the end of the day")
	require.Contains(t, out, fmt.Sprintf("%d of 30 calls used: %[1]d by Headway, 0 by another consumer", r.stats.Used))
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args string
		env  map[string]string
		want string
	}{
		{args: "-workers 0", want: "-workers 0: give a number from 1 to 9"},
		{args: "-workers many", want: `invalid value "many" for flag -workers: parse error`},
		{args: "-reserve 91", want: "-reserve 91: give a number from 0 to 90"},
		{args: "-allocation 19", want: "-allocation 19: give a number from 20 to 1000000"},
		{args: "-other -1", want: "-other -1: give a number from 0 to 1000"},
		{args: "-other-calls -1", want: "-other-calls -1: give a number of at least 1"},
		{args: "-duration 1ms", want: "-duration 1ms: give at least 1s"},
		{args: "-redis localhost", want: "-redis localhost: give host:port, such as 127.0.0.1:6379"},
		{args: "-listen 0.0.0.0:80", want: "-listen: address 0.0.0.0:80 is not a loopback address: use 127.0.0.1:80"},
		{args: "-config headway.yaml -redis 127.0.0.1:6379", want: "-config and -redis do not go together: the file says where Redis is"},
		{args: "-nonsense", want: "flag provided but not defined: -nonsense"},
		{args: "nonsense", want: `"nonsense" is not a flag: see -help`},
		{
			env:  map[string]string{"SALESFORCE_ACCESS_TOKEN": "secret"},
			want: "a real org needs both SALESFORCE_DOMAIN and SALESFORCE_ACCESS_TOKEN: set them both, or none for the stand-in",
		},
		{
			env:  map[string]string{"SALESFORCE_DOMAIN": "https://acme.my.salesforce.com/home", "SALESFORCE_ACCESS_TOKEN": "secret"},
			want: `SALESFORCE_DOMAIN "https://acme.my.salesforce.com/home": give the org's own domain, such as acme.my.salesforce.com`,
		},
		{
			args: "-allocation 100",
			env:  map[string]string{"SALESFORCE_DOMAIN": "acme.my.salesforce.com", "SALESFORCE_ACCESS_TOKEN": "secret"},
			want: "-allocation is for the stand-in only: unset SALESFORCE_DOMAIN and SALESFORCE_ACCESS_TOKEN to use it",
		},
	}
	for _, tt := range tests {
		t.Run(tt.args+tt.env["SALESFORCE_DOMAIN"], func(t *testing.T) {
			t.Parallel()
			var out, messages bytes.Buffer
			code := run(t.Context(), strings.Fields(tt.args), func(k string) string { return tt.env[k] }, &out, &messages)
			require.Equal(t, 2, code)
			require.Equal(t, "salesforce: "+tt.want+"\n", messages.String())
			require.Empty(t, out.String())
		})
	}
}

// The file has the policies of limits.go, and its pacer those of the org.
func TestTheFileHasTheSamePolicies(t *testing.T) {
	t.Parallel()
	f, err := headway.Load("headway.yaml")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(limitsOf(600, 10)), fmt.Sprint(f.Policies("salesforce-example")))

	c, err := parse([]string{"-config", "headway.yaml"}, noEnv, nil)
	require.NoError(t, err)
	p, done, err := newPacer(t.Context(), c, &upstream{org: "acme"})
	require.NoError(t, err)
	defer done()
	require.Equal(t, "salesforce-acme", fleet.Of(p).Upstream())

	c.file = "go.mod"
	_, _, err = newPacer(t.Context(), c, &upstream{org: "acme"})
	require.ErrorContains(t, err, "go.mod")
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var out, messages bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-help"}, noEnv, &out, &messages))
	require.Contains(t, messages.String(), "-redis host:port")
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := parse(nil, noEnv, nil)
	require.NoError(t, err)
	require.Equal(t, &config{
		workers: 9, reserve: 10, duration: time.Minute, allocation: 600, other: 16, otherCalls: 300, listen: "127.0.0.1:0",
	}, c)
	require.False(t, c.shared())
	c, err = parse([]string{"-redis", "127.0.0.1:6379"}, noEnv, nil)
	require.NoError(t, err)
	require.Equal(t, sharedAddress, c.listen)
	require.True(t, c.shared())
}

func TestARealOrg(t *testing.T) {
	t.Parallel()
	for _, domain := range []string{"acme.my.salesforce.com", "https://acme.my.salesforce.com", "https://acme.my.salesforce.com/"} {
		c, err := parse(nil, func(k string) string {
			if k == "SALESFORCE_DOMAIN" {
				return domain
			}
			return realOrg(k)
		}, nil)
		require.NoError(t, err)
		require.True(t, c.isReal())
		require.False(t, c.shared())
		require.Equal(t, "acme.my.salesforce.com", c.real.domain)
	}
}

func TestAnAddressThatSomethingElseHas(t *testing.T) {
	t.Parallel()
	other, err := standin.Serve(t.Context(), "127.0.0.1:0", http.NotFoundHandler())
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close() })
	addr := strings.TrimPrefix(other.URL(), "http://")
	var out, messages bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"-listen", addr}, noEnv, &out, &messages))
	require.Contains(t, messages.String(), "no stand-in can listen at "+addr+", and none answers there: choose another address with -listen")
}

func TestASecondCopyUsesTheStandInOfTheFirst(t *testing.T) {
	t.Parallel()
	judge, err := standin.New(standin.Config{Allocation: 600, Tokens: map[string]string{exampleToken: ownConsumer}})
	require.NoError(t, err)
	first, err := standin.Serve(t.Context(), "127.0.0.1:0", judge)
	require.NoError(t, err)
	t.Cleanup(func() { _ = first.Close() })
	addr := strings.TrimPrefix(first.URL(), "http://")
	u, err := open(t.Context(), &config{allocation: 600, listen: addr})
	require.NoError(t, err)
	require.Nil(t, u.own)
	require.Equal(t, first.URL(), u.url)
	require.Equal(t, judge.Stats().Org, u.org, "copies share the limits of the org")
	require.Equal(t, 1, u.used)
	require.NoError(t, u.close(t.Context(), true), "it is not this copy's to stop")
	_, err = u.stats(t.Context())
	require.NoError(t, err)

	_, err = open(t.Context(), &config{allocation: 500, listen: addr})
	require.EqualError(t, err, fmt.Sprintf("the stand-in at %s runs with -allocation 600: use that, or another address with -listen", addr))
}

func TestPoliciesAreValid(t *testing.T) {
	t.Parallel()
	for _, allocation := range []int{minCalls, 600, maxCalls, 5_000_000} {
		for _, reserve := range []int{0, 10, maxReserve} {
			for _, p := range limitsOf(allocation, reserve) {
				require.NoError(t, p.Validate(), "%d %d", allocation, reserve)
			}
		}
	}
	require.Equal(t, int64(540), share(600, 10))
	require.Equal(t, int64(600), share(600, 0))
	n, _ := salesforce.Share(617, 100-7, scopeBatch).Limit()
	require.Equal(t, n, share(617, 7), "the same part")
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 20, 16, 30, 0, 0, time.UTC)
	r := &result{meter: &meter{}, last: line{left: 40, readers: 7}}
	require.Equal(t, "The run is over, and the day is not spent: 40 calls are left, 7 of them for readers.", r.verdict(now))
	r.spent = &pacer.LimitError{Wait: 24*time.Hour + 5*time.Minute - time.Second}
	require.Equal(t, "The day is spent: its first calls are forgotten after 24 hours. Come back in 24h05m, at 16:34 on Saturday, 21 November.", r.verdict(now))
	r.spent = &pacer.LimitError{Wait: 15*time.Minute - time.Second}
	require.Equal(t, "The day is spent, as far as the org says. In 0h15m, at 16:44 on Friday, 20 November, a call may ask whether there is more.", r.verdict(now))
	r.meter.refused, r.spent = 1, &pacer.LimitError{Wait: time.Hour, Reason: pacer.Paused}
	require.Equal(t, "The org has refused calls because the day is spent: ask again in 1h00m, at 17:30 on Friday, 20 November.", r.verdict(now))
}

func TestLine(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.November, 20, 16, 30, 0, 0, time.UTC)
	before := &line{at: at}
	l := &line{
		tally: tally{calls: map[string]int{"acme": 20, interactive: 4}, total: 24, used: 60, limit: 600, longest: 599_400 * time.Microsecond},
		at:    at.Add(2 * time.Second), left: 540, readers: 480, tenants: []string{"acme"},
	}
	require.Equal(t, "12.0 calls/s; 60 of 600 used, 540 left, 480 for readers; acme 20, interactive 4; longest wait 599ms; 403s 0", l.describe(before))
	require.Equal(t, "12.0/s, 540 left (480), wait 599ms, acme 20, interactive 4", l.brief(before))
	require.Equal(t, "12.0/s, 5…", cut(l.brief(before), 10))
	require.Equal(t, "short", cut("short", 5))
}

func TestChart(t *testing.T) {
	t.Parallel()
	r := &result{config: &config{reserve: 10}, upstream: &upstream{allocation: 600}, meter: &meter{usedAt: []float64{30}, answered: []float64{12}}}
	require.Contains(t, r.chart(false), "calls of the day, over 0 s: allocation ━, readers stop ┈, used ─, by this copy ·")
	require.LessOrEqual(t, strings.Count(r.chart(false), "\n"), 20)
	require.Contains(t, r.chart(true), "\x1b[")
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	require.Zero(t, quantile(nil, 0.5))
	require.Equal(t, 3*time.Second, quantile([]time.Duration{5 * time.Second, time.Second, 3 * time.Second}, 0.5))
	require.Equal(t, 5*time.Second, quantile([]time.Duration{5 * time.Second, time.Second}, 1))
}
