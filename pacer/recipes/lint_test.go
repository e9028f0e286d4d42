package recipes_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/quasilyte/go-ruleguard/ruleguard"
	"github.com/stretchr/testify/require"
)

// unpaced is a program. Its lines that end in a comment make clients that no pacer knows.
const unpaced = `package p

import (
	"net/http"
	"time"
)

type service struct{ client *http.Client }

func (s *service) call() error {
	_, err := s.client.Get("https://api.example.com")
	return err
}

func all(paced *http.Client) (clients []*http.Client) {
	_, _ = http.Get("https://api.example.com")     // found
	_, _ = http.DefaultClient.Head("https://a.com") // found
	clients = append(clients,
		&http.Client{},                       // found
		&http.Client{Timeout: time.Second},   // found
		new(http.Client),                     // found
		&http.Client{Transport: http.DefaultTransport}, // found
		paced,
	)
	var rt http.RoundTripper = &http.Transport{} // found
	_ = rt
	_, _ = paced.Get("https://api.example.com")
	return clients
}
`

// The rule of docs/config.md finds the clients that do not come from the one door, and nothing else.
func TestTheLintFindsClients(t *testing.T) {
	t.Parallel()
	page, _ := readPage(t, "config.md")
	_, rule, ok := strings.Cut(page, "```go\npackage gorules")
	require.True(t, ok)
	rule, _, _ = strings.Cut(rule, "```")
	engine, fset := ruleguard.NewEngine(), token.NewFileSet()
	engine.InferBuildContext()
	require.NoError(t, engine.Load(&ruleguard.LoadContext{Fset: fset}, "rules.go", strings.NewReader("package gorules"+rule)))

	file, err := parser.ParseFile(fset, "p.go", unpaced, 0)
	require.NoError(t, err)
	info := &types.Info{
		Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object),
		Selections: make(map[*ast.SelectorExpr]*types.Selection),
	}
	list, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "net/http").Output()
	require.NoError(t, err)
	exported := func(path string) (io.ReadCloser, error) {
		_, file, _ := strings.Cut(string(list), "\n"+path+" ")
		file, _, _ = strings.Cut(file, "\n")
		return os.Open(file)
	}
	pkg, err := (&types.Config{Importer: importer.ForCompiler(fset, "gc", exported)}).Check("p", fset, []*ast.File{file}, info)
	require.NoError(t, err)
	found := make(map[int]bool)
	require.NoError(t, engine.Run(&ruleguard.RunContext{
		Types: info, Sizes: types.SizesFor("gc", "amd64"), Fset: fset, Pkg: pkg,
		Report: func(r *ruleguard.ReportData) {
			require.Contains(t, r.Message, "is not paced")
			found[fset.Position(r.Node.Pos()).Line] = true
		},
	}, file))
	for i, line := range strings.Split(unpaced, "\n") {
		require.Equal(t, strings.Contains(line, "// found"), found[i+1], line)
	}
}
