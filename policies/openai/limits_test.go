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
	for body, want := range map[string]int64{
		`{"model":"m","messages":[{"content":"` + strings.Repeat("x", 4000) + `"}]}`: 1010,
		`{"model":"m","max_tokens":500}`:                                             507,
		`{"model":"m","max_completion_tokens":500}`:                                  510,
		`{"model":"m","max_output_tokens":500}`:                                      509,
		`{"model":"m","max_tokens":-500}`:                                            7,
		`{"model":"m","max_tokens":9223372036854775807}`:                             10_000_000,
		`no JSON`: 1,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.openai.com/v1/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		require.Equal(t, []policies.Cost{{Policy: "tokens", N: want}, {Policy: "tokens-day", N: want}}, openai.Profile.Costs(req), body)
	}
}
