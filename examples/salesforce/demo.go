package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"sync"

	"github.com/headway-go/headway/pacer"
)

// run is the program. It returns the exit code: 2 for a mistake on the command line, 1 for a later error, 0 also when the day is spent.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	c, err := parse(args, env, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "salesforce: %v\n", err)
		return 2
	}
	r, err := execute(ctx, c, stdout, stderr)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "salesforce: %v\n", err)
		return 1
	}
	if r.meter.failures > 0 {
		return 1
	}
	return 0
}

// execute works until the day is spent or the duration over, and prints the report.
func execute(ctx context.Context, c *config, stdout, stderr io.Writer) (*result, error) {
	u, err := open(ctx, c)
	if err != nil {
		return nil, err
	}
	// An interrupt ends the work. The stand-in stays until the other copies have ended, too.
	defer func() { _ = u.close(context.WithoutCancel(ctx), c.shared()) }()
	p, done, err := newPacer(ctx, c, u)
	if err != nil {
		return nil, err
	}
	defer done()
	announce(c, u, stderr)
	r, err := work(ctx, c, u, p, stderr)
	if err != nil {
		return nil, err
	}
	r.print(stdout)
	return r, nil
}

// announce prints what is about to happen.
func announce(c *config, u *upstream, out io.Writer) {
	where := "the stand-in at " + u.url
	switch {
	case c.isReal():
		where = "the real org " + u.org + ", reading only"
	case u.own == nil:
		where += " (another copy's)"
	}
	how := "in this process's memory"
	switch {
	case c.file != "":
		how = "as " + c.file + " says"
	case c.redis != "":
		how = "in Redis at " + c.redis
	}
	_, _ = fmt.Fprintf(out, "%d readers, %d calls in 24 hours of which %d are used, %d %% kept for interactive calls, paced by Headway %s, %s\n",
		c.workers, u.allocation, u.used, c.reserve, how, where)
}

// work reads until the day is spent or the duration over.
func work(ctx context.Context, c *config, u *upstream, p *pacer.Pacer, stderr io.Writer) (*result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.duration)
	defer cancel()
	r := &result{config: c, upstream: u, meter: newMeter()}
	rt, err := newTransport(p, u, r.meter, c.reserve)
	if err != nil {
		return nil, err
	}
	for _, f := range usageBefore(u, c.reserve) {
		if err := p.Report(ctx, f, readersScopes(u)...); err != nil {
			return nil, err
		}
	}
	people, err := newSDK(u, caller{run: ctx, next: rt}, interactiveTimeout)
	if err != nil {
		return nil, err
	}
	first, err := newSDK(u, caller{run: ctx, next: rt}, readerTimeout) // nobody waits for the tenants
	if err != nil {
		return nil, err
	}
	all, err := findTenants(first)
	if r.spent = spent(err); r.spent != nil {
		return r.end(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.sf, err = newSDK(u, caller{run: ctx, tenant: t.label, next: rt}, readerTimeout); err != nil {
			return nil, err
		}
		r.tenants = append(r.tenants, t.label)
	}

	var wg, watcher sync.WaitGroup
	watching, unwatch := context.WithCancel(ctx)
	watcher.Go(func() { progress(watching, stderr, u.allocation, func() (line, error) { return r.now(watching, p) }) })
	wg.Go(func() { spendForOthers(ctx, u.own, c.other, c.otherCalls) })
	wg.Go(func() {
		r.stopped = readAll(ctx, all, r.meter, c.workers)
		r.atStop = r.meter.tally()
	})
	wg.Go(func() {
		if r.spent = lookNowAndThen(ctx, all, people, r.meter); r.spent != nil {
			cancel() // nothing goes any more
		}
	})
	wg.Wait()
	unwatch()
	watcher.Wait()
	return r.end(context.WithoutCancel(ctx), p)
}
