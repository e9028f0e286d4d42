package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer/fleet"
)

func writeLearned(b *strings.Builder, f *fleet.Snapshot) {
	if len(f.Learned) == 0 {
		return
	}
	b.WriteByte('\n')
	w := table(b)
	row(w, "STATED BY REPLIES", "WHAT IT IS", "LONGEST RESET", "READINGS", "SINCE", "FROM")
	for i := range f.Learned {
		l := &f.Learned[i]
		about, what := orNone(l.Policy+l.Name), None
		if p, ok := l.As(); ok {
			about, what = p.Name(), Describe(p)
		}
		row(w, Clean(about), what, resets(l), Count(l.Readings), l.Since.Format(time.TimeOnly), orNone(Clean(l.Source)))
	}
	_ = w.Flush()
}

func resets(l *fleet.Learned) string {
	if l.Reset == 0 {
		return None
	}
	return Duration(l.Reset)
}

// Policies writes what was learned as a part of headway.yaml, with the evidence for each policy.
func Policies(w io.Writer, f *fleet.Snapshot) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# What replies stated, to the %s of %s. Check it, and copy what you accept into headway.yaml.\n",
		Plural(int64(f.Alive), "process", "processes"), f.Upstream)
	fmt.Fprintf(&b, "upstreams:\n  %s:\n", f.Upstream)
	accepted := 0
	for i := range f.Learned {
		l := &f.Learned[i]
		p, ok := l.As()
		if !ok {
			continue
		}
		if accepted++; accepted == 1 {
			b.WriteString("    policies:\n")
		}
		fmt.Fprintf(&b, "      - %q\n        # %s\n", p.String(), evidence(l))
	}
	if accepted == 0 {
		b.WriteString("    policies: none\n")
	}
	for i := range f.Learned {
		if l := &f.Learned[i]; l.Limit < 1 || l.Period() == 0 {
			fmt.Fprintf(&b, "    # of %s too little was stated: %s\n", orNone(Clean(l.Policy+l.Name)), evidence(l))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// evidence returns how a limit is known.
func evidence(l *fleet.Learned) string {
	var parts []string
	if l.Limit > 0 {
		parts = append(parts, fmt.Sprintf("limit %d stated", l.Limit))
	}
	switch {
	case l.Window > 0:
		parts = append(parts, "window "+Duration(l.Window)+" stated")
	case l.Reset > 0:
		parts = append(parts, "resets of up to "+Duration(l.Reset))
	}
	readings := Plural(l.Readings, "reading", "readings")
	if l.Source != "" {
		readings += " of " + Clean(l.Source)
	}
	parts = append(parts, readings+" from "+l.Since.UTC().Format(time.DateTime)+" to "+l.Last.UTC().Format(time.DateTime)+" UTC")
	if l.Window == 0 && !l.IsWhole() {
		parts = append(parts, "less than a period was seen: a longer reset may come")
	}
	return strings.Join(parts, "; ")
}
