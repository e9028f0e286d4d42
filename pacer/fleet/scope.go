package fleet

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// scopeValues returns the values of a scope such as `tenant=acme user=7`, by name; nil if one of them was shortened or hashed, or is not
// text.
func scopeValues(names []string, scope string) map[string]string {
	parts := strings.Split(scope, " ")
	if len(names) == 0 || len(parts) != len(names) {
		return nil
	}
	values := make(map[string]string)
	for i, name := range names {
		escaped, ok := strings.CutPrefix(parts[i], name+"=")
		if !ok || strings.HasPrefix(escaped, "#") || strings.HasSuffix(escaped, "…") {
			return nil
		}
		v, err := url.PathUnescape(escaped)
		if err != nil || v == "" || !utf8.ValidString(v) {
			return nil
		}
		values[name] = v
	}
	return values
}
