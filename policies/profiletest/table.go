package profiletest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// inTable matches the name of a file in a row of a table.
var inTable = regexp.MustCompile("`([^`/]+\\.txt)`")

// table returns what is wrong with the table of a directory: its README.md has rows of what the vendor documents and which file shows
// it. There may be no README.md.
func table(dir string, files []string) []string {
	text, err := os.ReadFile(filepath.Join(dir, "README.md")) //nolint:gosec // the caller's own test data
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []string{err.Error()}
	}
	var failures, named []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for _, match := range inTable.FindAllStringSubmatch(line, -1) {
			named = append(named, filepath.Join(dir, match[1]))
		}
	}
	for _, name := range named {
		if !slices.Contains(files, name) {
			failures = append(failures, name+" is in the table, and does not exist (rule: a row names the files that show it)")
		}
	}
	for _, file := range files {
		if !slices.Contains(named, file) {
			failures = append(failures, file+" is in no row of the table (rule: a table has all that is documented)")
		}
	}
	return failures
}
