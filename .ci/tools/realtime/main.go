// Command realtime is a vet tool that finds tests which depend on the speed of the machine.
//
// A test runs in virtual time (testing/synctest), where it may judge anything, or it judges only what holds at any speed. Outside virtual
// time the tool reports
//
//   - a sleep, and a measured duration: time.Sleep, time.Tick, time.Since, time.Until, Sub of what time.Now returned;
//   - a bound in real time below 30 s: Eventually, EventuallyWithT, Never, time.After, time.NewTimer.
//
// Files behind the build tag measure are not compiled here: `make bench` runs them. A test that must run in real time has a comment on its
// line, or on the line above: //realtime: and the reason.
//
// The tool follows calls inside one package, test files and helpers alike: from its tests, over functions, methods and variables, but not
// into the functions that run in a bubble.
package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
	"time"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	unitchecker.Main(&analysis.Analyzer{Name: "realtime", Doc: "find tests that depend on the speed of the machine", Run: run})
}

// enough is the shortest bound in real time that no busy machine exceeds.
const enough = 30 * time.Second

// node is a function, a type or a variable of the package.
type node struct {
	uses  []types.Object // outside bubbles
	finds []finding
}

type finding struct {
	at   ast.Node
	what string
}

// checker holds what is known of one package.
type checker struct {
	pass    *analysis.Pass
	bubbles map[types.Object]bool // variables whose functions run in a bubble: parameters, fields, and those of loops over tables
	nows    map[types.Object]bool // variables that time.Now was assigned to
	nodes   map[types.Object]*node
}

func run(pass *analysis.Pass) (any, error) {
	c := &checker{pass: pass, bubbles: map[types.Object]bool{}, nows: map[types.Object]bool{}}
	for known := -1; known != len(c.bubbles); { // a wrapper of a wrapper takes another round
		known = len(c.bubbles)
		c.nodes = map[types.Object]*node{}
		for _, f := range pass.Files {
			c.file(f)
		}
	}
	excused := c.excused()
	for obj := range c.reachable() {
		for _, f := range c.nodes[obj].finds {
			p := pass.Fset.Position(f.at.Pos())
			if (helpers(pass) || strings.HasSuffix(p.Filename, "_test.go")) && !excused[[2]any{p.Filename, p.Line}] {
				pass.Reportf(f.at.Pos(), "%s depends on the speed of the machine: use virtual time, or judge what holds at any speed", f.what)
			}
		}
	}
	return nil, nil
}

// file reads the declarations of a file into nodes.
func (c *checker) file(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if obj := c.pass.TypesInfo.Defs[d.Name]; obj != nil && d.Body != nil {
				c.node(obj, d.Body)
				if recv := receiver(obj); recv != nil {
					c.of(recv).uses = append(c.of(recv).uses, obj)
				}
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok {
					for _, name := range v.Names {
						for _, value := range v.Values {
							c.node(c.pass.TypesInfo.Defs[name], value)
						}
					}
				}
			}
		}
	}
}

func (c *checker) of(obj types.Object) *node {
	if c.nodes[obj] == nil {
		c.nodes[obj] = &node{}
	}
	return c.nodes[obj]
}

// node adds what body uses, and what is found in it, to obj.
func (c *checker) node(obj types.Object, body ast.Node) {
	n := c.of(obj)
	var walk func(x ast.Node, bubble bool)
	walk = func(x ast.Node, bubble bool) {
		ast.Inspect(x, func(x ast.Node) bool {
			switch x := x.(type) {
			case *ast.CallExpr:
				if !bubble {
					if what := c.slow(x); what != "" {
						n.finds = append(n.finds, finding{x, what})
					}
				}
				if id, ok := x.Fun.(*ast.Ident); ok && id.Name == "new" && !bubble {
					n.uses = c.made(n.uses, x.Args[0])
				}
				walk(x.Fun, bubble)
				for i, arg := range x.Args {
					walk(arg, bubble || c.inBubble(x, i))
				}
				return false
			case *ast.RangeStmt: // a table of functions
				id, ok := x.Value.(*ast.Ident)
				walk(x.X, bubble || ok && c.bubbles[c.pass.TypesInfo.ObjectOf(id)])
				walk(x.Body, bubble)
				return false
			case *ast.CompositeLit:
				if !bubble {
					n.uses = c.made(n.uses, x)
				}
				if of, ok := c.pass.TypesInfo.TypeOf(x).Underlying().(*types.Struct); ok { // it may be a row of such a table
					for i, value := range x.Elts {
						field := types.Object(of.Field(i))
						if pair, keyed := value.(*ast.KeyValueExpr); keyed {
							field, value = c.pass.TypesInfo.ObjectOf(pair.Key.(*ast.Ident)), pair.Value
						}
						walk(value, bubble || c.bubbles[field])
					}
					return false
				}
			case *ast.UnaryExpr:
				if x.Op == token.AND && !bubble {
					n.uses = c.made(n.uses, x.X)
				}
			case *ast.AssignStmt:
				for i, value := range x.Rhs {
					if id, ok := x.Lhs[i].(*ast.Ident); ok && len(x.Lhs) == len(x.Rhs) && c.isNow(value) {
						c.nows[c.pass.TypesInfo.ObjectOf(id)] = true
					}
				}
			case *ast.Ident:
				used := c.pass.TypesInfo.Uses[x]
				if v, ok := used.(*types.Var); ok && bubble && isFunc(v) {
					c.bubbles[v] = true
				}
				if _, typ := used.(*types.TypeName); used != nil && !typ && !bubble && used.Pkg() == c.pass.Pkg {
					n.uses = append(n.uses, used)
				}
			}
			return true
		})
	}
	walk(body, false)
}

// made adds the named type of x, a value of which exists: its methods may be called through an interface.
func (c *checker) made(uses []types.Object, x ast.Expr) []types.Object {
	if named, ok := c.pass.TypesInfo.TypeOf(x).(*types.Named); ok {
		return append(uses, named.Origin().Obj())
	}
	return uses
}

// inBubble reports whether argument i of call runs in a bubble of virtual time.
func (c *checker) inBubble(call *ast.CallExpr, i int) bool {
	f := callee(c.pass, call)
	if f == nil {
		return false
	}
	if f.Pkg() != nil && f.Pkg().Path() == "testing/synctest" {
		return true
	}
	params := f.Signature().Params()
	if params.Len() == 0 {
		return false
	}
	return c.bubbles[params.At(min(i, params.Len()-1)).Origin()]
}

// slow returns the name of a call that depends on the speed of the machine, or "".
func (c *checker) slow(call *ast.CallExpr) string {
	f := callee(c.pass, call)
	if f == nil || f.Pkg() == nil {
		return ""
	}
	switch name := f.Name(); f.Pkg().Path() {
	case "time":
		switch name {
		case "Sleep", "Since", "Until", "Tick":
			return "time." + name
		case "Sub":
			if c.isNow(ast.Unparen(call.Fun).(*ast.SelectorExpr).X) {
				return "Time.Sub"
			}
		case "After", "NewTimer":
			if c.short(call.Args[0]) {
				return "time." + name
			}
		}
	case "github.com/stretchr/testify/require", "github.com/stretchr/testify/assert":
		switch strings.TrimSuffix(name, "f") {
		case "Eventually", "EventuallyWithT", "Never":
			if c.short(call.Args[2]) {
				return name
			}
		case "WithinDuration":
			return name
		}
	}
	return ""
}

// isNow reports whether x is a call of time.Now, or a variable that one was assigned to.
func (c *checker) isNow(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.CallExpr:
		f := callee(c.pass, x)
		return f != nil && f.FullName() == "time.Now"
	case *ast.Ident:
		return c.nows[c.pass.TypesInfo.ObjectOf(x)]
	}
	return false
}

// short reports whether x is a constant below enough.
func (c *checker) short(x ast.Expr) bool {
	v := c.pass.TypesInfo.Types[x].Value
	if v == nil || v.Kind() != constant.Int {
		return false
	}
	d, exact := constant.Int64Val(v)
	return exact && time.Duration(d) < enough
}

// reachable returns the nodes that tests reach outside bubbles. In a package of helpers, everything exported is reached.
func (c *checker) reachable() map[types.Object]bool {
	seen := map[types.Object]bool{}
	var visit func(obj types.Object)
	visit = func(obj types.Object) {
		if n := c.nodes[obj]; n != nil && !seen[obj] {
			seen[obj] = true
			for _, used := range n.uses {
				visit(used)
			}
		}
	}
	for obj := range c.nodes {
		file := c.pass.Fset.Position(obj.Pos()).Filename
		test := strings.HasSuffix(file, "_test.go")
		for _, prefix := range []string{"Test", "Fuzz", "Example"} {
			if test && strings.HasPrefix(obj.Name(), prefix) && obj.Name() != "TestMain" { // which judges nothing
				visit(obj)
			}
		}
		if _, f := obj.(*types.Func); f && obj.Exported() && helpers(c.pass) {
			visit(obj)
		}
	}
	return seen
}

// excused returns the lines with a reason for real time, and those below them.
func (c *checker) excused() map[[2]any]bool {
	lines := map[[2]any]bool{}
	for _, f := range c.pass.Files {
		for _, group := range f.Comments {
			for _, comment := range group.List {
				if reason, ok := strings.CutPrefix(comment.Text, "//realtime:"); ok && strings.TrimSpace(reason) != "" {
					p := c.pass.Fset.Position(comment.Pos())
					lines[[2]any{p.Filename, p.Line}], lines[[2]any{p.Filename, p.Line + 1}] = true, true
				}
			}
		}
	}
	return lines
}

// helpers reports whether only tests import the package.
func helpers(pass *analysis.Pass) bool {
	switch pass.Pkg.Name() {
	case "redistest", "jobtest", "storetest", "measure":
		return true
	}
	return false
}

func callee(pass *analysis.Pass, call *ast.CallExpr) *types.Func {
	var id *ast.Ident
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id = f.Sel
	default:
		return nil
	}
	f, _ := pass.TypesInfo.Uses[id].(*types.Func)
	return f
}

func receiver(obj types.Object) types.Object {
	recv := obj.(*types.Func).Signature().Recv()
	if recv == nil {
		return nil
	}
	t := recv.Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if named, ok := t.(*types.Named); ok {
		return named.Origin().Obj()
	}
	return nil
}

func isFunc(v *types.Var) bool {
	_, ok := v.Type().Underlying().(*types.Signature)
	return ok
}
