package recipes_test

import (
	"context"
	"fmt"
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
	prints  string // the program's output according to the page
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

// build compiles files, and returns the folder of what it has built: tests by their names with ".test", and one program of all programs,
// whose first argument is a name: to link one takes seconds. It needs the network only if the modules are not there yet.
func build(t *testing.T, all ...*pasted) (bin string) {
	t.Helper()
	dir, err := os.MkdirTemp(".", ".pasted") //nolint:usetesting // it is to be in the module
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	write := func(folder, file, code string) string {
		folder = "./" + filepath.Join(dir, folder)
		require.NoError(t, os.MkdirAll(folder, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte(code), 0o600))
		return folder
	}
	var tests []string
	imports, cases := `import "os"`+"\n", ""
	for _, p := range all {
		switch {
		case p.pkg == "main":
			code := strings.Replace(strings.Replace(p.code, "package main\n", "package "+p.name+"\n", 1), "func main() {", "func Main() {", 1)
			write(p.name, "pasted.go", code)
			imports += fmt.Sprintf("import %q\n", "github.com/headway-go/headway/pacer/recipes/"+filepath.Base(dir)+"/"+p.name)
			cases += fmt.Sprintf("\tcase %q:\n\t\t%s.Main()\n", p.name, p.name)
		case p.isTest:
			tests = append(tests, write(p.name, "pasted_test.go", p.code))
		default:
			harness, err := os.ReadFile(p.harness)
			require.NoError(t, err)
			write(p.name, "pasted.go", p.code)
			tests = append(tests, write(p.name, "harness_test.go", string(harness)))
		}
	}
	bin = t.TempDir()
	const small = "-ldflags=-s -w" // nobody debugs them
	if cases != "" {
		main := write("programs", "main.go", "package main\n"+imports+"func main() {\n\tswitch os.Args[1] {\n"+cases+"\t}\n}\n")
		compile(t, "build", small, "-o", bin+"/", main)
	}
	if len(tests) > 0 {
		compile(t, append([]string{"test", "-c", small, "-vet=off", "-o", bin + "/"}, tests...)...)
	}
	return bin
}

// compile runs the go command.
func compile(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
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
