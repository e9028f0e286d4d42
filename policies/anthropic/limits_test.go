package anthropic_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/anthropic"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	profiletest.Limits(t, anthropic.Profile, anthropic.Limits(50, 30_000, 8_000))
	for _, p := range anthropic.Limits(0, 0, 0) {
		require.Error(t, p.Validate())
	}
}

func TestTheUsageOfAnAnswer(t *testing.T) {
	t.Parallel()
	in := func(n int64) policies.Cost { return policies.Cost{Policy: "input-tokens", N: n} }
	out := func(n int64) policies.Cost { return policies.Cost{Policy: "output-tokens", N: n} }
	for name, c := range map[string]struct {
		body string
		want []policies.Cost
	}{
		"an answer": {`{"content":[],"usage":{"input_tokens":25,"output_tokens":150}}`, []policies.Cost{in(25), out(150)}},
		"a stream": {
			"data: {\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\n\n",
			[]policies.Cost{in(25), out(15)},
		},
		"a new cache":    {`{"usage":{"input_tokens":5,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":2}}`, []policies.Cost{in(105), out(2)}},
		"the end of one": {`xx"usage":{"output_tokens":15}}`, []policies.Cost{out(15)}},
		"a stream that tells the input twice": {
			"data: {\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\ndata: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":30,\"output_tokens\":15}}\n\n",
			[]policies.Cost{in(30), out(15)},
		},
		"usage of a tool":    {`{"content":[{"input":{"usage":{"input_tokens":7,"output_tokens":8}}}],"usage":{"input_tokens":25,"output_tokens":150}}`, []policies.Cost{in(25), out(150)}},
		"negative":           {`{"usage":{"input_tokens":-5,"output_tokens":-1}}`, nil},
		"absurd":             {`{"usage":{"input_tokens":99999999999}}`, nil},
		"cut":                {`{"usage":{"input_tokens":5`, nil},
		"a word in the text": {`{"text":"\"usage\" of words"}`, nil},
		"nothing":            {`{}`, nil},
	} {
		require.Equal(t, c.want, anthropic.Profile.Settle(&policies.Reply{Status: http.StatusOK, Body: []byte(c.body)}), name)
	}
}

// The work for a hostile body does not grow with its square. The test judges allocations, which do not depend on how busy the machine is.
func TestUsageInUsageIsReadQuickly(t *testing.T) { //nolint:paralleltest // it counts what is allocated
	allocated := func(n int) float64 {
		reply := policies.Reply{Status: http.StatusOK, Body: []byte(strings.Repeat(`{"usage":`, n))}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.Nil(t, anthropic.Profile.Settle(&reply))
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	const all, part = policies.MaxPeek / 9, 8
	few := allocated(all / part)
	require.Less(t, allocated(all), 2*part*few, "a square would make it %d times as much", part*part)
}

func TestTheEstimate(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]struct{ input, most int64 }{
		`{"model":"m","messages":[{"content":"` + strings.Repeat("x", 4000) + `"}]}`: {1010, 0},
		`{"model":"m","max_tokens":64000}`:                                           {8, 64_000}, // which only bounds what is learned
		`{"model":"m","max_tokens":-1}`:                                              {7, 0},
		`{"model":"m","max_tokens":9223372036854775807}`:                             {11, 10_000_000},
		`no JSON`: {1, 0},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.anthropic.com/v1/messages", strings.NewReader(body))
		require.NoError(t, err)
		require.Equal(t, []policies.Cost{
			{Policy: "input-tokens", N: want.input}, {Policy: "output-tokens", N: 1, Learned: policies.Learned{Times: 1, Most: want.most}},
		}, anthropic.Profile.Costs(req), body)
	}
}
