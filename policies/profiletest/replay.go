package profiletest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/policies"
)

// Now is when every response arrives in these tests: noon of 10 November 2026, UTC.
func Now() time.Time { return time.Date(2026, time.November, 10, 12, 0, 0, 0, time.UTC) }

// Replay runs each file dir/*.txt as a subtest: it passes the file's request and response to the profile, and fails if the profile reads
// anything but the file's reading, or breaks a rule of [policies.Profile]. It fails if there are no files. If dir has a README.md, it also
// fails unless the rows of its table name each file, and no other.
func Replay(t *testing.T, p policies.Profile, dir string) {
	t.Helper()
	files := paths(t, dir)
	for _, failure := range table(dir, files) {
		t.Error(failure)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path) //nolint:gosec // the caller's own test data
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv("HEADWAY_UPDATE") == "1" {
				text = update(t, p, path, string(text))
			}
			for _, failure := range replay(p, string(text)) {
				t.Errorf("%s: %s", path, failure)
			}
		})
	}
}

// paths returns the files of a directory.
func paths(tb testing.TB, dir string) []string {
	tb.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		tb.Fatal(err)
	}
	if len(found) == 0 {
		tb.Fatalf("%s: no file *.txt (rule: a profile is tested with replies that its vendor documents)", dir)
	}
	return found
}

// replay returns what is wrong with a file, or with what a profile reads from it.
func replay(p policies.Profile, text string) []string {
	f, err := parse(text)
	if err != nil {
		return []string{err.Error()}
	}
	o := play(p, &f.exchange, variant{})
	failures := o.broken()
	if diff := compare(f.reading, o.lines()); diff != "" {
		failures = append(failures, "the profile reads something else (rule: a documented reply is read as the file says)"+diff)
	}
	again := play(p, &f.exchange, variant{})
	if diff := compare(o.lines(), again.lines()); diff != "" {
		failures = append(failures, "the second time it reads something else (rule: same input, same output)"+diff)
	}
	for name, values := range f.header {
		long, none := f.exchange, f.exchange
		long.header, none.header = f.header.Clone(), f.header.Clone()
		long.header[name] = append([]string{values[0] + strings.Repeat(" ", 5000)}, values[1:]...)
		none.header.Del(name)
		if diff := compare(play(p, &none, variant{}).lines(), play(p, &long, variant{}).lines()); diff != "" {
			failures = append(failures, name+" of 5,000 bytes is read (rule: read fields with fields.Get or fields.Values, which bound them)"+diff)
		}
	}
	return failures
}

// update writes what the profile reads into a file.
func update(tb testing.TB, p policies.Profile, path, text string) []byte {
	tb.Helper()
	f, err := parse(text)
	if f == nil || err != nil && !errors.Is(err, errNoReading) {
		tb.Fatalf("%s: %v", path, err)
	}
	o := play(p, &f.exchange, variant{})
	updated := []byte(strings.TrimSuffix(f.head, "\n") + "\n-- " + sectionReading + " --\n" + strings.Join(o.lines(), "\n") + "\n")
	if string(updated) == text {
		return updated
	}
	if err := os.WriteFile(path, updated, 0o600); err != nil { // an existing file keeps its mode
		tb.Fatal(err)
	}
	tb.Logf("%s: reading updated", path)
	return updated
}
