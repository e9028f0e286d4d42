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
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/examples/zendesk/standin"
	headway "github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// noEnv is an environment without the real API.
func noEnv(string) string { return "" }

// work1m runs the whole program for a minute of virtual time.
func work1m(t *testing.T, args ...string) (*result, string) {
	t.Helper()
	var out, messages bytes.Buffer
	c, err := parse(append([]string{"-duration", "1m"}, args...), noEnv, &messages)
	require.NoError(t, err)
	c.connect = func(h http.Handler) http.RoundTripper { return &upstreamtest.Upstream{Handler: h} }
	r, err := execute(t.Context(), c, &out, &messages)
	require.NoError(t, err, messages.String())
	t.Log(messages.String() + out.String())
	require.Zero(t, r.meter.failures, "%v", r.meter.failure)
	return r, out.String()
}

func TestPacedRunMeetsNo429(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, out := work1m(t)
		require.Zero(t, r.refused, r.refusedBy)
		require.LessOrEqual(t, r.admitted, 700)
		require.GreaterOrEqual(t, r.admitted, 690, "all workers may happen to wait for updates, of which fewer are allowed")
		require.Equal(t, r.admitted, r.meter.lists+r.meter.gets+r.meter.updates)
		require.Contains(t, out, "% of 700 calls a minute")
	})
}

// The page is there while the work goes on through real connections, and shows it.
func TestPageShowsTheWork(t *testing.T) {
	t.Parallel()
	c, err := parse([]string{"-duration", "1h", "-page", "127.0.0.1:0"}, noEnv, io.Discard)
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
	r, err := execute(ctx, c, io.Discard, messages)
	require.NoError(t, err)
	require.Zero(t, r.meter.failures, "%v", r.meter.failure)
	page := <-seen
	require.True(t, showsWork(page), page)
}

// showsWork reports whether a page has the upstream and its account.
func showsWork(page string) bool {
	return strings.Contains(page, `"upstream":"zendesk-example"`) && strings.Contains(page, `"scope":"account=`)
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := work1m(t, "-tenants", "3", "-plan", "team")
		require.Zero(t, r.refused, r.refusedBy)
		require.Equal(t, 600, r.admitted)
	})
}

func TestUnpacedRunIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, out := work1m(t, "-unpaced")
		require.Contains(t, out, "not paced")
		require.NotZero(t, r.refusedBy["peak"], "the judge must be real")
		require.NotZero(t, r.meter.refused)
		require.NotEmpty(t, r.meter.slept)
	})
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

// The file has the policies of limits.go, and a pacer for them.
func TestTheFileHasTheSamePolicies(t *testing.T) {
	t.Parallel()
	f, err := headway.Load("headway.yaml")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(limitsOf(700)), fmt.Sprint(f.Policies("zendesk-example")))

	c, err := parse([]string{"-config", "headway.yaml"}, noEnv, io.Discard)
	require.NoError(t, err)
	p, done, err := newPacer(t.Context(), c)
	require.NoError(t, err)
	defer done()
	require.Equal(t, "zendesk-example", fleet.Of(p).Upstream())

	c.file = "go.mod"
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
