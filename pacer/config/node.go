package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/headway-go/headway/pacer/store"
)

// Bounds of the work for a file.
const (
	maxMistakes = 100    // that are reported
	maxAliased  = 10_000 // nodes that are read by way of an alias
)

// A reader collects the mistakes of a file. A secret may be anywhere in it by mistake, so no mistake repeats a value, or an unknown field:
// line and column show it.
type reader struct {
	file     string
	mistakes []*Error
	more     int // mistakes that are not reported
	aliased  int // nodes that were read by way of an alias
}

// err returns the mistakes, in the order of the file.
func (r *reader) err() error {
	if len(r.mistakes) == 0 {
		return nil
	}
	slices.SortStableFunc(r.mistakes, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all := make([]error, 0, len(r.mistakes)+1)
	for _, e := range r.mistakes {
		all = append(all, e)
	}
	if r.more > 0 {
		all = append(all, &Error{File: r.file, Err: fmt.Errorf("%d more mistakes", r.more)})
	}
	return errors.Join(all...)
}

// A place is a position in a file.
type place struct {
	file         string
	line, column int
	path         string
}

// wrap returns an error about this place.
func (p place) wrap(err error) *Error {
	return &Error{File: p.file, Line: p.line, Column: p.column, Path: p.path, Err: err}
}

// A value is a part of a file being read.
type value struct {
	r       *reader
	node    *yaml.Node
	path    string
	aliased bool // it was reached by way of an alias
	column  int  // of the part at fault, from that of the node
}

func (v value) place() place {
	return place{file: v.r.file, line: v.node.Line, column: v.node.Column + v.column, path: v.path}
}

// failf reports a mistake.
func (v value) failf(format string, args ...any) { v.wrong(fmt.Errorf(format, args...)) }

// wrong reports a mistake.
func (v value) wrong(err error) {
	if len(v.r.mistakes) >= maxMistakes {
		v.r.more++
		return
	}
	v.r.mistakes = append(v.r.mistakes, v.place().wrap(err))
}

// count returns how many mistakes there are.
func (v value) count() int { return len(v.r.mistakes) + v.r.more }

// real returns the value of an alias. It returns false once aliases have expanded to more than any honest file has.
func (v value) real() (value, bool) {
	for v.node.Kind == yaml.AliasNode {
		v.node, v.aliased = v.node.Alias, true
	}
	if !v.aliased {
		return v, true
	}
	v.r.aliased++
	if v.r.aliased == maxAliased+1 {
		v.failf("aliases make more than %d values of the file: write fewer of them", maxAliased)
	}
	return v, v.r.aliased <= maxAliased
}

// under returns a part of this value.
func (v value) under(node *yaml.Node, path string) value {
	return value{r: v.r, node: node, path: path, aliased: v.aliased}
}

// isEmpty reports whether nothing is written.
func (v value) isEmpty() bool {
	return v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!null"
}

// kindOf names what is written, for people.
func (v value) kindOf() string {
	switch {
	case v.isEmpty():
		return "is empty"
	case v.node.Kind == yaml.MappingNode:
		return "is a mapping"
	case v.node.Kind == yaml.SequenceNode:
		return "is a list"
	}
	return "is a single value"
}

// entries calls f for each entry of a mapping, with its key. It returns false for any other value.
func (v value) entries(what string, f func(key string, keyAt, v value)) bool {
	v, ok := v.real()
	if !ok {
		return false
	}
	if v.node.Kind != yaml.MappingNode {
		v.failf("%s: write %s", v.kindOf(), what)
		return false
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		at, ok := v.under(v.node.Content[i], v.path).real()
		if !ok {
			return false
		}
		key := at.node.Value
		if at.node.Kind != yaml.ScalarNode {
			at.failf("a key must be a name")
			continue
		}
		if at.node.ShortTag() == "!!merge" {
			at.failf(`"<<" is not supported: write the fields out, or use an alias for a whole value`)
			continue
		}
		if line, twice := seen[key]; twice {
			at.failf("a key is set twice, here and on line %d: remove one", line)
			continue
		}
		seen[key], at.path = at.node.Line, join(v.path, key)
		f(key, at, v.under(v.node.Content[i+1], at.path))
	}
	return true
}

// join returns the path of a key. It does not repeat one that cannot be a name.
func join(path, key string) string {
	switch {
	case !store.ValidUpstream(key):
		key = "?"
	case strings.Contains(key, "."):
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// fields reads a mapping with these fields. An empty field is a mistake. The name of an unknown field may be a secret, so no error repeats
// it.
func (v value) fields(known map[string]func(value)) bool {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	path := v.path
	return v.entries("its fields: "+strings.Join(names, ", "), func(key string, at, v value) {
		if read, ok := known[key]; ok {
			read(v)
			return
		}
		at.path = path
		at.failf("an unknown field: %s", suggestion(key, names))
	})
}

// suggestion names the field that was probably meant, or all.
func suggestion(key string, names []string) string {
	for _, name := range names {
		if strings.EqualFold(strings.NewReplacer("_", "", "-", "").Replace(key), name) {
			return "write " + name
		}
	}
	if strings.Contains(strings.ToLower(key), "password") && slices.Contains(names, fieldPasswordEnv) {
		return "a file holds no secrets: name an environment variable in " + fieldPasswordEnv
	}
	return "the fields are " + strings.Join(names, ", ")
}

// items calls f for each item of a list.
func (v value) items(what string, f func(v value)) {
	v, ok := v.real()
	if !ok {
		return
	}
	if v.node.Kind != yaml.SequenceNode {
		v.failf("%s: write a list of %s", v.kindOf(), what)
		return
	}
	for i, one := range v.node.Content {
		f(v.under(one, fmt.Sprintf("%s[%d]", v.path, i)))
	}
}

// isScalar reports whether the value is neither a list nor a mapping.
func (v value) isScalar() bool {
	v, ok := v.real()
	return ok && v.node.Kind == yaml.ScalarNode
}

// text returns a single value as it is written.
func (v value) text(what string) (string, bool) {
	v, ok := v.real()
	if !ok {
		return "", false
	}
	if v.node.Kind != yaml.ScalarNode || v.isEmpty() {
		v.failf("%s: write %s", v.kindOf(), what)
		return "", false
	}
	switch v.node.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
	default:
		v.failf("has a tag: remove it")
		return "", false
	}
	return v.node.Value, true
}

// number returns a whole number from lowest to highest; 0 for a mistake.
func (v value) number(lowest, highest int64) int64 {
	s, ok := v.text("a number")
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil || n < lowest || n > highest {
		v.failf("is not a whole number from %d to %d", lowest, highest)
		return 0
	}
	return n
}

// truth returns true or false; false for a mistake.
func (v value) truth() bool {
	s, ok := v.text("true or false")
	if !ok {
		return false
	}
	if s != "true" && s != "false" {
		v.failf("must be true or false")
		return false
	}
	return s == "true"
}

// duration returns a duration of more than 0, or the meaning of one of the words; 0 for a mistake.
func (v value) duration(words map[string]time.Duration) time.Duration {
	s, ok := v.text("a duration such as 250ms, 30s or 1m30s")
	if !ok {
		return 0
	}
	if d, ok := words[strings.ToLower(s)]; ok {
		return d
	}
	d, err := time.ParseDuration(s)
	or := ""
	for word := range words {
		or = ", or " + word
	}
	switch {
	case err != nil:
		v.failf("is not a duration: write one such as 250ms, 30s or 1m30s%s", or)
		return 0
	case d <= 0:
		v.failf("is %s: it must be more than 0%s; leave it out for the default", d, or)
		return 0
	}
	return d
}

// word returns one of the words, in any case, and its meaning.
func word[T any](v value, what string, words map[string]T) (meaning T, ok bool) {
	s, ok := v.text(what)
	if !ok {
		return meaning, false
	}
	names := make([]string, 0, len(words))
	for name, meaning := range words {
		if strings.EqualFold(name, s) {
			return meaning, true
		}
		names = append(names, name)
	}
	slices.Sort(names)
	v.failf("is not %s: choose one of %s", what, strings.Join(names, ", "))
	return meaning, false
}
