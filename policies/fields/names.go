package fields

import "strings"

// Names are the names of resources in an API's paths. Every other element of a path is an id.
type Names map[string]struct{}

// NamesOf returns the names in a text, which are separated by white space.
func NamesOf(text string) Names {
	names := make(Names)
	for name := range strings.FieldsSeq(text) {
		names[name] = struct{}{}
	}
	return names
}

// Template returns the elements of a path, joined, with a * in place of each id. It keeps the first elements, at most first: the version
// and the resource, to which a service may add new ones. It also keeps empty elements.
func (n Names) Template(path []string, first int) string {
	var b strings.Builder
	for i, part := range path {
		if i > 0 {
			b.WriteByte('/')
		}
		if _, known := n[part]; known || part == "" || i < first {
			b.WriteString(part)
		} else {
			b.WriteByte('*')
		}
	}
	return b.String()
}
