package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
	"github.com/headway-go/headway/pacer/cmd/headway/internal/top"
)

func (a *app) top() *cobra.Command {
	var scopes []string
	var by string
	cmd := &cobra.Command{
		Use:   "top UPSTREAM",
		Short: "Show the state of an upstream, live",
		Long: `Show the state of an upstream, refreshed every second: for each policy the pace against the limit, queued and waiting calls,
pauses and the last minute; then the busiest keys, or with --by caller what callers spent, and the processes. Keys: arrows or tab to choose a policy, p to pause, r to resume,
? for help, q to quit. With --json it prints what status --json prints, once.`,
		Args:              exactly(1),
		ValidArgsFunction: a.completeUpstream,
		RunE: func(cmd *cobra.Command, args []string) error {
			if by != "key" && by != "caller" {
				return usagef("--by is %q: it must be key or caller", by)
			}
			return a.watch(cmd, args[0], scopes, by == "caller")
		},
	}
	a.scopeFlag(cmd, &scopes)
	cmd.Flags().StringVar(&by, "by", "key", "show the busiest keys (key), or what callers spent (caller)")
	return cmd
}

func (a *app) watch(cmd *cobra.Command, upstream string, scopes []string, byCaller bool) error {
	if a.json {
		return a.onUpstream(cmd.Context(), upstream, scopes, func(_ context.Context, on *on) error {
			return a.printJSON(on.snapshot)
		})
	}
	if !isTerminal(a.env.In) || !isTerminal(a.env.Out) {
		return usagef("top needs a terminal: use headway status %s", report.Clean(upstream))
	}
	var first *on
	err := a.onUpstream(cmd.Context(), upstream, scopes, func(_ context.Context, on *on) error {
		first = on
		return nil
	})
	if err != nil {
		return err
	}
	store, err := a.env.Open(a.where)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // nothing is under way any more
	return top.Run(cmd.Context(), top.Config{
		Upstream: upstream,
		Scopes:   first.opts,
		Snapshot: first.snapshot,
		ByCaller: byCaller,
		Timeout:  a.where.Timeout,
		Connect: func(ctx context.Context) (top.Operator, error) {
			return store.Operator(ctx, upstream)
		},
		In: a.env.In, Out: a.env.Out,
	})
}

// isTerminal reports whether somebody sits at it.
func isTerminal(x any) bool {
	f, ok := x.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
