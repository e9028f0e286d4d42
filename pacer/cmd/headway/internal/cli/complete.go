package cli

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/pacer/fleet"
)

// completionTimeout is how long a shell that completes a word waits for Redis.
const completionTimeout = 500 * time.Millisecond

// withStore opens the store for a completion, which runs without PersistentPreRun.
func (a *app) withStore(ctx context.Context, f func(context.Context, Store) []string) []string {
	where := a.where
	where.Redis = cmp.Or(where.Redis, a.env.Get("HEADWAY_REDIS"), DefaultRedis)
	where.Timeout = completionTimeout
	store, err := a.env.Open(where)
	if err != nil {
		return nil
	}
	defer func() { _ = store.Close() }()
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	return f(ctx, store)
}

// completeUpstream completes the first argument.
func (a *app) completeUpstream(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.withStore(cmd.Context(), func(ctx context.Context, store Store) []string {
		names, _ := store.Upstreams(ctx) // a completion cannot report an error
		return names
	}), cobra.ShellCompDirectiveNoFileComp
}

// complete completes a flag with names from the upstream in the first argument.
func (a *app) complete(cmd *cobra.Command, flag string, directive cobra.ShellCompDirective, of func(*fleet.Snapshot) []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, directive
		}
		return a.withStore(cmd.Context(), func(ctx context.Context, store Store) []string {
			op, err := store.Operator(ctx, args[0])
			if err != nil {
				return nil
			}
			f, err := op.Snapshot(ctx)
			if err != nil {
				return nil
			}
			return of(f)
		}), directive
	})
	if err != nil {
		panic(err) // the flag is not there: a mistake in this package, which every test shows
	}
}
