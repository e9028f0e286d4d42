package fields

import "strings"

// Names are the names of resources in an API's paths. Every other element of a path is an id.
type Names map[string]struct{}

// NamesOf returns the names that blanks part.
func NamesOf(text string) Names {
	names := make(Names)
	for name := range strings.FieldsSeq(text) {
		names[name] = struct{}{}
	}
	return names
}

// Template returns the elements of a path, joined, with a * for each that is an id. The first so many elements are kept as they are:
// version and resource, of which a service may add new ones. An empty element is kept, too.
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
