package bench_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// exported is what packages of this tree export, by their names: functions, types, constants, and Type.Method or Type.Field.
type exported map[string]names

// names are those of one package.
type names map[string]bool

// codeOf returns the code of a page: what stands in backticks, and its Go blocks.
func codeOf(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	require.NoError(t, err)
	code := goBlocks(string(text))
	prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(text), "")
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(prose, -1) {
		if !strings.HasPrefix(m[1], "pacer: ") { // an error's words
			code = append(code, m[1])
		}
	}
	return code
}

// goBlocks returns the Go code between fences.
func goBlocks(text string) []string {
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// readSource reads what the packages below a folder export, except internal ones.
func readSource(t *testing.T, root string) exported {
	t.Helper()
	all := make(exported)
	walkSource(t, root, func(path string, file *ast.File) {
		if !strings.Contains(path, "/internal/") {
			all.add(file.Name.Name, file)
		}
	})
	return all
}

// add adds what a file of a package declares.
func (e exported) add(pkg string, file *ast.File) {
	if e[pkg] == nil {
		e[pkg] = make(names)
	}
	for _, decl := range file.Decls {
		e[pkg].add(decl)
	}
}

// walkSource calls visit with each file of Go below a folder, except tests.
func walkSource(t *testing.T, root string, visit func(path string, file *ast.File)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 || d.Name() == "testdata" || d.Name() == "examples") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err == nil {
			visit(path, file)
		}
		return err
	}))
}

// add adds what a declaration declares.
func (n names) add(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			n[d.Name.Name] = true
			return
		}
		of := d.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if generic, ok := of.(*ast.IndexExpr); ok {
			of = generic.X
		}
		if id, ok := of.(*ast.Ident); ok {
			n[id.Name+"."+d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					n[name.Name] = true
				}
			case *ast.TypeSpec:
				n[s.Name.Name] = true
				n.addMembers(s)
			}
		}
	}
}

// addMembers adds the fields of a struct and the methods of an interface.
func (n names) addMembers(s *ast.TypeSpec) {
	var list *ast.FieldList
	switch of := s.Type.(type) {
	case *ast.StructType:
		list = of.Fields
	case *ast.InterfaceType:
		list = of.Methods
	default:
		return
	}
	for _, f := range list.List {
		for _, name := range f.Names {
			n[s.Name.Name+"."+name.Name] = true
		}
	}
}
