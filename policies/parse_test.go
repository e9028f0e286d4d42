package policies_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
)

// Parse reads the text that String writes for each setting.
func TestTexts(t *testing.T) {
	t.Parallel()
	berlin := zone(t, "Europe/Berlin")
	part, ok := policies.PerSecond(100).Burst(10).Lane("batch", 80).Per("tenant").InLane("batch")
	require.True(t, ok)
	for want, p := range map[string]policies.Policy{
		"per-second: 25 per 1s":                                                 policies.PerSecond(25),
		"peak: 25 per 1s, burst 10, per tenant":                                 policies.PerSecond(25).Burst(10).Per("tenant").Named("peak"),
		"every-1.5s: 1 per 1.5s":                                                policies.Every(1500 * time.Millisecond),
		"per-second: 25 per 1s, observed":                                       policies.PerSecond(25).Observed(),
		"in-flight.a: 5 in flight, per a, optional, observed":                   policies.InFlight(5).Observed().Optional().Per("a"),
		"rate-1h.a.b: 5 per 1h, per a+b, optional":                              policies.Rate(5, time.Hour).Per("a", "b").Optional(),
		"at-most-1s: at most 50 in any 1s, skew 10ms":                           policies.AtMost(50, time.Second),
		"at-most-1h30m: at most 50 in any 1h30m, burst 5, skew 0s":              policies.AtMost(50, 90*time.Minute).Burst(5).Skew(0),
		"sliding-1m: at most 120 in any 1m, in 100 buckets":                     policies.Sliding(120, time.Minute),
		"sliding-1m: at most 120 in any 1m, in 7 buckets, skew 1ms":             policies.Sliding(120, time.Minute).Buckets(7).Skew(time.Millisecond),
		"fixed-10s: 300 per window of 10s":                                      policies.Fixed(300, 10*time.Second).Skew(0),
		"fixed-10s: 300 per window of 10s, skew 50us":                           policies.Fixed(300, 10*time.Second).Skew(50 * time.Microsecond),
		"hourly: 5000 hourly (UTC)":                                             policies.Hourly(5000, time.UTC),
		"daily: 100000 daily (Europe/Berlin), burst 1000":                       policies.Daily(100_000, berlin).Burst(1000),
		"daily: 100000 daily (Europe/Berlin), skew 1s":                          policies.Daily(100_000, berlin).Skew(time.Second),
		"monthly.org: 9 monthly (Europe/Berlin), 50 % for lane batch, per org":  policies.Monthly(9, berlin).Lane("batch", 50).Per("org"),
		"in-flight: 25 in flight":                                               policies.InFlight(25),
		"in-flight: 25 in flight for longer than 20s, lease 1m, skew 1ms":       policies.InFlight(25).LongerThan(20 * time.Second).Lease(time.Minute).Skew(time.Millisecond),
		"in-flight: 4 in flight, fair by user":                                  policies.InFlight(4).Fair("user"),
		"per-second: 9 per 1s, burst 2, 10 % for lane low, 100 % for lane all":  policies.PerSecond(9).Burst(2).Lane("low", 10).Lane("all", 100),
		"per-second.tenant.batch: 100 per 1s, burst 10, 80 % of it, per tenant": part,
		"per-minute: 60 per 1m, adaptive":                                       policies.PerMinute(60).Adaptive(policies.Adaptation{Floor: 5, Hold: 5 * time.Second}),
		"per-minute: 60 per 1m, adaptive (recovery 1m)":                         policies.PerMinute(60).Adaptive(policies.Adaptation{Recovery: time.Minute}),
		"per-second: 9 per 1s, adaptive (floor 1 %, decrease 7 %, hold 1ns)":    policies.PerSecond(9).Adaptive(policies.Adaptation{Floor: 1, Decrease: 7, Hold: 1}),
	} {
		require.Equal(t, want, p.String())
		require.NoError(t, roundTrip(p), want)
	}
}

// Texts as people type them.
func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]policies.Policy{
		"25 per 1s":                     policies.PerSecond(25),
		"25/s":                          policies.PerSecond(25),
		"  peak:25 /  second ,burst 10": policies.PerSecond(25).Burst(10).Named("peak"),
		"per-second : 25/s":             policies.PerSecond(25),
		"100 per minute":                policies.PerMinute(100),
		"100 per hour":                  policies.Rate(100, time.Hour),
		"at most 300 in any minute, in 100 buckets":                   policies.Sliding(300, time.Minute),
		"at most 9 in any 1m, skew 1s, per user+ticket, in 3 buckets": policies.Sliding(9, time.Minute).Buckets(3).Skew(time.Second).Per("user", "ticket"),
		"300 per window of 10s":                                       policies.Fixed(300, 10*time.Second),
		"100000 daily (UTC)":                                          policies.Daily(100_000, time.UTC),
		"day: 100000 daily( Europe/Berlin )":                          policies.Daily(100_000, zone(t, "Europe/Berlin")).Named("day"),
		"9/s, optional, per Tenant, 50% for lane Bulk, burst 2":       policies.PerSecond(9).Burst(2).Lane("Bulk", 50).Per("Tenant").Optional(),
		"5/hour":                                    policies.Rate(5, time.Hour),
		"at most 300 in any minute":                 policies.AtMost(300, time.Minute),
		"1000/10m, observed":                        policies.Rate(1000, 10*time.Minute).Observed(),
		"25 in flight for longer than 20s":          policies.InFlight(25).LongerThan(20 * time.Second),
		"9/s, burst 2, 50% for lane per, per burst": policies.PerSecond(9).Burst(2).Lane("per", 50).Per("burst"),
		"9/s, burst 2, fair by optional, per x":     policies.PerSecond(9).Burst(2).Fair("optional").Per("x"),
		"1000/day, in 31 buckets":                   policies.Sliding(1000, 24*time.Hour).Buckets(31),
		"9/s,adaptive(hold 5s,floor 10%)":           policies.PerSecond(9).Adaptive(policies.Adaptation{Floor: 10, Hold: 5 * time.Second}),
		"10000/day":                                 policies.Sliding(10_000, 24*time.Hour),
	} {
		got, err := policies.Parse(text)
		require.NoError(t, err, text)
		require.NoError(t, same(want, got), text)
	}
}

// The examples of errors and of the documentation are texts that Parse reads.
func TestExamplesParse(t *testing.T) {
	t.Parallel()
	limits, settings := examples(t, "nonsense"), examples(t, "9/s, nonsense")
	require.Len(t, limits, 9)
	require.Len(t, settings, 13)
	for _, limit := range limits {
		_, err := policies.Parse(limit)
		require.NoError(t, err)
	}
	for _, setting := range settings {
		read := false
		for _, limit := range []string{"9/s, burst 2, ", "9/s, ", "9/s, per a, ", "at most 9 in any 1s, ", "9 in flight, ", "9 per window of 1m, "} {
			_, err := policies.Parse(limit + setting)
			read = read || err == nil
		}
		require.True(t, read, setting)
	}
}

// examples returns what the error about a text quotes as examples.
func examples(t *testing.T, text string) []string {
	t.Helper()
	_, err := policies.Parse(text)
	var e *policies.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "Text", e.Field)
	require.Equal(t, `"nonsense"`, e.Value)
	_, list, found := strings.Cut(e.Reason, "such as ")
	require.True(t, found)
	var all []string
	for quoted := range strings.SplitSeq(list, ", ") {
		all = append(all, strings.Trim(quoted, `"`))
	}
	return all
}

func TestTextsThatAreNotUnderstood(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           `policies: Text is "": not understood: a policy begins with a limit, such as "at most 50 in any 1s", `,
		"peak:":                      `policies: policy "peak": Text is "": not understood`,
		":25/s":                      `Name is "": give the policy a name before the colon, or leave out both`,
		"my peak: 25/s":              `Name is "my peak": must start with a letter or digit`,
		"PerSecond(25)":              `Text is "PerSecond(25)": not understood`,
		"burst 10, 25 per 1s":        `Text is "burst 10": not understood: a policy begins with a limit`,
		"25 per 2 days":              `"2 days" is not a duration: write one such as 250ms, 10s, 1m30s or 24h, or a second, minute or hour, and a comma before settings; for days and months of a calendar, "100000 daily (UTC)"`,
		"25 per year":                `"year" is not a duration`,
		"25 per day (UTC)":           `"day (UTC)" is not a duration`,
		"100 daily (Nowhere)":        `"Nowhere" is not a time zone`,
		"25 PER 1s":                  `Text is "25 PER 1s": not understood`,
		"1_000 per 1s":               `"1_000" is not a whole number`,
		"25 rps":                     `Text is "25 rps": not understood: a policy begins with a limit, such as`,
		"25 per 5 minutes":           `"5 minutes" is not a duration: write one such as`,
		"10/s burst 5":               `Text is "10/s burst 5": "s burst 5" is not a duration`,
		"10/s, burst five":           `Text is "burst five": "five" is not a whole number`,
		"10/s, per tenant five":      `"tenant five" is not a valid scope name`,
		"25 per":                     `"" is not a duration`,
		"25 per 9999999999h":         `"9999999999h" is not a duration`,
		"25 per -1s":                 `Period is -1s: must be at least 1µs`,
		"many per 1s":                `Text is "many per 1s": "many" is not a whole number`,
		"2.5 per 1s":                 `"2.5" is not a whole number`,
		"0x10 per 1s":                `"0x10" is not a whole number`,
		"99999999999999999999 per s": `or it is far too large`,
		"1000000000001 in flight":    `Limit is 1000000000001: must be at most 1000000000000`,
		"0 in flight":                `Limit is 0: must be at least 1`,
		"-5 per 1s":                  `Limit is -5: must be at least 1`,
		"100":                        `Text is "100": not understood: a policy begins with a limit`,
		"100,000 daily (UTC)":        `Text is "100": not understood: a number has no commas, and a policy begins with a limit`,
		"100 daily":                  `Text is "100 daily": name the time zone in parentheses, such as "100000 daily (UTC)"`,
		"100 daily ()":               `name the time zone in parentheses`,
		"100 daily UTC":              `"UTC" must be in parentheses`,
		"100 daily (Local)":          `"Local" differs from machine to machine: name a time zone, such as (Europe/Berlin)`,
		"100 daily (UTC+05:30)":      `"UTC+05:30" is not a time zone that this machine knows: name one of the IANA database`,
		"100 daily (../../etc/x)":    `"../../etc/x" is not a time zone`,
		"100 daily (\x00)":           `"\x00" is not a time zone`,
		"100 daily (UTC":             `must be in parentheses`,
		"25/s, ":                     `Text is "": not understood: a setting, such as "in 10 buckets", "burst 10"`,
		"25/s, bursts 10":            `Text is "bursts 10": not understood: a setting`,
		"25/s, burst 2, burst 3":     `Text is "burst 3": is set twice: leave one of them out`,
		"25/s, burst 0":              `policy "per-second": Burst is 0: must be at least 1`,
		"25/s, burst":                `Text is "burst": not understood`,
		"25/s, skew 1s":              `Skew is 1s: a plain rate makes no promise over windows: use AtMost`,
		"25/s, in 10 buckets":        `Buckets is 10: only Sliding has buckets`,
		"at most 9 in any 1s, burst 2, in 3 buckets": `Burst is 2: only rates, Fixed and calendar windows have a burst`,
		"25/s, per":                    `"" is not a valid scope name: write a letter or digit`,
		"25/s, per a++b":               `"" is not a valid scope name: write a letter or digit`,
		"25/s, per a b":                `Text is "per a b": "a b" is not a valid scope name`,
		"25/s, optional":               `Optional is true: a policy of the whole upstream binds every call`,
		"25/s, burst 2, 80 % for lane": `Lane is "": must start with`,
		"25/s, burst 2, 80 for lane a": `Text is "80 for lane a": not understood`,
		"25/s, burst 2, 1 % for lane a, 2% for lane a": `Lane is "a": has a share already`,
		"25/s, burst 2, 100 % of it":                   `Lane is 100 % of it: must be from 1 to 99 per cent`,
		"25/s, burst 2, 0 % of it":                     `Lane is 0 % of it: must be from 1 to 99 per cent`,
		"25 in flight, 80 % of it":                     `Lane is 80 % of it: an in-flight policy has no lanes`,
		"25/s, burst 2, 80 % of it, fair by a":         `Fair is "a": does not go with lanes in one policy`,
		"25/s, adaptive (floor 0 %)":                   `Text is "floor 0 %": must be more than 0: for the default, leave it out`,
		"25/s, adaptive (hold 0s)":                     `Text is "hold 0s": must be more than 0`,
		"25/s, adaptive (floor 100 %)":                 `Adaptation.Floor is 100 %: must be from 1 to 99`,
		"25/s, adaptive (floor x %)":                   `"x" is not a whole number`,
		"25/s, adaptive (speed 1 %)":                   `Text is "speed 1 %": not understood: a setting, such as "floor 10 %", "decrease 70 %", "hold 5s", "recovery 1m"`,
		"25/s, adaptive ()":                            `Text is "": not understood: a setting, such as "floor 10 %"`,
		"25/s, adaptive quickly":                       `"quickly" must be in parentheses`,
		"9 daily (UTC), adaptive":                      `only rates adapt`,
		strings.Repeat("a", 4097):                      `policies: Text is 4097 bytes long: must have at most 4096`,
		"9/s, " + strings.Repeat("\xff", 4000):         `not understood`,
	} {
		p, err := policies.Parse(text)
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, new(*policies.Error))
		require.Less(t, len(err.Error()), 1000, "an error is to be read")
		require.Equal(t, policies.Policy{}, p)
	}
}

func TestPoliciesInFiles(t *testing.T) {
	t.Parallel()
	type file struct {
		Policies []policies.Policy `json:"policies"`
	}
	var f file
	require.NoError(t, json.Unmarshal([]byte(`{"policies": ["peak: 25/s, burst 10", "100000 daily (UTC)"]}`), &f))
	require.Equal(t, "[peak: 25 per 1s, burst 10 daily: 100000 daily (UTC)]", fmt.Sprint(f.Policies))
	text, err := json.Marshal(f)
	require.NoError(t, err)
	require.JSONEq(t, `{"policies": ["peak: 25 per 1s, burst 10", "daily: 100000 daily (UTC)"]}`, string(text))
	require.ErrorContains(t, json.Unmarshal([]byte(`{"policies": ["25 pro s"]}`), &f), `Text is "25 pro s": not understood`)

	kept := policies.PerSecond(1)
	require.Error(t, kept.UnmarshalText([]byte("nonsense")))
	require.Equal(t, policies.PerSecond(1), kept)
}

// A text that would be read as another policy is not written.
func TestPoliciesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]policies.Policy{
		`Policy is the zero value`:                           {},
		`Limit is 0`:                                         policies.PerSecond(0),
		`"Local" differs from machine to machine`:            policies.Daily(1, time.Local),
		`"Ourtime" is not a time zone that this machine kno`: policies.Daily(1, time.FixedZone("Ourtime", 3600)),
		`name the time zone in parentheses`:                  policies.Daily(1, time.FixedZone("", 3600)),
		`policy "hourly": Location is "Europe/Berlin": another time zone than the one of this name`: policies.Hourly(1, time.FixedZone("Europe/Berlin", 3600)),
		`policy "daily": Location is "UTC": another time zone`:                                      policies.Daily(1, time.FixedZone("UTC", 1)),
		`policy "monthly": Location is " UTC": another time zone`:                                   policies.Monthly(1, time.FixedZone(" UTC", 0)),
		`policy "daily": Text is "per (x)": "(x)" is not a valid scope name`:                        policies.Daily(1, time.FixedZone("UTC), per (x", 0)),
	} {
		_, err := p.MarshalText()
		require.ErrorContains(t, err, want)
	}
	text, err := policies.Daily(1, zone(t, "America/New_York")).MarshalText()
	require.NoError(t, err)
	require.Equal(t, "daily: 1 daily (America/New_York)", string(text))
}
