package openai

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/headway-go/headway/policies"
)

// settle finds the tokens that an answer used: "total_tokens" in the last object named "usage". It is at the end of an answer, and of a
// stream that was requested with it; the Responses API has it inside "response". A call that failed has used no tokens.
func settle(r *policies.Reply) []policies.Cost {
	if c, failed := free(r); failed {
		return c
	}
	body := r.Body
	for {
		at := bytes.LastIndex(body, []byte(`"usage"`))
		if at < 0 {
			return nil
		}
		if n, ok := total(body[at+len(`"usage"`):]); ok {
			return []policies.Cost{{Policy: PolicyTokens, N: n}, {Policy: PolicyTokensDay, N: n}}
		}
		body = body[:at]
	}
}

// free returns what a call that failed or was refused costs in tokens: nothing. It still counts as a request.
// Source: https://platform.openai.com/docs/guides/rate-limits
func free(r *policies.Reply) (costs []policies.Cost, failed bool) {
	if r.Status < http.StatusBadRequest {
		return nil, false
	}
	return []policies.Cost{{Policy: PolicyTokens}, {Policy: PolicyTokensDay}}, true
}

// total reads ": {…"total_tokens": n…}" and ignores what follows.
func total(b []byte) (int64, bool) {
	b = bytes.TrimLeft(b, " \t\r\n")
	if len(b) == 0 || b[0] != ':' {
		return 0, false
	}
	var usage *struct {
		Total *int64 `json:"total_tokens"`
	}
	if json.NewDecoder(bytes.NewReader(b[1:])).Decode(&usage) != nil || usage == nil || usage.Total == nil {
		return 0, false
	}
	return *usage.Total, *usage.Total >= 0 && *usage.Total <= maxEstimate
}
