package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer/fleet"
)

// Source returns the origin of a process's policies.
func Source(p *fleet.Process) string {
	switch {
	case p.Source != "":
		return Clean(p.Source)
	case p.Version == "":
		return None
	}
	return "its code"
}

// writeSettings writes operators' settings, and when they end.
func writeSettings(b *strings.Builder, f *fleet.Snapshot, now time.Time) {
	if f.Settings.None() {
		return
	}
	b.WriteByte('\n')
	w := table(b)
	row(w, "SET BY HAND", "SCOPE", "WHAT IT IS", "SINCE", "ENDS")
	if s := f.Settings.Policies; s != nil {
		texts := []string{"none: nothing is limited"}
		if len(s.Policies) > 0 || s.Err != nil {
			texts = strings.Split(s.Text, "\n")
		}
		since, ends := instants(f, s, now)
		name := ""
		for _, text := range texts {
			what, scope := text, None
			if n := strings.LastIndex(text, ": "); len(s.Policies) == 0 || n < 0 {
				name = "all policies"
			} else if values, ok := strings.CutPrefix(text[:n], "for "); ok {
				scope, what = values, text[n+2:] // an override of the policy before
			} else {
				name, what, _ = strings.Cut(text, ": ")
			}
			row(w, Clean(name), Clean(scope), Clean(what)+unread(s), since, ends)
		}
	}
	for i := range f.Settings.Limits {
		s := &f.Settings.Limits[i]
		since, ends := instants(f, s, now)
		row(w, Clean(s.Policy), orNone(Scope(s.Scope)), Clean(strings.TrimPrefix(s.Text, s.Policy+": "))+unread(s), since, ends)
	}
	_ = w.Flush()
	if more := f.SetLimits - len(f.Settings.Limits); more > 0 {
		fmt.Fprintf(b, "and %s of single keys\n", Plural(int64(more), "more limit", "more limits"))
	}
}

// unread returns a note that a setting is unreadable here.
func unread(s *fleet.Setting) string {
	if s.Err == nil {
		return ""
	}
	return " (not in force: this version cannot read it)"
}

// instants returns when a setting was made, and when it ends, by the clock of now, which may differ from the store's.
func instants(f *fleet.Snapshot, s *fleet.Setting, now time.Time) (since, ends string) {
	since, ends = None, "when unset"
	if !s.Since.IsZero() {
		since = clock(now, now.Add(s.Since.Sub(f.Settings.At)))
	}
	if !s.Until.IsZero() {
		left := s.Until.Sub(f.Settings.At)
		ends = "in " + Duration(left) + ", at " + clock(now, now.Add(left))
	}
	return since, ends
}

// clock returns an instant for people, without the day if that is near.
func clock(now, at time.Time) string {
	layout := time.TimeOnly
	if d := at.Sub(now); d >= 12*time.Hour || d <= -12*time.Hour {
		layout = time.DateTime
	}
	return at.Format(layout)
}

// Disagrees returns a note that processes disagree; "" if they do not.
func Disagrees(f *fleet.Snapshot) string {
	if f.VersionCount < 2 {
		return ""
	}
	return fmt.Sprintf("processes disagree: %d versions of the policies are in use", f.VersionCount)
}

// writeDisagreements writes who has which policies.
func writeDisagreements(b *strings.Builder, f *fleet.Snapshot) {
	text := Disagrees(f)
	if text == "" {
		return
	}
	fmt.Fprintf(b, "\n%s. This is normal during a rolling deployment, and for a minute after a change.\n", strings.ToUpper(text[:1])+text[1:])
	for i := range f.Disagreements {
		d := &f.Disagreements[i]
		for _, side := range d.Sides {
			fmt.Fprintf(b, "  %s\n", sentence(d.Policy, &side))
		}
		if lacks(d) {
			fmt.Fprintf(b, "  processes without %s do not charge their calls to it: more calls may start than it admits\n", Clean(d.Policy))
		}
		if d.ScopesDiffer {
			fmt.Fprintf(b, "  %s has different scopes, and so separate accounts: more calls may start than either admits\n", Clean(d.Policy))
		}
	}
	if len(f.Disagreements) == 0 {
		b.WriteString("  which policies differ is not known: they are too many to record\n")
	}
}

func lacks(d *fleet.Disagreement) bool {
	for i := range d.Sides {
		if d.Sides[i].Text == "" {
			return true
		}
	}
	return false
}

// sentence returns what some processes have.
func sentence(policy string, side *fleet.Side) string {
	names := make([]string, 0, len(side.Names))
	for _, name := range side.Names {
		names = append(names, Clean(name))
	}
	who := strings.Join(names, ", ")
	if more := side.Processes - len(names); more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	verb := "have"
	if side.Processes == 1 {
		verb = "has"
	}
	if side.Text != "" {
		return fmt.Sprintf("%s %s `%s`", who, verb, Clean(side.Text))
	}
	return fmt.Sprintf("%s %s no policy %s", who, verb, Clean(policy))
}
