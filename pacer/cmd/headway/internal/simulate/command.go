package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headway-go/headway/policies"
)

// Command returns the command "simulate". With a persistent flag --json of its parent it prints JSON. Its errors have a method ExitCode()
// int, which returns 2: only the command line or the plan can be wrong.
func Command() *cobra.Command {
	f := &flags{plan: DefaultPlan(), load: DefaultLoad()}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Predict how policies pace a load of calls",
		Long: `Predict how a stack of policies paces a load: how many calls start, how long they wait and for what, how much of each policy is used,
and when a quota is spent. It needs no Redis and makes no calls: it runs the engine that paces real calls, in virtual time, so
that an hour takes less than a second.

By default, workers make calls, one after the other. With --rate, calls arrive no matter what happens to earlier ones. --file reads
policies, several loads and everything that flags can set from JSON; flags override the file. docs/simulate.md describes it.`,
		Example: `  headway simulate --policy "at most 50 in any 1s" --processes 4 --workers 16
  headway simulate --policy "100 per 1s, burst 10" --policy "10 per 1s, per tenant" --rate 120 --tenants 10 --greedy 0.5
  headway simulate --policy "100000 daily (UTC)" --rate 2 --for 24h --start 09:00 --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd.Flags())
	return cmd
}

// flags are the flags of the command line.
type flags struct {
	file     string
	policies []string
	plan     Plan
	load     Load
	scopes   []string
	noChart  bool
}

// ofLoad are the flags for the one load of a command line.
var ofLoad = []string{ //nolint:gochecknoglobals // a constant; Go has no constant slices
	"processes", "workers", "think", "rate", "steady", "call-time", "exponential", "tenants", "greedy", "scope", "lane", "cost",
}

func (f *flags) add(set *pflag.FlagSet) {
	p, l := &f.plan, &f.load
	set.StringArrayVar(&f.policies, "policy", nil, `a policy, such as "50 per 1s, burst 10, per tenant"; may be repeated`)
	set.StringVar(&f.file, "file", "", "a JSON file with all of this, and several loads if needed; - for stdin")
	set.Var((*durationFlag)(&p.For), "for", "how much time to simulate")
	set.StringVar(&p.Start, "start", p.Start, `when the simulated time begins, for windows and calendars: "09:30", "2026-03-29", or an RFC 3339 time; UTC without a zone`)
	set.Var((*durationFlag)(&p.MaxWait), "max-wait", "the longest that a call waits")
	set.Var((*durationFlag)(&p.Retry), "retry", "how long a worker pauses after a refused call; 0 for until the call could start")
	set.Uint64Var(&p.Seed, "seed", p.Seed, "seed of the random numbers")
	set.Var((*durationFlag)(&p.StoreLatency), "store-latency", "how long the store takes to answer; 0 for the memory store")
	set.Var((*durationFlag)(&p.TimerLate), "timer-late", "how late timers fire at most")
	set.Var((*durationFlag)(&p.Jitter), "jitter", "the longest random delay of a waiting call, within what its limits allow")
	set.BoolVar(&f.noChart, "no-chart", false, "print no charts")

	set.IntVar(&l.Processes, "processes", l.Processes, "how many processes make calls")
	set.IntVar(&l.Workers, "workers", l.Workers, "how many workers each process has; each makes one call after the other")
	set.Var((*durationFlag)(&l.Think), "think", "how long a worker rests after a call")
	set.Float64Var(&l.Rate, "rate", l.Rate, "how many calls arrive per second, at random, instead of workers")
	set.BoolVar(&l.Steady, "steady", l.Steady, "let the calls of --rate arrive at equal intervals")
	set.Var((*durationFlag)(&l.CallTime), "call-time", "how long a call takes")
	set.BoolVar(&l.Exponential, "exponential", l.Exponential, "let calls take --call-time on average, some of them much longer")
	set.IntVar(&l.Tenants, "tenants", l.Tenants, "how many tenants the calls are for; all scopes carry their names")
	set.Float64Var(&l.Greedy, "greedy", l.Greedy, "the first tenant's share of the workers or of the rate, such as 0.9; 0 for equal shares")
	set.StringArrayVar(&f.scopes, "scope", nil, `a scope that all calls carry, such as "account=acme", or "ticket=" for none; may be repeated`)
	set.StringVar(&l.Lane, "lane", l.Lane, `the lane of the calls, such as "batch", or "batch=0.5" for half of them`)
	set.Int64Var(&l.Cost, "cost", l.Cost, "the cost of each call")
}

// A durationFlag is a duration on the command line.
type durationFlag Duration

// Set implements pflag.Value.
func (d *durationFlag) Set(s string) error { return (*Duration)(d).UnmarshalText([]byte(s)) }

// String implements pflag.Value.
func (d *durationFlag) String() string { return Duration(*d).String() }

// Type implements pflag.Value.
func (d *durationFlag) Type() string { return "duration" }

// A usageError is a mistake in the command line.
type usageError struct{ error }

// Unwrap returns the cause.
func (e usageError) Unwrap() error { return e.error }

// ExitCode returns the exit code of the command.
func (e usageError) ExitCode() int { return 2 }

func (f *flags) run(cmd *cobra.Command) error {
	if err := f.read(cmd); err != nil {
		return usageError{err}
	}
	r, err := Run(cmd.Context(), f.plan)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("interrupted: %w", err)
	case err != nil:
		return usageError{err}
	}
	if requested := cmd.Flag("json"); requested != nil && requested.Value.String() == "true" {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return write(cmd.OutOrStdout(), r, !f.noChart)
}

// read makes a plan of the file and the flags, which precede it.
func (f *flags) read(cmd *cobra.Command) error {
	given := make(map[string]string)
	cmd.Flags().Visit(func(one *pflag.Flag) { given[one.Name] = one.Value.String() })
	if f.file != "" {
		if err := f.readFile(cmd.InOrStdin()); err != nil {
			return fmt.Errorf("the file %q %w", f.file, err)
		}
		for name, value := range given {
			if len(f.plan.Loads) > 0 && slices.Contains(ofLoad, name) {
				return bad(name, "given", "the file has loads, so it is not clear which one this is for: set it in the file, or remove the loads from the file")
			}
			if name != "policy" && name != "scope" {
				if err := cmd.Flags().Set(name, value); err != nil {
					return err
				}
			}
		}
	}
	for _, text := range f.policies {
		one, err := policies.Parse(text)
		if err != nil {
			return err
		}
		f.plan.Policies = append(f.plan.Policies, one)
	}
	for _, text := range f.scopes {
		if err := f.load.scope(text); err != nil {
			return err
		}
	}
	if f.plan.Loads == nil {
		f.plan.Loads = []Load{f.load}
	}
	return nil
}

// scope reads a scope that all calls carry.
func (l *Load) scope(text string) error {
	for i := range len(text) {
		if text[i] == '=' && i > 0 {
			if l.Scopes == nil {
				l.Scopes = make(map[string]string)
			}
			l.Scopes[text[:i]] = text[i+1:]
			return nil
		}
	}
	return bad("scope", fmt.Sprintf("%q", text), `must be a name and a value, such as "account=acme"`)
}

func (f *flags) readFile(in io.Reader) error {
	if f.file != "-" {
		opened, err := os.Open(f.file)
		if err != nil {
			return fmt.Errorf("cannot be read: %w", err)
		}
		defer func() { _ = opened.Close() }()
		in = opened
	}
	if err := f.plan.read(in); err != nil {
		return fmt.Errorf("is not a plan: %w", err)
	}
	return nil
}
