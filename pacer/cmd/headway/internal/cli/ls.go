package cli

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
	"github.com/headway-go/headway/pacer/fleet"
)

// A listing is what ls prints as JSON.
type listing struct {
	Upstreams []listed `json:"upstreams"`
}

// A listed upstream is one line of a listing.
type listed struct {
	Upstream       string   `json:"upstream"`
	Alive          int      `json:"alive"`
	Policies       int      `json:"policies"`
	Waiting        int64    `json:"waiting"`
	PausedSeconds  float64  `json:"pausedSeconds"`
	PausedPolicies []string `json:"pausedPolicies"`

	paused string
}

func (a *app) ls() *cobra.Command {
	return &cobra.Command{
		Use:               "ls",
		Short:             "List the upstreams that processes pace",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.list(cmd) },
	}
}

func (a *app) list(cmd *cobra.Command) error {
	ctx, store, done, err := a.open(cmd.Context())
	if err != nil {
		return err
	}
	defer done()
	names, err := store.Upstreams(ctx)
	if err != nil {
		return a.explain(err)
	}
	l := listing{Upstreams: []listed{}}
	for _, name := range names {
		op, err := store.Operator(ctx, name)
		if isUnknown(err) {
			continue // its last process has ended since
		}
		if err != nil {
			return a.explain(err)
		}
		f, err := op.Snapshot(ctx)
		if err != nil {
			return a.explain(err)
		}
		l.Upstreams = append(l.Upstreams, listOne(f))
	}
	if a.json {
		return a.printJSON(l)
	}
	return a.printListing(l)
}

func listOne(f *fleet.Snapshot) listed {
	one := listed{
		Upstream: f.Upstream, Alive: f.Alive, Policies: len(f.Policies), PausedSeconds: f.PausedFor.Seconds(),
		PausedPolicies: []string{}, Waiting: f.Waiters(),
	}
	one.paused = report.Paused(f.PausedFor)
	for i := range f.Policies {
		p := &f.Policies[i]
		if p.PausedFor > 0 && !report.PerKey(p) {
			one.PausedPolicies = append(one.PausedPolicies, p.Policy.Name())
			if f.PausedFor == 0 {
				one.paused = report.Plural(int64(len(one.PausedPolicies)), "policy", "policies")
			}
		}
	}
	return one
}

func (a *app) printListing(l listing) error {
	if len(l.Upstreams) == 0 {
		_, err := fmt.Fprintf(a.env.Out, "No process paces an upstream through the Redis at %s.\n", a.place())
		return err
	}
	w := tabwriter.NewWriter(a.env.Out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "UPSTREAM\tPROCESSES\tPOLICIES\tWAITING\tPAUSED") // Flush returns errors
	for _, one := range l.Upstreams {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", one.Upstream, one.Alive, one.Policies, report.Count(one.Waiting), one.paused)
	}
	return w.Flush()
}
