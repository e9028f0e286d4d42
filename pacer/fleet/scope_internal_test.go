package fleet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/store"
)

func TestScopeValues(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		names []string
		scope string
		want  map[string]string
	}{
		{[]string{"tenant"}, "tenant=acme", map[string]string{"tenant": "acme"}},
		{[]string{"tenant"}, "tenant=a=b", map[string]string{"tenant": "a=b"}},
		{[]string{"tenant", "user"}, "tenant=" + store.EscapeScope("a b") + " user=" + store.EscapeScope("ü%<>:"), map[string]string{"tenant": "a b", "user": "ü%<>:"}},
		{nil, "", nil},
		{[]string{"tenant"}, "", nil},
		{[]string{"tenant"}, "user=acme", nil},
		{[]string{"tenant"}, "tenant=", nil},
		{[]string{"tenant"}, "tenant=%zz", nil},
		{[]string{"tenant"}, "tenant=cut…", nil},
		{[]string{"tenant"}, "tenant=" + store.EscapeScope("\xff"), nil},                      // JSON cannot express it
		{[]string{"tenant"}, "tenant=" + store.EscapeScope(strings.Repeat("long ", 99)), nil}, // hashed
		{[]string{"tenant"}, "tenant=acme user=7", nil},
	} {
		require.Equal(t, one.want, scopeValues(one.names, one.scope), one.scope)
	}
}
