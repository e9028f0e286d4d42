package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/config"
)

// The example of docs/config.md has no mistakes, shows every field of a file, and can be opened.
func TestTheExampleOfTheDocumentation(t *testing.T) { //nolint:paralleltest // it sets the environment
	page, err := os.ReadFile("../../docs/config.md")
	require.NoError(t, err)
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	require.Len(t, examples, 1)
	f, err := config.Parse("headway.yaml", examples[0][1])
	require.NoError(t, err)
	require.Equal(t, []string{"zendesk", "openai", "crm", "jobs"}, f.Upstreams())
	acme, err := f.Policies("crm")[2].For("acme")
	require.NoError(t, err)
	require.Equal(t, "tenant: 50 per 1s, burst 10, per tenant, optional", acme.String())

	_, err = f.Open()
	require.ErrorContains(t, err, "the environment variable that it names is not set")
	t.Setenv("HEADWAY_REDIS_PASSWORD", "hunter2")
	p, err := f.Open()
	require.NoError(t, err)
	_, err = p.Client()
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

// Every field that a mistake lists is in a table of docs/config.md.
func TestTheDocumentationHasEveryField(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/config.md")
	require.NoError(t, err)
	var tables []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `") {
			name, _, _ := strings.Cut(line[2:], " |")
			tables = append(tables, name)
		}
	}
	documented := strings.Join(tables, ", ")
	for _, text := range []string{"x: 1", "upstreams: {u: {x: 1}}", "upstreams: {}\nstores: {s: {x: 1}}"} {
		_, err := config.Parse("f", []byte(text))
		_, list, found := strings.Cut(config.Mistakes(err)[0].Error(), "the fields are ")
		if !found {
			_, list, found = strings.Cut(config.Mistakes(err)[1].Error(), "the fields are ")
		}
		require.True(t, found, err)
		for name := range strings.SplitSeq(list, ", ") {
			require.Contains(t, documented, "`"+name+"`")
		}
	}
}

// The files of the examples have no mistakes.
func TestTheFilesOfTheExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/*/headway.yaml")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		_, err := config.Load(file)
		require.NoError(t, err)
	}
}
