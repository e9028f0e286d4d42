package openai_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/openai"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	profiletest.Limits(t, openai.Profile, append(openai.Limits(500, 200_000), openai.RequestsPerDay(10_000), openai.TokensPerDay(2_000_000)))
	for _, p := range openai.Limits(0, 0) {
		require.Error(t, p.Validate())
	}
}

func TestTheUsageIsFoundAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want int64 // −1: none
	}{
		"an answer":          {`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}`, 21},
		"a stream":           {"data: {\"choices\":[{}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"total_tokens\":33}}\n\ndata: [DONE]\n\n", 33},
		"responses":          {"event: response.completed\ndata: {\"response\":{\"usage\":{\"input_tokens\":1,\"total_tokens\":7}}}\n\n", 7},
		"a cut begin":        {`xyz"}],"usage" : {"total_tokens": 5}}`, 5},
		"nothing":            {`{"choices":[]}`, -1},
		"null":               {`{"usage":null}`, -1},
		"negative":           {`{"usage":{"total_tokens":-4}}`, -1},
		"absurd":             {`{"usage":{"total_tokens":99999999999}}`, -1},
		"a word in the text": {`{"content":"\"usage\": of words"}`, -1},
		"cut":                {`{"usage":{"total_tokens":`, -1},
	} {
		got := openai.Profile.Settle(&policies.Reply{Status: http.StatusOK, Body: []byte(c.body)})
		if c.want < 0 {
			require.Nil(t, got, name)
			continue
		}
		require.Equal(t, []policies.Cost{{Policy: "tokens", N: c.want}, {Policy: "tokens-day", N: c.want}}, got, name)
	}
}

func TestTheEstimate(t *testing.T) {
	t.Parallel()
	const most = 10_000_000
	for body, want := range map[string]policies.Cost{
		`{"model":"m","messages":[{"content":"` + strings.Repeat("x", 4000) + `"}]}`: {N: 1010, Learned: policies.Learned{Known: 1010, Times: 1, Most: most}},
		`{"model":"m","max_tokens":500}`:                                             {N: 507, Learned: policies.Learned{Known: 7, Times: 1, Most: 507}},
		`{"model":"m","max_completion_tokens":500}`:                                  {N: 510, Learned: policies.Learned{Known: 10, Times: 1, Most: 510}},
		`{"model":"m","max_output_tokens":500}`:                                      {N: 509, Learned: policies.Learned{Known: 9, Times: 1, Most: 509}},
		`{"model":"m","max_tokens":500,"n":4}`:                                       {N: 2009, Learned: policies.Learned{Known: 9, Times: 4, Most: 2009}},
		`{"model":"m","n":4}`:                                                        {N: 4, Learned: policies.Learned{Known: 4, Times: 4, Most: most}},
		`{"model":"m","max_tokens":500,"n":-4}`:                                      {N: 509, Learned: policies.Learned{Known: 9, Times: 1, Most: 509}},
		`{"model":"m","max_tokens":500,"n":9223372036854775807}`:                     {N: 64013, Learned: policies.Learned{Known: 13, Times: 128, Most: 64013}},
		`{"model":"m","max_tokens":-500}`:                                            {N: 7, Learned: policies.Learned{Known: 7, Times: 1, Most: most}},
		`{"model":"m","max_tokens":9223372036854775807}`:                             {N: most, Learned: policies.Learned{Known: 11, Times: 1, Most: most}},
		`no JSON`: {N: 1, Learned: policies.Learned{Known: 1, Times: 1, Most: most}},
	} {
		for _, profile := range []policies.Profile{openai.Profile, openai.Reserved} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.openai.com/v1/chat/completions", strings.NewReader(body))
			require.NoError(t, err)
			tokens, day := want, want
			tokens.Policy, day.Policy = "tokens", "tokens-day"
			require.Equal(t, []policies.Cost{tokens, day}, profile.Costs(req), body)
			want.Learned = policies.Learned{} // where reservations are metered, nothing is learned
		}
	}
}
