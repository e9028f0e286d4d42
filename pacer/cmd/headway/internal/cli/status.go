package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

func (a *app) status() *cobra.Command {
	var scopes []string
	cmd := &cobra.Command{
		Use:   "status UPSTREAM",
		Short: "Show the state of an upstream: its policies, which calls wait and for what, its processes",
		Long: `Show the state of an upstream across all its processes.

PACE is the cost per second of the calls that started in the last ten seconds, all keys of a policy together. LIMIT is what the
policy admits now, for each key. USED is the part of the limit in use: the pace for a rate, the cost spent for a window, the
permits taken for calls in flight. LEFT is how many calls of cost 1 may start now, and NEXT when the next one may. QUEUED is how many
calls are queued for a permit, a lane or a fair share, WAITING how many wait because of the policy, all keys together.`,
		Example:           "  headway status zendesk\n  headway status zendesk --scope tenant=acme --json",
		Args:              exactly(1),
		ValidArgsFunction: a.completeUpstream,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onUpstream(cmd.Context(), args[0], scopes, func(_ context.Context, on *on) error {
				if a.json {
					return a.printJSON(on.snapshot)
				}
				return report.Text(a.env.Out, on.snapshot, time.Now())
			})
		},
	}
	a.scopeFlag(cmd, &scopes)
	return cmd
}

// scopeFlag adds --scope.
func (a *app) scopeFlag(cmd *cobra.Command, scopes *[]string) {
	cmd.Flags().StringArrayVar(scopes, "scope", nil, "a scope and its value, such as tenant=acme; may be repeated")
	a.complete(cmd, "scope", cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace, func(f *fleet.Snapshot) []string {
		names := make(map[string]bool)
		for i := range f.Policies {
			for _, s := range f.Policies[i].Policy.Scopes() {
				names[s+"="] = true
			}
		}
		return slices.Sorted(maps.Keys(names))
	})
}

// on is the upstream of a command, and its present state.
type on struct {
	Operator

	snapshot *fleet.Snapshot
	scopes   map[string]string
	opts     []pacer.ScopeOption // the scopes
}

// onUpstream reads an upstream, and calls f if it exists and has these scopes.
func (a *app) onUpstream(ctx context.Context, upstream string, scopes []string, f func(context.Context, *on) error) error {
	o := &on{}
	var err error
	if o.scopes, o.opts, err = parseScopes(scopes); err != nil {
		return err
	}
	ctx, store, done, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	if o.Operator, err = store.Operator(ctx, upstream); isUnknown(err) {
		return a.unknown(ctx, store, upstream)
	} else if err != nil {
		return a.explain(err)
	}
	if err := o.look(ctx); err != nil {
		return a.explain(err)
	}
	if err := o.checkScopes(); err != nil {
		return err
	}
	return f(ctx, o)
}

func (o *on) look(ctx context.Context) error {
	f, err := o.Snapshot(ctx, o.opts...)
	if err != nil {
		return err
	}
	o.snapshot = f
	return nil
}

// parseScopes reads scopes of the form name=value.
func parseScopes(scopes []string) (map[string]string, []pacer.ScopeOption, error) {
	all := make(map[string]string)
	var opts []pacer.ScopeOption
	for _, s := range scopes {
		name, value, ok := strings.Cut(s, "=")
		if !ok || value == "" || !policies.ValidName(name) {
			return nil, nil, usagef("--scope is %q: write a name and a value, such as tenant=acme", s)
		}
		if _, twice := all[name]; twice {
			return nil, nil, usagef("--scope gives %s twice: a call has one %s", name, name)
		}
		all[name] = value
		opts = append(opts, pacer.Scope(name, value))
	}
	return all, opts, nil
}

// checkScopes returns an error for a scope of no policy.
func (o *on) checkScopes() error {
	known := make(map[string]bool)
	for i := range o.snapshot.Policies {
		for _, s := range o.snapshot.Policies[i].Policy.Scopes() {
			known[s] = true
		}
		if by := o.snapshot.Policies[i].Policy.FairBy(); by != "" && by != specs.PartyScope {
			known[by] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.scopes)) {
		if known[name] {
			continue
		}
		if len(known) == 0 {
			return usagef("no policy of %s is per %s: none has scopes, so leave --scope out", o.snapshot.Upstream, name)
		}
		return usagef("no policy of %s is per %s: its scopes are %s", o.snapshot.Upstream, name,
			strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return nil
}

// isUnknown reports whether an error means that no process paces the upstream.
func isUnknown(err error) bool {
	bad, ok := errors.AsType[*pacer.ConfigError](err)
	return errors.Is(err, fleet.ErrUnknownUpstream) || ok && bad.Field == "Upstream"
}

// describe returns the scopes as given, such as " for tenant=acme".
func (o *on) describe() string {
	if len(o.scopes) == 0 {
		return ""
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(o.scopes)) {
		parts = append(parts, fmt.Sprintf("%s=%s", name, report.Clean(o.scopes[name])))
	}
	return " for " + strings.Join(parts, ", ")
}
