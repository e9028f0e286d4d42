package profiletest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATableNamesEachFileAndNoOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.txt"), filepath.Join(dir, "b.txt")
	require.Empty(t, table(dir, []string{a, b}), "no table")

	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte(text), 0o600))
	}
	write("| sent | files |\n|---|---|\n| x | `a.txt` `b.txt` |\n| y, which is not read | |\n")
	require.Empty(t, table(dir, []string{a, b}))
	failures := table(dir, []string{a})
	require.Len(t, failures, 1)
	require.Contains(t, failures[0], "b.txt is in the table, and does not exist")
	write("`b.txt` in the text is in no row\n\n| x | `a.txt` |\n")
	failures = table(dir, []string{a, b})
	require.Len(t, failures, 1)
	require.Contains(t, failures[0], "b.txt is in no row")
}

// Every vendor has a table, which Replay holds against the files.
func TestEveryVendorHasATable(t *testing.T) {
	t.Parallel()
	profiles, err := filepath.Glob("../*/profile.go")
	require.NoError(t, err)
	require.Len(t, profiles, 18)
	for _, profile := range profiles {
		require.FileExists(t, filepath.Join(filepath.Dir(profile), "testdata", "README.md"))
	}
}
