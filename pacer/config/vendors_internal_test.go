package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
)

// Every profile of a vendor and every function that makes policies can be named in a file.
func TestEveryVendorCanBeNamed(t *testing.T) {
	t.Parallel()
	made, read := []string{"github.Installation"}, []string(nil) // which makes a kind in Go, and policies here
	dirs, err := os.ReadDir("../../policies")
	require.NoError(t, err)
	for _, dir := range dirs {
		if !dir.IsDir() {
			continue
		}
		files, err := filepath.Glob(filepath.Join("../../policies", dir.Name(), "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			require.NoError(t, err)
			for _, d := range parsed.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Recv == nil && d.Name.IsExported() && makesPolicies(d.Type.Results) {
						made = append(made, dir.Name()+"."+d.Name.Name)
					}
				case *ast.GenDecl:
					for _, s := range d.Specs {
						v, ok := s.(*ast.ValueSpec)
						if ok && d.Tok == token.VAR && v.Names[0].IsExported() {
							read = append(read, strings.TrimSuffix(dir.Name()+"."+v.Names[0].Name, ".Profile"))
						}
					}
				}
			}
		}
	}
	var constructed, profiled []string
	for name := range constructors() {
		constructed = append(constructed, name)
	}
	for name, p := range profiles() {
		profiled = append(profiled, name)
		vendor, _, _ := strings.Cut(name, ".")
		require.Equal(t, vendor, p.Name)
	}
	require.ElementsMatch(t, made, constructed)
	require.ElementsMatch(t, read, profiled)
}

// makesPolicies reports whether a function returns policies.
func makesPolicies(results *ast.FieldList) bool {
	if results == nil || len(results.List) != 1 {
		return false
	}
	kind := results.List[0].Type
	if list, ok := kind.(*ast.ArrayType); ok {
		kind = list.Elt
	}
	s, ok := kind.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Policy"
}

// Every parameter of a constructor can be written, and each one matters.
func TestEveryConstructorCanBeCalled(t *testing.T) {
	t.Parallel()
	parse := func(name string, given []string) ([]policies.Policy, error) {
		f, err := Parse("f", fmt.Appendf(nil, "upstreams:\n  u:\n    policies:\n    - limits: %s\n%s", name, strings.Join(given, "")))
		if err != nil {
			return nil, err
		}
		return f.Policies("u"), nil
	}
	for name, c := range constructors() {
		var given []string
		for _, p := range c.params {
			given = append(given, line(p, examples(p)[0]))
		}
		was, err := parse(name, given)
		require.NoError(t, err, name)
		require.NotEmpty(t, was, name)
		vendor, isLimits := strings.CutSuffix(name, ".Limits")
		if isLimits {
			short, err := parse(vendor, given)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(was), fmt.Sprint(short))
		}
		for i, p := range c.params {
			_, err := parse(name, slices.Delete(slices.Clone(given), i, i+1))
			require.ErrorContains(t, err, "needs "+p.name, name)
			results := map[string]bool{fmt.Sprint(was): true}
			for _, other := range examples(p) {
				changed := slices.Clone(given)
				changed[i] = line(p, other)
				is, err := parse(name, changed)
				require.NoError(t, err, name)
				results[fmt.Sprint(is)] = true
			}
			require.Greater(t, len(results), 1, "%s: %s", name, p.name)
		}
	}
}

// line writes a parameter.
func line(p param, s string) string { return fmt.Sprintf("      %s: %s\n", p.name, s) }

// examples returns what can be written for a parameter. The first ones do not hide others.
func examples(p param) []string {
	switch p.kind {
	case aWord:
		names := slices.Sorted(maps.Keys(p.words))
		if i := slices.Index(names, "Enterprise"); i > 0 {
			names[0], names[i] = names[i], names[0]
		}
		return names
	case aZone:
		return []string{"UTC", "Europe/Berlin"}
	case aName:
		return []string{"batch", "bulk"}
	case aDuration:
		return []string{"10s", "20s"}
	case aNumber:
	}
	return []string{"50", "99"}
}
