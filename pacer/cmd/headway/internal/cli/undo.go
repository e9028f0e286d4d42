package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
)

func (a *app) resume() *cobra.Command {
	var scopes []string
	cmd := &cobra.Command{
		Use:   "resume UPSTREAM",
		Short: "Lift the pauses of an upstream",
		Long: `Lift the pause of the whole upstream and the pauses of its policies. Of a policy with scopes, only the pause of the key that --scope
gives is lifted. Calls that wait behind these pauses reserve again.`,
		Example:           "  headway resume zendesk\n  headway resume zendesk --scope tenant=acme",
		Args:              exactly(1),
		ValidArgsFunction: a.completeUpstream,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onUpstream(cmd.Context(), args[0], scopes, a.lift)
		},
	}
	a.scopeFlag(cmd, &scopes)
	return cmd
}

func (a *app) lift(ctx context.Context, on *on) error {
	before := on.pauses()
	if err := on.Resume(ctx, on.opts...); err != nil {
		return a.explain(err)
	}
	if err := on.look(ctx); err != nil {
		return a.explain(err)
	}
	if a.json {
		return a.printJSON(paused{on.snapshot.Upstream, on.pauses()})
	}
	if len(before) == 0 {
		_, err := fmt.Fprintf(a.env.Out, "%s was not paused%s\n", on.snapshot.Upstream, on.describe())
		return err
	}
	for _, p := range before {
		if _, err := fmt.Fprintf(a.env.Out, "%s is resumed; left of its pause: %s\n", p.of(on.snapshot.Upstream), report.Paused(p.wait)); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) reset() *cobra.Command {
	var scopes []string
	var yes bool
	cmd := &cobra.Command{
		Use:   "reset UPSTREAM",
		Short: "Forget what was charged, learned and paused",
		Long: `Forget what was charged to the policies of an upstream, what was learned about them, and their pauses. Of a policy with scopes,
only the key that --scope gives is reset; policies without scopes are always reset. The upstream itself does not forget what it has
counted: it may refuse calls until its own windows end. The command asks for confirmation.`,
		Example:           "  headway reset zendesk\n  headway reset zendesk --scope tenant=acme --yes",
		Args:              exactly(1),
		ValidArgsFunction: a.completeUpstream,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes && !isTerminal(a.env.In) {
				return usagef("reset asks for confirmation, and there is no terminal: add --yes to reset %s", report.Clean(args[0]))
			}
			if !yes {
				if err := a.ask(cmd.Context(), args[0], scopes); err != nil {
					return err
				}
			}
			return a.onUpstream(cmd.Context(), args[0], scopes, a.forget)
		},
	}
	a.scopeFlag(cmd, &scopes)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

// ask prints what a reset would forget, and requires a "yes". No timeout runs meanwhile.
func (a *app) ask(ctx context.Context, upstream string, scopes []string) error {
	err := a.onUpstream(ctx, upstream, scopes, func(_ context.Context, on *on) error {
		var b strings.Builder
		fmt.Fprintf(&b, "This resets %s%s, in %s. It forgets:\n", upstream, on.describe(), report.Plural(int64(on.snapshot.Alive), "process", "processes"))
		for _, p := range on.pauses() {
			fmt.Fprintf(&b, "  the pause of %s (left: %s)\n", p.of(upstream), report.Paused(p.wait))
		}
		for i := range on.snapshot.Policies {
			if p := &on.snapshot.Policies[i]; !report.PerKey(p) {
				fmt.Fprintf(&b, "  what was charged to %s (%s): %s left\n", p.Policy.Name(), report.Describe(p.Policy), report.Count(p.Remaining))
			}
		}
		b.WriteString("The upstream itself forgets nothing. Type yes to continue: ")
		_, err := io.WriteString(a.env.Err, b.String())
		return err
	})
	if err != nil {
		return err
	}
	return a.answer(ctx, "nothing was reset")
}

// errNotConfirmed is the error of a command that was not confirmed.
var errNotConfirmed = errors.New("the answer was not yes")

// answer returns an error about what did not happen, unless the user types yes.
func (a *app) answer(ctx context.Context, otherwise string) error {
	line := make(chan string, 1)
	go func() { // a read from a terminal cannot be interrupted: the goroutine ends with the process
		s, _ := bufio.NewReader(a.env.In).ReadString('\n')
		line <- s
	}()
	select {
	case s := <-line:
		if strings.EqualFold(strings.TrimSpace(s), "yes") {
			return nil
		}
	case <-ctx.Done():
	}
	return fmt.Errorf("%s: %w", otherwise, errNotConfirmed)
}

func (a *app) forget(ctx context.Context, on *on) error {
	if err := on.Reset(ctx, on.opts...); err != nil {
		return a.explain(err)
	}
	if err := on.look(ctx); err != nil {
		return a.explain(err)
	}
	if a.json {
		return a.printJSON(paused{on.snapshot.Upstream, on.pauses()})
	}
	_, err := fmt.Fprintf(a.env.Out, "%s is reset%s\n", on.snapshot.Upstream, on.describe())
	return err
}
