package config

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/headway.schema.json is the schema of the code. HEADWAY_WRITE=1 writes it.
func TestTheSchemaIsCurrent(t *testing.T) {
	t.Parallel()
	const path = "../../docs/headway.schema.json"
	if os.Getenv("HEADWAY_WRITE") != "" {
		require.NoError(t, os.WriteFile(path, Schema(), 0o644))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(Schema()), string(written), "HEADWAY_WRITE=1 go test -run Schema . writes it")
}

// The schema has the fields that the reader knows, of every mapping.
func TestTheSchemaHasEveryField(t *testing.T) {
	t.Parallel()
	type schema struct {
		Properties           map[string]*schema
		AdditionalProperties json.RawMessage
		Items                *schema
		AnyOf                []*schema
		Enum                 []string
	}
	var file schema
	require.NoError(t, json.Unmarshal(Schema(), &file))
	within := func(s *schema) *schema {
		var one schema
		require.NoError(t, json.Unmarshal(s.AdditionalProperties, &one))
		return &one
	}
	upstream := within(file.Properties["upstreams"])
	// The reader lists the fields if it does not know one.
	fields := func(text string) []string {
		_, err := Parse("headway.yaml", []byte(text))
		require.Error(t, err)
		found := regexp.MustCompile(`the fields are (.*)`).FindStringSubmatch(err.Error())
		require.NotNil(t, found, "%v", err)
		return strings.Split(found[1], ", ")
	}
	names := func(s *schema) []string { return slices.Sorted(maps.Keys(s.Properties)) }
	require.Equal(t, fields("xyz: 1"), names(&file))
	require.Equal(t, fields("stores: {a: {xyz: 1}}\nupstreams: {a: {policies: [1/s]}}"), names(within(file.Properties["stores"])))
	require.Equal(t, fields("upstreams: {a: {xyz: 1}}"), names(upstream))
	require.Equal(t, fields("upstreams: {a: {policies: [1/s], overrides: [{xyz: 1}]}}"), names(upstream.Properties["overrides"].Items))
	limits := make(map[string]bool)
	for _, one := range upstream.Properties["policies"].AnyOf[1].Items.AnyOf {
		if by := one.Properties["limits"]; by != nil {
			require.Equal(t, fields("upstreams: {a: {policies: [{limits: "+by.Enum[0]+", xyz: 1}]}}"), names(one))
			limits[by.Enum[0]] = true
		}
	}
	require.Len(t, limits, len(constructors()))
}

// Our own files, and those that the documentation shows, name the schema in their first line, for editors.
func TestExamplesNameTheSchema(t *testing.T) {
	t.Parallel()
	const comment = "# yaml-language-server: $schema="
	files, err := filepath.Glob("../../examples/*/headway.yaml")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), comment+"../../docs/headway.schema.json\n"), path)
		_, err = Parse(path, text)
		require.NoError(t, err)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	shown := 0
	for _, path := range pages {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(`(?m)^upstreams:`).MatchString(block[1]) {
				continue // it is Kubernetes'
			}
			shown++
			require.True(t, strings.HasPrefix(block[1], comment+"https://raw.githubusercontent.com/headway-go/headway/main/docs/headway.schema.json\n"), path)
			_, err = Parse(path, []byte(block[1]))
			require.NoError(t, err, path)
		}
	}
	require.Equal(t, 2, shown)
}
