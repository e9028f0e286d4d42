package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

func (a *app) set() *cobra.Command {
	var texts []string
	var yes bool
	cmd := &cobra.Command{
		Use:   "set UPSTREAM --policy TEXT",
		Short: "Set the policies of an upstream, for every process",
		Long: `Set the policies of an upstream for every process that paces it, including those that start later. They replace all policies that
the processes declare, until headway unset. Give the complete list: a policy that you leave out no longer limits anything. Waiting
calls follow within a second. The command shows what changes, and asks for confirmation.

Write a policy as headway status shows it, with its name: "peak: 25 per 1s, burst 10, per tenant". Other numbers for single keys come
behind it, with a quoted value for each of its scopes: 'for "acme": 50 per 1s'. Overrides in the code of the processes do not apply.`,
		Example: `  headway set zendesk --policy "peak: 20 per 1s" --policy "daily: 100000 daily (UTC)"` + "\n" +
			`  headway set crm --policy "tenant: 5 per 1s, per tenant" --policy 'for "acme": 50 per 1s'` + "\n" +
			`  headway set zendesk --policy "peak: 5 per 1s" --yes`,
		Args:              exactly(1),
		ValidArgsFunction: a.completeUpstream,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := parsePolicies(texts)
			if err != nil {
				return err
			}
			if !yes && !isTerminal(a.env.In) {
				return usagef("set asks for confirmation, and there is no terminal: add --yes to replace the policies of %s",
					report.Clean(args[0]))
			}
			if !yes {
				if err := a.askToSet(cmd.Context(), args[0], list); err != nil {
					return err
				}
			}
			return a.onUpstream(cmd.Context(), args[0], nil, func(ctx context.Context, on *on) error {
				return a.changed(ctx, on, on.SetPolicies(ctx, list...), report.Clean(on.snapshot.Upstream)+": the policies are set for every process")
			})
		},
	}
	cmd.Flags().StringArrayVar(&texts, "policy", nil, "a policy with its name, such as \"peak: 25 per 1s\", or the numbers of a key of the one before; may be repeated")
	a.complete(cmd, "policy", cobra.ShellCompDirectiveNoFileComp, func(f *fleet.Snapshot) (all []string) {
		for _, p := range wholePolicies(f) {
			all = append(all, p.String())
		}
		return all
	})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

// parsePolicies reads the policies of the command line, with their bursts in this stack.
func parsePolicies(texts []string) ([]policies.Policy, error) {
	if len(texts) == 0 {
		return nil, usagef("set needs --policy, such as --policy \"peak: 25 per 1s, burst 10\"; " +
			"to return to the policies that processes declare, use unset")
	}
	list, err := policies.ParseLines(texts...)
	if err != nil {
		return nil, usagef("--policy %w", err)
	}
	return policies.Stacked(list), nil
}

// wholePolicies returns the policies of an upstream, without the parts of lanes.
func wholePolicies(f *fleet.Snapshot) (all []policies.Policy) {
	parts := make(map[string]bool)
	for i := range f.Policies {
		p := f.Policies[i].Policy
		for _, lane := range p.Lanes() {
			if part, ok := p.InLane(lane); ok {
				parts[part.Name()] = true
			}
		}
	}
	for i := range f.Policies {
		if p := f.Policies[i].Policy; !parts[p.Name()] {
			all = append(all, p)
		}
	}
	return all
}

// askToSet shows what setting policies would change, and requires a "yes".
func (a *app) askToSet(ctx context.Context, upstream string, list []policies.Policy) error {
	err := a.onUpstream(ctx, upstream, nil, func(_ context.Context, on *on) error {
		var b strings.Builder
		fmt.Fprintf(&b, "This sets the policies of %s, in %s:\n", upstream, report.Plural(int64(on.snapshot.Alive), "process", "processes"))
		before := wholePolicies(on.snapshot)
		for _, p := range list {
			i := slices.IndexFunc(before, func(old policies.Policy) bool { return old.Name() == p.Name() })
			was := "new"
			if i >= 0 {
				was = "was " + report.Describe(before[i])
			}
			fmt.Fprintf(&b, "  %s: %s (%s)\n", p.Name(), report.Describe(p), was)
			if lines, err := p.Lines(); err == nil {
				for _, line := range lines[1:] {
					fmt.Fprintf(&b, "    %s\n", report.Clean(line))
				}
			}
		}
		for _, old := range before {
			if !slices.ContainsFunc(list, func(p policies.Policy) bool { return old.Name() == p.Name() }) {
				fmt.Fprintf(&b, "  %s is removed (was %s)\n", old.Name(), report.Describe(old))
			}
		}
		b.WriteString("Type yes to continue: ")
		_, err := io.WriteString(a.env.Err, b.String())
		return err
	})
	if err != nil {
		return err
	}
	return a.answer(ctx, "nothing was set")
}

func (a *app) unset() *cobra.Command {
	return &cobra.Command{
		Use:   "unset UPSTREAM",
		Short: "Return to the policies that processes declare",
		Long: `Undo headway set: each process uses the policies that its code or file declares. Limits that headway limit has set for single keys
stay: undo those with headway unlimit.`,
		Example:           "  headway unset zendesk",
		Args:              exactly(1),
		ValidArgsFunction: a.completeUpstream,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onUpstream(cmd.Context(), args[0], nil, func(ctx context.Context, on *on) error {
				done := on.snapshot.Upstream + ": each process uses its own policies again"
				if on.snapshot.Settings == nil || on.snapshot.Settings.Policies == nil {
					done = "no policies were set for " + on.snapshot.Upstream
				}
				return a.changed(ctx, on, on.UnsetPolicies(ctx), done)
			})
		},
	}
}

func (a *app) limit() *cobra.Command {
	var scopes []string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use:   "limit UPSTREAM POLICY TEXT --scope NAME=VALUE",
		Short: "Set the numbers of a policy for one key, such as one tenant",
		Long: `Set the numbers of a policy for one key, in every process. --scope gives the key, with a value for each scope of the policy. The
numbers hold for the time of --for, or else until headway unlimit. The policy stays as it is for all other keys.`,
		Example: `  headway limit zendesk tenant "50 per 1s, burst 10" --scope tenant=acme` + "\n" +
			`  headway limit zendesk tenant "1 per 1s" --scope tenant=acme --for 2h`,
		Args:              exactly(3),
		ValidArgsFunction: a.completeKeyed,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("for") && lasts <= 0 {
				return usagef("--for is %s: write a positive duration, such as 30m or 2h, or leave it out", lasts)
			}
			with, err := parseNumbers(args[1], args[2])
			if err != nil {
				return err
			}
			return a.onKey(cmd.Context(), args[0], args[1], scopes, func(ctx context.Context, on *on) error {
				err := on.SetLimit(ctx, args[1], with, lasts, on.opts...)
				done := fmt.Sprintf("%s: %s has %s%s", on.snapshot.Upstream, args[1], report.Describe(with), on.describe())
				if lasts > 0 {
					done += " " + report.Until(time.Now(), lasts)
				}
				return a.changed(ctx, on, err, done)
			})
		},
	}
	a.scopeFlag(cmd, &scopes)
	cmd.Flags().DurationVar(&lasts, "for", 0, "how long the numbers hold, such as 2h (default: until unlimit)")
	return cmd
}

// parseNumbers reads a key's new numbers: a policy with its name, or without.
func parseNumbers(policy, text string) (policies.Policy, error) {
	name, rest, named := strings.Cut(text, ":")
	if named && strings.TrimSpace(name) == policy {
		text = rest
	}
	with, err := policies.Parse(strings.TrimSpace(text))
	if err != nil {
		return with, usagef("the limit %q: %w", report.Clean(text), err)
	}
	return with, nil
}

func (a *app) unlimit() *cobra.Command {
	var scopes []string
	cmd := &cobra.Command{
		Use:               "unlimit UPSTREAM POLICY --scope NAME=VALUE",
		Short:             "Remove the numbers that limit has set for one key",
		Long:              `Undo headway limit for one key: the numbers of its policy hold for it again.`,
		Example:           "  headway unlimit zendesk tenant --scope tenant=acme",
		Args:              exactly(2),
		ValidArgsFunction: a.completeKeyed,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onKey(cmd.Context(), args[0], args[1], scopes, func(ctx context.Context, on *on) error {
				done := fmt.Sprintf("%s: %s has its own numbers again%s", on.snapshot.Upstream, args[1], on.describe())
				return a.changed(ctx, on, on.UnsetLimit(ctx, args[1], on.opts...), done)
			})
		},
	}
	a.scopeFlag(cmd, &scopes)
	return cmd
}

// onKey reads an upstream, and calls f if the scopes are exactly those of a policy.
func (a *app) onKey(ctx context.Context, upstream, policy string, scopes []string, f func(context.Context, *on) error) error {
	return a.onUpstream(ctx, upstream, scopes, func(ctx context.Context, on *on) error {
		if _, err := on.choose([]string{policy}); err != nil {
			return err
		}
		for i := range on.snapshot.Policies {
			if p := on.snapshot.Policies[i].Policy; p.Name() == policy && len(p.Scopes()) == 0 {
				return usagef("policy %s has no scopes: to change it for the whole upstream, use headway set", policy)
			}
		}
		return f(ctx, on)
	})
}

// completeKeyed completes an upstream, and then a policy that has scopes.
func (a *app) completeKeyed(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return a.completeUpstream(cmd, args, text)
	}
	return a.withStore(cmd.Context(), func(ctx context.Context, store Store) (names []string) {
		op, err := store.Operator(ctx, args[0])
		if err != nil {
			return nil
		}
		f, err := op.Snapshot(ctx)
		if err != nil {
			return nil
		}
		for _, p := range wholePolicies(f) {
			if len(p.Scopes()) > 0 {
				names = append(names, p.Name())
			}
		}
		return names
	}), cobra.ShellCompDirectiveNoFileComp
}

// changed prints what was done, or the present settings as JSON.
func (a *app) changed(ctx context.Context, on *on, err error, done string) error {
	if bad, ok := errors.AsType[*pacer.ConfigError](err); ok {
		return &coded{ExitUsage, bad}
	}
	if full, ok := errors.AsType[*store.SettingsError](err); ok {
		return fmt.Errorf("%w: see headway status, and headway unlimit", full)
	}
	if err != nil {
		return a.explain(err)
	}
	if a.json {
		settings, err := on.Settings(ctx)
		if err != nil {
			return a.explain(err)
		}
		return a.printJSON(settings)
	}
	_, err = fmt.Fprintln(a.env.Out, done)
	return err
}
