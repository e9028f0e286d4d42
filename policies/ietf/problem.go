package ietf

import (
	"encoding/json"
	"slices"

	"github.com/headway-go/headway/policies"
)

// problemTypes is the prefix of the types of problems about limits.
//
// Source: draft-ietf-httpapi-ratelimit-headers, "Problem Types".
const problemTypes = "https://iana.org/assignments/http-problem-types#"

// violated returns the policies that a problem (RFC 9457) reports as violated, if they are valid names of policies. A body that is not such
// a problem, or is truncated, names none.
func violated(body []byte) []string {
	if len(body) == 0 {
		return nil
	}
	var problem struct {
		Type     string   `json:"type"`
		Violated []string `json:"violated-policies"`
	}
	if json.Unmarshal(body, &problem) != nil {
		return nil
	}
	switch problem.Type {
	case problemTypes + "quota-exceeded", problemTypes + "temporary-reduced-capacity", problemTypes + "abnormal-usage-detected":
	default:
		return nil
	}
	var names []string
	for _, name := range problem.Violated {
		if policies.ValidName(name) && !slices.Contains(names, name) && len(names) < maxItems {
			names = append(names, name)
		}
	}
	return names
}
