package profiletest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/headway-go/headway/policies"
)

// Routes checks that a scope by endpoint has one value for each route, whatever its ids are, and different values for different routes. A
// route is a method and a path with ids in braces, such as "GET /v1/coupons/{coupon}", as a vendor publishes it; host is the start of the
// requests' URLs, such as "https://acme.example". The ids that it tries are letters, digits, names in capitals, and what users choose.
func Routes(t *testing.T, scope policies.Scope, host string, routes []string) {
	t.Helper()
	ids := []string{
		"summer", "SUMMER25", "25off", "00u1a2b3c4", "cus_NffrFeUfNV2Hib", "6f9619ff-8b86-d011", "PROJ", "PROJ-7", "10000", "a.b@example.com",
	}
	seen := make(map[string]string)
	for _, route := range routes {
		method, template, _ := strings.Cut(route, " ")
		var value string
		for i, id := range ids {
			req, err := http.NewRequestWithContext(t.Context(), method, host+fill(template, id), nil)
			if err != nil {
				t.Fatal(err)
			}
			switch got := scope.Value(req); {
			case got == "":
				t.Errorf("%s: no scope %q with the id %q (rule: each route has a value)", route, scope.Name, id)
			case i == 0:
				value = got
			case got != value:
				t.Errorf("%s: %q with the id %q and %q with another (rule: a route is one scope, whatever its ids)", route, got, id, value)
			}
		}
		if other, ok := seen[value]; ok && other != route {
			t.Errorf("%s and %s are both %q (rule: routes are distinguished)", route, other, value)
		}
		seen[value] = route
	}
}

// fill puts an id into a template.
func fill(template, id string) string {
	parts := strings.Split(template, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = id
		}
	}
	return strings.Join(parts, "/")
}
