package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/simulate"
)

// An Env is the command's environment.
type Env struct {
	Get      func(name string) string // the environment
	In       io.Reader
	Out, Err io.Writer
	Open     func(Where) (Store, error) // opens a store: OpenRedis
}

// Run runs the command line and returns its exit code.
func Run(ctx context.Context, args []string, env Env) int {
	a := &app{env: env}
	root := a.root() //nolint:contextcheck // commands have the context that ExecuteContext is given
	root.SetArgs(args)
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitDone
	}
	if !a.begun && codeOf(err) == ExitFailed { // cobra did not understand the command line
		err = usagef("%s: see %s --help", oneLine(err.Error()), command.CommandPath())
	}
	printError(env.Err, err, a.json || slices.Contains(args, "--json"))
	return codeOf(err)
}

// exactly returns the check of a command that has n arguments.
func exactly(n int) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return errors.New("write " + strings.TrimSuffix(command.UseLine(), " [flags]"))
	}
}

// app is one run of the command.
type app struct {
	env   Env
	where Where
	json  bool
	begun bool // the command line is understood
}

// DefaultRedis is the default address of the store.
const DefaultRedis = "127.0.0.1:6379"

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "headway",
		Short: "Show what limits your calls to an upstream, and intervene",
		Long: `Show the state of an upstream across all processes that pace it through one Redis, and intervene: pause, resume, reset, change
limits.

Exit codes: 0 success; 1 failure, for example Redis is out of reach or a file has mistakes; 2 the command line is wrong; 3 no process
paces the upstream.

With --json, results go to stdout as JSON, and errors to stderr as {"error": "...", "code": 1}. Durations are
numbers of seconds.`,
		Example: `  headway ls
  headway status zendesk --scope tenant=acme
  headway top zendesk
  headway pause zendesk 10m --policy tickets
  headway resume zendesk
  headway limit zendesk tenant "50 per 1s" --scope tenant=acme --for 2h`,
		SilenceUsage:  true,
		SilenceErrors: true,

		SuggestionsMinimumDistance: 1, // of its default, 2, most words of three letters are near
		PersistentPreRun: func(*cobra.Command, []string) {
			a.begun = true
			a.where.Redis = cmp.Or(a.where.Redis, a.env.Get("HEADWAY_REDIS"), DefaultRedis)
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.where.Redis, "redis", "", "address of Redis: host:port or redis://user:password@host:port/db "+
		"(default: HEADWAY_REDIS, or "+DefaultRedis+")")
	flags.BoolVar(&a.where.Cluster, "cluster", false, "Redis is a Cluster")
	flags.StringVar(&a.where.Master, "master", "", "name of the master, if --redis has the addresses of sentinels")
	flags.DurationVar(&a.where.Timeout, "timeout", 5*time.Second, "how long Redis may take to answer")
	flags.BoolVar(&a.json, "json", false, "print JSON")
	root.AddCommand(a.ls(), a.status(), a.top(), a.learn(), a.pause(), a.resume(), a.reset(), a.set(), a.unset(),
		a.limit(), a.unlimit(), simulate.Command(), a.check(), a.serve(), a.version())
	return root
}

// place returns the store's address, without a password.
func (a *app) place() string {
	o, err := a.where.addresses()
	if err != nil {
		return "the address given"
	}
	return strings.Join(o.Addrs, ",")
}

// open opens the store, and bounds ctx by the timeout.
func (a *app) open(ctx context.Context) (context.Context, Store, func(), error) {
	store, err := a.env.Open(a.where)
	if err != nil {
		return ctx, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.where.Timeout)
	return ctx, store, func() {
		cancel()
		_ = store.Close() // the request has been answered
	}, nil
}

// printJSON writes a result.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.env.Out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
