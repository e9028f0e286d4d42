package policies_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
)

func TestParseAll(t *testing.T) {
	t.Parallel()
	peak, day := policies.PerSecond(25).Burst(10).Named("peak"), policies.Daily(100_000, time.UTC)
	for text, want := range map[string][]policies.Policy{
		"":                     nil,
		" ;\n\t;;\r\n":         nil,
		"# nothing; 5/s":       nil,
		"peak: 25/s, burst 10": {peak},
		"peak: 25/s, burst 10; 100000 daily (UTC)":                                      {peak, day},
		"peak: 25/s, burst 10;\r\n# the account's; 1/s\r\n100000 daily (UTC) # a quota": {peak, day},
		"5/s; 5/s": {policies.PerSecond(5), policies.PerSecond(5)},
	} {
		got, err := policies.ParseAll(text)
		require.NoError(t, err, text)
		require.Len(t, got, len(want), text)
		for i := range want {
			require.NoError(t, same(want[i], got[i]), text)
		}
	}
}

// An error names the policy that it is about, and none hides another.
func TestParseAllReportsWhichPolicyIsWrong(t *testing.T) {
	t.Parallel()
	list, err := policies.ParseAll("5/s;; # six\nnonsense; peak: 5/s, bursts 2\n1/s")
	require.Nil(t, list)
	require.ErrorContains(t, err, `policies: number 2: Text is "nonsense": not understood`)
	require.ErrorContains(t, err, `policies: number 3: policy "peak": Text is "bursts 2": not understood`)
	var e *policies.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 2, e.Number)

	_, err = policies.ParseAll("1/s; 0/s")
	require.EqualError(t, err, `policies: number 2: policy "per-second": Limit is 0: must be at least 1`)
}

func TestParseAllIsBounded(t *testing.T) {
	t.Parallel()
	_, err := policies.ParseAll(strings.Repeat(";", 256<<10+1))
	require.ErrorContains(t, err, "Text is 262145 bytes long: must have at most 262144")
	_, err = policies.ParseAll(strings.Repeat("1/s;", 1001))
	require.ErrorContains(t, err, "Text is more than 1000 policies")
	_, err = policies.ParseAll(strings.Repeat("x\n", 1000))
	require.Equal(t, 10, strings.Count(err.Error(), "not understood"))
	list, err := policies.ParseAll(strings.Repeat("1/s;", 1000))
	require.NoError(t, err)
	require.Len(t, list, 1000)
}
