package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
)

func (a *app) learn() *cobra.Command {
	return &cobra.Command{
		Use:   "learn UPSTREAM",
		Short: "Print what replies stated of limits as policies for headway.yaml",
		Long: `Print what replies to the processes of an upstream stated of its limits as policies for headway.yaml, with the evidence for each: how
much is allowed and in how much time, as stated, or the longest reset, rounded up to a usual period; how many readings, and since when.
Check them against what the vendor documents. It sets nothing.`,
		Example:           "  headway learn zendesk",
		Args:              exactly(1),
		ValidArgsFunction: a.completeUpstream,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onUpstream(cmd.Context(), args[0], nil, func(_ context.Context, on *on) error {
				if a.json {
					return a.printJSON(on.snapshot)
				}
				return report.Policies(a.env.Out, on.snapshot)
			})
		},
	}
}
