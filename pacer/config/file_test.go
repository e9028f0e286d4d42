package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/policies"
)

const whole = `# What this program calls.
store: shared
stores:
  shared:
    redis: [cache-1.internal:6379, "cache-2.internal:6379"]
    cluster: true
    username: headway
    passwordEnv: REDIS_PASSWORD
unpaced: [status.example, "*"]
upstreams:
  zendesk:
    policies:
      - {limits: zendesk, plan: suiteenterprise}
      - "peak: 10/s, burst 2, per account"
    overrides:
      - {policy: account, for: acme.zendesk.com, limit: "at most 2500 in any 1m, burst 2"}
      - {policy: ticket, for: [acme.zendesk.com], limit: "100 per window of 1m"}
    hosts: "*.zendesk.com"
    maxWait: 30s
    maxPause: 10m
    jitter: none
    maxLate: forever
    outage: refuse calls
    storeTimeout: 100ms
    processes: 4
    ignoreCounts: true
  crm:
    store: memory
    policies: [25/s, 10000 daily (UTC)]
    hosts: [api.crm.example, "crm.example:8080"]
  nothing: {profile: github, policies: none, url: "http://127.0.0.1:8080/v2"}
`

func TestParse(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("headway.yaml", []byte(whole))
	require.NoError(t, err)
	require.Equal(t, []string{"zendesk", "crm", "nothing"}, f.Upstreams())
	require.Equal(t, []string{"shared", "memory", "shared", ""}, []string{f.Store("zendesk"), f.Store("crm"), f.Store("nothing"), f.Store("other")})
	require.Len(t, f.Policies("zendesk"), 13)
	require.Equal(t, "[per-second: 25 per 1s daily: 10000 daily (UTC)]", fmt.Sprint(f.Policies("crm")))
	require.Empty(t, f.Policies("nothing"))
	require.Empty(t, f.Policies("other"))
	require.Equal(t, []string{"*.zendesk.com"}, f.Hosts("zendesk"))
	require.Equal(t, []string{"api.crm.example", "crm.example:8080"}, f.Hosts("crm"))
	require.Empty(t, f.Hosts("other"))
	require.Nil(t, f.URL("zendesk"), "a wildcard is no address")
	require.Equal(t, "https://api.crm.example", f.URL("crm").String())
	require.Equal(t, "http://127.0.0.1:8080/v2", f.URL("nothing").String())
	require.Nil(t, f.URL("other"))
	for upstream, want := range map[string]string{"zendesk": "zendesk", "crm": "ietf", "nothing": "github"} {
		p, ok := f.Profile(upstream)
		require.True(t, ok)
		require.Equal(t, want, p.Name, upstream)
	}
	_, ok := f.Profile("other")
	require.False(t, ok)

	account, err := f.Policies("zendesk")[0].For("acme.zendesk.com")
	require.NoError(t, err)
	require.Equal(t, "account: at most 2500 in any 1m, burst 2, skew 10ms, per account, optional", account.String())
	account, err = f.Policies("zendesk")[0].For("other.zendesk.com")
	require.NoError(t, err)
	require.Equal(t, "account: at most 700 in any 1m, burst 2, skew 50ms, per account, optional", account.String())
	f.Policies("crm")[0] = policies.Policy{}
	require.NoError(t, f.Policies("crm")[0].Validate(), "what a file says does not change")
}

// JSON is YAML, also with tabs.
func TestParseJSON(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("headway.json", []byte("{\n\t\"upstreams\": {\n\t\t\"crm\": {\n\t\t\t\"policies\": [\n\t\t\t\t\"25/s\"\n\t\t\t],\n\t\t\t\"ignoreCounts\": true\n\t\t}\n\t}\n}\n"))
	require.NoError(t, err)
	require.Equal(t, "[per-second: 25 per 1s]", fmt.Sprint(f.Policies("crm")))
}

// A policy with a name is one with and without quotes.
func TestPoliciesWithNames(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("f", []byte("upstreams:\n  u:\n    policies:\n    - \"x: 5/s, per t\"\n    - y: 5/s, per t\n    - {z: '5/s, per t'}\n"))
	require.NoError(t, err)
	require.Equal(t, "[x: 5 per 1s, per t y: 5 per 1s, per t z: 5 per 1s, per t]", fmt.Sprint(f.Policies("u")))
}

// Aliases stand for whole values.
func TestAliases(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("f", []byte("upstreams:\n  a: &a\n    policies: &list [25/s]\n  b: *a\n  c: {policies: *list}\n"))
	require.NoError(t, err)
	for _, name := range []string{"a", "b", "c"} {
		require.Len(t, f.Policies(name), 1, name)
	}
}

// Each mistake is reported with its place.
func TestMistakes(t *testing.T) {
	t.Parallel()
	const up = "upstreams:\n  u:\n    "
	const st = "upstreams: {u: {store: s}}\nstores:\n  s:\n    "
	for text, want := range map[string]string{
		"":                                 `f: is empty: it needs upstreams, such as {upstreams: {github: {policies: [10/s]}}}`,
		"# nothing\n":                      `f: is empty`,
		"null":                             `f: is empty`,
		"upstreams":                        `f:1:1: is a single value: write its fields: store, stores, unpaced, upstreams`,
		"[1]":                              `f:1:1: is a list: write its fields`,
		"store: memory":                    `f:1:1: has no upstreams`,
		"upstreams: {}":                    `f:1:12: upstreams: names no upstream`,
		"upstreams:":                       `upstreams: is empty: write a mapping of names to upstreams`,
		"upstreams: [u]":                   `f:1:12: upstreams: is a list: write a mapping of names to upstreams`,
		"upstreams:\n  u: {}\nupstream: 1": `f:3:1: an unknown field: the fields are store, stores, unpaced, upstreams`,
		"upstreams: {u: {}}":               `f:1:13: upstreams.u: has no policies: add some, such as [10/s], or write policies: none if replies state its limits`,
		up + "policies: []":                `f:2:3: upstreams.u: has no policies`,
		up + "policies: [none]":            `f:3:16: upstreams.u.policies[0]: not understood`,
		up + "hosts: a.example":            `f:2:3: upstreams.u: has no policies`,
		"upstreams: {u: }":                 `upstreams.u: is empty: write its fields: backOff, hosts, ignoreCounts`,
		"upstreams: {a b: {}}":             `f:1:13: upstreams.?: is not a valid upstream name`,
		"upstreams: {? [1] : {}}":          `a key must be a name`,
		"upstreams:\n  u: {}\n  u: {}":     `f:3:3: upstreams: a key is set twice, here and on line 2: remove one`,
		"upstreams: {u: {}}\n---\na: 1":    `f:2:1: a second document begins here`,
		"upstreams: {u: {}":                `f:2:1: is not YAML: did not find expected`,
		"upstreams:\n\tu: {}":              `; YAML indents with spaces, and not with tabs`,
		"upstreams: {u: *a}":               `is not YAML: unknown anchor referenced`,
		"upstreams: {u: \xff}":             `f:1: is not UTF-8`,
		"a: 1\nb: \xff":                    `f:2: is not UTF-8`,
		"unpaced: https://x.example\n" + up + "{}":                                      `f:1:10: unpaced: must be a host such as "api.github.com", with or without a port, or a wildcard such as "*.zendesk.com"`,
		"unpaced: X.example\n" + up + "{hosts: x.example, policies: none}":              `f:1:10: unpaced: the host is already listed, on line 4 (upstreams.u.hosts): remove one`,
		up + "{hosts: '*', policies: none}":                                             `must be a host such as`,
		"store: s\n" + up + "{}":                                                        `f:1:8: store: unknown store: choose one of memory, or add it to stores`,
		up + "store: s":                                                                 `f:3:12: upstreams.u.store: unknown store: choose one of memory`,
		up + "store: [s]":                                                               `f:3:12: upstreams.u.store: is a list: write the name of a store`,
		up + "policies: 25/s":                                                           `f:3:15: upstreams.u.policies: is a single value: write a list of policies, such as ["25/s, burst 10"]`,
		up + "policies: [25/s, 25 ps]":                                                  `f:3:22: upstreams.u.policies[1]: not understood: a policy begins with a limit`,
		up + "policies:\n    - 25/s\n    -":                                             `upstreams.u.policies[1]: is empty: write a policy`,
		up + "policies: [0/s]":                                                          `f:3:16: upstreams.u.policies[0]: policies: policy "per-second": Limit is 0: must be at least 1`,
		up + "policies: [5/s, 25/s]":                                                    `f:3:21: upstreams.u.policies[1]: pacer: Policies[1] is "per-second"`,
		up + "policies: [9/s, per t]":                                                   `f:3:21: upstreams.u.policies[1]: not understood`,
		up + "policies: [9/s, per t, 7/s]":                                              `; in brackets, a policy that has commas needs quotes`,
		up + "policies:\n    - x: 25 ps":                                                `f:4:10: upstreams.u.policies[0]: not understood`,
		up + "policies:\n    - x: {a: 1}":                                               `f:4:7: upstreams.u.policies[0]: needs the field limits`,
		up + "policies: [{x: 25/s, burst 2}]":                                           `f:3:16: upstreams.u.policies[0]: needs the field limits`,
		up + "policies: [[5/s]]":                                                        `f:3:16: upstreams.u.policies[0]: is a list: write policies of a vendor, such as {limits: github, kind: User}`,
		up + "policies: [!x 5/s]":                                                       `f:3:16: upstreams.u.policies[0]: has a tag: remove it`,
		up + "policies: [{plan: x, kind: y}]":                                           `f:3:16: upstreams.u.policies[0]: needs the field limits, which names a vendor: choose one of airtable, anthropic`,
		up + "policies: [{limits: acme}]":                                               `f:3:16: upstreams.u.policies[0]: unknown limits: choose one of airtable, anthropic`,
		up + "policies: [{limits: openai.X}]":                                           `unknown limits: choose one of openai.Limits, openai.RequestsPerDay, openai.TokensPerDay`,
		up + "policies: [{limits: github}]":                                             `github.Limits needs kind, one of Actions, Anonymous, Enterprise, User`,
		up + "policies: [{limits: github, kind: Bot}]":                                  `f:3:39: upstreams.u.policies[0].kind: is not a kind: choose one of Actions, Anonymous, Enterprise, User`,
		up + "policies: [{limits: github, kind: User, plan: x}]":                        `f:3:45: upstreams.u.policies[0]: an unknown field: the fields are kind, limits`,
		up + "policies: [{limits: okta, perMinute: many}]":                              `upstreams.u.policies[0].perMinute: is not a whole number from 0 to 1000000000000`,
		up + "policies: [{limits: okta, perMinute: 0}]":                                 `f:3:16: upstreams.u.policies[0]: policies: policy "endpoint": Limit is 0`,
		up + "policies: [{limits: okta}]":                                               `okta.Limits needs perMinute, a number`,
		up + "policies: [{limits: hubspot, tier: Starter, zone: Local}]":                `zone: differs from machine to machine`,
		up + "policies: [{limits: hubspot, tier: Starter, zone: X/Y}]":                  `zone: is not a time zone that this machine knows`,
		up + "policies: [{limits: hubspot, tier: Starter}]":                             `hubspot.Limits needs zone, a time zone such as Europe/Berlin`,
		up + "policies: [{limits: msgraph.Tenant, calls: 5, period: 1d}]":               `period: is not a duration`,
		up + "policies: [{limits: salesforce.Share, calls: 5, percent: 1, scope: a b}]": `scope: is not a valid scope name`,
		up + "policies: [{limits: slack}, {limits: notion}]":                            `f:2:3: upstreams.u: has policies of notion and slack: set profile to the vendor whose replies it reads`,
		up + "profile: acme":                                                            `f:3:14: upstreams.u.profile: unknown profile: choose one of airtable, anthropic`,
		up + "leave: 0":                                                                 `f:3:12: upstreams.u.leave: is not a whole number from 1 to 1000000000000, or a percentage from 1% to 99%`,
		up + "leave: 100%":                                                              `upstreams.u.leave: is not a whole number`,
		up + "leave: half":                                                              `upstreams.u.leave: is not a whole number`,
		up + "leave: [1]":                                                               `upstreams.u.leave: is a list: write a number such as 500, or a percentage such as 50%`,
		up + "backOff: 0s":                                                              `upstreams.u.backOff: is 0s: it must be more than 0`,
		up + "profile: {}":                                                              `f:3:14: upstreams.u.profile: is a mapping: write a profile`,
		up + "hosts: [a.example, 'https://b.example']":                                  `f:3:24: upstreams.u.hosts[1]: must be a host`,
		up + "url: ftp://a.example":                                                     `f:3:10: upstreams.u.url: is not a URL of the form https://host or https://host/path: it does not begin with https://`,
		up + "url: https://a b":                                                         `: it is malformed`,
		up + "url: https://user:secret@a.example":                                       `: it has a user`,
		up + "url: https://a.example?key=secret":                                        `: it has a query`,
		up + "url: https://a.example#secret":                                            `: it has a fragment`,
		up + "url: 'https://'":                                                          `: it names no host`,
		up + "hosts: {a: b}":                                                            `f:3:12: upstreams.u.hosts: is a mapping: write a list of hosts`,
		up + "hosts: a.example\n  v: {hosts: A.example.}":                               `f:4:14: upstreams.v.hosts: the host is already listed, on line 3 (upstreams.u.hosts): remove one`,
		up + "maxWait: soon":                                                            `f:3:14: upstreams.u.maxWait: is not a duration: write one such as 250ms, 30s or 1m30s, or forever`,
		up + "maxWait: -1s":                                                             `upstreams.u.maxWait: is -1s: it must be more than 0, or forever; leave it out for the default`,
		up + "maxPause: forever":                                                        `upstreams.u.maxPause: is not a duration`,
		up + "jitter: 0s":                                                               `is 0s: it must be more than 0, or none`,
		up + "maxLate: 5":                                                               `is not a duration`,
		up + "storeTimeout:":                                                            `upstreams.u.storeTimeout: is empty: write a duration`,
		up + "outage: panic":                                                            `f:3:13: upstreams.u.outage: is not a way to handle outages: choose one of let through, pace locally, refuse calls`,
		up + "processes: 0":                                                             `upstreams.u.processes: is not a whole number from 1 to 10000`,
		up + "ignoreCounts: yes":                                                        `upstreams.u.ignoreCounts: must be true or false`,
		up + "max_wait: 5s":                                                             `f:3:5: upstreams.u: an unknown field: write maxWait`,
		up + "<<: {}":                                                                   `"<<" is`,
		up + "overrides: [{}]":                                                          `f:3:17: upstreams.u.overrides[0]: an override needs policy, the name of a policy; for`,
		up + "overrides: [{for: 7}]":                                                    `an override needs policy`,
		up + "overrides: [{policy: x, for: 7, limit: 5/s}]":                             `unknown policy: this upstream has `,
		up + "policies: ['5/s, per t']\n    overrides: [{policy: per-second.t, for: 7, limit: 5 daily (UTC)}]":                                   `f:4:17: upstreams.u.overrides[0]: policies: policy "per-second.t": Override for "7" is daily: 5 daily (UTC): must be of the policy's kind: a rate`,
		up + "policies: ['5/s, per t']\n    overrides: [{policy: per-second.t, for: [7, 8], limit: 5/s}]":                                        `must have a value for each scope, in this order: t`,
		up + "policies: ['5/s, per t']\n    overrides: [{policy: per-second.t, for: {}, limit: 5/s}]":                                            `overrides[0].for: is a mapping: write a list of values`,
		up + "policies: ['5/s, per t']\n    overrides: [{policy: per-second.t, for: 7, limit: 6}]":                                               `overrides[0].limit: not understood`,
		up + "policies: ['5/s, per t']\n    overrides: [{policy: per-second.t, for: 7, limit: 6/s}, {policy: per-second.t, for: 7, limit: 5/s}]": `overrides[1]: the key already has an override`,
		st + "{}":                          `f:3:3: stores.s: needs either redis or redisEnv`,
		st + "redis: a:1\n    redisEnv: X": `f:3:3: stores.s: needs either redis or redisEnv`,
		st + "redis: a:1\n    cluster: true\n    master: m": `f:3:3: stores.s: has both cluster and master`,
		st + "redis: cache": `f:4:12: stores.s.redis: is not an address of Redis: write host:port`,
		st + "redis: []":    `f:4:12: stores.s.redis: has no address`,
		st + "redis:":       `stores.s.redis: is empty: write where Redis is`,
		st + "redis: [redis://a:1/0, redis://b:1/1]":            `stores.s.redis: has addresses that differ in more than host and port`,
		"stores: {memory: {redis: 'a:1'}}\n" + up + "{}":        `f:1:10: stores.memory: is reserved for the store in the memory of each process`,
		"stores: {a b: {redis: 'a:1'}}\n" + up + "{}":           `stores.?: is not a valid store name`,
		"stores: {a: {redis: 'a:1'}}\n" + up + "policies: none": `f:1:10: stores.a: is not used by any upstream`,
	} {
		f, err := config.Parse("f", []byte(text))
		require.ErrorContains(t, err, want, text)
		require.Nil(t, f)
		for _, one := range config.Mistakes(err) {
			require.Less(t, len(one.Error()), 1200, text)
		}
	}
}

// All mistakes are reported, in the order of the file.
func TestAllMistakesAreReported(t *testing.T) {
	t.Parallel()
	_, err := config.Parse("headway.yaml", []byte(`upstreams:
  zendesk:
    polices: [5/s]
    maxWait: long
  crm:
    policies:
      - 5/s
      - nonsense
store: elsewhere
`))
	var at []string
	for _, e := range config.Mistakes(err) {
		at = append(at, fmt.Sprintf("%s:%d:%d %s", e.File, e.Line, e.Column, e.Path))
		require.ErrorIs(t, err, e)
	}
	require.Equal(t, []string{
		"headway.yaml:3:5 upstreams.zendesk", "headway.yaml:4:14 upstreams.zendesk.maxWait",
		"headway.yaml:8:9 upstreams.crm.policies[1]", "headway.yaml:9:8 store",
	}, at)
	require.Nil(t, config.Mistakes(nil))
	require.Nil(t, config.Mistakes(errors.New("something else")))
}

// No secret that is written where it should not be is repeated, whatever stands in its place in a file without mistakes.
func TestSecretsAreNotRepeated(t *testing.T) {
	t.Parallel()
	word := regexp.MustCompile(`[A-Za-z0-9*][A-Za-z0-9./*_-]*`)
	for _, secret := range []string{"hunter2", "!hunter2", "*hunter2", `"redis://u:hunter2@h:1"`} {
		for _, at := range word.FindAllStringIndex(whole, -1) {
			_, err := config.Parse("f", []byte(whole[:at[0]]+secret+whole[at[1]:]))
			for _, one := range config.Mistakes(err) {
				one.Path = nameGiven.ReplaceAllString(one.Path, "")
				text := nameGiven.ReplaceAllString(one.Error(), "")
				require.NotContains(t, strings.ToLower(text), "hunter2", "%s in place of %s", secret, whole[at[0]:at[1]])
			}
		}
	}
	for text, want := range map[string]string{
		"redis: redis://u:hunter2@h:1":           "contains a password, which does not belong in a file: name an environment variable in passwordEnv",
		"redis: redis://:hunter2@h:1":            "contains a password",
		"redis: redis://h:1?password=hunter2":    "is not an address of Redis",
		"redis: u:hunter2@h:1":                   "is not an address of Redis",
		"redis: h:hunter2":                       "is not an address of Redis",
		"redis: [h:1, 'redis://h:1/hunter2']":    "is not an address of Redis",
		"redis: unix:///hunter2":                 "is not an address of Redis",
		"redis: h:1\n    passwordEnv: hunter2!":  "is not a valid name of an environment variable",
		"redisEnv: redis://u:hunter2@h:1":        "is not a valid name of an environment variable",
		"redis: h:1\n    password: hunter2":      "a file holds no secrets: name an environment variable in passwordEnv",
		"redis: h:1\n    redisPassword: hunter2": "a file holds no secrets",
	} {
		_, err := config.Parse("f", []byte("upstreams: {u: {store: s, policies: none}}\nstores:\n  s:\n    "+text))
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// nameGiven matches names of stores and upstreams, which are no secrets.
var nameGiven = regexp.MustCompile(`^(stores|upstreams)\.[^.:]*|choose one of .*`)

// A file that would take long or much memory is refused.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [5/s,5/s,5/s,5/s,5/s,5/s,5/s,5/s,5/s,5/s]\n"
	aliases := "upstreams:\n  u: &u\n    policies: &p [" + strings.TrimSuffix(strings.Repeat("5/s,", 500), ",") + "]\n"
	for i := range 500 {
		aliases += fmt.Sprintf("  u%d: *u\n", i)
	}
	for i := 'b'; i < 'j'; i++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", i-1), 10), ","))
	}
	for text, want := range map[string]string{
		strings.Repeat("#", config.MaxSize+1):        "is longer than 1048576 bytes",
		"upstreams: " + strings.Repeat("[", 100_000): "more than 32 levels of nesting",
		bomb:                                    `an unknown field: the fields`,
		bomb + "upstreams: {u: {policies: *i}}": "is a list: write policies of a vendor",
		"upstreams: &u {u: *u}":                 "",
		"upstreams: {u: &u {overrides: [*u]}}":  "",
		aliases:                                 "aliases make more than 10000 values of the file",
		"upstreams: {u: {policies: [" + strings.Repeat("x,", 5_000) + "]}}":       "4900 more mistakes",
		"upstreams: {u: {policies: [" + strings.Repeat("5/s,", 2_000) + "]}}":     "is too many: an upstream has at most 1000 policies",
		"upstreams: {" + many(2_000, "u%d: {policies: none},") + "}":              "is too many: a file has at most 1000 upstreams",
		"upstreams: {u: {}}\nstores: {" + many(200, "s%d: {redis: 'h:1'},") + "}": "is too many: a file has at most 100 stores",
		"upstreams: {u: {policies: ['5/s, per t'], overrides: [" +
			many(10_001, "{policy: per-second.t, for: %d, limit: 5/s},") + "]}}": "Overrides is 10001: must be at most 10000",
		"upstreams: {" + strings.Repeat("u", 100_000) + ": {}}": "is not a valid upstream name",
	} {
		_, err := config.Parse("f", []byte(text))
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 100_000)
	}
}

func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "headway.yaml")
	_, err := config.Load(path)
	require.EqualError(t, err, path+": cannot be read: no such file or directory")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = config.Load(dir)
	require.EqualError(t, err, dir+": is a directory: name a file in it")
	require.NoError(t, os.WriteFile(path, []byte("upstreams: {u: {policies: [x]}}"), 0o600))
	_, err = config.Load(path)
	require.ErrorContains(t, err, path+":1:28: upstreams.u.policies[0]: not understood")
	require.NoError(t, os.WriteFile(path, []byte(whole), 0o600))
	f, err := config.Load(path)
	require.NoError(t, err)
	require.Len(t, f.Upstreams(), 3)
	require.NoError(t, os.WriteFile(path, make([]byte, 3<<20), 0o600))
	_, err = config.Load(path)
	require.EqualError(t, err, path+": is longer than 1048576 bytes")
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		whole, "", "upstreams: {u: {policies: [5/s]}}", `{"upstreams": {"u": {"policies": [{"limits": "slack"}]}}}`, "a: &a [*a]", "upstreams: {u: &u {overrides: [*u]}}",
		"%YAML 1.2\n--- !x\n", "? [a]\n: b", "upstreams:\n  u:\n    policies: [{limits: hubspot, tier: Starter, zone: UTC}]\n",
		"stores: {s: {redisEnv: X, master: m}}\nupstreams: {u: {store: s, overrides: [{policy: a, for: [b], limit: 1/s}]}}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := config.Parse("f", data)
		if err != nil {
			require.NotEmpty(t, config.Mistakes(err))
			for _, one := range config.Mistakes(err) {
				require.Equal(t, "f", one.File)
				require.NotEmpty(t, one.Err.Error())
			}
			return
		}
		require.NotEmpty(t, file.Upstreams())
		for _, name := range file.Upstreams() {
			for _, p := range file.Policies(name) {
				require.NoError(t, p.Validate())
			}
		}
	})
}
