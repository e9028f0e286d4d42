package cli_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/cli"
)

// standing is the part of status --json that these tests read.
type standing struct {
	Alive         int
	Binding       string
	Waiting       int64
	PausedSeconds float64
	Policies      []struct {
		Name, Text, Scope  string
		Shown              bool
		Rate, Capacity     float64
		Waiting, Remaining int64
		PausedSeconds      float64
	}
	Processes []struct{ Name string }
	Busiest   []struct {
		Policy, Scope string
		Cost, Waiting int64
	}
}

// statusOf returns what status --json prints when both processes are counted: on a busy machine a heartbeat may be missed.
func statusOf(t *testing.T, headway func(...string) outcome, args ...string) (f standing) {
	t.Helper()
	require.Eventually(t, func() bool {
		f = standing{}
		got := headway(append([]string{"status", "--json"}, args...)...)
		return got.code == cli.ExitDone && json.Unmarshal([]byte(got.out), &f) == nil && f.Alive == 2 && len(f.Policies) > 1
	}, patience, 100*time.Millisecond)
	return f
}

// prints waits until a command line prints all of some patterns, as it does when both processes are counted.
func prints(t *testing.T, headway func(...string) outcome, line string, patterns ...string) {
	t.Helper()
	var out string
	require.Eventually(t, func() bool {
		out = headway(strings.Fields(line)...).out
		return !slices.ContainsFunc(patterns, func(p string) bool { return !regexp.MustCompile("(?m)" + p).MatchString(out) })
	}, patience, 100*time.Millisecond, "%v in %s", patterns, &out)
}

type pauses struct {
	Upstream string
	Pauses   []struct {
		Policy, Scope string
		PausedSeconds float64
	}
}

func pausesOf(t *testing.T, got outcome) pauses {
	t.Helper()
	require.Equal(t, cli.ExitDone, got.code, got.err)
	var p pauses
	require.NoError(t, json.Unmarshal([]byte(got.out), &p))
	return p
}

// The whole command against a real Redis and real pacers under load: it shows what they do, and they heed what it does.
func TestCommandsAgainstAFleet(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	headway := on(t, server.Addr)
	require.Equal(t, outcome{0, "No process paces an upstream through the Redis at " + server.Addr + ".\n", ""}, headway("ls"))
	got := headway("status", "zendesk")
	require.Equal(t, cli.ExitUnknown, got.code)
	require.Contains(t, got.err, `headway: no process paces "zendesk", or any other upstream`)

	workers(t, server.Addr, "zendesk")
	var f standing
	require.Eventually(t, func() bool {
		if headway("status", "zendesk").code != cli.ExitDone {
			return false
		}
		f = statusOf(t, headway, "zendesk")
		return len(f.Policies) == 3 && f.Policies[0].Rate > 0 && f.Policies[0].Waiting > 0 && len(f.Busiest) > 1
	}, patience, 500*time.Millisecond, "processes tell of what they do every few seconds")
	require.Equal(t, []string{"account", "day", "tenant"}, []string{f.Policies[0].Name, f.Policies[1].Name, f.Policies[2].Name})
	require.Equal(t, "account", f.Binding)
	require.Equal(t, "account: 20 per 1s, burst 2", f.Policies[0].Text)
	require.InDelta(t, 20, f.Policies[0].Capacity, 0.01)
	require.Less(t, f.Policies[1].Remaining, int64(100_000))
	require.True(t, f.Policies[2].Shown)
	require.Contains(t, []string{"tenant=acme", "tenant=globex"}, f.Policies[2].Scope, "the key that uses most")
	require.ElementsMatch(t, []string{"worker-1", "worker-2"}, []string{f.Processes[0].Name, f.Processes[1].Name})
	require.Contains(t, []string{"tenant=acme", "tenant=globex"}, f.Busiest[0].Scope)

	acme := statusOf(t, headway, "zendesk", "--scope", "tenant=acme")
	require.Equal(t, "tenant=acme", acme.Policies[2].Scope)

	prints(t, headway, "status zendesk", "zendesk: 2 processes pace it", "20 per 1s, burst 2", "worker-2")
	prints(t, headway, "ls", `^zendesk +2 +3 +\d+ +-$`)

	got = headway("status", "zendes")
	require.Equal(t, outcome{
		cli.ExitUnknown, "", `headway: no process paces "zendes": the upstreams in the Redis at ` + server.Addr + " are zendesk\n",
	}, got)
	got = headway("status", "zendesk", "--scope", "org=1")
	require.Equal(t, outcome{cli.ExitUsage, "", "headway: no policy of zendesk is per org: its scopes are tenant\n"}, got)

	pauseAndResume(t, headway)
	resetAll(t, headway)
	completes(t, server.Addr, "zendesk\n", "status", "")
	completes(t, server.Addr, "tenant=\n", "status", "zendesk", "--scope", "")
	completes(t, server.Addr, "account\nday\ntenant\n", "pause", "zendesk", "5s", "--policy", "")
	require.Contains(t, run(t, "completion", "bash").out, "bash completion V2 for headway")
	require.Equal(t, ":4\n", run(t, "__complete", "--redis", "127.0.0.1:1", "status", "").out, "without Redis there is nothing to complete")
}

func pauseAndResume(t *testing.T, headway func(...string) outcome) {
	t.Helper()
	got := headway("pause", "zendesk", "10m")
	require.Equal(t, cli.ExitDone, got.code, got.err)
	require.Regexp(t, `^zendesk is paused for (10m|9m[0-5]?\ds), until \d\d:\d\d:\d\d\n$`, got.out)
	before := statusOf(t, headway, "zendesk")
	require.LessOrEqual(t, before.PausedSeconds, 600.0)
	require.Greater(t, before.PausedSeconds, 600-patience.Seconds())
	prints(t, headway, "ls", `^zendesk +2 +3 +\d+ +(10m|9m[0-5]?\ds)$`)
	require.Contains(t, headway("status", "zendesk").out, "paused: the whole upstream, for")
	left := statusOf(t, headway, "zendesk").Policies[1].Remaining
	require.LessOrEqual(t, before.Policies[1].Remaining-left, int64(16), "nothing goes: each worker may have just given its slot up for one behind the pause")

	require.Contains(t, headway("pause", "zendesk", "1m").out, "it was already paused for longer than 1m; to shorten the pause, resume first")
	require.Contains(t, headway("resume", "zendesk").out, "zendesk is resumed; left of its pause: ")
	require.Zero(t, statusOf(t, headway, "zendesk").PausedSeconds)
	require.Eventually(t, func() bool { return statusOf(t, headway, "zendesk").Policies[1].Remaining < left }, patience, 100*time.Millisecond)
	require.Equal(t, "zendesk was not paused\n", headway("resume", "zendesk").out)

	p := pausesOf(t, headway("pause", "zendesk", "30s", "--policy", "day", "--json"))
	require.Len(t, p.Pauses, 1)
	require.Equal(t, "day", p.Pauses[0].Policy)
	require.LessOrEqual(t, p.Pauses[0].PausedSeconds, 30.0)
	require.Positive(t, p.Pauses[0].PausedSeconds)
	prints(t, headway, "ls", `^zendesk .* 1 policy$`)

	p = pausesOf(t, headway("pause", "zendesk", "2000h", "--scope", "tenant=acme", "--json"))
	require.Len(t, p.Pauses, 1)
	require.Equal(t, "tenant", p.Pauses[0].Policy)
	require.Equal(t, "tenant=acme", p.Pauses[0].Scope)
	require.InDelta(t, 2000*3600, p.Pauses[0].PausedSeconds, patience.Seconds(), "an operator's pause is not capped at an hour")
	require.Empty(t, pausesOf(t, headway("resume", "zendesk", "--scope", "tenant=acme", "--json")).Pauses)

	for line, want := range map[string]string{
		"pause zendesk 10":                                                  "\"10\" is not a duration: write one such as 30s, 10m or 2h",
		"pause zendesk -- -5s":                                              "a pause of -5s is too short",
		"pause zendesk 5s --policy accnt":                                   `zendesk has no policy "accnt": it has account, day, tenant`,
		"pause zendesk 5s --policy tenant":                                  "policy tenant is per tenant: choose one with --scope tenant=VALUE",
		"pause zendesk 5s --policy day --scope tenant=acme":                 "policy day is not per tenant: leave that --scope out",
		"pause zendesk 5s --policy tenant --policy day --scope tenant=acme": "policy day is not per tenant",
		"pause zendesk 5s --scope tenant":                                   `--scope is "tenant": write a name and a value, such as tenant=acme`,
		"pause zendesk 5s --scope tenant=a --scope tenant=b":                "--scope gives tenant twice: a call has one tenant",
		"pause zendesk":                                                     "write headway pause UPSTREAM DURATION: see",
		"paws zendesk":                                                      `unknown command "paws" for "headway"`,
		"ls --jsn":                                                          "unknown flag: --jsn",
	} {
		args := strings.Fields(line)
		if !strings.Contains(line, " -- ") { // what follows -- is no flag
			got := headway(args...)
			require.Equal(t, cli.ExitUsage, got.code, line)
			require.Contains(t, got.err, "headway: "+want, line)
			continue
		}
		require.Contains(t, run(t, args...).err, want)
	}
}

func resetAll(t *testing.T, headway func(...string) outcome) {
	t.Helper()
	used := statusOf(t, headway, "zendesk").Policies[1].Remaining
	got := headway("reset", "zendesk")
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.err, "reset asks for confirmation, and there is no terminal: add --yes to reset zendesk")
	headway("pause", "zendesk", "1h") // so that nothing goes between the reset and the look
	got = headway("reset", "zendesk", "--yes")
	require.Equal(t, outcome{0, "zendesk is reset\n", ""}, got)
	after := statusOf(t, headway, "zendesk")
	require.Zero(t, after.PausedSeconds)
	require.Greater(t, after.Policies[1].Remaining, used)
}

// completes runs the completion of a shell, with the word that is completed last, until the store answers as soon as a shell needs it.
func completes(t *testing.T, addr, want string, args ...string) {
	t.Helper()
	args = append([]string{"__complete", "--redis", addr}, args...)
	require.Eventually(t, func() bool { return strings.Contains(run(t, args...).out, want) }, patience, 100*time.Millisecond, "%v: %q", args, want)
}
