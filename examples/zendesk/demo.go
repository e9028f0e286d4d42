package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/headway-go/headway/examples/zendesk/standin"
	"github.com/headway-go/headway/pacer"
)

// run is the program. It returns the exit code: 2 for a mistake on the command line, 1 for a later error.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	c, err := parse(args, env, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "zendesk: %v\n", err)
		return 2
	}
	r, err := execute(ctx, c, stdout, stderr)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "zendesk: %v\n", err)
		return 1
	}
	if r.meter.failures > 0 {
		return 1
	}
	return 0
}

// execute works for the duration, and prints the report.
func execute(ctx context.Context, c *config, stdout, stderr io.Writer) (*result, error) {
	u, err := open(ctx, c)
	if err != nil {
		return nil, err
	}
	// An interrupt ends the work. The stand-in stays until the other copies have ended, too.
	defer func() { _ = u.close(context.WithoutCancel(ctx), c.shared()) }()

	var p *pacer.Pacer
	if !c.unpaced {
		var done func()
		if p, done, err = newPacer(ctx, c); err != nil {
			return nil, err
		}
		defer done()
	}
	if c.page != "" {
		hide, err := serve(ctx, p, c.page, stderr)
		if err != nil {
			return nil, err
		}
		defer hide()
	}
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
		where = "the real API of " + c.real.subdomain + ".zendesk.com, reading only: no ticket is updated"
	case u.own == nil:
		where += " (another copy's)"
	}
	how := "paced by Headway in this process's memory"
	switch {
	case c.unpaced:
		how = "not paced"
	case c.file != "":
		how = "paced by Headway as " + c.file + " says"
	case c.redis != "":
		how = "paced by Headway in Redis at " + c.redis
	}
	_, _ = fmt.Fprintf(out, "%d workers, %s, %s, %s\n", c.workers, accounts(c), how, where)
}

// work runs the workers of all accounts until the duration is over.
func work(ctx context.Context, c *config, u *upstream, p *pacer.Pacer, stderr io.Writer) (*result, error) {
	var before standin.Stats
	if !c.isReal() {
		var err error
		if before, err = u.stats(ctx); err != nil {
			return nil, err
		}
	}
	m := newMeter()
	hc, err := newHTTPClient(p, m, u.client.Transport)
	if err != nil {
		return nil, err
	}
	syncers := make([]*syncer, c.tenants)
	for i := range syncers {
		sdk, err := newSDK(hc, c, u, "tenant-"+strconv.Itoa(i+1))
		if err != nil {
			return nil, err
		}
		syncers[i] = newSyncer(sdk, m, c)
	}

	running, cancel := context.WithTimeout(ctx, c.duration)
	defer cancel()
	var wg, watcher sync.WaitGroup
	watching, unwatch := context.WithCancel(running)
	watcher.Go(func() {
		progress(watching, stderr, c.duration, c.perSecond(), func() (int, bool) { return u.calls(watching, m) })
	})
	for i, s := range syncers {
		workers := c.workers / c.tenants
		if i < c.workers%c.tenants {
			workers++
		}
		wg.Go(func() { s.run(running, workers) })
	}
	wg.Wait()
	// Calls with slots after the end were refused at once, so the workers may have left before it.
	<-running.Done()
	r := &result{config: c, meter: m, elapsed: time.Since(m.began)}
	unwatch()
	watcher.Wait()
	hc.CloseIdleConnections()
	if c.isReal() {
		r.countOwn()
		return r, nil
	}
	after, err := u.stats(context.WithoutCancel(ctx))
	if err != nil {
		return nil, fmt.Errorf("the stand-in has gone before this copy had ended: %w", err)
	}
	r.count(before, after)
	return r, nil
}
