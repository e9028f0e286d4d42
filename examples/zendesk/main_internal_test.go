package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/examples/zendesk/standin"
	headway "github.com/headway-go/headway/pacer/config"
)

// noEnv is an environment without the real API.
func noEnv(string) string { return "" }

// watch watches by how much a timer is late at most, until the function that it returns is called.
func watch() (latest func() time.Duration) {
	const step = 2 * time.Millisecond
	stop, late := make(chan struct{}), make(chan time.Duration)
	go func() {
		var most time.Duration
		for {
			select {
			case <-stop:
				late <- most
				return
			default:
			}
			began := time.Now()
			time.Sleep(step)                         //realtime: watches the machine's timers
			most = max(most, time.Since(began)-step) //realtime: as above
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-late
	}
}

// judgeRun says what became of a paced run. A measurement fails if calls were refused, or fewer went than were allowed, although no
// timer was later than what the peak leaves as room.
func judgeRun(t *testing.T, r *result, late time.Duration) {
	t.Helper()
	for limit, n := range r.refusedBy {
		require.True(t, limit == "peak" || n == 0, "%s: %d calls were refused, and it allows more than a peak for seconds", limit, n)
	}
	t.Logf("utilisation %.2f, %d calls refused; timers were up to %v late", r.utilisation(), r.refused, late)
	switch good := r.refused == 0 && r.utilisation() > 0.9 && r.utilisation() < 1.1; {
	case !measures || good:
	case late > skew:
		t.Logf("not judged: timers were %v late, and the room is %v", late, skew)
	default:
		t.Errorf("utilisation %.2f, refused: %v", r.utilisation(), r.refusedBy)
	}
}

// work3s runs the whole program for three seconds. These tests take real time: they go through real connections. They run side by side
// unless they measure.
func work3s(t *testing.T, args ...string) (*result, string) {
	t.Helper()
	if !measures {
		t.Parallel()
	}
	var out, messages bytes.Buffer
	c, err := parse(append([]string{"-duration", "3s"}, args...), noEnv, &messages)
	require.NoError(t, err)
	r, err := execute(t.Context(), c, &out, &messages)
	require.NoError(t, err, messages.String())
	t.Log(messages.String() + out.String())
	require.Zero(t, r.meter.failures, "%v", r.meter.failure)
	require.Contains(t, out.String(), "calls per second")
	require.Contains(t, out.String(), "utilisation")
	return r, out.String()
}

func TestPacedRunMeetsNo429(t *testing.T) {
	late := watch()
	r, _ := work3s(t)
	judgeRun(t, r, late())
	require.LessOrEqual(t, r.meter.refused, r.refused, "a refusal may have been on its way in the end")
	if r.utilisation() > 0.9 { // a run that hardly came to call has made no call of some kinds
		require.NotZero(t, r.meter.lists)
		require.NotZero(t, r.meter.gets)
		require.NotZero(t, r.meter.updates)
	}
}

// The page is there while the work goes on, and shows it.
func TestPageShowsTheWork(t *testing.T) {
	t.Parallel()
	c, err := parse([]string{"-duration", "1m", "-page", "127.0.0.1:0"}, noEnv, io.Discard)
	require.NoError(t, err)
	output, messages := io.Pipe()
	defer messages.Close()
	ctx, shown := context.WithCancel(t.Context())
	defer shown()
	seen := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if address, ok := strings.CutPrefix(lines.Text(), "The limits, live: "); ok {
				go func() {
					defer shown() // which ends the work
					page := ""
					for ctx.Err() == nil && !showsWork(page) {
						time.Sleep(50 * time.Millisecond) //realtime: asks the page again, until it shows the work
						page = get(address + "fleet.json")
					}
					seen <- page
				}()
			}
		}
	}()
	_, err = execute(ctx, c, io.Discard, messages)
	require.NoError(t, err)
	page := <-seen
	require.True(t, showsWork(page), page)
}

// showsWork reports whether a page has the upstream, its account, and a limit that some of sixteen workers wait for.
func showsWork(page string) bool {
	return strings.Contains(page, `"upstream":"zendesk-example"`) && strings.Contains(page, `"scope":"account=`) &&
		!strings.Contains(page, `"binding":""`)
}

func get(address string) string {
	answer, err := http.Get(address)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

func TestPacedAccountsDoNotWaitForEachOther(t *testing.T) {
	late := watch()
	r, _ := work3s(t, "-tenants", "3", "-plan", "team")
	judgeRun(t, r, late())
}

func TestUnpacedRunIsRefused(t *testing.T) {
	r, out := work3s(t, "-unpaced")
	require.Contains(t, out, "not paced")
	if measures || r.refusedBy["peak"] > 0 { // a machine that is busy enough exceeds no limit
		require.NotZero(t, r.refusedBy["peak"], "the judge must be real")
		require.NotZero(t, r.meter.refused)
		require.NotEmpty(t, r.meter.slept)
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	realAPI := map[string]string{"ZENDESK_SUBDOMAIN": "acme", "ZENDESK_EMAIL": "ann@example.com", "ZENDESK_TOKEN": "secret"}
	tests := []struct {
		args string
		env  map[string]string
		want string
	}{
		{args: "-plan gold", want: "-plan gold: there is no such plan, choose one of team, growth, professional, enterprise, enterprise-plus"},
		{args: "-workers 0", want: "-workers 0: give a number from 1 to 1000"},
		{args: "-workers many", want: `invalid value "many" for flag -workers: parse error`},
		{args: "-tenants 101", want: "-tenants 101: give a number from 1 to 100"},
		{args: "-tenants 3 -workers 2", want: "-workers 2: give at least one worker for each of the 3 tenants"},
		{args: "-duration 20", want: `invalid value "20" for flag -duration: parse error`},
		{args: "-duration 1ms", want: "-duration 1ms: give at least 1s"},
		{args: "-redis localhost", want: "-redis localhost: give host:port, such as 127.0.0.1:6379"},
		{args: "-listen 0.0.0.0:80", want: "-listen: address 0.0.0.0:80 is not a loopback address: use 127.0.0.1:80"},
		{args: "-page 0.0.0.0:80", want: "-page: address 0.0.0.0:80 is not a loopback address: use 127.0.0.1:80"},
		{args: "-page 127.0.0.1:0 -unpaced", want: "-page shows how the limits stand, and with -unpaced nobody keeps them: leave out one of the two"},
		{args: "-listen 127.0.0.1:x", want: `-listen: address 127.0.0.1:x: the port "x" is not a number from 0 to 65535`},
		{args: "-config headway.yaml -redis 127.0.0.1:6379", want: "-config and -redis do not go together: the file says where Redis is"},
		{args: "-config headway.yaml -unpaced", want: "-config has limits, and with -unpaced nobody keeps them: leave out one of the two"},
		{args: "-nonsense", want: "flag provided but not defined: -nonsense"},
		{args: "nonsense", want: `"nonsense" is not a flag: see -help`},
		{
			env:  map[string]string{"ZENDESK_TOKEN": "secret"},
			want: "the real API needs all of ZENDESK_SUBDOMAIN, ZENDESK_EMAIL and ZENDESK_TOKEN: set them all, or none for the stand-in",
		},
		{
			env:  map[string]string{"ZENDESK_SUBDOMAIN": "acme.zendesk.com", "ZENDESK_EMAIL": "ann@example.com", "ZENDESK_TOKEN": "secret"},
			want: `ZENDESK_SUBDOMAIN "acme.zendesk.com": give only the name before .zendesk.com, such as acme`,
		},
		{args: "-unpaced", env: realAPI, want: "-unpaced is for the stand-in only: it would spend the limit that others at your Zendesk account need"},
		{args: "-tenants 2", env: realAPI, want: "-tenants is for the stand-in only: the real API is one account"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			var out, messages bytes.Buffer
			code := run(t.Context(), strings.Fields(tt.args), func(k string) string { return tt.env[k] }, &out, &messages)
			require.Equal(t, 2, code)
			require.Equal(t, "zendesk: "+tt.want+"\n", messages.String())
			require.Empty(t, out.String())
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var out, messages bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-help"}, noEnv, &out, &messages))
	require.Contains(t, messages.String(), "-redis host:port")
}

func TestTheRealAPIIsOnlyRead(t *testing.T) {
	t.Parallel()
	c, err := parse(nil, func(k string) string {
		return map[string]string{"ZENDESK_SUBDOMAIN": "acme", "ZENDESK_EMAIL": "ann@example.com", "ZENDESK_TOKEN": "secret"}[k]
	}, nil)
	require.NoError(t, err)
	require.True(t, c.isReal())
	require.False(t, c.shared())
	require.Zero(t, newSyncer(nil, nil, c).every)
	u, err := open(t.Context(), c)
	require.NoError(t, err)
	require.Nil(t, u.server)
	require.NoError(t, u.close(t.Context(), c.shared()))
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := parse(nil, noEnv, nil)
	require.NoError(t, err)
	require.Equal(t, &config{workers: 16, plan: "enterprise", limit: 700, tenants: 1, duration: 20 * time.Second, listen: "127.0.0.1:0"}, c)
	require.False(t, c.shared())
	c, err = parse([]string{"-redis", "127.0.0.1:6379"}, noEnv, nil)
	require.NoError(t, err)
	require.Equal(t, sharedAddress, c.listen)
	require.True(t, c.shared())
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
	judge, err := standin.New(standin.Config{Plan: "team"})
	require.NoError(t, err)
	first, err := standin.Serve(t.Context(), "127.0.0.1:0", judge)
	require.NoError(t, err)
	t.Cleanup(func() { _ = first.Close() })
	addr := strings.TrimPrefix(first.URL(), "http://")

	u, err := open(t.Context(), &config{plan: "team", limit: 200, listen: addr})
	require.NoError(t, err)
	require.Nil(t, u.own)
	require.Equal(t, first.URL(), u.url)
	require.NoError(t, u.close(t.Context(), true), "it is not this copy's to stop")
	_, err = u.stats(t.Context())
	require.NoError(t, err)

	_, err = open(t.Context(), &config{plan: "growth", limit: 400, listen: addr})
	require.EqualError(t, err, fmt.Sprintf("the stand-in at %s runs with -plan team: use that, or another address with -listen", addr))
}

func TestPoliciesAreValid(t *testing.T) {
	t.Parallel()
	for _, plan := range standin.Plans() {
		limit, _ := standin.PlanLimit(plan)
		for _, p := range limitsOf(limit) {
			require.NoError(t, p.Validate(), plan)
		}
	}
	require.Equal(t, int64(10), taggedEvery(700))
	require.Equal(t, int64(32), taggedEvery(2500))
}

// The file has the policies of limits.go, and paces as they do.
func TestTheFileHasTheSamePolicies(t *testing.T) {
	f, err := headway.Load("headway.yaml")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(limitsOf(700)), fmt.Sprint(f.Policies("zendesk-example")))

	r, _ := work3s(t, "-config", "headway.yaml")
	require.NotZero(t, r.meter.lists)

	c, err := parse([]string{"-config", "go.mod"}, noEnv, io.Discard)
	require.NoError(t, err)
	_, _, err = newPacer(t.Context(), c)
	require.ErrorContains(t, err, "go.mod")
}

// An account is the same at the stand-in, where it is in the path, and at Zendesk, where it is in the host.
func TestScopes(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"http://127.0.0.1:1/acme", "https://acme.zendesk.com"} {
		for call, want := range map[string][]string{
			"GET /api/v2/tickets.json?page=2": {"account", "tickets-index"},
			"GET /api/v2/tickets/7.json":      {"account"},
			"PUT /api/v2/tickets/7.json":      {"account", "tickets-update", "ticket"},
		} {
			method, path, _ := strings.Cut(call, " ")
			r, err := http.NewRequestWithContext(t.Context(), method, at+path, http.NoBody)
			require.NoError(t, err)
			var got []string
			for _, s := range profile().Scopes {
				v := s.Value(r)
				if v == "" {
					continue
				}
				got = append(got, s.Name)
				require.True(t, strings.HasPrefix(v, "acme.zendesk.com"), v)
			}
			require.Equal(t, want, got, at+" "+call)
		}
	}
}

func TestChart(t *testing.T) {
	t.Parallel()
	r := &result{config: &config{limit: 700, tenants: 1}, admittedAt: []int{13}, refusedAt: []int{700}, refused: 700}
	require.Contains(t, r.chart(false), "calls per second: limit ┈, admitted ─, 429s ×")
	require.LessOrEqual(t, strings.Count(r.chart(false), "\n"), 20)
	require.Contains(t, r.chart(true), "\x1b[")
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	require.Zero(t, quantile(nil, 0.5))
	require.Equal(t, 3*time.Second, quantile([]time.Duration{5 * time.Second, time.Second, 3 * time.Second}, 0.5))
	require.Equal(t, 5*time.Second, quantile([]time.Duration{5 * time.Second, time.Second}, 1))
}
