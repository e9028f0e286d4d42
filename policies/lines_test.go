package policies_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
)

// A policy is written with its overrides, and read again as it was, whatever the values of its keys are.
func TestLines(t *testing.T) {
	t.Parallel()
	strange := []string{"acme", "a b", `"`, `", "`, `": 5 per 1s`, "a\nb", "a: b", "für", "\xff", "\x00", "for ", "'", "`"}
	pairs := policies.PerSecond(5).Per("tenant", "user").Named("pairs")
	one := policies.AtMost(5, time.Second).Per("tenant").Lane("batch", 50).Observed()
	for i, v := range strange {
		one = one.Override(policies.PerSecond(int64(10+i)).Burst(7), v)
		for _, w := range strange {
			pairs = pairs.Override(policies.PerMinute(int64(10+i)), v, w)
		}
	}
	list := []policies.Policy{
		policies.Daily(10, time.UTC), one, pairs,
		policies.Sliding(9, time.Hour).Per("tenant").Override(policies.Monthly(9, time.UTC).Skew(time.Second), "acme"),
		policies.InFlight(5).Per("tenant").Override(policies.InFlight(7).LongerThan(time.Second), "acme"),
	}
	var lines []string
	for _, p := range list {
		some, err := p.Lines()
		require.NoError(t, err)
		lines = append(lines, some...)
	}
	require.Len(t, lines, len(list)+len(strange)+len(strange)*len(strange)+2)
	require.Contains(t, lines, `for "acme": 10 per 1s, burst 7`)
	require.Contains(t, lines, `for "acme", "a b": 10 per 1m`)
	for _, line := range lines {
		require.NotContains(t, line, "\n")
	}
	read, err := policies.ParseLines(lines...)
	require.NoError(t, err)
	require.Len(t, read, len(list))
	for i, p := range list {
		require.NoError(t, read[i].Validate())
		require.NoError(t, same(p, read[i]))
		again, err := read[i].Lines()
		require.NoError(t, err)
		some, err := p.Lines()
		require.NoError(t, err)
		require.Equal(t, some, again)
	}
	for _, v := range strange {
		want, err := one.For(v)
		require.NoError(t, err)
		got, err := read[1].For(v)
		require.NoError(t, err)
		require.NoError(t, same(want, got), "%q", v)
	}
}

// The overrides of a policy come in order of their keys.
func TestOverridesInOrder(t *testing.T) {
	t.Parallel()
	p := policies.PerSecond(5).Per("tenant").Override(policies.PerSecond(2), "b").Override(policies.PerSecond(1), "a").Override(policies.PerSecond(3), "c")
	var keys []string
	for values, with := range p.Overrides() {
		if n, _ := with.Limit(); n == 3 {
			break
		}
		keys = append(keys, values...)
	}
	require.Equal(t, []string{"a", "b"}, keys)
	for range policies.PerSecond(5).Overrides() {
		require.Fail(t, "there is none")
	}
}

// A policy that no text can hold is an error with advice, and so is a text that is not a line.
func TestLinesThatAreNone(t *testing.T) {
	t.Parallel()
	tenant := policies.PerSecond(5).Per("tenant")
	for want, p := range map[string]policies.Policy{
		"a text cannot hold a function: use Override": tenant.OverrideBy(func([]string) (policies.Policy, bool) { return policies.Policy{}, false }),
		"another time zone":                           policies.Daily(5, time.FixedZone("CET", 60)),
		"the Override of daily.tenant for \"acme\"":   policies.Daily(5, time.UTC).Per("tenant").Override(policies.Daily(9, time.FixedZone("CET", 60)), "acme"),
		"is given twice":                              tenant.Override(policies.PerSecond(1), "a").Override(policies.PerSecond(2), "a"),
		"must have no name":                           tenant.Override(policies.PerSecond(1).Named("x"), "a"),
	} {
		_, err := p.Lines()
		var wrong *policies.Error
		require.ErrorAs(t, err, &wrong, want)
		require.ErrorContains(t, err, want)
	}
	for line, want := range map[string]string{
		`for "acme": 50 per 1s`:    "has no policy",
		`for "acme: 50 per 1s`:     `"for \"acme: 50 per 1s": `,
		`for "acme" 50 per 1s`:     `"for \"acme\" 50 per 1s": `,
		`for "acme",: 50 per 1s`:   `"for \"acme\",: 50 per 1s": `,
		`for "acme": nothing much`: "nothing much",
		`nothing much`:             `"nothing much": `,
	} {
		_, err := policies.ParseLines(line)
		require.ErrorContains(t, err, want)
	}
	list, err := policies.ParseLines("5 per 1s, per tenant", `for "acme", "x": 50 per 1s`)
	require.NoError(t, err)
	require.ErrorContains(t, list[0].Validate(), "must have a value for each scope")
	list, err = policies.ParseLines()
	require.NoError(t, err)
	require.Empty(t, list)
}
