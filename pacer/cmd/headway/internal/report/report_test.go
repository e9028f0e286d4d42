package report_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{0: "0", 0.001: "0.001", 0.1234: "0.12", 1.5: "1.5", 11.66: "11.7", 100.4: "100", 12000: "12000", 10: "10"} {
		require.Equal(t, want, report.Number(n))
	}
	for n, want := range map[int64]string{0: "0", 9999: "9999", 10_000: "10k", 18_412: "18.4k", 999_999: "999k", 1_000_000: "1M", 50_500_000: "50.5M", 7_000_000_000: "7G"} {
		require.Equal(t, want, report.Count(n))
		require.LessOrEqual(t, len(want), 6)
	}
	for d, want := range map[time.Duration]string{
		0: "0s", -1: "0s", time.Microsecond: "1ms", 350 * time.Millisecond: "350ms", 40100 * time.Millisecond: "41s", time.Minute: "1m",
		750 * time.Second: "12m30s", 2 * time.Hour: "2h", 25 * time.Hour: "1d1h", 48 * time.Hour: "2d",
		time.Hour - time.Millisecond: "1h", 24*time.Hour - 1: "24h",
	} {
		require.Equal(t, want, report.Duration(d), d)
	}
	require.Equal(t, "acme?[31m?", report.Clean("acme\x1b[31m\u202e"))
	require.Equal(t, "ticket=acme/10", report.Scope("ticket=acme%2F10"))
	require.Equal(t, "tenant=100%", report.Scope("tenant=100%"))
	require.Equal(t, "1 call", report.Plural(1, "call", "calls"))
	require.Equal(t, "0 calls", report.Plural(0, "call", "calls"))
	now := time.Date(2026, 3, 4, 14, 5, 12, 0, time.Local)
	require.Equal(t, "for 41s, until 14:05:53", report.Until(now, 41*time.Second))
	require.Equal(t, "for 2d, until 2026-03-06 14:05:12", report.Until(now, 48*time.Hour))
	require.Equal(t, "until it is resumed", report.Until(now, pacer.Forever-time.Second))
	require.Equal(t, "forever", report.Paused(pacer.Forever-time.Second))
}

func TestDurationsThatPeopleType(t *testing.T) {
	t.Parallel()
	d, err := report.ParseDuration("1h30m")
	require.NoError(t, err)
	require.Equal(t, 90*time.Minute, d)
	for _, bad := range []string{"", "10", "ten", "-1s", "0s", "200000h", "1d"} {
		_, err := report.ParseDuration(bad)
		require.Error(t, err, bad)
	}
}

// scene has a policy of each kind, one lowered, one paused, one with a scope without a value.
func scene() *fleet.Snapshot {
	at := time.Date(2026, 3, 4, 14, 5, 12, 0, time.UTC)
	history := make([]fleet.Second, fleet.HistorySeconds)
	for i := range history {
		history[i] = fleet.Second{Cost: 5, Waits: 2, Waited: 500 * time.Millisecond}
	}
	shown := func(p policies.Policy, s pacer.PolicyStatus, waiting int64) fleet.Policy {
		s.Policy = p
		return fleet.Policy{PolicyStatus: s, Shown: true, Waiting: waiting, History: history}
	}
	return &fleet.Snapshot{
		Upstream: "acme", At: at, Counted: at.Add(-time.Second), Shared: true, Alive: 2,
		Policies: []fleet.Policy{
			shown(policies.PerSecond(10).Named("account"), pacer.PolicyStatus{Pace: 200_000, Next: 130 * time.Millisecond, Backlog: 3, Margin: 17500 * time.Microsecond}, 7),
			shown(policies.Daily(100, time.UTC).Named("day"), pacer.PolicyStatus{Pace: 80, Remaining: 20, PausedFor: 41 * time.Second, Gone: time.Hour}, 0),
			shown(policies.InFlight(25), pacer.PolicyStatus{Pace: 25, Remaining: 10, Queued: 2}, 1),
			{PolicyStatus: pacer.PolicyStatus{Policy: policies.PerSecond(2).Per("tenant")}, Waiting: 4, History: history},
			{PolicyStatus: pacer.PolicyStatus{Policy: policies.PerSecond(3).Per("user")}},
			{
				PolicyStatus: pacer.PolicyStatus{Policy: policies.Daily(100, time.UTC).Per("app").Named("quota"), Scope: "app=x", Remaining: 3},
				Shown:        true, Busiest: true, History: history,
			},
		},
		TopKeys: []fleet.TopKey{{
			PolicyStatus: pacer.PolicyStatus{Policy: policies.PerSecond(2).Per("tenant"), Scope: "tenant=\x1b]0;x", Next: time.Second},
			Cost:         118, Waiting: 4,
		}},
		Callers:   []fleet.Caller{{Name: "sync\x1b/contacts", Policy: "account", Cost: 90_000}},
		Processes: []fleet.Process{{ID: "1", Name: "worker/1", For: 90 * time.Minute, Waiting: 12, Version: "5f0c"}},
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	f := scene()
	f.PausedFor, f.PausedBy, f.Policies[1].PausedBy = 90*time.Second, "X-Limit", "Retry-After"
	f.Allowances = []pacer.Allowance{
		{Limit: "60", Left: 9, Free: 7, For: 90 * time.Second, Source: "X-Limit"}, {Policy: "quota", Scope: "app=x", Left: 70_000, Free: 70_000, For: 24 * time.Hour},
	}
	now := time.Date(2026, 3, 4, 14, 5, 12, 0, time.Local)
	require.NoError(t, report.Text(&b, f, now))
	require.Equal(t, `acme: 2 processes pace it, 12 calls wait
paused: the whole upstream, for 1m30s, until 14:06:42 (X-Limit)
binding: account, 7 calls wait for it

POLICY             SCOPE       PACE  LIMIT        USED   LEFT  NEXT   AHEAD  QUEUED  WAITING  PAUSED  WHAT IT IS
account            -           5/s   4.91/s       100 %  0     130ms  3      0       7        -       10 per 1s; slowed to 4.91/s from 10/s; margin 18ms
day                -           5/s   80/1d        75 %   20    now    0      0       0        41s     100 daily (UTC); at this pace, gone at 15:05:12; lowered to 80/1d from 100; paused for 41s, until 14:05:53 (Retry-After)
in-flight          -           5/s   25 at once   60 %   10    now    0      2       1        -       25 in flight
per-second.tenant  per tenant  5/s   2/s each     -      -     -      -      -       4        -       2 per 1s, per tenant
quota              app=x       5/s   100/1d each  97 %   3     now    0      0       0        -       100 daily (UTC), per app
Idle, with no key that has spent anything lately: per-second.user.
Each key of a policy with scopes has its own state. You see the one that uses most of its limit: choose another with --scope, such as tenant=?]0;x.

SAID TO BE LEFT  SCOPE  LEFT  FREE  HOLDS                              SAID BY
upstream (60)    -      9     7     for 1m30s, until 14:06:42          X-Limit
quota            app=x  70k   70k   for 1d, until 2026-03-05 14:05:12  -

BUSIEST KEY   POLICY             LAST MINUTE  LEFT  NEXT  QUEUED  WAITING  PAUSED
tenant=?]0;x  per-second.tenant  118          0     1s    0       4        -

CALLER          POLICY   LAST MINUTE
sync?/contacts  account  90k

PROCESS   FOR    WAITING  POLICIES FROM  VERSION
worker/1  1h30m  12       its code       5f0c
and 1 more
`, b.String())
}

// Settings of operators are shown with their end, and disagreements with which processes have which policy.
func TestTextOfSettingsAndDisagreements(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 14, 5, 12, 0, time.Local)
	at := now.Add(-time.Hour) // the store's clock is another one
	f := &fleet.Snapshot{
		Upstream: "acme", At: at, Alive: 9,
		Settings: &fleet.Settings{
			At: at, Policies: &fleet.Setting{
				Text:     "peak: 5 per 1s\nday: 9 daily (UTC)",
				Policies: []policies.Policy{policies.PerSecond(5).Named("peak"), policies.Daily(9, time.UTC).Named("day")},
				Since:    at.Add(-time.Minute),
			},
			Limits: []fleet.Setting{
				{
					Policy: "tenant", Scope: "tenant=a%20b\x1b", Text: "tenant: 50 per 1s, per tenant",
					Since: at.Add(-48 * time.Hour), Until: at.Add(90 * time.Second),
				},
				{Policy: "tenant", Scope: "tenant=c", Text: "5 per moon", Err: errors.New("no")},
			},
		},
		VersionCount: 3,
		Disagreements: []fleet.Disagreement{
			{Policy: "day", Sides: []fleet.Side{
				{Text: "day: 9 daily (UTC)", Processes: 3, Names: []string{"a/1", "b/1"}}, {Processes: 1, Names: []string{"c\x1b/1"}},
			}},
			{Policy: "peak", ScopesDiffer: true, Sides: []fleet.Side{
				{Text: "peak: 10 per 1s", Processes: 2, Names: []string{"a/1", "b/1"}},
				{Text: "peak: 20 per 1s, per user", Processes: 1, Names: []string{"c/1"}},
				{Processes: 2, Names: []string{"d/1", "e/1"}},
			}},
		},
		Processes: []fleet.Process{{Name: "a/1", Source: "set at 2026-03-04 13:04:12.000", Version: "1f"}, {Name: "old/1"}},
	}
	var b strings.Builder
	require.NoError(t, report.Text(&b, f, now))
	_, text, _ := strings.Cut(b.String(), "and what replies state.\n")
	require.Equal(t, `
SET BY HAND  SCOPE        WHAT IT IS                                              SINCE                ENDS
peak         -            5 per 1s                                                14:04:12             when unset
day          -            9 daily (UTC)                                           14:04:12             when unset
tenant       tenant=a b?  50 per 1s, per tenant                                   2026-03-02 14:05:12  in 1m30s, at 14:06:42
tenant       tenant=c     5 per moon (not in force: this version cannot read it)  -                    when unset

Processes disagree: 3 versions of the policies are in use. This is normal during a rolling deployment, and for a minute after a change.
  a/1, b/1 and 1 more have `+"`day: 9 daily (UTC)`"+`
  c?/1 has no policy day
  processes without day do not charge their calls to it: more calls may start than it admits
  a/1, b/1 have `+"`peak: 10 per 1s`"+`
  c/1 has `+"`peak: 20 per 1s, per user`"+`
  d/1, e/1 have no policy peak
  processes without peak do not charge their calls to it: more calls may start than it admits
  peak has different scopes, and so separate accounts: more calls may start than either admits

PROCESS  FOR  WAITING  POLICIES FROM                   VERSION
a/1      0s   0        set at 2026-03-04 13:04:12.000  1f
old/1    0s   0        -                               -
and 7 more
`, text)

	f.Settings, f.Disagreements = &fleet.Settings{Policies: &fleet.Setting{Text: "none"}}, nil
	b.Reset()
	require.NoError(t, report.Text(&b, f, now))
	require.Regexp(t, `(?m)^all policies +- +none: nothing is limited +- +when unset$`, b.String())
	require.Contains(t, b.String(), "which policies differ is not known")
	f.VersionCount = 1
	b.Reset()
	require.NoError(t, report.Text(&b, f, now))
	require.NotContains(t, b.String(), "isagree")
}

func TestTextOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	require.NoError(t, report.Text(&b, &fleet.Snapshot{Upstream: "acme", Alive: 1, Unknown: []string{"day: 5 daily (Local)"}}, time.Now()))
	require.Contains(t, b.String(), "Not shown, because this version cannot read it (another version wrote it, or its time zone has no name): day: 5 daily (Local)\n")
}

func TestTextOfNothing(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	require.NoError(t, report.Text(&b, &fleet.Snapshot{Upstream: "acme", Alive: 1}, time.Now()))
	require.Equal(t, "acme: 1 process paces it, 0 calls wait\nbinding: no policy makes a call wait\n\n"+
		"It has no policies: pauses hold calls, and what replies state.\n", b.String())
}
