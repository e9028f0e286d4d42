package anthropic

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/headway-go/headway/policies"
)

// settle finds the tokens that an answer used. An answer has one object named "usage"; a stream has one at its start, with the input, and
// one at its end, with the output. The last report counts, so the search starts at the end. The start of a stream does not know its output.
// Unreported parts keep their estimate. A call that failed or was refused has used no tokens.
func settle(r *policies.Reply) []policies.Cost {
	if r.Status >= http.StatusBadRequest {
		return []policies.Cost{{Policy: PolicyInputTokens}, {Policy: PolicyOutputTokens}}
	}
	name := []byte(`"usage"`)
	var input, output int64 = -1, -1
	for body := r.Body; input < 0 || output < 0; {
		at := bytes.LastIndex(body, name)
		if at < 0 {
			break
		}
		in, out := usage(body[at+len(name):])
		if input < 0 {
			input = in
		}
		line := body[bytes.LastIndexByte(body[:at], '\n')+1 : at]
		if output < 0 && !bytes.Contains(line, []byte(`"message_start"`)) {
			output = out
		}
		body = body[:at]
	}
	var costs []policies.Cost
	if input >= 0 {
		costs = append(costs, policies.Cost{Policy: PolicyInputTokens, N: input})
	}
	if output >= 0 {
		costs = append(costs, policies.Cost{Policy: PolicyOutputTokens, N: output})
	}
	return costs
}

// usage reads ": {…}" and ignores what follows. It returns −1 for a number that is missing or makes no sense. Input that was read from a
// cache does not count.
func usage(b []byte) (input, output int64) {
	b = bytes.TrimLeft(b, " \t\r\n")
	if len(b) == 0 || b[0] != ':' {
		return -1, -1
	}
	var reported struct {
		Input   *int64 `json:"input_tokens"`
		Created int64  `json:"cache_creation_input_tokens"`
		Output  *int64 `json:"output_tokens"`
	}
	if json.NewDecoder(bytes.NewReader(b[1:])).Decode(&reported) != nil {
		return -1, -1
	}
	sane := func(n *int64, more int64) int64 {
		if n == nil || *n < 0 || more < 0 || *n > maxEstimate || more > maxEstimate {
			return -1
		}
		return *n + more
	}
	return sane(reported.Input, reported.Created), sane(reported.Output, 0)
}
