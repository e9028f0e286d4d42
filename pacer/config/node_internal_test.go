package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Multiplied aliases are not read any more once that is reported.
func TestAliasesAreNotReadForEver(t *testing.T) {
	t.Parallel()
	text := "upstreams:\n  u: &u\n    policies: &p [" + strings.TrimSuffix(strings.Repeat("5/s,", 500), ",") + "]\n"
	for i := range 500 {
		text += fmt.Sprintf("  u%d: *u\n", i)
	}
	node, err := document("f", []byte(text))
	require.NoError(t, err)
	r := &reader{file: "f"}
	(&File{byName: make(map[string]*upstream)}).read(value{r: r, node: node})
	require.ErrorContains(t, r.err(), "aliases make more than 10000 values of the file")
	require.Less(t, r.aliased, maxAliased+5_000, "of 250,000")
}
