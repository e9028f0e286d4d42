package binding

import (
	"hash/fnv"
	"strings"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// maxShown bounds the bytes of a scope value that are shown.
const maxShown = 64

// Describe returns the scopes of a limit and their values, for people.
func (s *Set) Describe(l *store.Limit) string {
	if of := s.byName[readings.PolicyOf(l.Policy)]; of != nil {
		return Describe(of.Scopes, l.Scope)
	}
	if by := readings.ApartBy(l.Policy); by != "" {
		return Describe([]string{by}, l.Scope)
	}
	return l.Scope // of a policy that only another process has
}

// Describe returns scopes and their values, which are escaped, for people.
func Describe(scopes []string, scope string) string {
	values := strings.Split(scope, ":") // what EscapeScope joined, unless it was hashed
	var b strings.Builder
	for i, name := range scopes {
		if i > 0 {
			b.WriteByte(' ')
		}
		v := scope
		if len(values) == len(scopes) {
			v = values[i]
		}
		if len(v) > maxShown {
			v = v[:maxShown] + "…"
		}
		b.WriteString(name + "=" + v)
	}
	return b.String()
}

// FlowOf returns the number of a scope value's fair share: the same in every process, from 1 to 2^53. Values that collide have one share.
func FlowOf(value string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(value))
	return int64(h.Sum64()>>12) + 1
}
