package simulate

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
)

// write prints a result for people.
func write(w io.Writer, r *Result, charts bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s from %s, in virtual time\n\n", long(r.For), r.Start.Format("2006-01-02 15:04:05 MST"))
	r.writeCalls(&b)
	r.writePolicies(&b)
	r.writeLoads(&b)
	r.writeSpent(&b)
	if charts {
		r.writeCharts(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func table(b *strings.Builder) *tabwriter.Writer { return tabwriter.NewWriter(b, 0, 0, 2, ' ', 0) }

func (r *Result) writeCalls(b *strings.Builder) {
	t := table(b)
	row := func(name, format string, args ...any) { _, _ = fmt.Fprintf(t, name+"\t"+format+"\n", args...) } // to memory
	row("offered", "%d calls, %s/s", r.Offered, rate(float64(r.Offered)/r.For))
	row("admitted", "%d calls, %s/s", r.Admitted, rate(r.Goodput))
	row("refused", "%d calls%s", r.Refused, of(r.Refused, r.Offered))
	row("waiting", "%s calls on average, %d at most, %d at the end", report.Number(r.Queue.Mean), r.Queue.Max, r.Waiting)
	row("waits", "p50 %s, p95 %s, p99 %s, max %s", wait(r.Waits.P50), wait(r.Waits.P95), wait(r.Waits.P99), wait(r.Waits.Max))
	_ = t.Flush() // to memory
	b.WriteByte('\n')
}

// of returns n as a part of all, if any.
func of(n, all int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %s of the calls offered", percent(float64(n)/float64(all)))
}

func (r *Result) writePolicies(b *strings.Builder) {
	t := table(b)
	_, _ = fmt.Fprintln(t, "POLICY\tUSED\tDELAYED\tP50\tP95\tP99\tMAX\tREFUSED")
	for i := range r.Policies {
		p := &r.Policies[i]
		used := percent(p.Utilization)
		if p.Limits > 1 {
			used += fmt.Sprintf(", the busiest of %d: %s", p.Limits, percent(p.Busiest))
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\n", report.Clean(p.Text), used, p.Waits.Calls, percentiles(&p.Waits), p.Refused)
	}
	_ = t.Flush()
	b.WriteByte('\n')
}

func (r *Result) writeLoads(b *strings.Builder) {
	if len(r.Loads) < 2 {
		return
	}
	t := table(b)
	_, _ = fmt.Fprintln(t, "LOAD\tOFFERED\tADMITTED\tPER SECOND\tP50\tP95\tP99\tMAX\tREFUSED")
	for i := range r.Loads {
		l := &r.Loads[i]
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%d\n", report.Clean(l.Name), l.Offered, l.Admitted, rate(l.Goodput), percentiles(&l.Waits), l.Refused)
	}
	_ = t.Flush()
	b.WriteByte('\n')
}

func (r *Result) writeSpent(b *strings.Builder) {
	for i := range r.Policies {
		s := r.Policies[i].Spent
		if s == nil {
			continue
		}
		when := func(seconds float64) string { return r.Start.Add(span(seconds)).Format("2006-01-02 15:04:05") }
		fmt.Fprintf(b, "%s is spent after %s, at %s; calls can start again at %s.\n",
			r.Policies[i].Policy, long(s.At), when(s.At), when(s.Until))
		if s.Times > 1 {
			fmt.Fprintf(b, "This happens %d times, for %s in all.\n", s.Times, long(s.For))
		}
		b.WriteByte('\n')
	}
}

func percentiles(w *Waits) string {
	if w.Calls == 0 {
		return strings.Join([]string{report.None, report.None, report.None, report.None}, "\t")
	}
	return strings.Join([]string{wait(w.P50), wait(w.P95), wait(w.P99), wait(w.Max)}, "\t")
}

// wait prints a wait with three digits, or as a report does if it is longer than a minute.
func wait(seconds float64) string {
	d := span(seconds)
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return long(seconds)
}

// long prints a longer time, without that of a request to the store.
func long(seconds float64) string {
	d := span(seconds)
	if d > time.Second {
		d = d.Truncate(10 * time.Millisecond)
	}
	return report.Duration(d)
}

func rate(perSecond float64) string { return fmt.Sprintf("%.2f", perSecond) }

func percent(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }

// span returns seconds as a duration.
func span(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond)
}
