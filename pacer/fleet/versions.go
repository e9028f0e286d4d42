package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// compare finds the policies that processes have, and disagreements about them.
func (v *view) compare(index *store.Index) {
	byID := make(map[string]*version)
	for i := range index.Processes {
		one := &index.Processes[i]
		if one.Version == "" {
			continue
		}
		its := byID[one.Version]
		if its == nil {
			its = &version{id: one.Version, texts: one.Policies}
			byID[one.Version] = its
		}
		its.add(printable(cmp.Or(one.Name, one.ID)))
	}
	all := slices.SortedFunc(maps.Values(byID), func(a, b *version) int {
		return cmp.Or(b.n-a.n, strings.Compare(a.id, b.id))
	})
	v.VersionCount = len(all)
	for _, one := range all[:min(len(all), MaxShownVersions)] {
		shown := Version{ID: printable(one.id), Processes: one.n, Names: one.names}
		for _, text := range one.texts {
			shown.Policies = append(shown.Policies, printableText(text))
		}
		if shown.Policies == nil && one.texts != nil {
			shown.Policies = []string{}
		}
		v.Versions = append(v.Versions, shown)
	}
	if len(all) > 1 {
		v.Disagreements = disagreements(all)
	}
}

// A version is a list of policies, and the processes that have it.
type version struct {
	id    string
	texts []string // nil if they are not known
	side
}

// A side is some processes.
type side struct {
	n     int
	names []string
}

func (s *side) add(names ...string) {
	s.n += len(names)
	s.names = append(s.names, names[:min(len(names), MaxShownNames-len(s.names))]...)
}

// join adds the processes of another side.
func (s *side) join(o *side) {
	s.n += o.n
	s.names = append(s.names, o.names[:min(len(o.names), MaxShownNames-len(s.names))]...)
}

// disagreements returns the policies about which versions disagree, by name.
func disagreements(all []*version) []Disagreement {
	known := slices.DeleteFunc(slices.Clone(all), func(one *version) bool { return one.texts == nil })
	texts := make([]map[string]string, len(known)) // of each version, by name
	names := make(map[string]bool)
	for i, one := range known {
		texts[i] = make(map[string]string)
		for _, text := range one.texts {
			name, _, _ := strings.Cut(text, ":")
			texts[i][name], names[name] = text, true
		}
	}
	var found []Disagreement
	for _, name := range slices.Sorted(maps.Keys(names)) {
		sides := make(map[string]*side)
		for i, one := range known {
			text := texts[i][name]
			if sides[text] == nil {
				sides[text] = &side{}
			}
			sides[text].join(&one.side)
		}
		if len(sides) < 2 {
			continue
		}
		if len(found) == MaxShownDisagreements {
			break
		}
		found = append(found, disagreement(name, sides))
	}
	return found
}

func disagreement(name string, sides map[string]*side) Disagreement {
	d := Disagreement{Policy: printable(name)}
	scopes, first := "", true
	for _, text := range slices.Sorted(maps.Keys(sides)) {
		one := sides[text]
		d.Sides = append(d.Sides, Side{Text: printableText(text), Processes: one.n, Names: one.names})
		policy, err := policies.Parse(text)
		if text == "" || err != nil {
			continue
		}
		of := strings.Join(policy.Scopes(), " ")
		d.ScopesDiffer = d.ScopesDiffer || !first && of != scopes
		scopes, first = of, false
	}
	slices.SortStableFunc(d.Sides, func(a, b Side) int { return b.Processes - a.Processes })
	d.Sides = d.Sides[:min(len(d.Sides), MaxShownVersions)]
	return d
}

// maxText bounds the shown bytes of a policy's text.
const maxText = 1000

// printableText returns a policy's text that can be shown anywhere.
func printableText(text string) string {
	return strings.ToValidUTF8(printed(text[:min(len(text), maxText)]), "?")
}
