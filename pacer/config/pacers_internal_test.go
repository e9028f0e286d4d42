package config

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
)

func parsed(t *testing.T, text string) *File {
	t.Helper()
	f, err := Parse("f", []byte(text))
	require.NoError(t, err)
	return f
}

// opened returns pacers, to be closed when the test ends.
func opened(t *testing.T, text string, opts ...PacerOption) *Pacers {
	t.Helper()
	p, err := parsed(t, text).Open(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// holding returns the policies of an upstream's pacer, each as it holds for the tenant acme.
func holding(t *testing.T, p *Pacers, upstream string) (all []string) {
	t.Helper()
	one, err := p.Pacer(upstream)
	require.NoError(t, err)
	for _, policy := range fleet.Of(one).Policies() {
		acme := policy
		if len(policy.Scopes()) > 0 {
			acme, err = policy.For("acme")
			require.NoError(t, err)
		}
		all = append(all, acme.String())
	}
	return all
}

const before = `
upstreams:
  a:
    policies: ["x: 5/s, per t"]
    hosts: a.example
  b: {policies: [9/s]}
`

// Changed policies and overrides are declared, and unchanged ones are not: their upstream keeps its own.
func TestApplyDeclaresPolicies(t *testing.T) {
	t.Parallel()
	configured := 0
	p := opened(t, before, func(string, *pacer.Config) { configured++ })
	require.Equal(t, 2, configured)
	apply := func(text string, declares int, want string) *File {
		t.Helper()
		f, was := parsed(t, text), configured
		require.NoError(t, p.Apply(f))
		require.Equal(t, declares, configured-was)
		require.Equal(t, []string{want}, holding(t, p, "a"))
		require.Same(t, f, p.File())
		return f
	}
	apply("# a comment"+before, 0, "x: 5 per 1s, per t")
	f := apply(strings.Replace(before, "5/s", "6/s", 1), 1, "x: 6 per 1s, per t")
	require.NoError(t, p.Apply(f))
	require.Equal(t, 3, configured)

	with := strings.Replace(before, "    hosts", `    overrides: [{policy: x, for: acme, limit: 50/s}]`+"\n    hosts", 1)
	apply(with, 1, "x: 50 per 1s, per t")
	apply(strings.Replace(with, "50/s", "60/s", 1), 1, "x: 60 per 1s, per t")
	require.Equal(t, []string{"per-second: 9 per 1s"}, holding(t, p, "b"))
}

// Policies that the program adds stay when those of the file change.
func TestApplyKeepsWhatTheProgramAdds(t *testing.T) {
	t.Parallel()
	p := opened(t, before, func(upstream string, c *pacer.Config) {
		if upstream == "a" {
			c.Policies = append(c.Policies, policies.InFlight(7))
		}
	})
	require.NoError(t, p.Apply(parsed(t, strings.Replace(before, "5/s", "6/s", 1))))
	require.Equal(t, []string{"x: 6 per 1s, burst 2, per t", "in-flight: 7 in flight"}, holding(t, p, "a"))
}

// A pacer that rejects its policies gets them again with the next version, and the others get theirs.
func TestApplyReportsWhatIsNotTaken(t *testing.T) {
	t.Parallel()
	fails := false
	p := opened(t, before, func(upstream string, c *pacer.Config) {
		if fails && upstream == "a" {
			c.Policies = append(c.Policies, c.Policies[0])
		}
	})
	f := parsed(t, strings.NewReplacer("5/s", "6/s", "9/s", "8/s").Replace(before))
	fails = true
	err := p.Apply(f)
	require.ErrorContains(t, err, "f:4:15: upstreams.a.policies: pacer: Policies[1] is \"x\": the name of an earlier policy")
	require.NotErrorIs(t, err, ErrRestart)
	require.Equal(t, []string{"x: 5 per 1s, per t"}, holding(t, p, "a"))
	require.Equal(t, []string{"per-second: 8 per 1s"}, holding(t, p, "b"))
	fails = false
	require.NoError(t, p.Apply(f))
	require.Equal(t, []string{"x: 6 per 1s, per t"}, holding(t, p, "a"))
	require.Equal(t, []string{"per-second: 8 per 1s"}, holding(t, p, "b"))
}

// A setting that cannot change while the program runs is reported, and the rest holds.
func TestApplyReportsWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	for change, want := range map[[2]string]string{
		{"  b: {", "  c: {"}:                                                "f: upstreams.b: the upstream is not in the file any more, which|f:6:3: upstreams.c: the upstream is new in the file, which",
		{"upstreams:", "unpaced: c.example\nupstreams:"}:                    "f: unpaced: the list of unpaced hosts has changed",
		{"a.example", "[a.example, b.example]"}:                             "f:5:12: upstreams.a.hosts: the list of its hosts has changed",
		{"  b: {", "  b: {url: 'http://b.example', "}:                       "f:6:3: upstreams.b: its url has changed",
		{"  b: {", "  b: {profile: github, "}:                               "f:6:3: upstreams.b: its profile, leave or backOff has changed",
		{"  b: {", "  b: {leave: 50%, "}:                                    "f:6:3: upstreams.b: its profile, leave or backOff",
		{"  b: {", "  b: {backOff: 5s, "}:                                   "f:6:3: upstreams.b: its profile, leave or backOff",
		{"  b: {", "  b: {maxWait: 5s, "}:                                   "f:6:3: upstreams.b: one of its settings (maxWait",
		{"  b: {", "  b: {maxPause: 5s, "}:                                  "one of its settings",
		{"  b: {", "  b: {jitter: none, "}:                                  "one of its settings",
		{"  b: {", "  b: {maxLate: 5s, "}:                                   "one of its settings",
		{"  b: {", "  b: {storeTimeout: 5s, "}:                              "one of its settings",
		{"  b: {", "  b: {ignoreCounts: true, "}:                            "one of its settings",
		{"  b: {", "  b: {processes: 5, "}:                                  "one of its settings",
		{"  b: {", "  b: {outage: let through, "}:                           "one of its settings",
		{"upstreams:", "stores: {s: {redis: 'h:1'}}\nstore: s\nupstreams:"}: "f:5:3: upstreams.a: its store has changed|f:8:3: upstreams.b: its store",
	} {
		p := opened(t, before)
		changed := strings.Replace(strings.Replace(before, change[0], change[1], 1), "5/s", "6/s", 1)
		for i, text := range []string{"applied, except for this", "a change of the file has no effect"} { // as long as it is so
			applied, err := p.apply(parsed(t, changed))
			require.ErrorIs(t, err, ErrRestart)
			var log strings.Builder
			logChange(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), "f", applied, err)
			require.Equal(t, 1+strings.Count(want, "|"), strings.Count(log.String(), text), "time %d: %s", i, &log)
			for i, one := range strings.Split(want, "|") {
				require.ErrorContains(t, Mistakes(err)[i], one)
			}
			require.Len(t, Mistakes(err), 1+strings.Count(want, "|"))
		}
		require.Equal(t, []string{"x: 6 per 1s, per t"}, holding(t, p, "a"), "policies hold at once")
		require.NoError(t, p.Apply(parsed(t, strings.Replace(before, "5/s", "6/s", 1))))
	}
}

// A change that a setting made at run time overrides is reported, with the setting; any other change is not.
func TestApplyReportsWhatHoldsInstead(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p, err := parsed(t, before).Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	one := p.live["a"].pacer
	apply := func(limit string) error { return p.Apply(parsed(t, strings.Replace(before, "5/s", limit, 1))) }
	require.NoError(t, fleet.Of(one).SetLimit(ctx, "x", policies.PerSecond(1), time.Hour, pacer.Scope("t", "acme")))
	err = apply("6/s")
	require.ErrorIs(t, err, ErrOverruled)
	require.ErrorContains(t, err, `f:4:15: upstreams.a.policies: has changed, but limits that were set at run time hold instead: "x: 1 per 1s, per t" for t=acme, set at 2`)
	require.ErrorContains(t, err, "Z or headway unlimit a")
	require.NoError(t, p.Apply(parsed(t, strings.Replace(before, `5/s, per t"`, `6/s, per t", y: 7/s`, 1))), "x is as before")
	require.NoError(t, fleet.Of(one).SetPolicies(ctx, policies.PerSecond(3).Per("t").Named("x")))
	err = apply("7/s")
	require.ErrorContains(t, err, `"x: 3 per 1s, per t" for the whole upstream, set at 2`)
	require.ErrorContains(t, err, "Z, until headway unset a")
	require.Len(t, Mistakes(err), 2)
	require.Equal(t, "[x: 3 per 1s, per t]", fmt.Sprint(fleet.Of(one).Policies()))
	require.NoError(t, fleet.Of(one).UnsetPolicies(ctx))
	require.NoError(t, fleet.Of(one).UnsetLimit(ctx, "x", pacer.Scope("t", "acme")))
	require.Equal(t, "[x: 7 per 1s, per t]", fmt.Sprint(fleet.Of(one).Policies()))
	require.NoError(t, apply("8/s"))
	require.NoError(t, one.Close())
	require.ErrorIs(t, apply("9/s"), pacer.ErrClosed)
}

// The file and the environment determine a store.
func TestStoreOptions(t *testing.T) {
	t.Setenv("HEADWAY_TEST_PASSWORD", "hunter2")
	t.Setenv("HEADWAY_TEST_REDIS", "rediss://u:hunter2@h:1/3")
	t.Setenv("HEADWAY_TEST_LIST", "a:1,b:2")
	for text, want := range map[string]string{
		"redis: h:1":                          "[h:1] 0 u= p= tls=false cluster=false master=",
		"redis: redis://u@h:1/2":              "[h:1] 2 u=u p= tls=false cluster=false master=",
		"redis: 'rediss://h:1'":               "[h:1] 0 u= p= tls=true cluster=false master=",
		"redis: [rediss://a:1, rediss://b:2]": "[a:1 b:2] 0 u= p= tls=true cluster=false master=",
		"redis: 'a:1, b:2', master: m":        "[a:1 b:2] 0 u= p= tls=false cluster=false master=m",
		"redis: '[::1]:6379', cluster: true, username: v, passwordEnv: HEADWAY_TEST_PASSWORD": "[[::1]:6379] 0 u=v p=hunter2 tls=false cluster=true master=",
		"redisEnv: HEADWAY_TEST_REDIS": "[h:1] 3 u=u p=hunter2 tls=true cluster=false master=",
		"redisEnv: HEADWAY_TEST_LIST":  "[a:1 b:2] 0 u= p= tls=false cluster=false master=",
	} {
		o, err := parsed(t, "store: s\nstores: {s: {"+text+"}}\nupstreams: {u: {policies: none}}").byName["u"].store.options()
		require.NoError(t, err)
		got := fmt.Sprintf("%v %d u=%s p=%s tls=%v cluster=%v master=%s", o.Addrs, o.DB, o.Username, o.Password, o.TLSConfig != nil, o.IsClusterMode, o.MasterName)
		require.Equal(t, want, got, text)
		require.True(t, o.ContextTimeoutEnabled)
	}
}

// Missing variables of the environment are reported when the stores are made, once for each, without the values of others.
func TestStoresThatCannotBeOpened(t *testing.T) {
	t.Setenv("HEADWAY_TEST_REDIS", "hunter2")
	f := parsed(t, `
stores:
  s: {redis: "h:1", passwordEnv: HEADWAY_TEST_NOT_SET}
  r: {redisEnv: HEADWAY_TEST_REDIS}
upstreams: {a: &a {store: s, policies: none}, b: *a, c: {store: r, policies: none}, d: {policies: none}}
`)
	p, err := f.Open()
	require.Nil(t, p)
	require.EqualError(t, err, "f:3:34: stores.s.passwordEnv: the environment variable that it names is not set: set it where the program runs\n"+
		"f:4:17: stores.r.redisEnv: the environment variable that it names "+errEndpoint.Error())
	require.Len(t, Mistakes(err), 2)
}

// The program's additions to a pacer's configuration count, and a mistake in them is reported.
func TestPacerOptions(t *testing.T) {
	t.Parallel()
	var seen []string
	p, err := parsed(t, before).Open(func(upstream string, c *pacer.Config) {
		seen = append(seen, upstream, c.Upstream)
		c.Upstream = "test-" + upstream
	})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "a", "b", "b"}, seen)
	one, err := p.Pacer("a")
	require.NoError(t, err)
	require.Equal(t, "test-a", fleet.Of(one).Upstream())
	_, err = p.Pacer("c")
	require.EqualError(t, err, `config: Upstream is "c": is not in f: it has a, b`)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.ErrorIs(t, one.Wait(t.Context()), pacer.ErrClosed)

	_, err = parsed(t, before).Open(func(_ string, c *pacer.Config) { c.MaxWait = -1 })
	require.ErrorContains(t, err, "f:3:3: upstreams.a: pacer: MaxWait is -1ns: must not be negative")
	require.Len(t, Mistakes(err), 2)
}

// All texts of this package's documentation and of its settings that name settings agree.
func TestSettingsAreNamed(t *testing.T) {
	t.Parallel()
	u := &upstreamReader{upstream: &upstream{given: make(map[string]value)}}
	p := opened(t, before)
	err := p.Apply(parsed(t, strings.Replace(before, "  b: {", "  b: {maxWait: 5s, ", 1)))
	_, list, _ := strings.Cut(err.Error(), "(")
	list, _, _ = strings.Cut(list, ")")
	var names []string
	for name := range u.settings() {
		names = append(names, name)
	}
	require.ElementsMatch(t, names, strings.Split(list, ", "))
	require.False(t, slices.Contains(names, "store"))
}
