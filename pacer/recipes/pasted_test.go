package recipes_test

import (
	"context"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pasted is a file as it is on a page.
type pasted struct {
	name    string // of its folder
	title   string // of its section
	code    string
	prints  string // what the page says that the program prints
	pkg     string
	isTest  bool
	harness string // a file of testdata that calls it; "" for none
}

var (
	goBlock   = regexp.MustCompile("(?s)```go\n(.*?)```")
	textBlock = regexp.MustCompile("(?s)```text\n(.*?)```")
)

// readPage returns a page, and its sections by its second headings.
func readPage(t *testing.T, name string) (page string, sections []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", name))
	require.NoError(t, err)
	return string(text), strings.Split(string(text), "\n## ")[1:]
}

// newPasted reads what the tests have to know of some code.
func newPasted(t *testing.T, name, title, code string) *pasted {
	t.Helper()
	formatted, err := format.Source([]byte(code))
	require.NoError(t, err, title)
	require.Equal(t, string(formatted), code, "%s: gofmt", title)
	file, err := parser.ParseFile(token.NewFileSet(), "", code, parser.ImportsOnly)
	require.NoError(t, err, title)
	p := &pasted{name: name, title: title, code: code, pkg: file.Name.Name, isTest: strings.HasSuffix(file.Name.Name, "_test")}
	if harness := filepath.Join("testdata", p.pkg+"_test.go"); p.pkg != "main" && !p.isTest {
		require.FileExists(t, harness, "%s is no program, so something has to call it", title)
		p.harness = harness
	}
	return p
}

// build compiles files, and returns the folder of what it has built: by their names, those of tests with ".test". It needs the network
// only if the modules are not there yet.
func build(t *testing.T, all ...*pasted) (bin string) {
	t.Helper()
	dir, err := os.MkdirTemp(".", ".pasted") //nolint:usetesting // it is to be in the module
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bin = t.TempDir()
	var folders, programs, tests []string
	for _, p := range all {
		folder := "./" + filepath.Join(dir, p.name)
		folders = append(folders, folder)
		require.NoError(t, os.MkdirAll(folder, 0o700))
		file := "pasted.go"
		if p.isTest {
			file = "pasted_test.go"
		}
		require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte(p.code), 0o600))
		if p.harness != "" {
			harness, err := os.ReadFile(p.harness)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(folder, "harness_test.go"), harness, 0o600))
		}
		if p.pkg == "main" {
			programs = append(programs, folder)
		} else {
			tests = append(tests, folder)
		}
	}
	compile(t, folders, "vet")
	const small = "-ldflags=-s -w" // nobody debugs them
	compile(t, programs, "build", small, "-o", bin+"/")
	compile(t, tests, "test", "-c", small, "-vet=off", "-o", bin+"/")
	return bin
}

// compile has the go command do something with the packages of some folders, if there are any.
func compile(t *testing.T, folders []string, args ...string) {
	t.Helper()
	if len(folders) == 0 {
		return
	}
	out, err := exec.CommandContext(t.Context(), "go", append(args, folders...)...).CombinedOutput()
	require.NoError(t, err, "go %s: %s", args[0], out)
}

// run runs a command until it ends, with some variables in its environment, and returns what it printed.
func run(t *testing.T, env []string, path string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, path, args...)
	command.Env = append(os.Environ(), env...)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}
