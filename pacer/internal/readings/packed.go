package readings

import "github.com/headway-go/headway/pacer/store"

// Bounds of one report.
const (
	// MaxNotes is how many notes it has at most.
	MaxNotes = 128
	// MaxLimits is how many limits it is about at most.
	MaxLimits = 64
)

// A Report is notes about limits of a stack.
type Report struct {
	Limits []store.Limit
	Notes  []store.Note
}

// Reports are notes about any limits, in order, in pieces that a store can take at once.
type Reports struct {
	All    []Report
	places map[store.Key]int // of the last report's limits
}

// Add adds notes about one limit. They stay together, if they are no more than a report may have.
func (m *Reports) Add(l *store.Limit, notes ...store.Note) {
	for len(notes) > MaxNotes {
		m.Add(l, notes[:MaxNotes]...)
		notes = notes[MaxNotes:]
	}
	if len(notes) == 0 {
		return
	}
	if n := len(m.All) - 1; n < 0 || len(m.All[n].Limits) == MaxLimits || len(m.All[n].Notes)+len(notes) > MaxNotes {
		m.All, m.places = append(m.All, Report{}), make(map[store.Key]int)
	}
	last := &m.All[len(m.All)-1]
	at, known := m.places[l.Key()]
	if !known {
		at = len(last.Limits)
		m.places[l.Key()], last.Limits = at, append(last.Limits, *l)
	}
	for _, n := range notes {
		n.Limit = at
		last.Notes = append(last.Notes, n)
	}
}
