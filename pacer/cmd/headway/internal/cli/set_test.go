package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/cli"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
)

// held is what set, unset, limit and unlimit print as JSON, and status as its settings.
type held struct {
	Upstream string
	Changed  *time.Time
	Policies *struct {
		Texts        []string
		Since, Until *time.Time
	}
	Limits []struct {
		Policy, Scope string
		Texts         []string
		Since, Until  *time.Time
	}
}

func heldIn(t *testing.T, got outcome) held {
	t.Helper()
	require.Equal(t, cli.ExitDone, got.code, got.err)
	var h held
	require.NoError(t, json.Unmarshal([]byte(got.out), &h))
	return h
}

// The policies of a fleet and the limits of keys are set and unset, every process has them, and status shows them.
func TestSettingAgainstAFleet(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	headway := on(t, server.Addr)
	workers(t, server.Addr, "zendesk")
	known(t, headway)
	status := func() (s struct {
		Policies     []struct{ Name, Text string }
		Settings     held
		VersionCount int
		Processes    []struct{ Source, Version string }
	}) {
		statusOf(t, headway, "zendesk")
		got := headway("status", "zendesk", "--json")
		require.Equal(t, cli.ExitDone, got.code, got.err)
		require.NoError(t, json.Unmarshal([]byte(got.out), &s))
		return s
	}
	require.Nil(t, status().Settings.Policies)

	require.Equal(t, outcome{0, "zendesk: the policies are set for every process\n", ""},
		headway("set", "zendesk", "--yes", "--policy", "account: 40 per 1s", "--policy", "tenant: 60/s, per tenant"))
	require.Eventually(t, func() bool {
		s := status()
		sources := 0
		for _, p := range s.Processes {
			if strings.HasPrefix(p.Source, "set at ") && p.Version != "" {
				sources++
			}
		}
		return sources == 2 && s.VersionCount == 1
	}, patience, 200*time.Millisecond, "each process reports what it has")
	s := status()
	require.Equal(t, []string{"account: 40 per 1s, burst 2", "tenant: 60 per 1s, per tenant"}, s.Settings.Policies.Texts)
	require.Nil(t, s.Settings.Policies.Until)
	prints(t, headway, "status zendesk", `^SET BY HAND +SCOPE +WHAT IT IS +SINCE +ENDS$`, `^account +- +40 per 1s, burst 2 +\d\d:\d\d:\d\d +when unset$`,
		`^worker-1 +\S+ +\d+ +set at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} +[0-9a-f]{12}$`, "account  -")

	h := heldIn(t, headway("limit", "zendesk", "tenant", "tenant: 90/s, burst 9", "--scope", "tenant=acme", "--for", "2h", "--json"))
	require.Equal(t, "tenant=acme", h.Limits[0].Scope)
	require.Equal(t, []string{"tenant: 90 per 1s, burst 9, per tenant"}, h.Limits[0].Texts)
	require.Equal(t, 2*time.Hour, h.Limits[0].Until.Sub(*h.Limits[0].Since))
	require.NotNil(t, h.Policies)
	prints(t, headway, "status zendesk", `^tenant +tenant=acme +90 per 1s, burst 9, per tenant +\d\d:\d\d:\d\d +in (2h|1h5\dm), at .*$`)
	prints(t, headway, "status zendesk --scope tenant=acme", "90 per 1s, burst 9, per tenant\n")
	require.Equal(t, "zendesk: tenant has 5 per 1s for tenant=globex\n",
		headway("limit", "zendesk", "tenant", "5 per 1s", "--scope", "tenant=globex").out)
	require.Equal(t, "zendesk: tenant has its own numbers again for tenant=acme\n",
		headway("unlimit", "zendesk", "tenant", "--scope", "tenant=acme").out)
	require.Len(t, heldIn(t, headway("unlimit", "zendesk", "tenant", "--scope", "tenant=acme", "--json")).Limits, 1)

	require.Equal(t, cli.ExitDone, headway("set", "zendesk", "--yes", "--policy", "account: 40 per 1s", "--policy", "tenant: 60/s, per tenant",
		"--policy", `for "initech": 70/s`, "--policy", `for "a: b": 80/s, burst 8`).code)
	require.Equal(t, []string{
		"account: 40 per 1s, burst 2", "tenant: 60 per 1s, per tenant", `for "a: b": 80 per 1s, burst 8`, `for "initech": 70 per 1s`,
	}, status().Settings.Policies.Texts)
	prints(t, headway, "status zendesk", `^tenant +- +60 per 1s, per tenant +\d\d:\d\d:\d\d +when unset$`, `^tenant +"a: b" +80 per 1s, burst 8 +\d\d:\d\d:\d\d +when unset$`)
	prints(t, headway, "status zendesk --scope tenant=initech", "70 per 1s, per tenant\n")

	require.Equal(t, "zendesk: each process uses its own policies again\n", headway("unset", "zendesk").out)
	require.Equal(t, "no policies were set for zendesk\n", headway("unset", "zendesk").out)
	require.Nil(t, status().Settings.Policies)
	require.Eventually(t, func() bool {
		s := status()
		return len(s.Policies) == 3 && len(s.Processes) == 2 && s.Processes[0].Source == "" && s.Processes[1].Source == "" && s.VersionCount == 1
	}, patience, 200*time.Millisecond, "each has its own again")

	setsNothing(t, headway)
	completes(t, server.Addr, "tenant\n:4\n", "limit", "zendesk", "")
	completes(t, server.Addr, "tenant\n:4\n", "unlimit", "zendesk", "")
	completes(t, server.Addr, "zendesk\n", "limit", "")
	completes(t, server.Addr, "account: 20 per 1s, burst 2\n", "set", "zendesk", "--policy", "")
}

// setsNothing gives command lines that are wrong.
func setsNothing(t *testing.T, headway func(...string) outcome) {
	t.Helper()
	before := headway("status", "zendesk", "--json")
	for _, one := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"set", "zendesk"}, cli.ExitUsage, `set needs --policy, such as --policy "peak: 25 per 1s, burst 10"`},
		{
			[]string{"set", "zendesk", "--policy", "peak: 5 per 1s"}, cli.ExitUsage,
			"set asks for confirmation, and there is no terminal: add --yes to replace the policies of zendesk",
		},
		{[]string{"set", "zendesk", "--yes", "--policy", "peak: 5 per 1s", "--policy", "peak: 5 per moon"}, cli.ExitUsage, `--policy "peak: 5 per moon": `},
		{[]string{"set", "zendesk", "--yes", "--policy", "peak: 5 per 1s", "--policy", "peak: 6 per 1s"}, cli.ExitUsage, "SetPolicies[1]"},
		{[]string{"set", "zendesk", "--yes", "--policy", `for "acme": 5 per 1s`}, cli.ExitUsage, "has no policy: write it behind that"},
		{[]string{"set", "zendesk", "--yes", "--policy", "peak: 5 per 1s", "--policy", `for "acme": 5 per 1s`}, cli.ExitUsage, "has no keys: add Per"},
		{[]string{"set", "zendes", "--yes", "--policy", "peak: 5 per 1s"}, cli.ExitUnknown, `no process paces "zendes"`},
		{[]string{"unset", "zendes"}, cli.ExitUnknown, `no process paces "zendes"`},
		{[]string{"limit", "zendesk", "tenant", "5 per 1s"}, cli.ExitUsage, "policy tenant is per tenant: choose one with --scope tenant=VALUE"},
		{
			[]string{"limit", "zendesk", "account", "5 per 1s"}, cli.ExitUsage,
			"policy account has no scopes: to change it for the whole upstream, use headway set",
		},
		{[]string{"limit", "zendesk", "tennant", "5 per 1s"}, cli.ExitUsage, `zendesk has no policy "tennant": it has account, day, tenant`},
		{[]string{"limit", "zendesk", "tenant", "5 per moon", "--scope", "tenant=a"}, cli.ExitUsage, `the limit "5 per moon": `},
		{[]string{"limit", "zendesk", "tenant", "5 daily (UTC)", "--scope", "tenant=a"}, cli.ExitUsage, "must be of the policy's kind"},
		{[]string{"limit", "zendesk", "tenant", "other: 5 per 1s", "--scope", "tenant=a"}, cli.ExitUsage, "must have no name"},
		{[]string{"limit", "zendesk", "tenant", "5 per 1s", "--scope", "tenant=a", "--for", "-1h"}, cli.ExitUsage, "--for is -1h0m0s: write a positive duration"},
		{[]string{"unlimit", "zendesk", "account"}, cli.ExitUsage, "policy account has no scopes"},
	} {
		got := headway(one.args...)
		require.Equal(t, one.code, got.code, "%v: %s", one.args, got.err)
		require.Contains(t, got.err, one.want, one.args)
		require.Empty(t, got.out)
		require.Equal(t, 1, strings.Count(got.err, "\n"), got.err)
	}
	var then, now struct{ Settings held }
	require.NoError(t, json.Unmarshal([]byte(before.out), &then))
	require.NoError(t, json.Unmarshal([]byte(headway("status", "zendesk", "--json").out), &now))
	require.Equal(t, then, now)
}

// In a terminal set prints its changes, and makes them only after a yes. The error of one setting too many contains what to do.
func TestSetAsksInATerminal(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	headway := on(t, server.Addr)
	workers(t, server.Addr, "zendesk")
	known(t, headway)
	args := []string{"set", "zendesk", "--policy", "account: 5 per 1s", "--policy", "hour: 100 per 1h, per tenant", "--policy", `for "acme": 200 per 1h`,
		"--redis", server.Addr, "--timeout", patience.String()}
	term := inTerminal(t, 100, 30, nil, args...)
	term.shows("Type yes to continue:")
	require.Contains(t, term.Text(), "This sets the policies of zendesk, in 2 processes:")
	require.Contains(t, term.Text(), "account: 5 per 1s, burst 2 (was 20 per 1s, burst 2)")
	require.Contains(t, term.Text(), "(new)")
	require.Contains(t, term.Text(), `    for "acme": 200 per 1h`)
	require.Contains(t, term.Text(), "day is removed (was 100000 daily (UTC))")
	term.types("n\r")
	term.ends(cli.ExitFailed)
	require.Contains(t, term.Text(), "headway: nothing was set: the answer was not yes")
	require.NotContains(t, headway("status", "zendesk").out, "SET BY HAND")
	term = inTerminal(t, 100, 30, nil, args...)
	term.shows("Type yes to continue:")
	term.types("yes\r")
	term.ends(cli.ExitDone)
	require.Contains(t, headway("status", "zendesk").out, "SET BY HAND")

	backing, err := redisstore.New(server.Client())
	require.NoError(t, err)
	require.Equal(t, "zendesk: each process uses its own policies again\n", headway("unset", "zendesk").out)
	var many []store.Setting
	for i := range store.MaxSettings {
		many = append(many, store.Setting{Policy: "tenant", Scope: fmt.Sprint(i), Text: "tenant: 5 per 1s, per tenant"})
	}
	_, err = backing.Set(t.Context(), "zendesk", many)
	require.NoError(t, err)
	require.Contains(t, headway("status", "zendesk").out, "\nand 974 more limits of single keys\n")
	got := headway("limit", "zendesk", "tenant", "5 per 1s", "--scope", "tenant=acme")
	require.Equal(t, cli.ExitFailed, got.code)
	require.Contains(t, got.err, "at most 1024 settings: remove those that are not needed any more: see headway status, and headway unlimit")
}
