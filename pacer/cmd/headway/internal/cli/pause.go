package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
	"github.com/headway-go/headway/pacer/fleet"
)

func (a *app) pause() *cobra.Command {
	var scopes, names []string
	cmd := &cobra.Command{
		Use:   "pause UPSTREAM DURATION",
		Short: "Let no call start for a time, in any process",
		Long: `Let no call start for a time, in any process that paces the upstream. The pause holds for the whole upstream; with --policy, for the
calls that these policies bind; with --scope alone, for the policies that have exactly these scopes. Calls that already wait reserve again
behind the pause. A pause never shortens an earlier one: to do that, resume first.`,
		Example: "  headway pause zendesk 10m\n  headway pause zendesk 1h --policy tickets\n" +
			"  headway pause zendesk 30s --scope tenant=acme",
		Args:              exactly(2),
		ValidArgsFunction: a.completeUpstream,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := report.ParseDuration(args[1])
			if err != nil {
				return &coded{ExitUsage, err}
			}
			return a.onUpstream(cmd.Context(), args[0], scopes, func(ctx context.Context, on *on) error {
				return a.pauseFor(ctx, on, d, names)
			})
		},
	}
	a.scopeFlag(cmd, &scopes)
	cmd.Flags().StringArrayVar(&names, "policy", nil, "a policy to pause; may be repeated (default: the whole upstream)")
	a.complete(cmd, "policy", cobra.ShellCompDirectiveNoFileComp, func(f *fleet.Snapshot) []string {
		return (&on{snapshot: f}).names()
	})
	return cmd
}

func (a *app) pauseFor(ctx context.Context, on *on, d time.Duration, names []string) error {
	names, err := on.choose(names)
	if err != nil {
		return err
	}
	if err := on.Pause(ctx, d, names, on.opts...); err != nil {
		return a.explain(err)
	}
	if err := on.look(ctx); err != nil {
		return a.explain(err)
	}
	all := on.pauses()
	if len(names) == 0 {
		all = slices.DeleteFunc(all, func(p pauseOf) bool { return p.Policy != "" })
	} else {
		all = slices.DeleteFunc(all, func(p pauseOf) bool { return !slices.Contains(names, p.Policy) })
	}
	if a.json {
		return a.printJSON(paused{on.snapshot.Upstream, all})
	}
	for _, p := range all {
		if _, err := fmt.Fprintf(a.env.Out, "%s is paused %s%s\n", p.of(on.snapshot.Upstream), report.Until(time.Now(), p.wait), differs(p.wait, d)); err != nil {
			return err
		}
	}
	return nil
}

// differs returns why a pause is shorter than requested; "" if it is not.
func differs(is, requested time.Duration) string {
	const tolerance = 2 * time.Second // the time of the request
	switch {
	case is > requested+tolerance:
		return fmt.Sprintf(": it was already paused for longer than %s; to shorten the pause, resume first", report.Duration(requested))
	case is < requested-tolerance:
		return fmt.Sprintf(", not for %s: that is longer than a pause may last", report.Duration(requested))
	}
	return ""
}

// choose returns the policies with these names and scopes; none for the whole upstream.
func (o *on) choose(names []string) ([]string, error) {
	if len(names) == 0 {
		return o.scoped()
	}
	for _, name := range names {
		i := slices.IndexFunc(o.snapshot.Policies, func(p fleet.Policy) bool { return p.Policy.Name() == name })
		if i < 0 {
			return nil, usagef("%s has no policy %q: it has %s", o.snapshot.Upstream, name, strings.Join(o.names(), ", "))
		}
		own := o.snapshot.Policies[i].Policy.Scopes()
		for _, s := range own {
			if o.scopes[s] == "" {
				return nil, usagef("policy %s is per %s: choose one with --scope %s=VALUE", name, s, s)
			}
		}
		for _, s := range slices.Sorted(maps.Keys(o.scopes)) {
			if !slices.Contains(own, s) {
				return nil, usagef("policy %s is not per %s: leave that --scope out", name, s)
			}
		}
	}
	return names, nil
}

// scoped returns the policies with exactly the given scopes; none without scopes.
func (o *on) scoped() ([]string, error) {
	if len(o.scopes) == 0 {
		return nil, nil
	}
	given := slices.Sorted(maps.Keys(o.scopes))
	var names []string
	for i := range o.snapshot.Policies {
		if slices.Equal(slices.Sorted(slices.Values(o.snapshot.Policies[i].Policy.Scopes())), given) {
			names = append(names, o.snapshot.Policies[i].Policy.Name())
		}
	}
	if len(names) == 0 {
		return nil, usagef("%s has no policy per %s: choose one of %s with --policy", o.snapshot.Upstream,
			strings.Join(given, " and "), strings.Join(o.names(), ", "))
	}
	return names, nil
}

// names returns the names of all policies.
func (o *on) names() []string {
	all := make([]string, len(o.snapshot.Policies))
	for i := range o.snapshot.Policies {
		all[i] = o.snapshot.Policies[i].Policy.Name()
	}
	return all
}

// A pauseOf is a pause in JSON.
type pauseOf struct {
	Policy        string  `json:"policy,omitempty"` // left out for the whole upstream
	Scope         string  `json:"scope,omitempty"`
	PausedSeconds float64 `json:"pausedSeconds"`

	wait time.Duration
}

// paused is the JSON of pause, resume and reset: the present pauses.
type paused struct {
	Upstream string    `json:"upstream"`
	Pauses   []pauseOf `json:"pauses"`
}

// of returns what is paused.
func (p pauseOf) of(upstream string) string {
	s := upstream
	if p.Policy != "" {
		s += ": " + p.Policy
	}
	if p.Scope != "" {
		s += " for " + report.Scope(p.Scope)
	}
	return s
}

// pauses returns the pauses in the last snapshot.
func (o *on) pauses() []pauseOf {
	all := []pauseOf{}
	if d := o.snapshot.PausedFor; d > 0 {
		all = append(all, pauseOf{PausedSeconds: d.Seconds(), wait: d})
	}
	for i := range o.snapshot.Policies {
		if p := &o.snapshot.Policies[i]; p.PausedFor > 0 {
			all = append(all, pauseOf{Policy: p.Policy.Name(), Scope: p.Scope, PausedSeconds: p.PausedFor.Seconds(), wait: p.PausedFor})
		}
	}
	return all
}
