package config

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/headway-go/headway/policies"
)

// Bounds of a file.
const (
	// MaxSize is the maximum size of a file, in bytes: 1 MiB.
	MaxSize      = 1 << 20
	maxUpstreams = 1000
	maxStores    = 100
	maxDepth     = 32 // of values in values
)

// A File is the content of a file without mistakes. It does not change. Make one with [Load] or [Parse].
type File struct {
	name      string
	hash      [sha256.Size]byte
	upstreams []*upstream
	byName    map[string]*upstream
	unpaced   []string // hosts whose requests are sent at once
}

// Load reads a file. It returns all mistakes, joined, each of them an [*Error]: see [Mistakes].
func Load(path string) (*File, error) {
	data, err := read(path, path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// read returns the content of a file, up to a little more than the bound. Errors use the name.
func read(path, name string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the program chooses the file
	if err != nil {
		return nil, unreadable(name, err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, &Error{File: name, Err: errors.New("is a directory: name a file in it")}
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, unreadable(name, err)
	}
	return data, nil
}

func unreadable(name string, err error) error {
	if cause, ok := errors.AsType[*os.PathError](err); ok {
		err = cause.Err // which has the path as well
	}
	return &Error{File: name, Err: fmt.Errorf("cannot be read: %w", err)}
}

// Parse reads the content of a file; errors use name as the file's name. It connects to nothing and reads no environment variables.
func Parse(name string, data []byte) (*File, error) {
	r := &reader{file: name}
	f := &File{name: name, hash: sha256.Sum256(data), byName: make(map[string]*upstream)}
	node, err := document(name, data)
	if err != nil {
		return nil, err
	}
	f.read(value{r: r, node: node})
	if err := r.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// document returns the one document of a file.
func document(name string, data []byte) (*yaml.Node, error) {
	whole := place{file: name}
	switch {
	case len(data) > MaxSize:
		return nil, whole.wrap(fmt.Errorf("is longer than %d bytes", MaxSize))
	case !utf8.Valid(data):
		valid := data[:len(data)-len(bytes.TrimLeftFunc(data, func(r rune) bool { return r != utf8.RuneError }))]
		whole.line = 1 + bytes.Count(valid, []byte{'\n'})
		return nil, whole.wrap(errors.New("is not UTF-8"))
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithV4Defaults(), yaml.WithPlugin(depth{}))
	if err != nil {
		return nil, whole.wrap(err)
	}
	var first, second yaml.Node
	err = loader.Load(&first)
	switch {
	case errors.Is(err, io.EOF), err == nil && (len(first.Content) == 0 || value{node: first.Content[0]}.isEmpty()):
		return nil, whole.wrap(errors.New("is empty: it needs upstreams, such as {upstreams: {github: {policies: [10/s]}}}"))
	case err != nil:
		return nil, syntax(whole, err)
	}
	switch err := loader.Load(&second); {
	case err == nil:
		whole.line, whole.column = second.Line, second.Column
		return nil, whole.wrap(errors.New("a second document begins here: a file has one"))
	case !errors.Is(err, io.EOF):
		return nil, syntax(whole, err)
	}
	return first.Content[0], nil
}

// named matches the names of anchors, which the parser's errors repeat.
var named = regexp.MustCompile(`anchor '.*'`)

// syntax returns an error for text that is not YAML.
func syntax(at place, err error) error {
	message := err.Error()
	if e, ok := errors.AsType[*yaml.LoadError](err); ok {
		at.line, at.column, message = e.Mark.Line, e.Mark.Column, e.Message
		if e.ContextMsg != "" {
			message += ", " + e.ContextMsg
			if e.ContextMark.Line > 0 && e.ContextMark.Line != e.Mark.Line {
				message += fmt.Sprintf(" that begins on line %d", e.ContextMark.Line)
			}
		}
	}
	if strings.Contains(message, "cannot start any token") {
		message += "; YAML indents with spaces, and not with tabs"
	}
	return at.wrap(fmt.Errorf("is not YAML: %s", named.ReplaceAllString(message, "anchor")))
}

// depth bounds the nesting of values. It is a plugin of the parser.
type depth struct{}

// CheckDepth implements the plugin.
func (depth) CheckDepth(depth int, _ *yaml.DepthContext) error {
	if depth > maxDepth {
		return fmt.Errorf("more than %d levels of nesting", maxDepth)
	}
	return nil
}

// CheckAlias implements the plugin. Aliases are expanded, within a bound, only when they are read.
func (depth) CheckAlias(int, int) error { return nil }

// read reads the whole file.
func (f *File) read(v value) {
	var list, storesAt, otherwise, unpaced *value
	later := func(at **value) func(value) { return func(v value) { *at = &v } }
	ok := v.fields(map[string]func(value){
		"stores":    later(&storesAt),
		"store":     later(&otherwise),
		"upstreams": later(&list),
		"unpaced":   later(&unpaced),
	})
	if !ok {
		return
	}
	stores := make(map[string]*storeDef)
	if storesAt != nil {
		readStores(*storesAt, stores)
	}
	shared := memory
	if otherwise != nil {
		shared = storeOf(*otherwise, stores)
	}
	if list == nil {
		v.failf("has no upstreams: add one, such as upstreams: {github: {policies: [10/s]}}")
		return
	}
	names := known{stores, shared, &vendors{profiles(), constructors()}}
	hosts := make(map[string]place)
	list.entries("a mapping of names to upstreams", func(name string, at, v value) {
		switch {
		case len(f.upstreams) > maxUpstreams:
			return
		case len(f.upstreams) == maxUpstreams:
			at.failf("is too many: a file has at most %d upstreams", maxUpstreams)
		}
		u := readUpstream(name, at, v, names, hosts)
		f.upstreams = append(f.upstreams, u)
		f.byName[name] = u
	})
	if unpaced != nil {
		f.unpaced = hostsOf(*unpaced, hosts, true)
	}
	if len(f.upstreams) == 0 && v.count() == 0 {
		list.failf("names no upstream: add one, such as {github: {policies: [10/s]}}")
	}
	for _, s := range stores {
		if !s.used && v.count() == 0 {
			s.at.failf("is not used by any upstream: name it in the field store of an upstream or of the file, or remove it")
		}
	}
}

// Upstreams returns the names of the upstreams, in the order of the file.
func (f *File) Upstreams() []string {
	names := make([]string, 0, len(f.upstreams))
	for _, u := range f.upstreams {
		names = append(names, u.name)
	}
	return names
}

// Policies returns the policies of an upstream; none if the file does not have it.
func (f *File) Policies(upstream string) []policies.Policy {
	if u := f.byName[upstream]; u != nil {
		return slices.Clone(u.policies)
	}
	return nil
}

// Profile returns the profile for an upstream's replies; false if the file does not have the upstream.
func (f *File) Profile(upstream string) (policies.Profile, bool) {
	if u := f.byName[upstream]; u != nil {
		return u.profile, true
	}
	return policies.Profile{}, false
}

// Hosts returns the hosts of an upstream, as the file writes them.
func (f *File) Hosts(upstream string) []string {
	if u := f.byName[upstream]; u != nil {
		return slices.Clone(u.hosts)
	}
	return nil
}

// URL returns where a proxy, such as the command "headway serve", sends the requests to an upstream: the url that the file states, or https
// and the first of its hosts without a wildcard; nil if it states neither.
func (f *File) URL(upstream string) *url.URL {
	u := f.byName[upstream]
	switch {
	case u == nil:
		return nil
	case u.base != nil:
		return new(*u.base)
	}
	for _, host := range u.hosts {
		if !strings.HasPrefix(host, "*.") {
			return &url.URL{Scheme: "https", Host: host}
		}
	}
	return nil
}

// Store returns the name of an upstream's store: "memory" for the memory of each process, "" if the file does not have the upstream.
func (f *File) Store(upstream string) string {
	if u := f.byName[upstream]; u != nil {
		return u.store.name
	}
	return ""
}

// known writes the names of all upstreams.
func (f *File) names() string { return strings.Join(f.Upstreams(), ", ") }
