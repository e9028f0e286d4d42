package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
)

// Text writes f as tables, for people. Instants are by the clock of now.
func Text(w io.Writer, f *fleet.Snapshot, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", f.Upstream, Summary(f))
	if f.PausedFor > 0 {
		fmt.Fprintf(&b, "paused: the whole upstream, %s%s\n", Until(now, f.PausedFor), By(f.PausedBy))
	}
	fmt.Fprintf(&b, "binding: %s\n", Binding(f))
	b.WriteByte('\n')
	writePolicies(&b, f, now)
	writeAllowances(&b, f, now)
	writeSettings(&b, f, now)
	writeDisagreements(&b, f)
	for _, text := range f.Unknown {
		fmt.Fprintf(&b, "Not shown, because this version cannot read it (another version wrote it, or its time zone has no name): %s\n", Clean(text))
	}
	writeTopKeys(&b, f)
	writeCallers(&b, f)
	writeLearned(&b, f)
	writeProcesses(&b, f)
	_, err := io.WriteString(w, b.String())
	return err
}

// Summary returns the numbers of processes and of waiting calls.
func Summary(f *fleet.Snapshot) string {
	return Plural(int64(f.Alive), "process paces", "processes pace") + " it, " + Plural(f.Waiters(), "call waits", "calls wait")
}

// Binding returns the policy that most calls wait for.
func Binding(f *fleet.Snapshot) string {
	p := f.Binding()
	switch {
	case p == nil:
		return "no policy makes a call wait"
	case p.Waiting == 0:
		return p.Policy.Name() + " made calls wait in the last seconds, and none waits now"
	}
	return p.Policy.Name() + ", " + Plural(p.Waiting, "call waits", "calls wait") + " for it"
}

// table returns a writer that aligns cells which end in a tab.
func table(b *strings.Builder) *tabwriter.Writer { return tabwriter.NewWriter(b, 0, 0, 2, ' ', 0) }

func row(w io.Writer, cells ...string) {
	_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // to a strings.Builder, which does not fail
}

func writePolicies(b *strings.Builder, f *fleet.Snapshot, now time.Time) {
	if len(f.Policies) == 0 {
		b.WriteString("It has no policies: pauses hold calls, and what replies state.\n")
		return
	}
	w := table(b)
	row(w, "POLICY", "SCOPE", "PACE", "LIMIT", "USED", "LEFT", "NEXT", "AHEAD", "QUEUED", "WAITING", "PAUSED", "WHAT IT IS")
	hidden, idle := false, []string(nil)
	for i := range f.Policies {
		p := &f.Policies[i]
		hidden = hidden || PerKey(p)
		if !p.Shown {
			if p.Waiting == 0 && p.Rate(fleet.HistorySeconds) == 0 {
				idle = append(idle, p.Policy.Name())
				continue
			}
			row(w, p.Policy.Name(), "per "+strings.Join(p.Policy.Scopes(), "+"), Pace(p), Limit(p)+" each",
				None, None, None, None, None, Count(p.Waiting), None, Describe(p.Policy))
			continue
		}
		limit := Limit(p)
		if len(p.Policy.Scopes()) > 0 {
			limit += " each"
		}
		row(w, p.Policy.Name(), orNone(Scope(p.Scope)), Pace(p), limit, Percent(Used(p)), Count(p.Remaining), Next(p.Next),
			Count(p.Backlog), Count(p.Queued), Count(p.Waiting), Paused(p.PausedFor), Describe(p.Policy)+also(Gone(now, p))+also(Lowered(p))+also(Margin(p))+also(PausedBy(now, p)))
	}
	_ = w.Flush()
	if len(idle) > 0 {
		b.WriteString("Idle, with no key that has spent anything lately: " + strings.Join(idle, ", ") + ".\n")
	}
	if hidden {
		b.WriteString("Each key of a policy with scopes has its own state. You see the one that uses most of its limit: choose another with --scope, such as " + example(f) + ".\n")
	}
}

// writeAllowances writes what the upstream stated as left of its limits.
func writeAllowances(b *strings.Builder, f *fleet.Snapshot, now time.Time) {
	if len(f.Allowances) == 0 {
		return
	}
	b.WriteByte('\n')
	w := table(b)
	row(w, "SAID TO BE LEFT", "SCOPE", "LEFT", "FREE", "HOLDS", "SAID BY")
	for i := range f.Allowances {
		a := &f.Allowances[i]
		row(w, Allowed(a), orNone(Scope(a.Scope)), Count(a.Left), Count(a.Free), Until(now, a.For), orNone(Clean(a.Source)))
	}
	_ = w.Flush()
}

// example returns a scope with a value: of the busiest key, or else of the first policy that has one.
func example(f *fleet.Snapshot) string {
	if len(f.TopKeys) > 0 && len(f.TopKeys[0].Policy.Scopes()) == 1 {
		return Scope(f.TopKeys[0].Scope)
	}
	for i := range f.Policies {
		if PerKey(&f.Policies[i]) {
			return f.Policies[i].Policy.Scopes()[0] + "=VALUE"
		}
	}
	return None
}

func writeTopKeys(b *strings.Builder, f *fleet.Snapshot) {
	if len(f.TopKeys) == 0 {
		return
	}
	b.WriteByte('\n')
	w := table(b)
	row(w, "BUSIEST KEY", "POLICY", "LAST MINUTE", "LEFT", "NEXT", "QUEUED", "WAITING", "PAUSED")
	for i := range f.TopKeys {
		k := &f.TopKeys[i]
		row(w, Scope(k.Scope), k.Policy.Name(), Count(k.Cost), Count(k.Remaining), Next(k.Next), Count(k.Queued), Count(k.Waiting),
			Paused(k.PausedFor))
	}
	_ = w.Flush()
}

func writeCallers(b *strings.Builder, f *fleet.Snapshot) {
	if len(f.Callers) == 0 {
		return
	}
	b.WriteByte('\n')
	w := table(b)
	row(w, "CALLER", "POLICY", "LAST MINUTE")
	for _, c := range f.Callers {
		row(w, Clean(c.Name), c.Policy, Count(c.Cost))
	}
	_ = w.Flush()
}

func writeProcesses(b *strings.Builder, f *fleet.Snapshot) {
	if len(f.Processes) == 0 {
		return
	}
	b.WriteByte('\n')
	w := table(b)
	row(w, "PROCESS", "FOR", "WAITING", "POLICIES FROM", "VERSION")
	for _, p := range f.Processes {
		row(w, orNone(Clean(p.Name)), Duration(p.For), Count(p.Waiting), Source(&p), orNone(Clean(p.Version)))
	}
	_ = w.Flush()
	if more := f.Alive - len(f.Processes); more > 0 {
		fmt.Fprintf(b, "and %d more\n", more)
	}
}

// Percent returns a part of one in per cent, if known.
func Percent(part float64, known bool) string {
	if !known {
		return None
	}
	return fmt.Sprintf("%.0f %%", math.Round(part*100))
}

// Paused returns how long a pause lasts.
func Paused(d time.Duration) string {
	switch {
	case d <= 0:
		return None
	case d >= pacer.Forever/2:
		return "forever"
	}
	return Duration(d)
}

func orNone(s string) string {
	if s == "" {
		return None
	}
	return s
}

// also returns a further remark; "" without one.
func also(s string) string {
	if s == "" {
		return ""
	}
	return "; " + s
}
